"""Record which ranks a process trains with, and detect ranks that train separately.

`sitecustomize.py` calls `watch` at a process's first backward pass. A process group counts its
operations, whoever calls them: the script, DDP's C++ code, FSDP, or a layer split over ranks. If it
counted any between a backward pass and the end of the optimizer step (or the next pass), its ranks
train together. Other operations, such as barriers and metric reductions, mostly come after a step.
"""
# ruff: noqa: SLF001 - torch has no public interface for this

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from slipway.events import Events, own_rank
from slipway.pace import Pace

MET = -1
"""In a record: ranks communicated, but not between a backward pass and its optimizer step."""
# Modules that join ranks in other ways; NCCL does not count messages between pipeline stages.
_OTHERS = (
    "horovod",
    "mpi4py",
    "torchft",
    "slipway_trainer.elastic",
    "torch.distributed.pipelining",
)


def watch(autograd: Any) -> None:
    """Watch each backward pass, unless this is a helper process, or ranks use RPC or similar."""
    rpc = sys.modules.get("torch.distributed.rpc.api")
    has_rpc = rpc is not None and getattr(rpc, "_is_current_rpc_agent_set", bool)()
    if not (multiprocessing.parent_process() or has_rpc or any(map(sys.modules.get, _OTHERS))):
        _Watch(autograd)


class _Watch:
    """Counts the operations in a process's groups, and records the ranks it trains with."""

    def __init__(self, autograd: Any) -> None:
        from torch import compiler, distributed  # noqa: PLC0415 - torch is loaded by now
        from torch.optim import optimizer  # noqa: PLC0415 - as above

        self._is_compiling, self._dist = compiler.is_compiling, distributed
        self._path = Path(os.environ["SLIPWAY_MESSAGE_DIR"], f"trained-{os.getpid()}.json")
        self._counts: dict[Any, int] = {}
        self._with: set[int] = set()
        self._in_step = self._is_known = False
        self._note()
        optimizer.register_optimizer_step_post_hook(self._stepped)
        self._pace = _pace(distributed)
        self._run, autograd._engine_run_backward = autograd._engine_run_backward, self._backward

    def _backward(self, *arguments: Any, **options: Any) -> Any:
        self._look()
        self._in_step = True
        run = partial(self._run, *arguments, **options)
        return run() if self._pace is None else self._pace.backward(run)

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        if not self._is_compiling():  # compiled code does not run this hook
            self._look(optimizer)
            self._in_step = False
            if self._pace is not None:
                self._pace.step()

    def _look(self, optimizer: Any = None) -> None:
        if not self._is_known:
            try:
                self._compare(optimizer)
            except Exception:  # noqa: BLE001 - it must not fail the training
                self._is_known = True
                self._path.unlink(missing_ok=True)

    def _compare(self, optimizer: Any) -> None:
        """Record the process groups that have run operations since the last call."""
        dist, before = self._dist, len(self._with)
        if optimizer is not None and MET in self._with:
            # A model that is split over ranks may communicate only in its forward pass.
            weights = (each for group in optimizer.param_groups for each in group["params"])
            meshes = {each.device_mesh for each in weights if hasattr(each, "device_mesh")}
            self._with |= {int(each.mesh.min()) for each in meshes if each.mesh.numel() > 1}
        for group in tuple(dist.distributed_c10d._world.pg_map) if dist.is_initialized() else ():
            backends = map(group._get_backend, group._device_types)
            count = sum(each._get_sequence_number_for_group() for each in backends)
            grown, self._counts[group] = count > self._counts.get(group, count), count
            if grown and len(ranks := dist.get_process_group_ranks(group)) > 1:
                self._with.add(min(ranks) if self._in_step else MET)
                self._is_known |= self._in_step and len(ranks) == dist.get_world_size()
        if len(self._with) > before:
            self._note()

    def _note(self) -> None:
        """Write the current record, since the program may end at any time."""
        dist, world = self._dist, [own_rank(), 1]
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            world = [dist.get_rank(), dist.get_world_size()]
        self._path.write_text(json.dumps([*world, *sorted(self._with)]))


def _pace(distributed: Any) -> Pace | None:
    """Start measuring this rank's steps, and return the `Pace`.

    Returns None if the rank trains alone or uses no DataLoader.
    """
    loader = sys.modules.get("torch.utils.data.dataloader")
    is_one = distributed.is_available() and distributed.is_initialized()
    if loader is None or not is_one or distributed.get_world_size() < 2:
        return None
    return Pace(Events(distributed.get_rank()), loader, sys.modules["torch"].cuda.is_initialized())


def noted(directory: Path) -> list[list[int]]:
    """Return the records of a pod's processes: rank, world size, and each group's lowest rank.

    If some processes trained with others, the rest are helpers and are left out.
    """
    notes = {tuple(json.loads(path.read_text())) for path in directory.glob("trained-*.json")}
    return [list(note) for note in sorted(filter(_is_joined, notes)) or sorted(notes)]


def _is_joined(note: Sequence[int]) -> bool:
    return max(note[2:], default=MET) > MET


def apart(notes: Iterable[Sequence[int]]) -> dict[str, Any] | None:
    """Summarize which ranks train separately, from all pods' records; None if all train together.

    Pods that report the same rank and world size are in separate worlds.
    """
    every, groups = list(notes), list[set[tuple[int, int]]]()
    joined, alone = filter(_is_joined, every), [note for note in every if not _is_joined(note)]
    copies = Counter[tuple[int, int]]()
    for rank, size, *others in joined:
        copies[size, rank] += 1
        own = {(size, each) for each in (rank, *others) if each > MET}
        touched = [each for each in groups if each & own]
        groups = [each for each in groups if each not in touched] + [own.union(*touched)]
    worlds = len(alone) + max(len(groups), *copies.values(), 0)
    largest, has_met = max((note[1] for note in every), default=0), any(MET in n for n in alone)
    summary = {"ranks": len(every), "worlds": worlds, "largest": largest, "met": has_met}
    return summary if worlds > 1 else None
