"""What may watch a run and end it: logs, a bar, early stopping, and callbacks of one's own."""

from headwater.learning.callbacks.bar import ProgressBar
from headwater.learning.callbacks.callback import Beginning, Callback, Callbacks
from headwater.learning.callbacks.early_stopping import EarlyStopping
from headwater.learning.callbacks.logs import CsvLog, MlflowLog, TensorBoardLog

__all__ = [
    "Beginning",
    "Callback",
    "Callbacks",
    "CsvLog",
    "EarlyStopping",
    "MlflowLog",
    "ProgressBar",
    "TensorBoardLog",
]
