"""One of the replicas that `lost_replica` starts: trains, and notes each batch and each step.

python3 -m tests.trainer.bench.replica PLACE DATA REPLICA WAY
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from slipway_trainer.demos import mnist
from slipway_trainer.elastic import PyTorchAllReduceController, RecordIndexService

REPLICAS, BATCH, EPOCH = 3, 64, 60_000
PORT = 29510
_RATE = 0.01
_FILES = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")


class Replica:
    """A network in training, which is the same whoever keeps the replicas together."""

    def __init__(self, data: Path) -> None:
        torch.manual_seed(1)
        self.net = mnist.Net()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=_RATE, momentum=0.9)
        files = [bytearray((data / f"{name}-ubyte").read_bytes()) for name in _FILES]
        pictures, labels, tests, answers = [
            torch.frombuffer(each, dtype=torch.uint8) for each in files
        ]
        self.pictures, self.tests = (each[16:].view(-1, 1, 28, 28) for each in (pictures, tests))
        self.labels, self.answers = labels[8:].long(), answers[8:].long()

    def rate(self, size: int) -> None:
        """Fit the learning rate to the number of replicas."""
        for group in self.optimizer.param_groups:
            group["lr"] = _RATE * size

    def loss(self, model: nn.Module, indices: list[int]) -> Tensor:
        """Return the mean loss of a batch."""
        pictures = (self.pictures[indices].float() / 255 - 0.1307) / 0.3081
        return F.cross_entropy(model(pictures), self.labels[indices])

    def end(self) -> None:
        """Note the accuracy that the network has."""
        with torch.no_grad():
            found = self.net((self.tests.float() / 255 - 0.1307) / 0.3081).argmax(1)
        _note("end", accuracy=(found == self.answers).double().mean().item())


def _note(event: str, **values: object) -> None:
    print(json.dumps({"note": event, "time": time.time(), **values}), flush=True)


def _slipway(replica: Replica) -> None:
    service = RecordIndexService(BATCH, EPOCH)
    controller = PyTorchAllReduceController(service, lambda change: replica.rate(change.size))
    controller.set_broadcast_model(replica.net)
    controller.set_broadcast_optimizer(replica.optimizer)

    def train(indices: list[int]) -> None:
        replica.optimizer.zero_grad()
        replica.loss(replica.net, indices).backward()
        replica.optimizer.step()

    train_step = controller.elastic_run(train)
    with controller.scope():
        for indices in service:
            step = service.ledger.step
            _note("begun", indices=service.share())
            train_step(indices)
            if service.ledger.step > step:
                _note("made", step=step, size=controller.size, counts=True)
    replica.end()


def _torchft(replica: Replica, place: Path, number: int, order: str, *limits: str) -> None:
    import torchft as ft  # noqa: PLC0415 - Slipway's way needs none

    limit: Any = {"timeout": timedelta(seconds=float(limits[0]))} if limits else {}
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    parts = {"net": replica.net, "optimizer": replica.optimizer}
    manager = ft.Manager(
        pg=ft.ProcessGroupGloo(**limit), min_replica_size=1, rank=0, world_size=1, init_sync=False,
        state_dict=lambda: {name: part.state_dict() for name, part in parts.items()},
        load_state_dict=lambda state: [parts[name].load_state_dict(state[name]) for name in parts],
        store_addr="127.0.0.1", store_port=store.port, hostname="127.0.0.1",
        lighthouse_addr=f"http://127.0.0.1:{PORT}", replica_id=f"replica_{number}", **limit,
    )  # fmt: skip
    model = ft.DistributedDataParallel(manager, replica.net)
    optimizer = ft.Optimizer(manager, replica.optimizer)
    # A replica that is given the state gets the others' learning rate just before its step.
    replica.optimizer.register_step_pre_hook(lambda *_: replica.rate(manager.num_participants()))
    (place / f"{number}.ready").touch()
    while len([*place.glob("*.ready")]) < REPLICAS:
        time.sleep(0.01)
    for indices in _batches(manager, optimizer, number, order):
        _note("begun", indices=indices)
        # At the end of the order a replica may have no samples left.
        (replica.loss(model, indices or [0]) * bool(indices)).backward()
        size, step = manager.num_participants(), manager.current_step()
        optimizer.step()
        if manager.current_step() > step:
            _note("made", step=step, size=size, counts=manager.is_participating())
    replica.end()
    manager.shutdown(wait=False)


def _batches(manager: Any, optimizer: Any, number: int, order: str) -> Iterator[list[int]]:
    """Yield this replica's batches, each after `zero_grad`, with which torchft begins a step."""
    from torchft import DistributedSampler  # noqa: PLC0415 - as above

    every = range(EPOCH)
    if order == "quorum":
        samples = random.Random(1).sample(every, EPOCH)  # noqa: S311
    else:
        samples = [*DistributedSampler(every, number, REPLICAS, group_rank=0, num_replicas=1)]
    batches = [samples[start : start + BATCH] for start in range(0, len(samples), BATCH)]
    made = manager.batches_committed if order == "quorum" else manager.current_step
    begun = 0
    while made() < len(batches):
        optimizer.zero_grad()
        place = made()
        if order == "quorum":
            place += manager.participating_rank() or 0
        elif order == "loader":
            place = begun % len(batches)
        yield batches[place] if place < len(batches) else []
        begun += 1


def main(place: str, data: str, number: str, way: str) -> None:
    """Train as `way` says."""
    torch.set_num_threads(1)
    replica, (kind, *rest) = Replica(Path(data)), way.split(":")
    _note("ready")
    sys.stdin.read()
    if kind == "slipway":
        _slipway(replica)
    else:
        _torchft(replica, Path(place), int(number), *rest)


if __name__ == "__main__":
    main(*sys.argv[1:])
