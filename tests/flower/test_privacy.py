"""What leaves a node, byte by byte; and Flower's own privacy with our strategy."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flwr.app import ArrayRecord
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
)
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from loopback_grid import LoopbackGrid
from test_same_answer import initial
from toy_node import three_clients
from traces import found

import headwater as hw
from headwater.flower import StreamFedAvg, messages, node_app
from headwater.flower.messages import flatten


def test_no_sample_is_in_any_byte_that_is_sent_to_the_superlink(fleet):
    StreamFedAvg(min_clients=3, local_steps=3, evaluate_every=2).start(fleet, initial(), 4)
    sent = b"".join(fleet.back)
    assert len(fleet.back) == 3 + 3 * 4 + 3 * 2  # descriptions, updates, tests
    assert b"arrived" in sent  # it is the plain content that is looked at
    for x, y, *_ in three_clients():
        assert not found(x, y, sent)


def test_the_search_would_find_a_sample(fleet):
    x, y, *_ = three_clients()[0]
    leak = messages.request({"x": x[3].tolist()}, ArrayRecord([x[:5]]))
    sent = b"".join(part.deflate() for part in get_all_nested_objects(leak).values())
    assert found(x, y, sent) == ["float32", "text"]


def test_nothing_is_ever_unpickled(fleet, monkeypatch):
    import pickle

    def forbidden(*_, **__):
        raise AssertionError("pickle")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, forbidden)
    StreamFedAvg(min_clients=3).start(fleet, initial(), 2)


def test_flowers_local_differential_privacy_runs_with_our_strategy(fleet):
    mod = LocalDpMod(clipping_norm=0.01, sensitivity=1e-9, epsilon=10.0, delta=1e-5)
    grid = LoopbackGrid(fleet.nodes, node_app([mod]))
    result = StreamFedAvg(min_clients=3, learning_rate=1.0).start(grid, initial(), 1)
    moved = np.linalg.norm(flatten(result.arrays) - flatten(initial()))
    assert 0 < moved <= 0.01 + 1e-6  # shares sum to one: the sum is no longer than the longest


def test_flowers_server_side_clipping_and_noise_wrap_our_strategy(live_fleet):
    ours = StreamFedAvg(hw.Uniform(), min_clients=3, learning_rate=1.0)
    wrapped = DifferentialPrivacyServerSideFixedClipping(
        ours, noise_multiplier=1e-9, clipping_norm=0.02, num_sampled_clients=3
    )
    result = wrapped.start(live_fleet, initial(), num_rounds=2)
    moved = np.linalg.norm(flatten(result.arrays) - flatten(initial()))
    assert 0 < moved <= 2 * 0.02 + 1e-6


def test_flowers_client_side_clipping_wraps_our_strategy(live_fleet):
    grid = LoopbackGrid(live_fleet.nodes, node_app([fixedclipping_mod]))
    ours = StreamFedAvg(hw.Uniform(), min_clients=3, learning_rate=1.0)
    wrapped = DifferentialPrivacyClientSideFixedClipping(
        ours, noise_multiplier=1e-9, clipping_norm=0.02, num_sampled_clients=3
    )
    result = wrapped.start(grid, initial(), num_rounds=1)
    moved = np.linalg.norm(flatten(result.arrays) - flatten(initial()))
    assert 0 < moved <= 0.02 + 1e-6


@pytest.mark.parametrize("side", ["client", "server"])
def test_flowers_adaptive_clipping_wraps_our_strategy(live_fleet, side):
    """It runs; which way Flower moves the norm is said on the page about threats."""
    ours = StreamFedAvg(hw.Uniform(), min_clients=3, learning_rate=1.0)
    kind, mods = {
        "client": (DifferentialPrivacyClientSideAdaptiveClipping, [adaptiveclipping_mod]),
        "server": (DifferentialPrivacyServerSideAdaptiveClipping, []),
    }[side]
    wrapped = kind(
        ours,
        noise_multiplier=1e-9,
        num_sampled_clients=3,
        initial_clipping_norm=0.02,
        clipped_count_stddev=1e-9,
    )
    grid = LoopbackGrid(live_fleet.nodes, node_app(mods))
    result = wrapped.start(grid, initial(), num_rounds=3)
    assert wrapped.clipping_norm != 0.02
    longest = max(wrapped.clipping_norm, 0.02)
    moved = np.linalg.norm(flatten(result.arrays) - flatten(initial()))
    assert 0 < moved <= 3 * longest


def test_flowers_secure_aggregation_refuses_messages_of_a_strategy(fleet):
    """Its modifier wants the stages of Flower's older workflow; nothing is sent unmasked."""
    from flwr.client.mod import secaggplus_mod

    grid = LoopbackGrid(fleet.nodes, node_app([secaggplus_mod]))
    with pytest.raises(KeyError, match="secagg"):
        StreamFedAvg(min_clients=3).start(grid, initial(), 1)
    assert len(grid.back) == 3  # descriptions, and no update


def test_flowers_secure_aggregation_has_a_workflow_for_older_strategies_only(fleet):
    from flwr.app import Context, RecordDict
    from flwr.server.workflow import SecAggPlusWorkflow

    workflow = SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2)
    with pytest.raises(TypeError, match="LegacyContext"):
        workflow(fleet, Context(1, 1, {}, RecordDict(), {}))


def test_flowers_fedavg_can_use_our_client_app(live_fleet):
    """Our replies are in Flower's convention; only the weights are then the clients' own claims."""
    from flwr.serverapp.strategy import FedAvg

    class Plain(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            header = {
                "run": "plain",
                "round": server_round,
                "client": 0,
                "seed": 0,
                "local_steps": 1,
                "batch_size": None,
                "learning_rate": 0.1,
            }
            config["header"] = json.dumps(header)
            return super().configure_train(server_round, arrays, config, grid)

    plain = Plain(fraction_evaluate=0.0)
    result = plain.start(live_fleet, initial(), num_rounds=1)
    ours = StreamFedAvg(hw.ByMemory(), min_clients=3).start(live_fleet, initial(), 1)
    np.testing.assert_allclose(flatten(result.arrays), flatten(ours.arrays), atol=1e-6)


@pytest.mark.parametrize("name", ["../x", "a" * 200, "", "a\nb", 7])
def test_a_name_that_is_no_name_is_refused(name):
    from headwater.flower.roster import Roster

    with pytest.raises(hw.InputError, match="client-id"):
        Roster().welcome({1: {"client-id": name}}, {1})
