"""Choose between bfloat16 and float32, by measuring their speed on the machines in use.

Not every CPU with bfloat16 instructions is faster with them: an AMD EPYC trains MNIST 1.4 times
as fast, an Intel Xeon 0.65 times. So `choose` measures both before training starts.
"""

import copy
import time
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

PROBED = 32
"""The maximum number of samples in a measured step."""
WORTH_IT = 1.1
"""The minimum speed-up for choosing bfloat16; below it, the choice would be random."""
_TYPES = ("fp32", "bf16")
DTYPES: Mapping[str, str] = {"float32": "fp32", "bfloat16": "bf16"}
"""The short name of each type, keyed by the value of --precision; auto is left out."""


def choose(
    net: nn.Module, images: Tensor, labels: Tensor, total: Callable[..., list[float]]
) -> tuple[str, float | None]:
    """Return fp32 or bf16, and the speed of bf16 relative to fp32; the same on all ranks.

    Trains a copy of `net` on a few images. `total` sums over all ranks, and all of them must call
    this. GPUs with bf16 instructions are always faster with them, so they are not measured.
    """
    is_cuda = images.device.type == "cuda"
    has_bf16 = (
        torch.cuda.is_bf16_supported(including_emulation=False)
        if is_cuda
        else torch.cpu._is_avx512_bf16_supported()  # noqa: SLF001
    )
    is_measured = has_bf16 and not is_cuda
    seconds = _measured(net, images, labels) if is_measured else dict.fromkeys(_TYPES, 0.0)
    lacking, fp32, bf16 = total(0 if has_bf16 else 1, seconds["fp32"], seconds["bf16"])
    if lacking > 0:
        return "fp32", None
    if is_cuda:
        return "bf16", None
    ratio = fp32 / bf16
    return "bf16" if ratio >= WORTH_IT else "fp32", round(ratio, 2)


def _measured(net: nn.Module, images: Tensor, labels: Tensor) -> dict[str, float]:
    """Return the time that the fastest step took, in seconds, for each of `_TYPES`."""
    probed = copy.deepcopy(net).train()

    def step(name: str) -> float:
        began = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=name == "bf16"):
            output = probed(images)
        F.cross_entropy(output.float(), labels).backward()
        return time.perf_counter() - began

    # Dropout changes the random state.
    with torch.random.fork_rng(devices=[]):
        for name in _TYPES:
            step(name)  # warm-up of each type
        rounds: list[dict[str, float]] = []
        until = time.perf_counter() + 0.2
        while len(rounds) < 6 and (not rounds or time.perf_counter() < until):
            rounds.append({name: step(name) for name in _TYPES})
    return {name: min(each[name] for each in rounds) for name in _TYPES}
