"""Programs of jobs that tests run, none of which needs torch."""

from typing import Any

from tests.engine.awaiting import COMMAND_SECONDS
from tests.engine.pytorchjob_stack import Jobs

# A program without torch whose ranks meet as the real ones do: the others try until rank 0 listens,
# and rank 0 goes on once all are there.
MEETING = """
import json, os, socket, sys, time
rank, others = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) - 1
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    # Who connects and says nothing is the init container, which only waits for an answer.
    with socket.create_server(("", address[1])) as server:
        while others > 0:
            others -= server.accept()[0].recv(1) == b"x"
else:
    for _ in range(100):
        try:
            socket.create_connection(address, timeout=5).send(b"x")
            break
        except OSError:
            time.sleep(0.1)
    else:
        sys.exit("rank 0 does not listen")
"""
FAILING = f"""{MEETING}
if rank == 1:
    print("rank 1 is about to fail", flush=True)
    sys.exit(3)
time.sleep(600)
"""
SLEEPING = f"""{MEETING}
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end and not os.path.exists("/work/enough"):
    time.sleep(0.1)
summary = {{"rank": rank, "accuracy": 0.5, "samples_seen": 10}}
with open("/dev/termination-log", "w") as log:
    json.dump(summary, log)
"""
HUNGRY = f"""{MEETING}
if rank == 1:
    everything = bytearray(1 << 30)
time.sleep(600)
"""
FOLLOWED = """
import os, socket, sys, time
rank, address = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
class DistNetworkError(RuntimeError):  # torch's, without the seconds that its import takes
    __module__ = "torch.distributed"
if rank == 0:
    with socket.create_server(("", address[1])) as server:
        while (peer := server.accept()[0]).recv(1) != b"x":
            pass
    while peer.recv(1):
        pass
    raise DistNetworkError("Connection reset by peer")
for _ in range(100):
    try:
        with socket.create_connection(address, timeout=5) as peer:
            peer.send(b"x")
            time.sleep(1)
            print("rank 1 is about to fail", flush=True)
            peer.close()
            # The other rank has ended before this one has.
            time.sleep(0.5)
            os._exit(3)
    except OSError:
        time.sleep(0.1)
"""
"""Rank 1 fails, and takes rank 0 along, which ends first."""
SUMMARY = """
import os, sys, time
time.sleep(float(sys.argv[2]))
with open("/dev/termination-log", "w") as log:
    log.write(sys.argv[1])
"""
"""One rank that returns what it is told to, after some seconds."""

TALKING = f"""{MEETING}
last, pause = int(sys.argv[1]), float(sys.argv[2])
fails_once = len(sys.argv) > 3 and rank == int(sys.argv[3]) and not os.path.exists("/work/once")
open("/work/once", "w").close()
for number in range(last):
    print(f"{{rank}} says {{number}}", flush=True)
    print(f"{{rank}} errs {{number}}", file=sys.stderr, flush=True)
    if fails_once and number == 2:
        sys.exit(7)
    if os.path.exists("/work/enough"):
        break
    time.sleep(pause)
"""
"""Every rank counts, to both of its outputs, and ends early with a file /work/enough.

One may fail once on its way.
"""
RESUMING = """
import slipway
state = slipway.latest() or {"step": 0, "starts": []}
starts = [*state["starts"], state["step"]]
for step in range(state["step"] + 1, 7):
    if slipway.due(step):
        slipway.save({"starts": starts}, step=step)
    if step == 2 * len(starts) < 6:
        raise SystemExit(3)
slipway.finish(accuracy=0.5, began_at=state["step"], attempts=len(starts))
"""
"""One rank of six steps, which fails after the second and the fourth and goes on from there."""
REFUSED = {"a..b/team": "x"}
"""Labels that only the API server refuses."""
REFUSAL = "prefix part a lowercase RFC 1123 subdomain must consist of"
"""What it says to them."""
WITHOUT_END = "10000"
"""How far it counts that is to talk until it is told that it is enough."""


def enough(jobs: Jobs, job: str, *replicas: str) -> None:
    """End replicas that talk or sleep."""
    for replica in replicas:
        jobs.kubectl("exec", f"{job}-{replica}-0", "--", "touch", "/work/enough")


def python(image: str, program: str, *args: str, **fields: Any) -> dict[str, Any]:
    """Return the declaration of a job that runs `program`."""
    return {
        "image": image,
        "command": ["python3", "-c", program],
        "args": list(args),
        "cpu": "100m",
        "memory": "128Mi",
        "timeout": COMMAND_SECONDS,
        **fields,
    }
