"""How workers come together, again and again, with no coordinator that could be lost.

A world forms through torch's own c10d rendezvous, each generation under a run id of its own, on the
store of one worker: the host. That is the first, by index, of the last world's members that still
answers. Whoever comes to it first after a loss opens the next generation for all members that
answer and all newcomers that knocked. Nobody else takes part in it, so newcomers can neither take
a survivor's place nor form a world of their own while somebody holds the job's model.

A newcomer asks all its peers for the newest world and knocks at that one's host. Where nobody knows
of a world, worker 0 is the host of the first one, and waits for all to knock, or a grace time.
"""

import time
from dataclasses import replace
from threading import Thread
from typing import Any

from torch.distributed import DistError, Store
from torch.distributed.elastic.rendezvous import RendezvousError

from slipway_trainer.elastic.board import Member, Opening, Record, Snapshot
from slipway_trainer.elastic.peers import Peers, Sight, meet
from slipway_trainer.elastic.settings import Settings

GRACE_SECONDS = 10.0
"""How long the first world waits for workers beyond the least number of them."""
PATIENCE_SECONDS = 6.0
"""How long a world that others opened, without this worker, may take to form."""
POLL_SECONDS = 0.2
RIVAL_SECONDS = 3.0
"""How often the host of a world that lacks workers looks for another world of the same job."""


