"""The benchmarks' own answers: what they compare with, what they refuse, and how a runner is spoken
to."""

import doctest
import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the benchmarks are not part of the installed package

from benchmarks import pieces, publish  # noqa: E402
from benchmarks.__main__ import arguments, left_out, write  # noqa: E402
from benchmarks.harness import (  # noqa: E402
    alternate,
    checks,
    environments,
    jobs,
    machine,
    memory,
    results,
    table,
)
from benchmarks.harness.contenders import CONTENDERS, Contender, Kind  # noqa: E402
from benchmarks.harness.entries import Entry, Settings  # noqa: E402
from benchmarks.harness.measure import due, measure, prepare  # noqa: E402
from benchmarks.harness.networks import NETWORKS  # noqa: E402
from benchmarks.harness.runner import Failure, Runner  # noqa: E402
from benchmarks.harness.workloads import WORKLOADS, Role, Streams, Workload  # noqa: E402
from benchmarks.studies import footprint, growth, growth_points, long_stream  # noqa: E402

STUDIES = sorted(path.stem for path in (ROOT / "benchmarks" / "studies").glob("[!_]*.py"))


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_finds_all_that_it_imports(name: str) -> None:
    """Most are run by hand, and would only then be missed."""
    importlib.import_module(f"benchmarks.studies.{name}")


TINY = Workload(
    "tiny", "tiny", "logistic", clients=3, samples=8, batch=4, steps=2, learning_rate=0.5
)
STREAM = Streams(
    "stream", "stream", "logistic", 4, 8, 4, 2, 0.5, arriving=2, capacity=6, horizon=40
)
BRISK = Settings(turns=1, turn=0.01, budget=1.0, patience=60.0)


@pytest.fixture
def job(tmp_path: Path) -> jobs.Job:
    prepare(TINY, tmp_path)
    return jobs.read(tmp_path)


def by_hand(job: jobs.Job, clients: list[int], shares: list[float]) -> list[np.ndarray]:
    """Logistic regression's gradient written out: (σ(xθ + b) − y) x, averaged over the batch."""
    weight, bias = (w.astype(np.float64) for w in job.weights)
    mean = [np.zeros_like(weight), np.zeros_like(bias)]
    for m, share in zip(clients, shares, strict=True):
        local = [weight.copy(), bias.copy()]
        for step in range(TINY.steps):
            rows = slice(m * 8 + step * 4, m * 8 + step * 4 + 4)
            x, y = job.x[rows].astype(np.float64), job.y[rows]
            residual = 1 / (1 + np.exp(-(x @ local[0][0] + local[1]))) - y
            local[0] -= 0.5 * (residual @ x / 4)
            local[1] -= 0.5 * residual.mean()
        mean = [total + share * part for total, part in zip(mean, local, strict=True)]
    return mean


def error_of(
    job: jobs.Job, clients: list[int], shares: list[float], rows: np.ndarray | None = None
) -> float:
    """What the check says of somebody who computed this."""
    return checks.OneRound(job).error(checks.Evidence([by_hand(job, clients, shares)], rows))


def test_the_right_answer_is_the_one_worked_out_by_hand(job: jobs.Job) -> None:
    assert error_of(job, [0, 1, 2], [1 / 3] * 3) < 1e-12


@pytest.mark.parametrize(
    ("clients", "shares"),
    [([0, 1], [0.5, 0.5]), ([0, 1, 2], [0.3, 0.3, 0.3]), ([0, 0, 1], [1 / 3] * 3)],
)
def test_a_forgotten_client_and_wrong_weights_are_refused(
    job: jobs.Job, clients: list[int], shares: list[float]
) -> None:
    error = error_of(job, clients, shares)
    with pytest.raises(Failure, match="computes something else"):
        checks.require(error)


def test_not_a_number_is_refused() -> None:
    with pytest.raises(Failure):
        checks.require(float("nan"))


def test_drawn_mini_batches_are_checked(job: jobs.Job) -> None:
    check = checks.OneRound(job)
    swapped = check.rows[:, ::-1]  # the second batch first: another answer, but an allowed draw
    assert error_of(job, [0, 1, 2], [1 / 3] * 3, swapped) > 1e-6
    foreign, double = check.rows.copy(), check.rows.copy()
    foreign[0, 0, 0] = 8
    double[0, 0, 1] = double[0, 0, 0]
    for rows, complaint in (
        (foreign, "another client"),
        (double, "twice"),
        (check.rows[:2], "shape"),
    ):
        with pytest.raises(Failure, match=complaint):
            check.valid(rows)


def memory_rows(client: int, numbers: list[int]) -> np.ndarray:
    first = STREAM.first_row(client)
    return np.array([[first + n for n in numbers[:4]], [first + n for n in numbers[-4:]]])


