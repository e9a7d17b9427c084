"""Of real ranks that train together, the one that the others wait for is known, and no other."""

from pathlib import Path

import pytest

from jobs.observe.progress import Paces
from tests.trainer.conftest import Opened, free_port

_SCRIPTS = Path(__file__).with_name("scripts")
_RANKS, _SECONDS = 3, 24
"""A rank reports its pace after 20 s."""
_PODS = """
for rank in 0 1 2; do
    mkdir /out/$rank
    RANK=$rank WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 OMP_NUM_THREADS=1 \
        SLIPWAY_OUTPUT_DIR=/out/$rank/files timeout 200 \
        python3 -m slipway_trainer.launch -- /scripts/straggler.py > /out/$rank/log 2>&1 &
    pids="$pids $!"
done
for pid in $pids; do wait $pid; done
"""


@pytest.mark.long
@pytest.mark.parametrize(("slow", "place"), [(1, "data"), (0, "compute"), (_RANKS, "none")])
def test_the_rank_that_the_others_wait_for_is_named_with_where_its_time_goes(
    image: Opened, tmp_path: Path, slow: int, place: str
) -> None:
    tmp_path.chmod(0o777)
    variables = (f"MASTER_PORT={free_port()}", f"SLOW={slow}", f"IN={place}", f"SECONDS={_SECONDS}")
    image.run("env", *variables, "sh", "-c", _PODS, mounts={tmp_path: "/out", _SCRIPTS: "/scripts"})
    logs = [(tmp_path / str(rank) / "log").read_text() for rank in range(_RANKS)]
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
