"""The server's side: plan the shares, add up, average, resume."""

import logging
from importlib import import_module
from pathlib import Path

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from headwater.flower import StreamFedAvg
from headwater.ledger.registry import named

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One run; started again with the same checkpoint folder, it goes on where it was."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # Flower's polling is not worth a line
    settings = context.run_config
    module, _, name = str(settings["model"]).partition(":")
    model = getattr(import_module(module), name)()
    strategy = StreamFedAvg(
        named(str(settings["strategy"])) if settings["strategy"] else None,
        local_steps=int(settings["local-steps"]),
        batch_size=int(settings["batch-size"]) or None,
        learning_rate=float(settings["learning-rate"]),
        seed=int(settings["seed"]),
        min_clients=int(settings["min-clients"]),
        deadline=float(settings["deadline"]),
        ask_again=float(settings["ask-again"]),
        checkpoint=str(settings["checkpoint"]) or None,
    )
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(model.state_dict()),
        num_rounds=int(settings["num-rounds"]) or None,
    )
    if settings["checkpoint"]:
        result.save(Path(str(settings["checkpoint"])))
