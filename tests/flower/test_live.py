"""Streams that nobody declared: shares from the counts that clients report."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from test_same_answer import initial
from toy_node import Served, toy

import headwater as hw
from headwater.flower import StreamFedAvg, read_ledger
from headwater.flower.checkpoint import Checkpoint
from headwater.flower.importance import Counts, importance
from headwater.flower.journal import Journal
from headwater.flower.patience import QuorumError
from headwater.flower.plan import Live, foreseeable
from headwater.flower.roster import Roster, Standing, natural
from headwater.ledger.orders import LocalWork
from headwater.ledger.registry import named


@pytest.mark.parametrize(
    "strategy",
    [
        hw.Uniform(),
        hw.Historical(),
        hw.Fresh(),
        hw.Share(0.4),
        hw.Optimal(0.15),
        hw.Optimal(3.0),
        hw.Importance([0.1, 0.2, 0.3, 0.4]),
    ],
)
def test_importances_from_counts_equal_the_ledgers(strategy):
    ledger = hw.Ledger.of(
        [30, 12, 80, 60],
        [hw.Once(), hw.Once(), hw.Constant(4), hw.Constant(3)],
        [hw.Keep(), hw.Keep(), hw.Fifo(8), hw.Fifo(5)],
        strategy,
        rounds=20,
    )
    samples = np.array([30.0, 12, 80, 60])
    counts = Counts(samples, np.ones(4), np.array([True, True, False, False]))
    np.testing.assert_allclose(importance(strategy, counts), ledger.importance, atol=1e-12)


@pytest.mark.parametrize(("steps", "batch"), [(1, None), (3, 2)])
def test_remembered_samples_from_counts_equal_the_online_ledgers(steps, batch):
    strategy = hw.RememberedOnline(horizon=25, heterogeneity=0.1)
    drawing = LocalWork(steps, batch)
    rules = [hw.Once(), hw.Constant(4)], [hw.Keep(), hw.Fifo(4)]
    holdings = replace(hw.unroll([100, 400], *rules, rounds=100), drawing=drawing)
    ledger = hw.Ledger.weigh(holdings, strategy)
    for t in (1, 10, 100):
        samples, held = np.array([100.0, 4 * t]), np.array([100.0, 4])
        counts = Counts(samples, held, np.array([True, False]), t, drawing)
        np.testing.assert_allclose(importance(strategy, counts), ledger.client_shares[t - 1])


@pytest.mark.parametrize("name", ["remembered", "online", "remembered-0.1"])
def test_what_only_a_simulation_measures_has_a_default_here(name):
    samples, held = np.array([100.0, 40]), np.array([100.0, 4])
    counts = Counts(samples, held, np.array([True, False]), rounds=10)
    found = importance(named(name), counts)
    assert found.sum() == pytest.approx(1)
    assert found[0] > found[1] > 0


@pytest.mark.parametrize(
    "strategy", [hw.Share(0.4), hw.Optimal(3.0), hw.Uniform(), hw.RememberedOnline(10, 0.1)]
)
def test_who_has_left_does_not_shape_what_the_others_count(strategy):
    """The same answer as if it had never been there."""
    historical = np.array([True, True, False, False])
    samples, held = np.array([30.0, 500, 80, 60]), np.array([30.0, 0, 8, 5])
    found = importance(strategy, Counts(samples, held, historical, 20))
    others = held > 0
    alone = Counts(samples[others], held[others], historical[others], 20)
    np.testing.assert_allclose(found[others], importance(strategy, alone))
    assert found[1] == 0


def test_given_importances_belong_to_clients_and_not_to_places():
    counts = Counts(np.ones(3), np.array([1.0, 0, 1]), np.zeros(3, bool))
    found = importance(hw.Importance([0.2, 0.5, 0.3]), counts)
    np.testing.assert_allclose(found, [0.4, 0, 0.6])


def test_given_importances_are_those_of_the_first_clients(live_fleet, tmp_path):
    """Who joins later counts nothing and does not end the run, also when it goes on."""
    newcomer = live_fleet.nodes.pop(98)

    def learn(rounds):
        strategy = StreamFedAvg(
            hw.Importance([0.3, 0.7]), min_clients=2, checkpoint=tmp_path / "run"
        )
        return strategy.start(live_fleet, initial(), rounds, progress=comes)

    def comes(entry):
        live_fleet.nodes[98] = newcomer

    assert learn(4).rounds == 4
    assert learn(4).rounds == 4
    entries = Journal(tmp_path / "run" / "rounds.jsonl").read()
    assert [entry.planned for entry in entries] == [[0.3, 0.7]] * 4


def test_given_importances_for_other_clients_are_refused_before_round_1(live_fleet):
    with pytest.raises(hw.InputError, match="2 shares for 3 clients"):
        StreamFedAvg(hw.Importance([0.3, 0.7]), min_clients=3).start(live_fleet, initial(), 2)


def test_who_holds_nothing_counts_nothing_now():
    counts = Counts(np.array([10.0, 30]), np.array([10.0, 0]), np.array([True, False]))
    np.testing.assert_array_equal(importance(hw.Uniform(), counts), [1, 0])
    with pytest.raises(hw.InputError, match="weight to nobody"):
        importance(hw.Fresh(), counts)


def test_a_strategy_for_single_samples_needs_declared_arrivals():
    counts = Counts(np.ones(1), np.ones(1), np.array([True]))
    with pytest.raises(hw.InputError, match="declare the arrivals"):
        importance(hw.Given([1.0]), counts)
    with pytest.raises(hw.InputError, match="a given ratio"):
        importance(hw.Optimal(), counts)


def test_shares_follow_counts_that_grow(live_fleet, tmp_path):
    stream = live_fleet.toys[1]

    def grow(entry):
        stream.arrive(20)

    strategy = StreamFedAvg(hw.Uniform(), min_clients=3, checkpoint=tmp_path / "run")
    # Endless, so that nothing is expected beyond what has come; a wrapper stops it.
    with pytest.raises(StopIteration):
        strategy.start(live_fleet, initial(), None, progress=_limit(grow, 3))
    first, second, third = Journal(tmp_path / "run" / "rounds.jsonl").read()
    np.testing.assert_allclose(first.planned, np.array([20, 40, 40]) / 100)
    # What came after round 1 is reported in round 2 and counts from round 3 on.
    np.testing.assert_allclose(second.planned, first.planned)
    np.testing.assert_allclose(third.planned, np.array([20, 60, 40]) / 120)
    assert second.arrived == [20, 60, 40]
    assert second.held == [20, 6, 5]


@pytest.mark.parametrize("participation", [None, 2])
def test_a_rate_per_round_counts_the_rounds_that_a_client_was_not_heard_in(
    live_fleet, tmp_path, participation
):
    for node in live_fleet.toys:
        node.live_stream()

    def flow(entry):
        for node in live_fleet.toys:
            node.arrive(4)

    settings = {"participation": participation, "checkpoint": tmp_path / "run"}
    strategy = StreamFedAvg(hw.ByMemory(), min_clients=3, **settings)
    strategy.start(live_fleet, initial(), 12, progress=flow)
    rounds = Journal(tmp_path / "run" / "rounds.jsonl").read()
    assert {len(entry.client) for entry in rounds} == {participation or 3}
    with Checkpoint(tmp_path / "run", strategy.settings.fingerprint(8)) as store:
        _, roster = store.load()
    for m in range(3):
        # What came after a round is seen in the next: of the first t rounds t − 1 brought any.
        seen = roster[m].heard
        assert roster[m].arrivals_per_round == pytest.approx(4 * (seen - 1) / seen)


def test_a_client_that_was_not_heard_for_long_is_expected_to_have_taken_in_samples():
    client = Standing("a", 1, 40, 5, 5, "Fifo", 0.0, False, joined=1, heard=10, first_arrived=0)
    silent = Standing("b", 2, 40, 5, 5, "Fifo", 0.0, False, joined=1, heard=10, first_arrived=40)
    live = Live(hw.Uniform(), 20, LocalWork())
    shares = live.round(16, Roster([client, silent]), {1, 2}).shares
    np.testing.assert_allclose(shares, [80 / 120, 40 / 120])  # 4 per round until round 20
    live = Live(hw.RememberedOnline(10, 0.0), None, LocalWork())
    roster = Roster([client, silent])
    found = live.round(16, roster, {1, 2}).shares
    counts = Counts(np.array([60.0, 40]), np.array([5.0, 5]), np.zeros(2, bool), 16)
    np.testing.assert_allclose(found, importance(live.strategy, counts))


def test_a_run_waits_until_somebody_holds_a_sample(live_fleet, caplog):
    for node in live_fleet.toys:
        node.live_stream()
        node.arrived = 0
    described = live_fleet.toys[2].describe

    def third_time_lucky():
        if len(live_fleet.toys[2].requests) == 3:
            live_fleet.toys[2].arrived = 5
        return described()

    live_fleet.toys[2].describe = third_time_lucky
    strategy = StreamFedAvg(hw.Uniform(), min_clients=3, ask_again=0.1)
    result = strategy.start(live_fleet, initial(), 1)
    np.testing.assert_allclose(result.ledger.client_shares, [[0, 0, 1]])
    assert "round 1 waits: Uniform() gives weight to nobody: of 3 clients 0 hold" in caplog.text


@pytest.mark.parametrize("strategy", [hw.Fresh(), hw.Share(historical=0.0)])
def test_a_run_of_streams_waits_for_the_first_though_archives_are_full(
    live_fleet, caplog, strategy
):
    archive, quick, slow = live_fleet.toys
    described = quick.describe

    def third_time_lucky():
        if len(quick.requests) == 3:
            quick.arrived = 5
        return described()

    quick.describe = third_time_lucky
    for stream in (quick, slow):
        stream.live_stream()
        stream.arrived = 0
    result = StreamFedAvg(strategy, min_clients=3, ask_again=0.1).start(live_fleet, initial(), 2)
    assert archive.held == 20
    np.testing.assert_allclose(result.ledger.client_shares, [[0, 1, 0]] * 2)
    assert "gives weight to nobody: of 3 clients 1 hold samples, 1 of these" in caplog.text


def test_declared_streams_that_begin_late_are_named_before_round_1(fleet):
    """Replays come with the rounds, so to wait for one would be to wait for ever."""
    for toy_node in fleet.toys[1:]:
        toy_node.declared = {"kind": "trace", "counts": [0, 0, 4], "samples": 4}
    with pytest.raises(hw.InputError, match=r"zero in round 1 \(2 such rounds of 3\): nobody who"):
        StreamFedAvg(hw.Fresh(), min_clients=3).start(fleet, initial(), 3)
    assert not any(r["do"] == "train" for toy_node in fleet.toys for r in toy_node.requests)


def test_a_run_in_which_nobody_ever_holds_a_sample_is_given_up(live_fleet):
    for node in live_fleet.toys:
        node.arrived = 0
    strategy = StreamFedAvg(hw.Uniform(), min_clients=3, ask_again=0.1, patience=0.3)
    with pytest.raises(QuorumError, match="nobody who counts holds a sample"):
        strategy.start(live_fleet, initial(), 1)


def test_declared_arrivals_without_an_end_come_with_the_rounds(fleet, tmp_path):
    """Nothing arrives before a round is asked for, so that clients without samples are asked."""
    strategy = StreamFedAvg(hw.ByMemory(), min_clients=3, checkpoint=tmp_path / "run")
    with pytest.raises(StopIteration):
        strategy.start(fleet, initial(), None, progress=_limit(lambda entry: None, 3))
    rounds = Journal(tmp_path / "run" / "rounds.jsonl").read()
    assert [entry.held for entry in rounds] == [[20, 4, 5], [20, 6, 5], [20, 6, 5]]
    np.testing.assert_allclose(rounds[2].planned, np.array([20, 6, 5]) / 31)


class Nothing(hw.Uniform):
    """A strategy that looks empty to Python."""

    def __len__(self):
        return 0


@pytest.mark.parametrize(
    ("strategy", "rounds", "used"),
    [
        (None, 3, hw.Uniform),
        (None, None, hw.RememberedOnline),
        (hw.ByMemory(), None, hw.ByMemory),
        (Nothing(), None, Nothing),
    ],
)
def test_the_strategy_that_is_used(live_fleet, monkeypatch, strategy, rounds, used):
    seen = []
    monkeypatch.setattr(
        "headwater.flower.plan.importance", lambda rule, counts: seen.append(rule) or np.ones(3) / 3
    )
    with pytest.raises(StopIteration):
        StreamFedAvg(strategy, min_clients=3).start(
            live_fleet, initial(), rounds, progress=_limit(lambda entry: None, 1)
        )
    assert {type(rule) for rule in seen} == {used}


def _limit(work, rounds):
    def progress(entry):
        work(entry)
        if entry.round == rounds:
            raise StopIteration

    return progress


def test_clients_join_and_leave(live_fleet, tmp_path):
    late = toy(2, live=True)
    late.client = "later"
    with ExitStack() as stack:

        def change(entry):
            if entry.round == 1:
                stack.enter_context(Served(late, tmp_path / "l"))
                live_fleet.nodes[7] = ("later", tmp_path / "l")
            if entry.round == 4:
                del live_fleet.nodes[100]  # node0

        strategy = StreamFedAvg(min_clients=3, checkpoint=tmp_path / "run")
        result = strategy.start(live_fleet, initial(), 6, progress=change)
    rounds = Journal(tmp_path / "run" / "rounds.jsonl").read()
    assert rounds[0].client == [0, 1, 2]
    assert 3 in rounds[2].client
    assert rounds[4].client == [1, 2, 3]
    assert sum(rounds[4].planned) == pytest.approx(1)
    assert result.ledger.holdings.clients == 4
    assert result.ledger.client_shares[5, 0] == 0


def test_the_ledger_of_a_live_run_has_its_shares_and_counts(live_fleet, tmp_path):
    strategy = StreamFedAvg(hw.ByMemory(), min_clients=3, checkpoint=tmp_path / "run")
    strategy.start(live_fleet, initial(), 4)
    ledger = read_ledger(tmp_path / "run")
    # 20, 6 and 5 samples are held, always the same ones: nothing varies.
    np.testing.assert_allclose(ledger.importance, np.array([20, 6, 5]) / 31)
    assert ledger.effective_samples == pytest.approx(31)
    assert ledger.variability == pytest.approx(0, abs=1e-12)


def test_the_ledger_knows_who_is_historical_though_not_all_are_asked(fleet, tmp_path):
    """Client 0 has all its samples from the start, whenever it is first asked."""
    settings = {"local_steps": 1, "participation": 1, "seed": 8}
    strategy = StreamFedAvg(hw.ByMemory(), min_clients=3, checkpoint=tmp_path / "run", **settings)
    result = strategy.start(fleet, initial(), 8)
    rounds = Journal(tmp_path / "run" / "rounds.jsonl").read()
    assert 0 not in rounds[0].client  # or the test would show nothing
    assert any(0 in entry.client for entry in rounds)
    np.testing.assert_array_equal(result.ledger.holdings.historical, [True, False, False])
    counted = sum(dict(zip(e.client, e.counted, strict=True)).get(0, 0) * e.share for e in rounds)
    expected = counted / sum(entry.share for entry in rounds)
    assert result.ledger.historical_share == pytest.approx(expected)


def test_random_rules_are_foreseen_only_with_the_runs_own_numbers():
    def standing(memory, key):
        declared = {"kind": "constant", "rate": 1, "samples": 5}
        return Standing("a", 1, 0, 0, 4, memory, 0.0, False, key, declared)

    assert foreseeable([standing("Fifo", None)], seed=3)
    assert foreseeable([standing("Reservoir", (0, 3))], seed=3)
    assert not foreseeable([standing("Reservoir", (0, 4))], seed=3)
    assert not foreseeable([standing("Reservoir", (9, 3))], seed=3)


def test_a_roster_survives_the_checkpoint():
    roster = Roster([Standing("a", 1, 5, 4, None, "Keep", 0.5, True, (0, 7), {"kind": "once"})])
    assert vars(Roster.from_json(roster.as_json())[0]) == vars(roster[0])
    assert natural("node2") < natural("node10")


def test_prequential_and_test_numbers_reach_the_server(live_fleet):
    live_fleet.toys[0].declared = {"kind": "once", "samples": 20}
    result = StreamFedAvg(min_clients=3, evaluate_every=2).start(live_fleet, initial(), 2)
    assert result.evaluate_metrics_clientapp[2]["metric"] == 0.75
    assert result.evaluate_metrics_clientapp[2]["count"] == 30


def test_a_journal_has_the_latest_samples_scores_by_the_nodes_own_word(live_fleet):
    for node in live_fleet.toys:
        node.live_stream()
    metrics = StreamFedAvg(min_clients=3).start(live_fleet, initial(), 2).train_metrics_clientapp
    latest = {"prequential-recent_loss": 1.0, "prequential-recent_metric": 0.5}
    assert dict(metrics[2]) == {"prequential-count": 12, **latest}


def test_a_model_is_tested_here_as_flower_users_expect(live_fleet):
    from flwr.app import MetricRecord

    result = StreamFedAvg(min_clients=3).start(
        live_fleet, initial(), 2, evaluate_fn=lambda number, arrays: MetricRecord({"n": number})
    )
    assert {k: v["n"] for k, v in result.evaluate_metrics_serverapp.items()} == {0: 0, 1: 1, 2: 2}


def test_prometheus_reads_the_servers_numbers(fleet, unused_port):
    from urllib.request import urlopen

    seen = []

    def look(entry):
        with urlopen(f"http://127.0.0.1:{unused_port}/metrics", timeout=5) as answer:
            seen.append(answer.read().decode())

    strategy = StreamFedAvg(hw.ByMemory(), min_clients=3, metrics_port=unused_port)
    strategy.start(fleet, initial(), 2, progress=look)
    assert "headwater_server_round 2\n" in seen[1]
    assert 'headwater_server_held{client="node1"} 6\n' in seen[1]
    assert "headwater_server_prequential_recent_loss 1.0\n" in seen[1]
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://127.0.0.1:{unused_port}/metrics", timeout=5)


def test_waiting_for_the_first_stream_takes_nobodys_time_to_answer(live_fleet, tmp_path):
    """The deadline of round 1 begins when its clients are asked, not when the run began to wait."""
    _, quick, slow = live_fleet.toys
    for stream in (quick, slow):
        stream.live_stream()
        stream.arrived = 0
    began, lost = time.monotonic(), []

    def streams_begin(message):
        if time.monotonic() - began > 1.2:
            quick.arrived = slow.arrived = 5
        train = message.metadata.message_type == "train"
        # The first question to one of them is lost; there is time to ask it again.
        return train and not lost and not lost.append(message)

    live_fleet.lose = streams_begin
    settings = {"min_clients": 3, "ask_again": 0.1, "deadline": 1.0, "checkpoint": tmp_path / "run"}
    StreamFedAvg(hw.Fresh(), **settings).start(live_fleet, initial(), 1)
    (entry,) = Journal(tmp_path / "run" / "rounds.jsonl").read()
    assert lost
    assert not entry.refused
