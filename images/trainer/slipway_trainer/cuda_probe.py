"""Calculate something on this container's GPU and tell what came of it.

    python3 -m slipway_trainer.cuda_probe

It exits with 0 whatever it finds, and leaves it as its termination message, one JSON object:
`device` is `cuda` when a product of matrices calculated on the GPU is right; otherwise it is `none`
with the `reason`, and `driver` tells whether the node's kernel has NVIDIA's driver at all.
"""

import os
from pathlib import Path
from typing import Any

import torch

from slipway import termination

_DRIVER = Path("/proc/driver/nvidia/version")
"""There as soon as the node's kernel has loaded the driver, in any container:
https://download.nvidia.com/XFree86/Linux-x86_64/580.95.05/README/procinterface.html"""
_SIZE = 512


def probe(driver: Path = _DRIVER) -> dict[str, Any]:
    """Return what this container's GPU is, or why there is none to calculate on."""
    found: dict[str, Any] = {
        "torch": torch.__version__,
        "driver": driver.read_text().partition("\n")[0] if driver.exists() else None,
        "node": os.environ.get("NODE_NAME", ""),
    }
    if torch.version.cuda is None:
        return found | {"device": "none", "reason": "the image's torch is built for CPUs"}
    found["cuda"] = torch.version.cuda
    try:
        name = _calculate()
    except (RuntimeError, AssertionError) as error:  # torch raises both for want of a driver
        return found | {"device": "none", "reason": f"{type(error).__name__}: {error}"}
    return found | {
        "device": "cuda",
        "device_name": name,
        "devices": torch.cuda.device_count(),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
    }


def _calculate() -> str:
    """Multiply two matrices on the GPU and return its name; raise `RuntimeError` if it can't."""
    device = torch.device("cuda")
    ones = torch.ones(_SIZE, _SIZE, device=device)
    total = float((ones @ ones).sum())
    if total != float(_SIZE) ** 3:
        raise RuntimeError(f"the sum of a product of ones is {total:g} and not {_SIZE**3}")
    return str(torch.cuda.get_device_name(device))


if __name__ == "__main__":
    termination.leave(probe())
