"""Goes on when a replica is lost."""

from slipway_trainer.elastic import PyTorchAllReduceController, RecordIndexService

service = RecordIndexService(batch_size=64, dataset_size=60_000, num_epochs=1, shuffle=True)
controller = PyTorchAllReduceController(service)
