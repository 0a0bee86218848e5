"""``headwater plan`` as a user types it: what it prints, what it writes, and how it says no."""

import doctest
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.cli.main import main
from headwater.fleet import Device, Fleet, Outlook, compare

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
            [Device("server", 400, False, count=25), Device("sensor", 1600, True, 16, 16, 25)]
        )
        for place, p in enumerate(compare(Outlook.of(fleet, 100), 0.15).prospects, 1):
            numbers = (
                f"{100 * p.historical:.2f} %",
                f"{p.effective_samples:,.0f}",
                f"{p.noise:.4f}",
                f"{p.few_samples:.4f}",
            )
            line = next(line for line in out.splitlines() if re.match(rf" *{place}  ", line))
            assert all(n in line for n in (p.strategy, *numbers, f"{p.total:.4f}"))

    @pytest.mark.parametrize("width", [60, 80, 200])
    def test_fits_the_terminal_and_nothing_is_cut_off(self, plan, monkeypatch, width):
        monkeypatch.setenv("COLUMNS", str(width))
        _, out, _ = plan(
            "fleet.csv",
            "--what-if",
            "capacity:sensor=64,rate:sensor=2x",
            "--what-if",
            "leave=server",
        )
        assert max(map(len, out.splitlines())) <= width
        assert "…" not in out
        for name in ("historical", "uniform", "server", "sensor", "leave=server"):
            assert re.search(rf"^ +(\d  )?{name} ", out, re.MULTILINE)

    @pytest.mark.parametrize("width", [60, 80])
    def test_long_names_stay_readable(self, plan, monkeypatch, tmp_path, width):
        monkeypatch.setenv("COLUMNS", str(width))
        name = "north-hall-conveyor-camera-0017"
        (tmp_path / "f.csv").write_text(
            f"client,samples,fresh,count\n{name},1000000,no,9000000\nb,20000,yes,10000000\n"
        )
        _, out, _ = plan("f.csv")
        assert max(map(len, out.splitlines())) <= width
        first = re.search(r"^ (north\S*)", out, re.MULTILINE)[1]
        assert name.startswith(first)
        assert len(first) >= 16

    def test_both_tables_speak_of_the_same_share(self, plan):
        for kind in ("paper", "sharp"):
            _, out, _ = plan("fleet.csv", "--ratio", "0.15", "--bound", kind)
            strategy = "optimal" if kind == "paper" else "sharp"
            assert f"Who counts how much under {strategy}" in out
            above = re.search(rf" {strategy} +(\S+) %", out)[1]
            below = re.search(r"all historical .* no +(\S+) %", out)[1]
            fresh = re.search(r"all fresh .* yes +(\S+) %", out)[1]
            assert above == below
            assert float(above) + float(fresh) == pytest.approx(100, abs=0.011)

    def test_a_share_of_each_times_its_clients_is_the_share_together(self, plan):
        found = answer(plan, "fleet.csv")
        assert sum(row["share"] for row in found["clients"]) == pytest.approx(1)
        for row in found["clients"]:
            assert row["share_of_each"] * row["count"] == pytest.approx(row["share"])

    def test_json_is_alone_on_standard_output_and_complete(self, plan):
        found = answer(plan, "fleet.csv", "--ratio", "0.15", "--what-if", "capacity=2x")
        assert found["rows"][0]["strategy"] == "optimal"
        assert found["rows"][0]["historical_share"] == pytest.approx(0.4522, abs=5e-5)
        assert [row["order"] for row in found["rows"]] == [1, 2, 3, 4, 5, 6, 7]
        assert found["ratio"] == {"value": 0.15, "source": "given"}
        remembered = next(r for r in found["rows"] if r["strategy"] == "remembered")
        assert found["remembered"] == {"horizon": 25, "heterogeneity": 0}
        assert found["clients"][0] == {
            "client": "server",
            "kind": "",
            "count": 25,
            "samples": 400,
            "samples_as_drawn": 400,
            "fresh": False,
            "share": found["rows"][0]["historical_share"],
            "share_of_each": pytest.approx(found["rows"][0]["historical_share"] / 25),
            "remembered_share": pytest.approx(remembered["historical_share"]),
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
            {row["strategy"]: row["noise"] for row in a["rows"]}["uniform"] for a in (slow, fast)
        ]
        assert noise[0] == pytest.approx((1000 / 1100) * (1 - 1 / 1000) ** 0.5)
        assert noise[1] == pytest.approx((1000 / 1100) * (1 / 100 - 1 / 1000) ** 0.5)

    def test_what_is_drawn_is_counted_and_said(self, plan):
        held, drawn = (
            answer(plan, "fleet.csv", "--bound", "sharp", *more)
            for more in ((), ("--local-steps", "5", "--batch-size", "4"))
        )
        assert (held["local_steps"], held["batch_size"]) == (1, None)
        assert (drawn["local_steps"], drawn["batch_size"]) == (5, 4)
        noise = [
            {row["strategy"]: row["noise"] for row in found["rows"]}["historical"]
            for found in (held, drawn)
        ]
        # 25 historical clients draw 5 batches of 4 of their 400: p² v = (1/4 − 1/400)/5 / 25, and
        # c1² has 25 fresh clients.
        assert noise == pytest.approx([0, ((1 / 4 - 1 / 400) / 5 / 25 / 25) ** 0.5])
        out = " ".join(plan("fleet.csv", "--local-steps", "5", "--batch-size", "4")[1].split())
        assert "A round draws 5 steps of 4 samples from a memory" in out
        assert "A round draws" not in plan("fleet.csv")[1]

    def test_horizon_and_heterogeneity_move_what_is_remembered(self, plan):
        """Forever: all samples alike. Not at all: by a round's. Very different clients: alike."""

        def share(*options):
            rows = answer(plan, "fleet.csv", *options)["rows"]
            return {row["strategy"]: row["historical_share"] for row in rows}["remembered"]

        assert share("--horizon", "100000000") == pytest.approx(0.2, abs=1e-4)
        assert share("--horizon", "1") == pytest.approx(400 / (400 + 16), abs=0.01)
        assert share("--horizon", "0.25") == pytest.approx(share("--horizon", "25"))
        assert share("--heterogeneity", "1e6") == pytest.approx(0.5, abs=1e-4)
        out = " ".join(plan("fleet.csv", "--heterogeneity", "0.1")[1].split())
        assert "as Remembered(horizon=0.25, heterogeneity=0.1) does." in out

    def test_what_ifs_count_what_is_drawn(self, plan):
        """With batches of four it no longer matters how many samples a sensor can keep."""
        draws = ("--batch-size", "4", "--what-if", "capacity=4x")
        now, more = answer(plan, "fleet.csv", *draws)["what_if"]
        now_held, more_held = answer(plan, "fleet.csv", *draws[2:])["what_if"]
        assert more_held["bound"] < 0.99 * now_held["bound"]
        assert more["bound"] == pytest.approx(now["bound"], rel=0.01)

    def test_long_lists_are_left_to_json(self, plan, tmp_path):
        rows = "".join(f"c{k},10,{'yes' if k % 2 else 'no'}\n" for k in range(30))
        (tmp_path / "f.csv").write_text("client,samples,fresh\n" + rows)
        _, out, _ = plan("f.csv")
        assert "--json lists the shares of all 30 rows." in out
        assert re.search(r"all historical +15 ", out)
        assert len(answer(plan, "f.csv")["clients"]) == 30

    def test_long_lists_are_shown_by_kind(self, plan, tmp_path):
        rows = "".join(f"c{k},10,yes,{'camera' if k % 3 else 'sensor'}\n" for k in range(30))
        (tmp_path / "f.csv").write_text("client,samples,fresh,kind\nold,50,no,\n" + rows)
        _, out, _ = plan("f.csv", "--what-if", "leave=camera")
        assert re.search(r"^ camera +20 ", out, re.MULTILINE)
        assert re.search(r"^ sensor +10 ", out, re.MULTILINE)
        assert re.search(r"^ of no kind +1 ", out, re.MULTILINE)
        kinds = {row["client"]: row["kind"] for row in answer(plan, "f.csv")["clients"]}
        assert (kinds["old"], kinds["c0"], kinds["c1"]) == ("", "sensor", "camera")

    def test_a_stream_that_is_over_in_round_one_is_answered(self, plan, tmp_path):
        (tmp_path / "f.csv").write_text(
            "client,samples,fresh,rate\na,9,no,\nb,1,yes,8\nc,9,yes,1\n"
        )
        note = "'b' is listed as fresh, but all samples are there in round 1 and stay"
        assert note in " ".join(plan("f.csv")[1].split())
        found = answer(plan, "f.csv")
        assert [row["fresh"] for row in found["clients"]] == [False, False, True]
        assert note in found["notes"][0]

    def test_samples_that_never_arrive_are_named(self, plan, tmp_path):
        (tmp_path / "f.csv").write_text("client,samples,fresh,rate\na,9,no,\nb,5000,yes,8\n")
        (note,) = answer(plan, "f.csv", "--rounds", "10")["notes"]
        assert "'b' is listed with more samples than arrive in 10 rounds (80 of 5,000)" in note

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

    @pytest.mark.parametrize(
        ("rows", "ratio", "reason"),
        [
            ("a,100,no\n", "0.1", "they need historical and fresh clients"),
            ("a,100,yes\n", "0.1", "they need historical and fresh clients"),
            ("a,100,no\nb,100,yes\n", "0", "they need a ratio above zero"),
        ],
    )
    def test_the_plan_comes_without_them_where_there_can_be_none(
        self, plan, tmp_path, rows, ratio, reason
    ):
        (tmp_path / "f.csv").write_text("client,samples,fresh\n" + rows)
        code, out, _ = plan("f.csv", "--plot", "pictures", "--ratio", ratio)
        assert code == 0
        assert f"Note: No pictures: {reason}." in out
        assert "Who counts how much" in out
        assert not (tmp_path / "pictures").exists()
        found = answer(plan, "f.csv", "--plot", "pictures", "--ratio", ratio)
        assert (found["pictures"], reason in found["notes"][0]) == ([], True)


