"""What an import brings along: the content-free side is there without PyTorch, and names mean one
thing."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys

import pytest

import headwater

HEAVY = [
    "torch",
    "torch._dynamo",
    "sympy",
    "matplotlib",
    "typer",
    "rich",
    "pydantic",
    "pooch",
    "cvxpy",
    "flwr",
]
CONTENT_FREE = ["errors", "randomness", "files", "ledger", "planner", "fleet"]  # rooms and modules
CONTENT_FREE_NAMES = [
    "Once",
    "Constant",
    "Poisson",
    "Trace",
    "Window",
    "Keep",
    "Fifo",
    "Reservoir",
    "Uniform",
    "Historical",
    "Fresh",
    "ByMemory",
    "Share",
    "Importance",
    "Given",
    "Optimal",
    "Target",
    "Constants",
    "Ledger",
    "Holdings",
    "unroll",
    "optimal_importance",
    "bound",
    "InputError",
]


def loaded_after(statements):
    """Which heavy packages a fresh interpreter has loaded after these statements."""
    report = (
        f"import sys, json; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", f"{statements}\n{report}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(answer.stdout)


def test_importing_headwater_loads_nothing_heavy():
    assert loaded_after("import headwater") == []


def test_to_simulate_takes_no_room_above_learning_and_not_the_fleet():
    code = "import sys, headwater; headwater.simulate; headwater.Client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rooms = {name for name in done.stdout.split() if name.startswith("headwater.")}
    assert "headwater.learning.simulation" in rooms
    for unused in ("fleet", "experiments", "report", "devices", "flower", "cli"):
        assert f"headwater.{unused}" not in rooms


def test_the_content_free_modules_load_nothing_heavy():
    names = [
        module.name
        for module in pkgutil.walk_packages(headwater.__path__, "headwater.")
        if module.name.split(".")[1] in CONTENT_FREE
    ]
    assert len(names) > 20
    assert loaded_after("\n".join(f"import {name}" for name in names)) == []


def test_the_ledger_is_built_without_torch():
    names = ", ".join(f"hw.{name}" for name in CONTENT_FREE_NAMES)
    work = "hw.Ledger.of([4], hw.Once(), hw.Keep(), hw.Optimal(ratio=0.1), 3).variability"
    assert loaded_after(f"import headwater as hw\n{names}\n{work}") == []


@pytest.mark.parametrize("steps", [1, 2])
def test_a_run_does_not_load_what_it_does_not_need(steps):
    """PyTorch's compiler alone takes as long as PyTorch, and 60 MB that every worker has, too."""
    work = f"""import headwater as hw, torch
net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(72, 2))
x, y = torch.randn(8, 1, 8, 8), torch.arange(8) % 2
hw.simulate(net, [hw.Client(x, y)], rounds=2, local_steps={steps}, test=(x, y))
hw.simulate(torch.nn.Linear(2, 2), [hw.Client(x[:, 0, 0, :2], y)], rounds=2)"""
    assert loaded_after(work) == ["torch"]


def test_no_module_is_called_like_a_name_of_the_package():
    """The import of a submodule binds its name in the package, and would hide the function of that
    name."""
    modules = {module.name for module in pkgutil.iter_modules(headwater.__path__)}
    assert len(modules) > 8
    assert not modules & set(headwater.__all__)


def test_every_name_of_the_package_is_there():
    there = {name: getattr(headwater, name) for name in headwater.__all__}
    assert all(getattr(thing, "__name__", name) == name for name, thing in there.items())


def test_unknown_names_are_an_attribute_error():
    with pytest.raises(AttributeError, match="attribute simulat"):
        headwater.simulat  # noqa: B018
    assert set(headwater.__all__) <= set(dir(headwater))
