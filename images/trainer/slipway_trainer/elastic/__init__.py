"""Training that goes on when workers are lost, and grows when they come back: docs/elastic.md."""

from slipway_trainer.data.index_service import RecordIndexService
from slipway_trainer.elastic.controller import PyTorchAllReduceController

__all__ = ["PyTorchAllReduceController", "RecordIndexService"]
