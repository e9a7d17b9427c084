"""Training that continues when workers are lost, and admits new ones: docs/elastic.md."""

from slipway_trainer.data.index_service import RecordIndexService
from slipway_trainer.elastic.controller import PyTorchAllReduceController

__all__ = ["PyTorchAllReduceController", "RecordIndexService"]
