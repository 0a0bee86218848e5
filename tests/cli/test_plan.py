"""``headwater plan`` as a user types it: what it prints, what it writes, and how it says no."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.cli.main import main
from headwater.fleet import Fleet, Outlook, compare
from headwater.fleet.fleet import Kind

REPOSITORY = Path(__file__).parents[2]
CSV = """client,samples,fresh,rate,capacity,count
server,400,no,,,25
sensor,1600,yes,16,16,25
"""


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    """Run the command; returns exit code, standard output and standard error."""
    (tmp_path / "fleet.csv").write_text(CSV)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["headwater", "plan", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        seen = capsys.readouterr()
        return end.value.code or 0, seen.out, seen.err

    return run


def answer(plan, *arguments):
    code, out, err = plan(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


class TestAnswer:
    def test_the_table_is_what_the_comparison_says(self, plan):
        code, out, _ = plan("fleet.csv", "--ratio", "0.15")
        assert code == 0
        fleet = Fleet.of(
            [Kind("server", 400, False, count=25), Kind("sensor", 1600, True, 16, 16, 25)]
        )
        for place, p in enumerate(compare(Outlook.of(fleet, 100), 0.15).prospects, 1):
            numbers = (
                f"{100 * p.historical:.2f} %",
                f"{p.effective_samples:,.0f}",
                f"{p.noise:.4f}",
                f"{p.size:.4f}",
            )
            line = next(line for line in out.splitlines() if re.match(rf" *{place}  ", line))
            assert all(n in line for n in (p.strategy, *numbers, f"{p.total:.4f}"))

    def test_fits_eighty_columns(self, plan):
        _, out, _ = plan(
            "fleet.csv",
            "--what-if",
            "capacity:sensor=64,rate:sensor=2x",
            "--what-if",
            "leave=server",
        )
        assert max(map(len, out.splitlines())) <= 80
        assert "…" not in out  # nothing is cut off

    def test_json_is_alone_on_standard_output_and_complete(self, plan):
        found = answer(plan, "fleet.csv", "--ratio", "0.15", "--what-if", "capacity=2x")
        assert found["rows"][0]["strategy"] == "Optimal (paper)"
        assert found["rows"][0]["historical_share"] == pytest.approx(0.4522, abs=5e-5)
        assert [row["order"] for row in found["rows"]] == [1, 2, 3, 4, 5, 6]
        assert found["ratio"] == {"value": 0.15, "source": "given"}
        assert found["clients"][0] == {
            "client": "server",
            "count": 25,
            "samples": 400,
            "fresh": False,
            "share": found["rows"][0]["historical_share"],
        }
        assert found["historical_suffices_up_to"] == pytest.approx((0.2 / 25) ** 0.5)
        assert "45.2 %" in found["recommendation"]
        assert [o["scenario"] for o in found["what_if"]] == ["as it is", "capacity=2x"]
        assert found["what_if"][1]["bound"] < found["what_if"][0]["bound"]

    def test_the_recommended_strategy_gives_these_shares_when_it_is_run(self, plan):
        import headwater as hw

        for kind in ("paper", "sharp"):
            found = answer(plan, "fleet.csv", "--ratio", "0.15", "--bound", kind)
            counts, arrivals = [400] * 25 + [1600] * 25, [hw.Once()] * 25 + [hw.Constant(16)] * 25
            memory = [hw.Keep()] * 25 + [hw.Fifo(16)] * 25
            strategy = eval(
                re.search(r"as (Optimal\(.*?\)) does", found["recommendation"])[1],
                {"Optimal": hw.Optimal},
            )
            ledger = hw.Ledger.of(counts, arrivals, memory, strategy, rounds=100)
            assert ledger.historical_share == pytest.approx(found["clients"][0]["share"], rel=1e-9)

    def test_without_a_ratio_it_takes_the_papers_and_says_so(self, plan, tmp_path):
        """c1 has √(M − M_hist): with a hundred streams instead of the paper's 25 the ratio is half
        of its 0.15."""
        (tmp_path / "more.csv").write_text(CSV.replace("16,16,25", "16,16,100"))
        assert answer(plan, "fleet.csv")["ratio"]["value"] == 0.15
        assert answer(plan, "more.csv")["ratio"]["value"] == pytest.approx(0.075)
        assert (
            "c2/c1 = 0.15 (the paper's for images, at 25 fresh clients; --ratio sets yours)"
            in plan("fleet.csv")[1]
        )

    def test_rounds_decide_the_rate(self, plan, tmp_path):
        (tmp_path / "f.csv").write_text("client,samples,fresh\na,100,no\nb,1000,yes\n")
        slow, fast = (
            answer(plan, "f.csv", "--bound", "sharp", "--rounds", r) for r in ("1000", "10")
        )
        noise = [
            {row["strategy"]: row["noise"] for row in a["rows"]}["Uniform"] for a in (slow, fast)
        ]
        assert noise[0] == pytest.approx((1000 / 1100) * (1 - 1 / 1000) ** 0.5)
        assert noise[1] == pytest.approx((1000 / 1100) * (1 / 100 - 1 / 1000) ** 0.5)

    def test_long_lists_are_left_to_json(self, plan, tmp_path):
        rows = "".join(f"c{k},10,{'yes' if k % 2 else 'no'}\n" for k in range(30))
        (tmp_path / "f.csv").write_text("client,samples,fresh\n" + rows)
        assert "--json lists the shares of all 30 rows." in plan("f.csv")[1]
        assert len(answer(plan, "f.csv")["clients"]) == 30

    def test_names_are_not_markup(self, plan, tmp_path):
        (tmp_path / "f.csv").write_text("client,samples,fresh\n[red]cam[/red],10,no\n[/x],20,yes\n")
        code, out, _ = plan("f.csv", "--what-if", "leave=[/x]")
        assert code == 0
        assert "[red]cam[/red]" in out
        assert "leave=[/x]" in out


class TestTasks:
    def test_synthetic_with_an_estimated_ratio(self, plan):
        found = answer(
            plan,
            "synthetic",
            "--historical",
            "0.2",
            "--what-if",
            "capacity=2x",
            "--what-if",
            "leave=10",
        )
        ratio = found["ratio"]
        by_hand = (ratio["B"] + (ratio["d"] / ratio["N"]) ** 0.5) / (
            ratio["G"] * ratio["D"] * ratio["fresh_clients"] ** 0.5
        )
        assert ratio["value"] == pytest.approx(by_hand)
        assert (ratio["d"], ratio["N"], ratio["fresh_clients"]) == (21, 200, 1)
        assert found["what_if"][2]["clients"]["10"]["then"] == 0
        assert "G = " in plan("synthetic")[1]

    def test_synthetic_with_a_measured_ratio(self, plan):
        found = answer(plan, "synthetic", "--ratio", "measure")
        assert found["ratio"]["discrepancy"]["error"] > 0
        assert 0 < found["ratio"]["error"] < found["ratio"]["value"]
        assert "measured, 95 %" in found["ratio"]["source"]
        assert "disc = " in plan("synthetic", "--ratio", "measure")[1]

    def test_synthetic_with_a_given_ratio(self, plan):
        found = answer(plan, "synthetic", "--ratio", "0.09")
        assert found["rows"][0]["historical_share"] == 1.0  # where the paper prints 0.20
        assert "Learn from the 10 historical clients alone" in found["recommendation"]


class TestPictures:
    def test_are_written_for_both_bounds(self, plan, tmp_path):
        from matplotlib.image import imread

        for kind in ("paper", "sharp"):
            code, out, _ = plan("fleet.csv", "--bound", kind, "--plot", f"pictures/{kind}")
            assert code == 0
            for name in ("optimum_by_ratio.png", "gaps_by_history.png"):
                assert f"pictures/{kind}/{name}" in out
                picture = imread(tmp_path / "pictures" / kind / name)
                assert picture.shape[1] > 1000
                assert picture[..., :3].std() > 0.05  # something is drawn

    def test_need_both_kinds_of_clients(self, plan, tmp_path):
        (tmp_path / "f.csv").write_text("client,samples,fresh\na,100,no\n")
        code, _, err = plan("f.csv", "--plot", "pictures")
        assert code == 2
        assert "pictures need historical and fresh clients" in err


MISTAKES = [
    (["nowhere.csv"], "nowhere.csv: there is no such file"),
    (
        ["mnist"],
        "'mnist' is neither a federation file (.csv, .toml) nor a task (synthetic, cifar10",
    ),
    (["fleet.csv", "--ratio", "-1"], "--ratio is -1; it must be zero or more"),
    (["fleet.csv", "--ratio", "nan"], "--ratio is nan; it must be zero or more"),
    (["fleet.csv", "--ratio", "inf"], "--ratio is inf"),
    (["fleet.csv", "--ratio", "estimate"], "a federation file has no model to estimate it from"),
    (["synthetic", "--ratio", "guess"], "--ratio is 'guess'; it must be a number"),
    (["fleet.csv", "--bound", "loose"], "bound: 'paper' or 'sharp'; got 'loose'"),
    (["fleet.csv", "--rounds", "0"], "--rounds is 0; it must be at least 1"),
    (["fleet.csv", "--historical", "0.2"], "--historical is for tasks"),
    (
        ["synthetic", "--historical", "1.5"],
        "--historical is 1.5; it must be a fraction between 0 and 1",
    ),
    (
        ["synthetic", "--historical", "0.01"],
        "historical=0.01: 2 of 200 samples for 10 historical clients",
    ),
    (
        ["fleet.csv", "--what-if", "memory=2x"],
        "what-if 'memory=2x' is not understood; write capacity=2x",
    ),
    (
        ["fleet.csv", "--what-if", "leave=nobody"],
        "there is no client 'nobody' in this federation; there are: server",
    ),
    (["fleet.csv", "--what-if", "rate=2x"], "would get 32 samples a round and can keep 16"),
    (["bad.csv"], "bad.csv, line 3, column 2 (samples): got '-5'; a number above 0"),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_two(plan, tmp_path, arguments, words):
    (tmp_path / "bad.csv").write_text("client,samples,fresh\na,5,no\nb,-5,no\n")
    code, out, err = plan(*arguments, "--json")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert words in err
    assert err.count("\n") == 1


def test_a_mistake_of_the_installed_command(tmp_path):
    command = Path(sys.executable).with_name("headwater")
    done = subprocess.run(
        [command, "plan", tmp_path / "no.csv"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no such file" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_is_planned_without_torch(tmp_path):
    (tmp_path / "fleet.csv").write_text(CSV)
    program = (
        "import sys; from headwater.cli import main\n"
        f"sys.argv = ['headwater', 'plan', {str(tmp_path / 'fleet.csv')!r}, '--what-if', "
        "'capacity=2x',\n"
        f"            '--plot', {str(tmp_path / 'pictures')!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "assert 'torch' not in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_help_teaches_the_file_and_the_grammar(plan):
    code, out, _ = plan("--help")
    assert code == 0
    for words in (
        "client,samples,fresh,rate,capacity,count",
        "sensor,800,yes,8,16,1000",
        "leave=server",
        "rate=2x,capacity=2x",
    ):
        assert words in out


PAPER = {0.150: (0.1162, 0.4522, 0.9472), 0.284: (0.0839, 0.3174, 0.6881), 0.001: (1.0, 1.0, 1.0)}


@pytest.mark.parametrize("ratio", PAPER)
def test_the_papers_shares_from_the_documented_files(plan, ratio):
    for percent, share in zip(("05", "20", "50"), PAPER[ratio], strict=True):
        found = answer(
            plan, str(REPOSITORY / "docs" / f"cifar_{percent}.csv"), "--ratio", str(ratio)
        )
        assert found["rows"][0]["historical_share"] == pytest.approx(share, abs=5e-5)


def documented():
    """The commands of the planner's page, each with what it prints."""
    text = (REPOSITORY / "docs" / "planner.md").read_text()
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for command, output in re.findall(
            r"^\$ (headwater plan .*?(?:\\\n.*?)*)\n(.*?)(?=^\$ |\Z)",
            block,
            re.DOTALL | re.MULTILINE,
        ):
            yield pytest.param(command.replace("\\\n", " "), output, id=command[:60])


def lines(text):
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(("command", "output"), list(documented()))
def test_the_page_shows_what_the_command_prints(plan, monkeypatch, tmp_path, command, output):
    arguments = shlex.split(command)[2:]
    monkeypatch.chdir(REPOSITORY)
    arguments = [str(tmp_path) if a == "docs/pictures" else a for a in arguments]
    code, out, _ = plan(*arguments)
    assert code == 0
    shown, parts = lines(out.replace(str(tmp_path), "docs/pictures")), output.split("[…]")
    for place, part in enumerate(map(lines, parts)):  # […] stands for lines that are left out
        start = shown.index(part[0]) if part else len(shown)
        assert place or start == 0
        assert shown[start : start + len(part)] == part
        shown = shown[start + len(part) :]
    assert not shown