STRANGE = "\x1b[31mred\x07\u202eabc\x9b1m"


class TestStrangeNames:
    def test_control_characters_are_written_out(self, plan, tmp_path):
        (tmp_path / "f.csv").write_text(
            f'client,samples,fresh,kind\n"{STRANGE}",10,no,\n"two\nlines",20,yes,"k\x1b]0;x\x07"\n'
        )
        for arguments in ((), ("--what-if", f"leave={STRANGE}")):
            code, out, _ = plan("f.csv", *arguments)
            assert code == 0
            assert not set(out) - {"\n"} & set(STRANGE + "\r\t") - set("[31mredabc1")
            assert r"\x1b[31mred\x07" in out
            assert r"two\nlines" in out

    def test_json_keeps_the_name_and_shows_none_of_it(self, plan, tmp_path):
        (tmp_path / "f.csv").write_text(f'client,samples,fresh\n"{STRANGE}",10,no\nü,20,yes\n')
        _, out, _ = plan("f.csv", "--json")
        assert json.loads(out)["clients"][0]["client"] == STRANGE
        assert all(c.isprintable() or c == "\n" for c in out)
        assert "ü" in out

    def test_mistakes_show_none_of_it(self, plan, tmp_path):
        (tmp_path / "f.csv").write_text(f'client,samples,fresh\n"{STRANGE}",-1,no\n')
        for arguments in (["f.csv"], ["fleet.csv", "--what-if", f"leave={STRANGE}"]):
            code, _, err = plan(*arguments)
            assert code == 2
            assert all(c.isprintable() or c == "\n" for c in err)


