"""Results one can look at: lines, tables, pictures, frames, and folders that give the run back."""

from __future__ import annotations

import random
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw


def streams(count=3):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = (x @ [1.0, -2.0, 0.5] > 0).astype(int)
    test = x[40:], y[40:]
    fresh = [hw.Client(x[10:40], y[10:40], hw.Constant(2), hw.Fifo(4), test=test)] * (count - 1)
    return [hw.Client(x[:10], y[:10], test=test), *fresh]


def run(**settings):
    torch.manual_seed(0)
    settings = {"rounds": 12, "test_every": 2, "learning_rate": 0.3, **settings}
    return hw.simulate(nn.Linear(3, 2), streams(), **settings)


@pytest.fixture(scope="module")
def found():
    return run()


def test_everything_has_a_short_line(found):
    client, federation = streams()[1], hw.Federation.of(streams())
    assert repr(client) == (
        "Client(30 samples (3,), labels int64, Constant(rate=2), Fifo(capacity=4), 20 test samples)"
    )
    assert repr(federation) == (
        "Federation(3 clients, 70 samples (3,), labels int64, 60 test samples)"
    )
    assert repr(found.ledger) == "Ledger(3 clients, 70 samples, 12 rounds, N_eff 58.0)"
    assert repr(found).startswith("Run(12 rounds, Uniform(), loss 0.")
    assert "accuracy" in repr(found)


def pictures(html):
    """The pictures of a page, which must be well-formed."""
    return list(ElementTree.fromstring(f"<div>{html}</div>").iter("svg"))


def test_notebooks_get_tables_and_pictures(found):
    assert len(pictures(found._repr_html_())) == 2
    assert "worst tenth" in found._repr_html_()
    assert not pictures(streams()[0]._repr_html_())
    assert "2 clients" in hw.Federation.of(streams())._repr_html_()
    # kinds of which there are as many as of others are all there
    shown = hw.Federation.of(streams(2))._repr_html_()
    assert "Once(), Keep()" in shown
    assert "Constant(rate=2), Fifo(capacity=4)" in shown


def test_the_picture_of_a_ledger_shows_how_full_each_memory_is(found):
    """The historical client is full throughout: one rectangle; the others hold 2 of 4, then 4."""
    (picture,) = pictures(found.ledger._repr_html_())
    lines = {}
    for bar in picture:
        lines.setdefault(bar.get("y"), []).append((bar.get("width"), bar.get("fill-opacity")))
    assert lines == {
        "0": [("72", "1.00")],
        "10": [("6", "0.50"), ("66", "1.00")],
        "20": [("6", "0.50"), ("66", "1.00")],
    }


def test_a_picture_of_very_many_clients_and_rounds_stays_small():
    ledger = hw.Ledger.of([3000] * 500, hw.Constant(1), hw.Fifo(5), hw.Uniform(), rounds=3000)
    assert len(ledger._repr_html_()) < 20_000
    assert "24 of 500 clients" in ledger._repr_html_()


def test_names_from_outside_are_escaped():
    odd = run(metrics={"<script>": lambda o, t: o[:, 0]}, test_every=1)
    assert "<script>" not in odd._repr_html_()
    pictures(odd._repr_html_())


def test_a_frame_has_one_row_per_round(found):
    frame = found.to_frame()
    assert frame.index.tolist() == list(range(1, 13))
    assert frame["accuracy"].dropna().tolist() == [
        r.accuracy for r in found.history if r.accuracy is not None
    ]
    assert frame["worst_loss"].notna().sum() == 6
    np.testing.assert_allclose(frame["share"], found.ledger.round_shares)


def test_a_plot_shows_every_metric_and_the_worst_tenth(found, tmp_path):
    picture = found.plot()
    assert [axes.get_ylabel() for axes in picture.axes] == ["loss", "accuracy"]
    mean, worst = picture.axes[1].get_lines()
    assert list(mean.get_ydata()) == [r.accuracy for r in found.history if r.tested]
    assert list(worst.get_ydata()) == [r.worst["accuracy"] for r in found.history if r.tested]
    picture.savefig(tmp_path / "run.png")
    with pytest.raises(hw.InputError, match="plot: the run was not tested"):
        run(test_every=0).plot()


@pytest.mark.parametrize(
    "strategy", [hw.Uniform(), hw.Given(lambda t: [1.0 + i / t for i in range(70)])]
)
def test_a_saved_run_comes_back(tmp_path, strategy):
    """With weights that do not change while a sample is held, and with weights that do."""
    before = run(strategy=strategy, participation=2, batch_size=3)
    before.save(tmp_path)
    after = hw.load_run(tmp_path, nn.Linear(3, 2))
    assert after.history == before.history
    assert repr(after.strategy) == repr(before.strategy)
    for name in ("parameters", "average"):
        assert torch.equal(getattr(after.state, name), getattr(before.state, name))
    for name in ("importance", "round_shares", "client_shares"):
        np.testing.assert_array_equal(getattr(after.ledger, name), getattr(before.ledger, name))
    assert after.ledger.drawn.effective_samples == before.ledger.drawn.effective_samples
    np.testing.assert_array_equal(after.score.accuracy, before.score.accuracy)
    assert torch.equal(after.average.weight, before.average.weight)
    assert after._repr_html_() == before._repr_html_()


def test_a_run_without_its_model_is_all_there_but_the_model(tmp_path, found):
    found.save(tmp_path)
    after = hw.load_run(tmp_path)
    assert after.to_frame().equals(found.to_frame())
    with pytest.raises(hw.InputError, match=r"load_run\(folder, model="):
        _ = after.model
    with pytest.raises(hw.InputError, match=r"load_run\(model\): 10 parameters.* has 8"):
        hw.load_run(tmp_path, nn.Linear(4, 2))


def test_a_damaged_folder_is_refused(tmp_path, found):
    found.save(tmp_path)
    chance = random.Random(3)
    for name in ("arrays.npz", "rounds.jsonl", "run.json"):
        whole = (tmp_path / name).read_bytes()
        for _ in range(10):
            place = chance.randrange(len(whole))
            (tmp_path / name).write_bytes(whole[:place])
            with pytest.raises(hw.InputError, match="load_run"):
                hw.load_run(tmp_path)
        (tmp_path / name).write_bytes(whole)
    hw.load_run(tmp_path)
    with pytest.raises(hw.InputError, match="holds no run"):
        hw.load_run(tmp_path / "nowhere")


@pytest.mark.parametrize("below", ["", "below"])
def test_a_run_is_not_saved_into_a_file(tmp_path, found, below):
    (tmp_path / "afile").touch()
    with pytest.raises(hw.InputError, match=r"run\.save: .*afile is a file; name a folder"):
        found.save(tmp_path / "afile" / below)
