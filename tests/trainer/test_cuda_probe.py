"""The program that tries a GPU, in the image for CPUs: it says why there is none, and ends well."""

import json

from tests.trainer.conftest import Opened

_PROBE = """
import json
from pathlib import Path
from slipway_trainer import cuda_probe
Path("/tmp/driver").write_text("NVRM version: 580.95\\nGCC version: 13\\n")
print(json.dumps([cuda_probe.probe(Path(name)) for name in ("/tmp/none", "/tmp/driver")]))
"""
_FAKED = """
import json, torch
from pathlib import Path
from slipway_trainer import cuda_probe
torch.version.cuda = "12.8"  # what an image with CUDA says, on a node without a GPU
print(json.dumps(cuda_probe.probe(Path("/tmp/none"))))
"""


def test_a_torch_for_cpus_is_told_as_such_and_whether_there_is_a_driver(image: Opened) -> None:
    without, with_driver = json.loads(image.run("python3", "-c", _PROBE))
    assert without["device"] == with_driver["device"] == "none"
    assert without["reason"] == "the image's torch is built for CPUs"
    assert without["driver"] is None
    assert with_driver["driver"] == "NVRM version: 580.95"


def test_a_gpu_that_is_not_there_is_told_in_torchs_words(image: Opened) -> None:
    found = json.loads(image.run("python3", "-c", _FAKED))
    assert found["device"] == "none"
    assert "CUDA" in found["reason"]


def test_it_ends_well_whatever_it_finds(image: Opened) -> None:
    assert image.run("python3", "-m", "slipway_trainer.cuda_probe") == ""
