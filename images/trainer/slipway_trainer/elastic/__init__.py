"""Training that goes on when workers are lost, and grows when they come back: docs/elastic.md.

A plain script becomes elastic with an index service in the place of its sampler and a controller
around its step. As a PyTorchJob with an elastic policy it needs no more; outside of one it is a
world of one worker.
"""

from slipway_trainer.data.index_service import RecordIndexService
from slipway_trainer.elastic.controller import PyTorchAllReduceController

__all__ = ["PyTorchAllReduceController", "RecordIndexService"]