def test_rows_outside_a_memory_are_refused(tmp_path: Path) -> None:
    prepare(STREAM, tmp_path)
    check = checks.StreamedRound(jobs.read(tmp_path), STREAM)
    historical, _, fifo, reservoir = range(4)
    newest = STREAM.arriving * check.round
    assert [STREAM.role(m) for m in range(4)] == [Role.HISTORICAL] * 2 + [Role.FIFO, Role.RESERVOIR]
    check.obey(historical, memory_rows(historical, [0, 1, 2, 3, 4, 5, 6, 7]))
    check.obey(fifo, memory_rows(fifo, list(range(newest - 6, newest))))
    check.obey(reservoir, memory_rows(reservoir, [0, 3, 5, 9, newest - 1]))
    for client, numbers in (
        (historical, [5, 6, 7, 8]),
        (fifo, [newest - 7, newest - 6, newest - 5, newest - 4]),
        (fifo, [newest - 3, newest - 2, newest - 1, newest]),
        (reservoir, [0, 1, 2, newest]),
    ):
        with pytest.raises(Failure, match="not in its memory"):
            check.obey(client, memory_rows(client, numbers))
    with pytest.raises(Failure, match="more than its memory"):
        check.obey(reservoir, memory_rows(reservoir, list(range(8))))


def test_networks_have_the_paper_s_numbers_of_parameters() -> None:
    sizes = {
        name: sum(p.numel() for p in build().parameters()) for name, (build, _) in NETWORKS.items()
    }
    assert sizes == {"logistic": 21, "digits": 867_390, "images": 3_353_034, "characters": 226_180}


@pytest.mark.parametrize("workload", [*WORKLOADS, STREAM], ids=lambda workload: workload.name)
def test_clients_rows_follow_each_other_and_batches_stay_within(workload: Workload) -> None:
    assert workload.first_row(0) == 0
    for m in (0, 1, workload.clients // 2, workload.clients - 1):
        first, last = workload.rows(m, 0), workload.rows(m, workload.steps - 1)
        assert (
            workload.first_row(m)
            == first.start
            < first.stop
            <= last.stop
            <= workload.first_row(m + 1)
        )
        assert last.stop - last.start == workload.batch


def test_streams_last_for_all_turns() -> None:
    for workload in (w for w in WORKLOADS if isinstance(w, Streams)):
        settings = Settings()
        assert workload.checked[-1] + 2 + settings.turns * workload.longest_turn <= workload.horizon


def test_a_batch_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="need over 8 rows"):
        replace(TINY, steps=3)


def contenders(*names: str) -> list[Contender]:
    return [contender for contender in CONTENDERS if contender.name in names]


def test_runners_compute_the_same_and_are_timed() -> None:
    said: list[str] = []
    one_step = replace(TINY, steps=1)
    entries = measure(
        one_step, contenders("headwater", "loop", "steps", "fused"), BRISK, said.append
    )
    assert [entry.failure for entry in entries] == [None] * 4
    assert max(entry.error or 0.0 for entry in entries) < 1e-5
    for entry in entries:
        assert len(entry.seconds) == entry.rounds_a_turn
        assert min(entry.seconds) > 0
        assert entry.memory > 10 * 2**20  # an interpreter with PyTorch
        assert entry.versions["torch"] == torch.__version__
        assert entry.runner is None
        assert bool(entry.before) == bool(entry.after) == (entry.contender.kind is Kind.LIMIT)
    assert sum("computes the same" in line for line in said) == 4


def entry_of(name: str, *seconds: float) -> Entry:
    return Entry(contenders(name)[0], TINY, seconds=list(seconds))


def test_turns_after_the_first_few_are_for_those_that_decide_a_ratio() -> None:
    settings = Settings(turns=5, few=2, close=1.5, budget=25.0)
    ours, close, fastest = entry_of("headwater", 9.0), entry_of("pfl", 1.4), entry_of("loop", 1.0)
    far, limit = entry_of("flower", 1.6), entry_of("steps", 0.1)
    everybody = [ours, close, fastest, far, limit]
    assert [due(entry, everybody, 1, settings) for entry in everybody] == [True] * 5
    assert [due(entry, everybody, 2, settings) for entry in everybody] == [True] * 3 + [False, True]
    spent = entry_of("headwater", 12.0, 13.0)
    assert not due(spent, [spent], 1, settings)


