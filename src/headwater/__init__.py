"""Headwater: one model from many data streams, on devices that can keep only a few samples each.

The public names stand in ``__init__.pyi``. Each is loaded when it is first used, so that the
content-free floor (arrivals, memory, weights, ledger, planner) is there at once and PyTorch only
when something is learned.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"
