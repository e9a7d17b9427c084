"""Training that goes on when workers are lost, and grows when they come back.

A plain script becomes elastic with an index service in the place of its sampler and a controller
around its step::

    service = RecordIndexService(batch_size=64, dataset_size=len(dataset), num_epochs=1)
    loader = DataLoader(dataset, batch_sampler=service)  # in this process: num_workers=0
    controller = PyTorchAllReduceController(service)
    controller.set_broadcast_model(model)
    controller.set_broadcast_optimizer(optimizer)
    train_step = controller.elastic_run(train_one_batch)

    with controller.scope():
        for data, target in loader:
            loss = train_step(model, optimizer, data, target)

As a PyTorchJob with an elastic policy it needs no more; outside of one it is a world of one
worker. docs/elastic.md says what ``train_one_batch`` has to do, how to evaluate after each epoch,
how all this works, and what its limits are.
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
