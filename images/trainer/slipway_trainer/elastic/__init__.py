"""Training that goes on when workers are lost, and grows when they come back: docs/elastic.md.

A plain script becomes elastic with an index service in the place of its sampler and a controller
around its step. As a PyTorchJob with an elastic policy it needs no more; outside of one it is a
world of one worker.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slipway_trainer.elastic.service import RecordIndexService

if TYPE_CHECKING:
    from slipway_trainer.elastic.controller import PyTorchAllReduceController

__all__ = ["PyTorchAllReduceController", "RecordIndexService"]


def __getattr__(name: str) -> Any:
    """Import the controller when it is asked for, and torch with it: the rest needs none."""
    if name == "PyTorchAllReduceController":
        return import_module("slipway_trainer.elastic.controller").PyTorchAllReduceController
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
