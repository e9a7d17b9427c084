"""The workers' repeated rendezvous, without torch, and without a coordinator that could be lost.

The next world forms through one worker, the host: the lowest-index member of the last world that is
still responding. All workers ask its board to join. For a while, a member of the last world waits
for all other members that respond. Only members open a world, so new workers can neither replace a
survivor nor form their own world while a member has the job's model.

A new worker asks all its peers for the newest world, and then asks that world's host to join. If no
worker knows of a world, worker 0 hosts the first, and waits for all others for a grace period.
"""

import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from threading import Thread
from typing import Any

from slipway_trainer.membership import board
from slipway_trainer.membership.board import Board, Knock, Record, Snapshot, index_of, together
from slipway_trainer.membership.settings import Address, ElasticSettings

LOOK_SECONDS = 2.5
"""Time limit for querying all other workers in parallel."""
LAST_CALL_SECONDS = LOOK_SECONDS + 1.5
"""Time to wait for members that respond but do not ask to join: they may be querying others."""
GRACE_SECONDS = 10.0
"""The time that the first world waits for more workers than the minimum."""
PATIENCE_SECONDS = 6.0
"""The time to ask one host before querying all workers again: by then, a world formed or failed."""
POLL_SECONDS = 0.2
RIVAL_SECONDS = 3.0
"""Interval at which the host of an incomplete world checks whether the job has another world."""


@dataclass(eq=False)
class JobDone(Exception):
    """The other workers have completed the job with `outcome`."""

    outcome: dict[str, Any]


@dataclass(frozen=True)
class Sight:
    """A worker that is responding."""

    content: Snapshot
    """The content of that worker's board."""
    host: str
    query: Callable[..., Snapshot]
    """Reads that worker's board again: `Board.respond`, with this worker as the reader."""


