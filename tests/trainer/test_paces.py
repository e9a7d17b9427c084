"""Of real ranks that train together, the one that the others wait for is known, and no other."""

from pathlib import Path

import pytest

from jobs.observe.progress import Paces
from tests.trainer.conftest import Opened

_SCRIPTS = Path(__file__).with_name("scripts")
_RANKS, _SECONDS = 3, 24
"""A rank reports its pace after 20 s."""
_STRAGGLER = ("python3", "-m", "slipway_trainer.launch", "--", "/scripts/straggler.py")


@pytest.mark.long
@pytest.mark.parametrize(("slow", "place"), [(1, "data"), (0, "compute"), (_RANKS, "none")])
def test_the_rank_that_the_others_wait_for_is_named_with_where_its_time_goes(
    image: Opened, tmp_path: Path, slow: int, place: str
) -> None:
    variables = {"SLOW": slow, "IN": place, "SECONDS": _SECONDS, "SLIPWAY_OUTPUT_DIR": "/out/files"}
    image.pods(tmp_path, *_STRAGGLER, ranks=_RANKS, env=variables, more={_SCRIPTS: "/scripts"})
    logs = [(tmp_path / f"{rank}.out").read_text() for rank in range(_RANKS)]
    paces = Paces(_RANKS)
    for log in logs:
        assert '"event": "pace"' in log, log[-3000:]
        for line in log.splitlines():
            paces.see(line)
    assert [*paces.slow] == ([slow] if slow < _RANKS else []), logs
    for text in paces.slow.values():
        parts = text.partition(": ")[2].split(", ")
        largest = max(parts, key=lambda each: float(each.split()[1]))
        assert largest.split()[0] == place, text