def test_who_is_far_behind_is_not_asked_for_the_larger_workload() -> None:
    lines = [
        line("headwater", Kind.OURS, 9.0),
        line("fast", Kind.PEER, 1.0),
        line("second", Kind.PEER, 2.4),
        line("flower", Kind.PEER, 2.6),
        line("gone", Kind.PEER, None, "no wheel"),
    ]
    report = results.Report(machine.describe("test"), [results.Result(TINY, lines)])
    found = left_out(replace(TINY, name="large", after="tiny"), report)
    assert found == {"flower": "not asked: 2.6 times as long as the fastest peer on tiny"}
    assert left_out(replace(TINY, after="another"), report) == left_out(TINY, report) == {}


def piece(name: str, code: str, minutes: float = 1.0) -> pieces.Piece:
    class Script(pieces.Piece):
        def command(self, folder: Path) -> list[str]:
            return [sys.executable, "-c", code]

    return Script(name, "", (), minutes)


def test_a_piece_that_fails_or_hangs_holds_up_nobody(tmp_path: Path) -> None:
    asked = [
        piece("planner", "import sys; print('half'); sys.exit(3)"),
        piece("footprint", "import time; time.sleep(60)", minutes=0.005),
        piece("neighbour", "print('whole')"),
    ]
    outcomes = pieces.run_all(asked, tmp_path)
    assert [outcome.failure for outcome in outcomes] == [
        "ended with code 3",
        "not done after 0.005 minutes",
        None,
    ]
    assert (tmp_path / "planner.unfinished").read_text() == "half\n"
    assert (tmp_path / "neighbour.md").read_text() == "whole\n"
    assert not (tmp_path / "planner.md").exists()
    assert [text.split()[1] for text in publish.failures(tmp_path)] == ["FAILED", "FAILED"]


def test_results_are_published_with_the_tables_to_paste(tmp_path: Path) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    lines = [line("headwater", Kind.OURS, 0.5), line("fast", Kind.PEER, 2.0)]
    lines.append(line("steps", Kind.LIMIT, 1.0))
    write(results.Report(machine.describe("test"), [results.Result(TINY, lines)]), source)
    (source / "neighbour.md").write_text("| the neighbour's table |\n")
    (source / "planner.unfinished").write_text("half")
    names = publish.copy(source, target)
    assert names == ["bench.png", "neighbour.md", "results.json", "table.md"]
    text = publish.tables(target)
    assert "| tiny | 500 ms | 2 s (FAST) | **4× faster** | 0.5× |" in text
    assert "| tiny | 500 ms | 2 s (FAST) | **4× faster** | 1 s (STEPS) | 0.5× the limit |" in text
    assert "| the neighbour's table |" in text
    assert text.count("not measured in this run") == 5
    assert set(publish.PLACES) == {known.name for known in pieces.PIECES}


def test_streams_are_followed_by_headwater_and_by_hand() -> None:
    entries = measure(STREAM, contenders("headwater", "stream-loop"), BRISK, lambda _: None)
    assert [(entry.failure, (entry.error or 1.0) < 1e-5) for entry in entries] == [(None, True)] * 2


def test_who_cannot_run_is_named_with_the_reason() -> None:
    absent = Contender("absent", "Absent", Kind.PEER, "no_such_runner")
    (entry,) = measure(TINY, [absent], BRISK, lambda _: None)
    assert "no_such_runner" in (entry.failure or "")
    report = results.Report(machine.describe("test"), [results.Result(TINY, [results.line(entry)])])
    assert "| Absent | not measured: " in table.markdown(report)


def test_who_cannot_be_installed_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pins = tmp_path / "gone.txt"
    pins.write_text("# none\nheadwater-no-such-package==1\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(
        environments, "interpreter", lambda _: environments.install(Path(sys.executable), pins)
    )
    entry = Entry(Contender("gone", "Gone", Kind.PEER, "loop", environment="gone"), TINY)
    prepare(TINY, tmp_path)
    entry.admit(checks.OneRound(jobs.read(tmp_path)), tmp_path, BRISK)
    assert "headwater-no-such-package" in (entry.failure or "")


def test_a_silent_runner_is_given_up(tmp_path: Path) -> None:
    runner = Runner([sys.executable, "-c", "import time; time.sleep(60)"], {}, tmp_path / "log")
    with pytest.raises(Failure, match="no answer within"):
        runner.versions(0.2)
    runner.process.kill()
    runner.end()
    assert runner.process.poll() is not None


def test_memory_of_a_tree_counts_children(tmp_path: Path) -> None:
    hold = "import sys; held = bytes(range(256)) * (1 << 18)"
    child = hold + "; print('{\"versions\": {}}', flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    runner = Runner([sys.executable, "-c", parent], {}, tmp_path / "log")
    runner.versions(60.0)
    family = memory.tree(runner.process.pid)
    assert len(family) == 2
    assert memory.of_tree(runner.process.pid) > 64 * 2**20 > memory.proportional(runner.process.pid)
    runner.process.stdin.close()  # type: ignore[union-attr]
    runner.process.wait(60)
    assert memory.born(family[1]) is None