class Rendezvous:
    """Brings this worker into one world after another; its store listens on `store_port`."""

    def __init__(self, settings: ElasticSettings, store_port: int) -> None:
        self.settings = settings
        self.me = f"{settings.index:06}-{uuid.uuid4().hex[:12]}"
        self.board = Board(self.me, store_port)
        self._world: Record | None = None
        self._tried = 0
        self._began = time.monotonic()
        self._has_rival = False
        host, port = settings.peers[settings.index]
        try:
            board.serve(self.board, port)
        except OSError as error:
            raise RuntimeError(
                f"worker {settings.index} can't listen on port {port}, where the others connect "
                f"to it as {host}: {error}"
            ) from error
        Thread(target=self._watch, name="rivals", daemon=True).start()

    @property
    def _newest(self) -> int:
        return max(self._tried, 0 if self._world is None else self._world.generation)

    def newcomers(self) -> bool:
        """Return whether this worker is the host and must form a new world to include others.

        Either a new worker has asked to join, or another world takes precedence over this one:
        workers that could not reach each other for a while may have continued in two worlds.
        """
        if self._world is None or self.me != self._world.members[0]:
            return False
        waiting = self.board.waiting()
        return self._has_rival or any(guest not in self._world.members for guest in waiting)

    def next_world(self, seconds: float, least: int) -> tuple[Record, Address]:
        """Return the next world, which includes this worker, and the address of its store.

        The world has at least `least` workers. Raises `JobDone`, or after `seconds` a
        `TimeoutError` that lists the missing workers.
        """
        deadline = time.monotonic() + seconds
        while True:
            sights = self.look()
            self._learn(sights)
            host = self._host(sights)
            opening = None if host is None else self._invitation(host, sights, least)
            if host is not None and opening is not None:
                self._tried = opening.generation
                return opening, (host.host, host.content.store_port)
            if time.monotonic() > deadline:
                raise TimeoutError(self._missing(sights, seconds, least))
            time.sleep(POLL_SECONDS)

    def publish(self, record: Record) -> None:
        """Publish this worker's world."""
        self._world, self._has_rival = record, False
        self.board.publish(record)

    def conclude(self, outcome: dict[str, Any]) -> None:
        """Publish the job's outcome; no further world forms after that."""
        if self._world is not None:
            self.publish(replace(self._world, outcome=outcome))

    def linger(self, indices: set[int], seconds: float) -> None:
        """Wait until the workers with these `indices` have read the job's outcome."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not indices <= self.board.informed:
            time.sleep(POLL_SECONDS)
        time.sleep(POLL_SECONDS)  # for the last response to arrive

    def look(self) -> dict[str, Sight]:
        """Return this worker and those that respond within LOOK_SECONDS, keyed by name."""
        own = self.settings.index
        others = {
            index: partial(_sight, address, self.me)
            for index, address in enumerate(self.settings.peers)
            if index != own
        }
        sights = together(LOOK_SECONDS, others)
        sights[own] = Sight(self.board.content, "127.0.0.1", partial(self.board.respond, self.me))
        return {
            sight.content.owner: sight
            for index, sight in sights.items()
            if index_of(sight.content.owner) == index
        }

    def _learn(self, sights: dict[str, Sight]) -> None:
        """Adopt the newest world that other workers know; raise `JobDone` if the job is done."""
        for record in _records(sights):
            if record.outcome is not None:
                raise JobDone(record.outcome)
            if self._world is None or record.claim > self._world.claim:
                self._world = record

    def _watch(self) -> None:
        while True:
            time.sleep(RIVAL_SECONDS)
            world = self._world
            if world is None or self.me != world.members[0]:
                continue
            if len(world.members) < len(self.settings.peers):
                has_rival = any(each.claim > world.claim for each in _records(self.look()))
                self._has_rival = has_rival and self._world is world

    def _host(self, sights: dict[str, Sight]) -> Sight | None:
        if self._world is None:
            return next((sights[each] for each in sights if index_of(each) == 0), None)
        return next((sights[each] for each in self._world.members if each in sights), None)

    def _invitation(self, host: Sight, sights: dict[str, Sight], least: int) -> Record | None:
        """Ask the host to join, and return the world that it opens with this worker, or None."""
        began, others = time.monotonic(), 0
        while (waited := time.monotonic() - began) < PATIENCE_SECONDS:
            expected = None if others else self._expected(sights, waited)
            try:
                opening = host.query(knock=Knock(self._newest, least, expected)).opening
            except OSError:
                return None  # the host was lost
            if opening is not None and opening.generation > self._newest:
                if self.me in opening.members:
                    return opening
                others = opening.generation
            time.sleep(POLL_SECONDS)
        # Others continued without this worker. If they failed, it may open the next world.
        self._tried = max(self._tried, others)
        return None

    def _expected(self, sights: dict[str, Sight], waited: float) -> tuple[int, ...] | None:
        """Return indices of workers that the next world must wait for; None if others decide."""
        if self._world is None and self.settings.index == 0:
            is_late = time.monotonic() > self._began + GRACE_SECONDS
            return () if is_late else tuple(range(len(self.settings.peers)))
        if self._world is None or self.me not in self._world.members:
            return None
        answering = (index_of(each) for each in self._world.members if each in sights)
        return () if waited > LAST_CALL_SECONDS else tuple(answering)

    def _missing(self, sights: dict[str, Sight], seconds: float, least: int) -> str:
        answering = {index_of(member) for member in sights}
        silent = [
            f"{index} ({host}:{port})"
            for index, (host, port) in enumerate(self.settings.peers)
            if index not in answering
        ]
        return (
            f"worker {self.settings.index} waited {seconds:.0f} s for a world of at least {least} "
            f"workers; responding: {len(sights)}; not responding: {', '.join(silent) or 'none'}"
        )


def _sight(address: Address, reader: str) -> Sight:
    # One DNS lookup for all requests to this worker.
    host = str(socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][4][0])
    request = partial(board.query, (host, address[1]), reader)
    return Sight(request(), host, request)


def _records(sights: dict[str, Sight]) -> list[Record]:
    return [sight.content.record for sight in sights.values() if sight.content.record]