class JobDone(Exception):
    """The others have completed the job; `outcome` is what it came to."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        super().__init__("the job is done")
        self.outcome = outcome


class Rendezvous:
    """This worker's way into one world after another."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.peers = Peers(settings)
        self.me = self.peers.me
        self._world: Record | None = None
        self._tried: set[tuple[Member, int]] = set()
        self._began = time.monotonic()
        self._last_problem = ""
        self._has_rival = False
        Thread(target=self._watch, name="rivals", daemon=True).start()

    @property
    def member(self) -> bool:
        """Whether this worker belongs to the newest world that it knows of."""
        return self._world is not None and self.me in self._world.members

    @property
    def _is_host(self) -> bool:
        return self._world is not None and self.me == self._world.host

    @property
    def _newest(self) -> int:
        return self._world.generation if self._world is not None else 0

    def newcomers(self) -> bool:
        """Return whether this is the host, and the world has to form again for others.

        For somebody who knocked; or because there is a further world, to which this one gives way:
        workers that could not see each other for a while may have gone on in two.
        """
        if self._world is None or not self._is_host:
            return False
        waiting = self.peers.board.content.waiting
        return self._has_rival or any(guest not in self._world.members for guest in waiting)

    def next_world(self, seconds: float, least: int) -> tuple[Record, Store]:
        """Return the next world, once it has formed with this worker in it, and its store.

        It has `least` workers at least.

        Raises:
            JobDone: the others need no next one.
            TimeoutError: it did not form within so many seconds; names who was missing.
        """
        deadline = time.monotonic() + seconds
        while True:
            sights = self.peers.look()
            self._learn(sights)
            host = self._host(sights)
            try:
                if host is not None:
                    opening = self._invitation(host, sights, least)
                    if opening is not None:
                        self._tried.add((host.content.owner, opening.generation))
                        return meet(self.settings.job, self.me, host.store, opening, least)
            except (DistError, RendezvousError, OSError) as problem:
                # The host or another guest was lost on the way; look again who is there.
                self._last_problem = f"; last: {type(problem).__name__}: {problem}"
            if time.monotonic() > deadline:
                raise TimeoutError(self._missing(sights, seconds, least))
            time.sleep(POLL_SECONDS)

    def publish(self, record: Record) -> None:
        """Say which world this worker is in."""
        self._world, self._has_rival = record, False
        self.peers.board.publish(record)

    def conclude(self, outcome: dict[str, Any]) -> None:
        """Say what the job came to: nobody needs a further world."""
        if self._world is not None:
            self.publish(replace(self._world, outcome=outcome))

    def tell(self, indices: set[int], seconds: float) -> None:
        """Wait until the workers of `indices` have asked, and been told that the job is done."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not indices <= self.peers.board.told:
            time.sleep(POLL_SECONDS)
        time.sleep(POLL_SECONDS)  # the last one has its answer by then

    def _learn(self, sights: dict[Member, Sight]) -> None:
        """Take over what others know of newer worlds than this worker's."""
        for record in _records(sights):
            if record.outcome is not None:
                raise JobDone(record.outcome)
            if self._world is None or record.claim > self._world.claim:
                self._world = record

    def _watch(self) -> None:
        while True:
            time.sleep(RIVAL_SECONDS)
            world = self._world
            if world and self._is_host and len(world.members) < self.settings.maximum:
                records = _records(self.peers.look())
                if any(record.claim > world.claim for record in records):
                    self._has_rival = self._world is world

    def _host(self, sights: dict[Member, Sight]) -> Sight | None:
        if self._world is None:
            return next((sight for member, sight in sights.items() if member.index == 0), None)
        members = sorted(self._world.members)
        return next((sights[each] for each in members if each in sights), None)

    def _invitation(self, host: Sight, sights: dict[Member, Sight], least: int) -> Opening | None:
        """Return a world that this worker is invited to; open it where that is this one's part."""
        if not self.member and host.content.owner != self.me:
            return self._knock(host)
        content = host.ask()
        opening = content.opening
        if opening is not None and self._is_untried(host, opening):
            if opening.invites(self.me):
                return opening
            # Others went ahead without this worker. If they fail, too, it opens the next one.
            invitation = self._knock(host)
            self._tried.add((host.content.owner, opening.generation))
            return invitation
        guests = self._guests(content, sights)
        if len(guests) < least or not (self.member or self._first_may_begin(guests)):
            return None
        generation = max(self._newest, opening.generation if opening is not None else 0) + 1
        incarnations = tuple(guest.incarnation for guest in guests)
        opened = host.ask(opening=Opening(generation, incarnations, len(content.knocks))).opening
        return opened if opened and opened.invites(self.me) else None

    def _knock(self, host: Sight) -> Opening | None:
        """Ask for a place in the next world, and wait a while for the invitation."""
        until = time.monotonic() + PATIENCE_SECONDS
        opening = host.ask(knock=self.me).opening
        while time.monotonic() < until:
            if opening and self._is_untried(host, opening) and opening.invites(self.me):
                return opening
            time.sleep(POLL_SECONDS)
            opening = host.ask().opening
        return None

    def _is_untried(self, host: Sight, opening: Opening) -> bool:
        key = (host.content.owner, opening.generation)
        return opening.generation > self._newest and key not in self._tried

    def _guests(self, content: Snapshot, sights: dict[Member, Sight]) -> list[Member]:
        """Return who is to be in the next world."""
        if self._world is None:
            invited = {*content.knocks, self.me}
        else:
            invited = {*self._world.members, *content.waiting, self.me}
        return [each for each in sorted(invited) if each in sights]

    def _first_may_begin(self, guests: list[Member]) -> bool:
        waited = time.monotonic() - self._began
        return len(guests) == self.settings.maximum or waited > GRACE_SECONDS

    def _missing(self, sights: dict[Member, Sight], seconds: float, least: int) -> str:
        seen = {member.index for member in sights}
        silent = [
            f"{index} ({host}:{port})"
            for index, (host, port) in enumerate(self.settings.peers)
            if index not in seen
        ]
        return (
            f"worker {self.settings.index} waited {seconds:.0f} s for a world of at least {least} "
            f"workers; {len(sights)} answer, these do not: {', '.join(silent) or 'none'}"
            f"{self._last_problem}"
        )


def _records(sights: dict[Member, Sight]) -> list[Record]:
    return [sight.content.record for sight in sights.values() if sight.content.record]
