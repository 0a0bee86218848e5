"""A whole ServerApp: the model of the nodes, learned with the settings of the run.

Used by ``headwater fleet``; for an app of your own take ``examples/flower_app`` as a start.
"""

from __future__ import annotations

import logging
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from headwater.devices.node.models import build
from headwater.devices.settings.node_file import read
from headwater.flower.strategy import StreamFedAvg
from headwater.ledger.registry import named

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One run; started again with the same checkpoint folder, it goes on where it was."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    settings = context.run_config
    folder = Path(str(settings["checkpoint"]))
    strategy = StreamFedAvg(
        named(str(settings["strategy"])) if settings["strategy"] else None,
        local_steps=int(settings["local-steps"]),
        batch_size=int(settings["batch-size"]) or None,
        learning_rate=float(settings["learning-rate"]),
        seed=int(settings["seed"]),
        norm_limit=float(settings["norm-limit"]) or None,
        min_clients=int(settings["min-clients"]),
        deadline=float(settings["deadline"]),
        ask_again=float(settings["ask-again"]),
        evaluate_every=int(settings["evaluate-every"]),
        checkpoint=folder,
    )
    arrays = initial(Path(str(settings["node"])), int(settings["seed"]))
    result = strategy.start(grid, arrays, num_rounds=int(settings["num-rounds"]) or None)
    result.save(folder)


def initial(node_file: Path, seed: int) -> ArrayRecord:
    """The model that a node's settings describe, with parameters drawn by the run's seed."""
    node = read(node_file)
    torch.manual_seed(seed)
    return ArrayRecord(build(node.samples.sample_schema, node.model).state_dict())
