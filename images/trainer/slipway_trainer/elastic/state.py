"""The state of a job, as one worker hands it to all the others."""

import io
from typing import Any

import torch
import torch.distributed as dist


def hand_over(state: dict[str, Any] | None, source: int, device: torch.device) -> dict[str, Any]:
    """Return the state that the rank `source` gave; the other ranks give None.

    Raises:
        RuntimeError: a worker was lost.
    """
    packed = torch.empty(0, dtype=torch.uint8)
    if state is not None:
        buffer = io.BytesIO()
        torch.save(state, buffer)
        packed = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
    size = torch.tensor([len(packed)])
    dist.broadcast(size, source)
    if state is None:
        packed = torch.empty(int(size), dtype=torch.uint8)
    dist.broadcast(packed, source)
    if state is not None:
        return state
    received: dict[str, Any] = torch.load(
        io.BytesIO(packed.numpy().tobytes()), map_location=device, weights_only=True
    )
    return received
