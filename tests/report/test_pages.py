"""``headwater report``: pages that load nothing, escape everything, and work in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import headwater as hw
from headwater.cli.main import app
from headwater.experiments.over_seeds import Line
from headwater.experiments.training_run import Outcome
from headwater.ledger.overview import CLIENTS, Overview
from headwater.report.pages.page import in_script
from headwater.report.run import columns, other_metrics

NASTY = ("<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>", 'q"&uote', "plain")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved run of four pumps with names that try to be markup."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(400, 2)), columns=["flow", "heat"])
    rows["worn"] = (rows["flow"] - rows["heat"]).astype("float32")
    rows["pump"] = rng.choice(NASTY, len(rows))
    rows["at"] = np.arange(len(rows))
    pumps = hw.Federation.from_frame(
        rows,
        client="pump",
        time="at",
        label="worn",
        round=20,
        memory=hw.Fifo(10),
        historical=["plain"],
        test=0.2,
    )
    run = hw.simulate(
        torch.nn.Linear(2, 1),
        pumps,
        hw.Uniform(),
        pumps.rounds,
        loss=hw.squared_error,
        prequential=True,
        workers=0,
    )
    folder = tmp_path_factory.mktemp("runs") / "kept"
    run.save(folder)
    return folder


@pytest.fixture(scope="module")
def page(saved: Path) -> Path:
    done = CliRunner().invoke(app, ["report", str(saved)])
    assert done.exit_code == 0, done.output
    assert "works offline" in done.output
    return saved / "report.html"


def test_a_page_is_one_small_file_that_loads_nothing(page: Path) -> None:
    text = page.read_text()
    assert len(text) < 60_000
    assert not re.search(r"<(?:script|img|link|iframe)[^>]*\b(?:src|href)=", text)
    assert re.findall(r"https?://[^\s\"']+", text) == ["http://www.w3.org/2000/svg"]


def test_only_the_pages_own_script_may_run(page: Path) -> None:
    text = page.read_text()
    script = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert len(script) == 1
    digest = b64encode(sha256(script[0].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def test_names_are_data_and_never_markup(page: Path) -> None:
    text = page.read_text()
    assert "<img" not in text
    assert "alert(1)</" not in text
    stored = re.search(r'id="data">(.*?)</script>', text, re.S)
    assert stored is not None
    lines = json.loads(stored.group(1))["ledgers"][0]["lines"]
    assert {line["name"] for line in lines} == set(NASTY)
    assert json.loads(in_script({"<&>": "</script>"})) == {"<&>": "</script>"}


needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")


def seen(page: Path, fragment: str = "", script: str = "") -> str:
    """What a browser makes of a page; ``script`` plays the user, which the page itself forbids."""
    if script:
        text = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text())
        page = page.with_name("played.html")
        page.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    profile = page.parent / "profile"
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-background-networking", f"--user-data-dir={profile}"]
    command += ["--window-size=1200,1600", "--virtual-time-budget=2000", "--dump-dom"]
    done = subprocess.run(
        [*map(str, command), page.as_uri() + fragment],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return done.stdout


@needs_browser
def test_a_browser_draws_curves_the_ledger_and_a_client(page: Path) -> None:
    drawn = seen(page, "#client=1")
    # loss, mae and r2; N_eff and p_hist; the client's memory and share; clients by rank
    assert drawn.count('aria-label="Mean abs. error"') == 1
    assert drawn.count('class="curve"') == (3 + 3 + 2) + 2 + 2 + 1
    assert len(re.findall(r'<g class="row', drawn)) == len(NASTY)
    assert len(re.findall(r'<tr class="pick', drawn)) == len(NASTY)
    assert 'id="chosen"' in drawn
    assert "<img" not in drawn
    assert "&lt;script&gt;alert(1)" in drawn


@needs_browser
def test_pointing_shows_numbers_and_clicking_chooses(page: Path) -> None:
    play = """
      const find = (what) => document.querySelector(what), kept = document.body.dataset;
      const point = (on, x, y) =>
        on.dispatchEvent(new PointerEvent("pointermove", {clientX: x, clientY: y}));
      const lines = () => document.querySelectorAll("#curves figure:first-child .curve").length;
      const svg = find("#curves svg"), box = svg.getBoundingClientRect();
      point(svg, box.right - 15, box.top + 40);
      kept.curve = find("#tip").textContent;
      const row = document.querySelectorAll(".row")[3], at = row.getBoundingClientRect();
      point(row, at.right - 2, at.top + 4);
      kept.row = find("#tip").textContent;
      row.dispatchEvent(new MouseEvent("click"));
      kept.chosen = find("tr.chosen td").textContent;
      const before = lines();
      find(".legend button").click();
      kept.hidden = before - lines();
    """
    body = re.search(r"<body ([^>]*)>", seen(page, script=play), re.S)
    assert body is not None
    said = dict(re.findall(r'data-(\w+)="([^"]*)"', body.group(1)))
    assert re.match(r"round 16\n(?:.*: [\d.]+\n?){3}", said["curve"])
    assert re.match(r"q&quot;&amp;uote\nround 16: holds 10, counts [\d.]+ %", said["row"])
    assert said["chosen"] == "q&quot;&amp;uote"
    assert said["hidden"] == "1"


def test_a_run_folder_without_ledgers_is_shown_as_far_as_it_is_known(tmp_path: Path) -> None:
    for name in ("synthetic-20", "femnist-5"):
        out = tmp_path / f"{name}.html"
        words = ["report", str(RESULTS / name), "--out", str(out)]
        assert CliRunner().invoke(app, words).exit_code == 0
        text = out.read_text()
        assert "Strategies side by side" in text
        assert '"ledgers":[]' in text


@pytest.mark.parametrize(("place", "words"), [("nothing", "no run in there"), ("", "is a folder")])
def test_what_cannot_be_is_refused(saved: Path, tmp_path: Path, place: str, words: str) -> None:
    folder = tmp_path / place if place else saved
    done = CliRunner().invoke(app, ["report", str(folder), "--out", str(tmp_path)])
    assert isinstance(done.exception, hw.InputError)
    assert words in str(done.exception)


def test_many_clients_stay_few_and_the_asked_for_are_among_them() -> None:
    arrivals = [hw.Once() if m % 3 else hw.Constant(1) for m in range(1500)]
    memory = [hw.Keep() if m % 3 else hw.Fifo(4) for m in range(1500)]
    counts = np.full(1500, 10)
    counts[700] = 500
    ledger = hw.Ledger.of(counts, arrivals, memory, hw.Uniform(), rounds=12)
    found = Overview.of(ledger, also=[7, 1234])
    shown = [line.number for line in found.lines]
    assert len(shown) <= CLIENTS
    assert {7, 700, 1234} <= set(shown)
    assert shown == sorted(shown)
    assert found.clients == 1500


def test_an_overview_has_the_ledgers_own_numbers() -> None:
    arrivals, memory = [hw.Once(), hw.Poisson(3)], [hw.Keep(), hw.Reservoir(5)]
    ledger = hw.Ledger.of([6, 60], arrivals, memory, hw.Fading(4), rounds=20)
    found = Overview.of(ledger)
    np.testing.assert_allclose(
        np.array([line.shares for line in found.lines]).T, ledger.client_shares, rtol=1e-3
    )
    weights = ledger.weights_at(20) / ledger.weights_at(20).sum()
    assert found.effective[-1] == pytest.approx(1 / (weights**2).sum(), rel=1e-3)
    held = ledger.holdings.held(20)
    assert [line.held[-1] for line in found.lines] == [held[:6].sum(), held[6:].sum()]


def outcome(mae: float, r2: float | None) -> Outcome:
    metrics = {"mae": mae, "r2": r2}
    numbers = (0.2, 10.0, 0.1, 5, 1.0, 1.0, "here")
    return Outcome(mae, 0.3, mae, *numbers, measure="mae", metrics=metrics, worst={"mae": 2 * mae})


def test_every_metric_is_kept_stored_and_shown() -> None:
    line = Line("uniform", "", 0.1, {0: outcome(0.2, 0.5), 1: outcome(0.4, 0.7)}, 2)
    assert line.metric("r2").mean == pytest.approx(0.6)  # type: ignore[union-attr]
    assert line.metric("mae", worst=True).mean == pytest.approx(0.6)  # type: ignore[union-attr]
    assert line.metric("rmse") is None
    assert other_metrics([line]) == ["r2"]
    from headwater.experiments.measure import Measure

    shown = columns(Measure.named("mae"), other_metrics([line]))
    assert shown["R²"](line).startswith("0.600 ±")
    again = Outcome.of_json(json.loads(json.dumps(outcome(0.2, None).as_json())))
    assert again.metrics == {"mae": 0.2, "r2": None}
    assert again.worst == {"mae": 0.4}
