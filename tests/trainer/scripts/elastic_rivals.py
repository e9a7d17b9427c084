# ruff: noqa: T201 - it prints, as scripts do
"""Three workers of one job in one process, of which the first two come to be in a world each."""

import json
import os
import socket
import time

from slipway_trainer.membership.board import Record
from slipway_trainer.membership.rendezvous import RIVAL_SECONDS, Rendezvous
from slipway_trainer.membership.settings import ElasticSettings

ports = []
for _ in range(3):
    with socket.create_server(("127.0.0.1", 0)) as free:
        ports.append(free.getsockname()[1])
peers = tuple(("127.0.0.1", port) for port in ports)
first, second, third = (Rendezvous(ElasticSettings(index, peers, 1, 0), 0) for index in range(3))
together = Record(1, (first.me, second.me, third.me))
for worker in (first, second, third):
    worker.publish(together)
time.sleep(RIVAL_SECONDS + 1)
before = [worker.newcomers() for worker in (first, second, third)]
first.publish(Record(2, (first.me, third.me)))
second.publish(Record(2, (second.me,)))
time.sleep(2 * RIVAL_SECONDS)
after = [worker.newcomers() for worker in (first, second)]
for worker in (first, second):
    worker._learn(worker.look())
newest = [worker._world for worker in (first, second)]
member = [
    world is not None and worker.me in world.members
    for worker, world in zip((first, second), newest, strict=True)
]
told = {"event": "rivals", "before": before, "after": after, "member": member}
print(json.dumps(told), flush=True)
os._exit(0)