MISTAKES = [
    (["nowhere.csv"], "nowhere.csv: there is no such file"),
    (
        ["mnist"],
        "'mnist' is neither a fleet file (.csv, .toml) nor a task (synthetic, cifar10",
    ),
    (["fleet.csv", "--ratio", "-1"], "--ratio is -1; it must be zero or more"),
    (["fleet.csv", "--ratio", "nan"], "--ratio is nan; it must be zero or more"),
    (["fleet.csv", "--ratio", "inf"], "--ratio is inf"),
    (["fleet.csv", "--ratio", "estimate"], "a fleet file has no model to estimate it from"),
    (["synthetic", "--ratio", "guess"], "--ratio is 'guess'; it must be a number"),
    (["fleet.csv", "--bound", "loose"], "bound: 'paper' or 'sharp'; got 'loose'"),
    (["fleet.csv", "--rounds", "0"], "--rounds is 0; it must be from 1 to 1073741823"),
    (["fleet.csv", "--rounds", "1000000000000"], "--rounds is 1000000000000; it must be from 1"),
    (["fleet.csv", "--horizon", "long"], "--horizon is 'long'; it must be a fraction of the run"),
    (["fleet.csv", "--horizon", "2.5"], "horizon): a fraction of the run above 0 and up to 1.0"),
    (["fleet.csv", "--heterogeneity", "-1"], "--heterogeneity is -1; it must be zero or more"),
    (["fleet.csv", "--heterogeneity", "much"], "--heterogeneity is 'much'; it must be a number"),
    (["fleet.csv", "--local-steps", "0"], "--local-steps is 0; it must be at least 1"),
    (["fleet.csv", "--batch-size", "-1"], "--batch-size is -1; it must be at least 1, or 0"),
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
        "there is no client 'nobody' in this fleet; there are: server",
    ),
    (["fleet.csv", "--what-if", "rate=2x"], "would get 32 samples per round and can keep 16"),
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
        "share-X: historical clients count X together",
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


def test_the_pages_sessions_run():
    page = REPOSITORY / "docs" / "planner.md"
    session = "\n".join(re.findall(r"```pycon\n(.*?)```", page.read_text(), re.DOTALL))
    test = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
    assert len(test.examples) > 5
    assert doctest.DocTestRunner().run(test).failed == 0


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
