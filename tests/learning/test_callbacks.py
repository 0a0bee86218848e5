"""Callbacks: told of every round, free to end the run, and where they were after a stop."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch
from torch import nn

import headwater as hw


def streams():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = (x @ [1.0, -2.0, 0.5] > 0).astype(int)
    test = x[40:], y[40:]
    return [
        hw.Client(x[:10], y[:10], test=test),
        hw.Client(x[10:40], y[10:40], hw.Constant(2), hw.Fifo(4), test=test),
    ]


def run(**settings):
    torch.manual_seed(0)
    settings = {"rounds": 12, "test_every": 2, "learning_rate": 0.3, **settings}
    return hw.simulate(nn.Linear(3, 2), streams(), **settings)


class Watcher(hw.Callback):
    """Writes down all it is told."""

    def __init__(self, stop_after=None, fail_after=None):
        self.told, self.stop_after, self.fail_after = [], stop_after, fail_after

    def begin(self, beginning):
        self.told.append(("begin", beginning.rounds, beginning.metrics, len(beginning.history)))

    def after_round(self, moment):
        self.told.append((moment.record.round, moment.score is not None))
        if moment.record.round == self.fail_after:
            raise KeyboardInterrupt
        return moment.record.round == self.stop_after

    def end(self):
        self.told.append("end")


def test_a_callback_is_told_of_everything_in_order():
    watcher = Watcher()
    run(callbacks=[watcher], rounds=4)
    rounds = [(1, False), (2, True), (3, False), (4, True)]
    assert watcher.told == [("begin", 4, ("loss", "accuracy"), 0), *rounds, "end"]


def test_a_callback_sees_the_model_and_every_clients_values():
    seen = []

    class Look(hw.Callback):
        def after_round(self, moment):
            if moment.score:
                seen.append((moment.model.weight.detach().clone(), moment.score.accuracy))

    found = run(callbacks=[Look()])
    assert torch.equal(seen[-1][0], found.model.weight)
    assert seen[-1][1].shape == (2,)
    assert not torch.equal(seen[0][0], seen[-1][0])


def test_a_callback_may_end_the_run_and_is_told_of_the_end_even_after_a_failure():
    found = run(callbacks=[Watcher(stop_after=5)])
    assert len(found.history) == found.state.round == 5
    failing = Watcher(fail_after=3)
    with pytest.raises(KeyboardInterrupt):
        run(callbacks=[failing])
    assert failing.told[-1] == "end"


def test_what_goes_on_from_a_checkpoint_is_told_of_the_rounds_before(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(callbacks=[Watcher(fail_after=5)], checkpoint=tmp_path)
    watcher = Watcher()
    run(callbacks=[watcher], checkpoint=tmp_path)
    assert watcher.told[0][-1] == 5
    assert watcher.told[1][0] == 6


def worse_after(best):
    """A learning rate that begins to shake after some rounds; the loss then rises."""
    return lambda t: 0.3 if t <= best else 50.0


def test_early_stopping_ends_a_run_that_gets_worse():
    whole = run(rounds=40, learning_rate=worse_after(10))
    losses = [(r.round, r.loss) for r in whole.history if r.tested]
    best = min(losses, key=lambda pair: pair[1])[0]
    found = run(
        rounds=40, learning_rate=worse_after(10), callbacks=[hw.EarlyStopping("loss", patience=3)]
    )
    assert found.history == whole.history[: len(found.history)]
    assert found.state.round == best + 3 * 2


def test_early_stopping_is_the_same_after_a_stop(tmp_path):
    settings = {"rounds": 40, "learning_rate": worse_after(10)}
    straight = run(**settings, callbacks=[hw.EarlyStopping(patience=3)])
    stops = [hw.EarlyStopping(patience=3), Watcher(fail_after=13)]
    with pytest.raises(KeyboardInterrupt):
        run(**settings, callbacks=stops, checkpoint=tmp_path)
    again = run(**settings, callbacks=[hw.EarlyStopping(patience=3)], checkpoint=tmp_path)
    assert again.history == straight.history
    once_more = run(**settings, callbacks=[hw.EarlyStopping(patience=3)], checkpoint=tmp_path)
    assert once_more.history == straight.history


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda: hw.EarlyStopping("f1"), r"EarlyStopping\(better\)"),
        (lambda: hw.EarlyStopping(patience=0), r"EarlyStopping\(patience\).*got 0"),
        (lambda: run(callbacks=[hw.EarlyStopping("mae")]), r"EarlyStopping\(metric\).*accuracy"),
        (lambda: run(callbacks=[print]), r"callbacks: "),
    ],
)
def test_mistakes_are_named(mistake, words):
    with pytest.raises(hw.InputError, match=words):
        mistake()


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_a_csv_log_has_one_line_per_round_even_after_a_stop(tmp_path):
    found = run(callbacks=[hw.CsvLog(tmp_path / "straight.csv")])
    straight = rows(tmp_path / "straight.csv")
    assert [int(row["round"]) for row in straight] == list(range(1, 13))
    assert float(straight[-1]["accuracy"]) == found.history[-1].accuracy
    assert straight[0]["accuracy"] == ""
    log, folder = tmp_path / "cut.csv", tmp_path / "folder"
    with pytest.raises(KeyboardInterrupt):
        run(callbacks=[hw.CsvLog(log), Watcher(fail_after=5)], checkpoint=folder)
    run(callbacks=[hw.CsvLog(log)], checkpoint=folder)
    assert rows(log) == straight


def test_a_csv_log_has_what_samples_say_as_they_arrive(tmp_path):
    found = run(callbacks=[hw.CsvLog(tmp_path / "log.csv")], prequential=True)
    logged = rows(tmp_path / "log.csv")
    pairs = zip(logged, found.history, strict=True)
    some = [(line, record) for line, record in pairs if record.arrived]
    assert some
    for line, record in some:
        assert float(line["prequential_accuracy"]) == record.prequential["accuracy"]
        assert float(line["prequential_loss"]) == record.prequential["loss"]
        assert int(line["arrived"]) == record.arrived
    assert "arrived" in found.to_frame().columns


def test_tensorboard_gets_every_number(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = run(callbacks=[hw.TensorBoardLog(tmp_path)])
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    accuracy = events.Scalars("accuracy")
    assert [event.step for event in accuracy] == [2, 4, 6, 8, 10, 12]
    assert accuracy[-1].value == pytest.approx(found.history[-1].accuracy)
    assert len(events.Scalars("move")) == 12


def test_mlflow_gets_every_number(tmp_path, monkeypatch):
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("GIT_PYTHON_REFRESH", "quiet")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as started:
        found = run(callbacks=[hw.MlflowLog()])
    client = mlflow.MlflowClient()
    history = client.get_metric_history(started.info.run_id, "accuracy")
    assert [point.step for point in history] == [2, 4, 6, 8, 10, 12]
    assert history[-1].value == found.history[-1].accuracy
    assert client.get_run(started.info.run_id).data.params["rounds"] == "12"


@pytest.mark.parametrize(
    ("log", "module"),
    [(lambda: hw.TensorBoardLog("x"), "torch.utils.tensorboard"), (hw.MlflowLog, "mlflow")],
)
def test_a_log_whose_package_is_missing_says_what_to_install(monkeypatch, log, module):
    import sys

    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(hw.InputError, match="pip install"):
        run(callbacks=[log()])


def test_a_bar_shows_rounds_and_the_last_test(capsys):
    run(progress=True)
    shown = capsys.readouterr().out
    assert "round 12/12" in shown
    assert "accuracy" in shown
    with pytest.raises(hw.InputError, match="progress"):
        run(progress="bar")
