"""The policy ``preempt`` and a real Slurm: which jobs run after which, in 20 scenes on four processors.

``python tests/benchmarks/slurm_preemption.py``

Starts a Slurm of one node for each setting, on this host, with ``AuthType=auth/none`` and ports of its own;
submits the jobs of each scene at their times, and looks at their states five times a second. Needs root and
Debian's slurmctld and slurmd; takes some four minutes. Prints Markdown. A set of jobs that runs for less than
1.2 s counts as a change in progress. Slurm holds a requeued job back for two minutes; that is lifted here.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import numpy as np
from benchmark import headed, tabled

from coordinator import policies
from coordinator.view import Submitter
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.model import WHOLE_NS, rigid

PROCESSORS = 4
TIERS = {"low": 1, "mid": 2, "high": 3}
LASTING_S = 1.2
LOOK_S = 0.2
PATIENCE_S = 70.0
FIRST_PORT = 17_420

CONFIGURATION = """
ClusterName=scenes
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
TmpFS={root}/tmp
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
KillWait=2
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode={mode}
SchedulerTimeSlice=5
NodeName=n0 NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs={processors}
"""
PARTITION = """
PartitionName={name} Nodes=ALL MaxTime=INFINITE OverSubscribe={share} PriorityTier={tier} GraceTime={grace}
""".strip()


@dataclass(frozen=True)
class Setting:
    """What Slurm and the policy are told, and scenes: partition, size, arrival and length of each job."""

    mode: str
    share: str
    options: dict
    scenes: tuple[str, ...]
    in_turn: bool = False


SETTINGS = (
    Setting(
        "SUSPEND,GANG",
        "FORCE:1",
        {"mode": "suspend"},
        (
            "l3@0x14 l1@0x14 h2@3x5",
            "l1@0x14 l1@0x14 h3@3x5",
            "l2@0x14 l1@0x14 l1@0x14 h1@3x5",
            "l2@0x14 m2@0x14 h1@3x5",
            "m2@0x16 l2@2x14 h1@5x5",
            "l4@0x12 h2@3x10 l2@5x4 m2@7x3",
            "h3@0x8 l2@2x4",
            "l4@0x8 m4@3x9 h4@6x4",
            "l4@0x8 h4@3x4 l4@5x4",
        ),
    ),
    Setting(
        "REQUEUE",
        "NO",
        {"mode": "requeue"},
        (
            "l1@0x12 l1@0x12 h3@3x6",
            "l2@0x12 l1@0x12 l1@0x12 h1@3x5",
            "l2@0x12 l1@0x12 l1@0x12 h2@3x5",
            "l1@0x12 l1@0x12 l2@0x12 h2@3x5",
            "m2@0x14 l2@2x8 h1@5x5",
            "l4@0x6 m4@3x8 h4@6x4",
            "l1@0x14 l3@0x8 h2@3x5",
        ),
    ),
    Setting(
        "SUSPEND,GANG",
        "FORCE:2",
        {"mode": "suspend", "rows": 2, "quantum_ms": 5000},
        ("l4@0x12 l4@1x12", "l4@0x14 l4@1x14 h4@8x4", "l2@0x14 l4@1x14 l2@2x14"),
        in_turn=True,
    ),
    Setting("REQUEUE", "NO", {"mode": "requeue", "grace_s": 4}, ("l4@0x8 h4@3x5",)),
)


@dataclass(frozen=True)
class Submission:
    """A job of a scene."""

    name: str
    partition: str
    size: int
    arrival_s: int
    run_s: int


def submissions(scene):
    found = []
    for number, word in enumerate(scene.split()):
        letter, size, arrival_s, run_s = re.fullmatch(r"([lmh])(\d)@(\d+)x(\d+)", word).groups()
        partition = {"l": "low", "m": "mid", "h": "high"}[letter]
        found.append(Submission(f"{letter}{number}", partition, int(size), int(arrival_s), int(run_s)))
    return found


def decided(scene, setting):
    """What the policy decides: the names of the jobs that run, one set after the other."""
    jobs = submissions(scene)
    columns = rigid(
        np.array([job.arrival_s for job in jobs]) * WHOLE_NS,
        np.array([job.size for job in jobs]),
        np.array([job.run_s for job in jobs]) * WHOLE_NS,
    )
    columns = replace(columns, submitters=tuple(Submitter(partition=job.partition) for job in jobs))
    plans = []
    event_by_event.simulate(
        columns,
        PROCESSORS,
        policies.create("preempt", {"tiers": TIERS, **setting.options}),
        watch=lambda plan, at_ns: plans.append((at_ns, plan)),
    )
    sets = []
    for (at_ns, plan), (until_ns, _) in pairwise(plans):
        for slot in range(len(plan.decision.slots) if until_ns > at_ns else 0):
            sets.append(frozenset(jobs[number].name for number in plan.decision.running(slot)))
    return told(sets, setting.in_turn)


def told(sets, in_turn):
    """Sets of names as a text, without empty ones: all that differ if jobs take turns, else each change."""
    changes = []
    for one in sets:
        if one and (one not in changes if in_turn else changes[-1:] != [one]):
            changes.append(one)
    return ", ".join("+".join(sorted(one)) for one in (sorted(changes, key=sorted) if in_turn else changes))


class Slurm:
    """A Slurm of one node in a folder."""

    def __init__(self, root, setting, port):
        self.root = root
        for name in ("state", "spool", "tmp"):
            (root / name).mkdir()
        host = socket.gethostname().partition(".")[0]
        text = CONFIGURATION.format(
            **{"root": root, "host": host, "port": port, "node_port": port + 1},
            mode=setting.mode,
            processors=PROCESSORS,
        )
        grace = round(setting.options.get("grace_s", 0))
        for name, tier in TIERS.items():
            text += PARTITION.format(name=name, tier=tier, share=setting.share, grace=grace) + "\n"
        (root / "slurm.conf").write_text(text)
        self._environment = {**os.environ, "SLURM_CONF": str(root / "slurm.conf")}
        self._environment["PATH"] += ":/usr/sbin"
        self.call("slurmctld")
        self.call("slurmd", "-N", "n0")
        end_s = time.monotonic() + PATIENCE_S
        while self.call("sinfo", "-h", "-p", "low", "-t", "idle", "-o", "%D").strip() != "1":
            if time.monotonic() > end_s:
                raise SystemExit(f"Slurm does not come up: {(root / 'slurmctld.log').read_text()[-500:]}")
            time.sleep(0.2)

    def call(self, *argv):
        return subprocess.run(argv, env=self._environment, check=False, capture_output=True, text=True).stdout

    def play(self, scene):
        """The sets of jobs that run, one after the other, each for LASTING_S at least."""
        jobs, sets, since_s = submissions(scene), [], time.monotonic()
        begin_s = since_s
        while True:
            now_s = time.monotonic()
            while jobs and jobs[0].arrival_s <= now_s - begin_s:
                self._submit(jobs.pop(0))
            listed = [line.split("|") for line in self.call("squeue", "-h", "-o", "%i|%j|%t|%r").splitlines()]
            for number, _, state, reason in listed:
                if state == "PD" and reason == "BeginTime":
                    self.call("scontrol", "update", f"JobId={number}", "StartTime=now")
            running = frozenset(name for _, name, state, _ in listed if state == "R")
            if not sets or sets[-1][0] != running:
                sets.append([running, now_s, now_s])
            sets[-1][2] = now_s
            if not jobs and not listed:
                return [one for one, first_s, last_s in sets if last_s - first_s >= LASTING_S]
            if now_s > begin_s + PATIENCE_S:
                self.call("scancel", "--user=root")
                return [frozenset(["not over"])]
            time.sleep(LOOK_S)

    def _submit(self, job):
        work = f"for i in $(seq {job.run_s * 10}); do sleep 0.1; done"
        options = [f"--partition={job.partition}", f"--ntasks={job.size}", f"--job-name={job.name}"]
        self.call("sbatch", *options, "--requeue", "--output=/dev/null", f"--wrap={work}")

    def end(self):
        self.call("scancel", "--user=root")
        time.sleep(1)
        for name in ("slurmd", "slurmctld"):
            file = self.root / f"{name}.pid"
            if file.exists():
                pid = int(file.read_text())
                os.kill(pid, signal.SIGTERM)
                while Path(f"/proc/{pid}").exists() and file.exists():
                    time.sleep(0.1)


@contextmanager
def slurm(setting, port):
    with tempfile.TemporaryDirectory(prefix="preempt-", ignore_cleanup_errors=True) as folder:
        started = Slurm(Path(folder), setting, port)
        try:
            yield started
        finally:
            started.end()


def compared(setting, port):
    """A row of the table for each scene of a setting."""
    rows = []
    with slurm(setting, port) as real:
        real.play("l1@0x1")  # the first job of a new Slurm takes longer to start
        for scene in setting.scenes:
            seen, ours = told(real.play(scene), setting.in_turn), decided(scene, setting)
            rows.append(
                [f"{setting.mode}, {setting.share}", scene, ours, seen if seen != ours else "the same"]
            )
    return rows


def main():
    with ThreadPoolExecutor(len(SETTINGS)) as pool:
        ports = range(FIRST_PORT, FIRST_PORT + 10 * len(SETTINGS), 10)
        rows = [row for part in pool.map(compared, SETTINGS, ports) for row in part]
    headed("Slurm", "jobs", "preempt", "Slurm ran")
    for row in rows:
        tabled(*row)
    print(f"\n{sum(row[-1] == 'the same' for row in rows)} of {len(rows)} are the same.")


if __name__ == "__main__":
    main()
