"""What can go wrong on a cluster, done to runs on emulated hosts.

Each fault is done to a run of four jobs of one process on two nodes under gang scheduling, so
that at any moment a process is held on each node. Jobs 0 and 2 run on the first node, 1 and 3
on the second, to which the faults are done unless they are done to the driver.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netns_cluster import Cluster
from runs import command, eventually, state

PHASES = 9000
"""About a second of CPU time for each job."""


Do = Callable[[Cluster], None]


@dataclass(frozen=True)
class Fault:
    """A fault: what is done, and which jobs must finish all the same."""

    what: str
    do: Do
    survivors: tuple[int, ...]
    undo: Do = lambda cluster: None


@dataclass(frozen=True)
class Outcome:
    """What became of the run: what the driver told (None if it cannot), and times in seconds.

    ``released_s`` is how long after the fault nothing was held any more where the fault was
    done, and nothing of the run was left there.
    """

    told: dict[str, Any] | None
    released_s: float
    remains: tuple[str, ...]


def part(host, sign):
    """The pid of the process on a host whose command line contains ``sign``."""
    found = eventually(lambda: [pid for pid in host.processes() if sign in " ".join(command(pid))])
    assert found, f"no {sign} on {host.name}"
    return int(found[-1])


def send(sign, signum=signal.SIGKILL, *, head=False):
    """Send a signal to a part of the second node, or of the head."""
    return lambda cluster: os.kill(part(cluster.head if head else cluster.nodes[1], sign), signum)


def fill_disk(cluster):
    """Leave no byte in the second node's runtime directory."""
    host = cluster.nodes[1]
    place = str(host.root / "runtime")
    script = f"mount -o remount,size=1m {place}; cat /dev/zero > {place}/filler"
    subprocess.run(host.enter("bash", "-c", script), capture_output=True, check=False)


FAULTS = {
    "agent killed": Fault("SIGKILL to an agent", send("coordinator.node.agent"), (0, 2)),
    "agent stopped": Fault("SIGSTOP to an agent", send("coordinator.node.agent", signal.SIGSTOP), (0, 2)),
    "launcher killed": Fault(
        "SIGKILL to the launcher of all agents", send("coordinator.node.agent", head=True), (0, 1, 2, 3)
    ),
    "guardian killed": Fault("SIGKILL to a guardian", send("coordinator.host.guardian"), ()),
    "rank killed": Fault("SIGKILL to a rank", send("workloads.rank"), (0, 2)),
    "network cut": Fault(
        "a node's network cut off",
        lambda cluster: cluster.nodes[1].plug(False),
        (0, 2),
        undo=lambda cluster: cluster.nodes[1].plug(True),
    ),
    "node lost": Fault("a node's power cut off", lambda cluster: cluster.nodes[1].end(), (0, 2)),
    "driver killed": Fault("SIGKILL to the driver", send("runs.py", head=True), ()),
    "driver stopped": Fault(
        "SIGSTOP to the driver",
        send("runs.py", signal.SIGSTOP, head=True),
        (),
        undo=send("runs.py", signal.SIGCONT, head=True),
    ),
    "disk full": Fault("a node's disk filled up", fill_disk, (0, 1, 2, 3)),
}


def start(cluster, **options):
    script = Path(__file__).with_name("runs.py")
    return cluster.start([sys.executable, str(script), json.dumps({"hosts": cluster.hosts, **options})])


def inject(cluster, fault, seed, **options):
    """Do a fault at a random moment of a run with these ``options``, and judge how the run ends."""
    chosen = {"policy": "gang", "mechanism": "signals", "jobs": 4, "processes": 1, "phases": PHASES}
    run = start(cluster, **chosen | options)
    node = cluster.nodes[1]
    assert eventually(lambda: any(state(pid) == "T" for pid in node.processes())), "nothing is held"
    time.sleep(random.Random(seed).uniform(0, 0.3))
    everywhere = not fault.survivors
    fault.do(cluster)
    begin_s = time.monotonic()
    places = [*cluster.nodes] if everywhere else [node]
    if len(fault.survivors) < 4:
        eventually(lambda: not any(place.processes() for place in places))
    released_s = time.monotonic() - begin_s
    fault.undo(cluster)
    try:
        out, _ = run.communicate(timeout=40)
    except subprocess.TimeoutExpired:
        run.kill()
        raise
    told = json.loads(out) if out else None
    eventually(lambda: not cluster.processes())
    left = [f"{pid} {state(pid)} {' '.join(command(pid))[:80]}" for pid in cluster.processes()]
    left += [path for path in cluster.files() if not path.endswith("filler")]
    return Outcome(told, released_s, tuple(left))
