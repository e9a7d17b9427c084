"""Training that goes on when workers are lost, and grows when they come back.

A plain script becomes elastic with an index service in the place of its sampler and a controller
around its step::

    from slipway_trainer.elastic import PyTorchAllReduceController, RecordIndexService

    service = RecordIndexService(
        batch_size=64, dataset_size=len(dataset), num_epochs=1, shuffle=True, dataset_name="mnist"
    )
    loader = DataLoader(dataset, batch_sampler=service)  # in this process: num_workers=0
    controller = PyTorchAllReduceController(service)
    controller.set_broadcast_model(model)
    controller.set_broadcast_optimizer(optimizer)
    train_step = controller.elastic_run(train_one_batch)

    with controller.scope():
        for data, target in loader:
            loss = train_step(model, optimizer, data, target)

where ``train_one_batch`` is what it was without elasticity: zero the gradients, forward, the mean
loss over the batch, backward, ``optimizer.step()`` once, and return what is wanted of it. No
``init_process_group``, no DistributedDataParallel: the controller averages the gradients over the
workers there are, at the end of ``backward()``. A scheduler, a GradScaler or an average of the
weights travels along with ``controller.set_broadcast_state(scheduler=scheduler)``.

With an evaluation after each epoch, the loop is::

    with controller.scope():
        for epoch in service.epochs():
            for data, target in loader:
                train_step(model, optimizer, data, target)
            accuracy = controller.agree(f"accuracy {epoch}", evaluate)

``evaluate`` looks at ``controller.rank`` and ``controller.size`` to take its share of the test set,
and at ``controller.sum(...)`` to add up the workers' counts; it is called again when the world
changed under it, and its result (anything JSON can hold) becomes part of the job's state.

As a PyTorchJob with an elastic policy it needs no more; outside of one it is a world of one
worker. docs/elastic.md says how it works and what its limits are.
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