def line(name: str, kind: Kind, median: float | None, failure: str | None = None) -> results.Line:
    return results.Line(
        name,
        name.upper(),
        kind.value,
        median,
        median,
        median,
        3,
        None,
        None,
        1.0,
        2**20,
        1e-6,
        {},
        failure,
    )


def test_report_survives_a_round_trip_and_gives_ratios(tmp_path: Path) -> None:
    lines = [
        line("headwater", Kind.OURS, 0.5),
        line("slow", Kind.PEER, 4.0),
        line("fast", Kind.PEER, 2.0),
        line("steps", Kind.LIMIT, 1.0),
        line("fused", Kind.LIMIT, 0.25),
        line("gone", Kind.PEER, None, "no wheel"),
    ]
    report = results.Report(
        machine.describe("test"), [results.Result(TINY, lines), results.Result(STREAM, lines)]
    )
    write(report, tmp_path)
    assert results.load(tmp_path / "results.json") == report
    stored = json.loads((tmp_path / "results.json").read_text())["workloads"][0]["ratios"]
    assert stored == {
        "fastest_peer": "FAST",
        "times_faster_than_fastest_peer": 4.0,
        "fastest_limit": "FUSED",
        "of_fastest_limit": 2.0,
        "of_bare_steps": 0.5,
    }
    text = (tmp_path / "table.md").read_text()
    assert "| tiny | 500 ms | 2 s (FAST) | **4× faster** | 250 ms (FUSED) | 2× the limit |" in text
    assert "not measured: no wheel" in text
    assert (tmp_path / "bench.png").stat().st_size > 10_000


def test_nobody_asked_is_not_nobody_able() -> None:
    alone, beaten = [line("headwater", Kind.OURS, 0.5)], [line("gone", Kind.PEER, None, "no wheel")]
    assert table.fastest(results.Result(TINY, alone)) == "–"
    assert table.fastest(results.Result(TINY, alone + beaten)) == "none could do it"


@pytest.mark.parametrize(
    ("words", "named"), [(["--only", "digit"], "digits"), (["--peers", "flwr"], "flower")]
)
def test_unknown_names_are_answered_with_those_that_exist(
    words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        arguments(words)
    assert stop.value.code == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    "module",
    [alternate, environments, growth, machine, pieces, results, table],
    ids=lambda module: module.__name__,
)
def test_examples_in_the_docstrings(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted > 0
    assert found.failed == 0


def test_growth_points_differ_in_one_number_and_are_written(tmp_path: Path) -> None:
    curves = [growth.shortened(curve, 10) for curve in growth_points.CURVES]
    assert [curve.axis for curve in curves] == [curve.axis for curve in growth_points.CURVES]
    assert list(growth_points.CURVES[0].points) == [10**k for k in range(1, 7)]
    measured = {
        growth.key(curve): [growth.Measured(x, x / 1e3, 2**28) for x in curve.points]
        for curve in curves
    }
    growth.write(measured, curves, machine.describe("test"), tmp_path)
    assert "seconds 1.00, memory 0.00" in (tmp_path / "growth.md").read_text()
    assert (tmp_path / "growth.png").stat().st_size > 10_000


@pytest.mark.parametrize("strategy", long_stream.STRATEGIES)
def test_a_long_stream_is_walked_to_its_end(tmp_path: Path, strategy: str) -> None:
    samples = 40 * long_stream.CLIENTS * long_stream.ARRIVING
    part = long_stream.write(tmp_path, samples)
    assert len(part.x) == len(part.y) == samples
    stretches = long_stream.walk(part, 40, long_stream.STRATEGIES[strategy])
    assert [stretch.last for stretch in stretches] == list(range(4, 41, 4))
    assert abs(stretches[-1].own - stretches[0].own) < 2**20


def test_the_least_memory_and_start_up_are_those_of_a_bare_process(tmp_path: Path) -> None:
    workload = WORKLOADS[0].quick()
    prepare(workload, tmp_path)
    alone, seconds = footprint.bare(tmp_path)
    assert 2**26 < alone < 2**30
    assert seconds > 0
    row = footprint.Found(3 * 2**20, 2 * 2**20, 1.3, 1.0).row("this")
    assert row == "| this | 3 MB | 2 MB | 1.50× | 1.3 s | 1.0 s | 1.30× |"


def test_a_point_of_growth_is_measured(tmp_path: Path) -> None:
    point = growth_points.Point(
        clients=3, samples=growth_points.ROUNDS, batch=2, steps=2, arriving=1, capacity=3
    )
    taken, peak = growth.measure(point, turn=0.01, log=tmp_path / "log")
    assert taken > 0
    assert peak > 10 * 2**20
