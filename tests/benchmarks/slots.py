"""How late short slots begin, and what they cost a gang: three BARRIER jobs beside their dedicated runs.

    python -P tests/benchmarks/slots.py [--quanta 10,5,2,1] [--rounds 5] [--python]

Each round runs the job alone, then all three under each quantum, the quanta in turns. A row has the median
over the rounds of the makespan over three times the job's time alone in the same round, with least and most,
the lateness of all changes of slot, and how many runs failed. ``--python`` adds rows for the agent without
its helper in C. Started by a user without privileges, it shows what is left then. On a busy host
``--mechanism realtime`` says most: its jobs, also the one alone, run before the programs of others.
Are runs lost?

    python -P tests/benchmarks/slots.py --quanta 1 --rounds 50 --seconds 0.2
"""

import math
import os
import statistics
import sys
import tempfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import headed, parsed, shown, tabled
from runs import workload

from coordinator.drive.driver import run_workload

JOBS = 3


class SlotRow:
    """What was measured with slots of one length, with the helper or without it."""

    def __init__(self, quantum_ms, in_python):
        self.quantum_ms, self.in_python, self.agent = quantum_ms, in_python, ""
        self.slowdowns, self.late_us, self.lost = [], [], []

    def add(self, result, alone_s):
        self.agent = result.nodes[0].priority
        if reason := failure(result):
            self.lost.append(reason)
            return
        self.slowdowns.append(makespan_s(result) / (JOBS * alone_s))
        self.late_us += [switch.switch_delay_ns / 1e3 for switch in result.switches]

    def show(self):
        late = statistics.quantiles(self.late_us, n=100) if len(self.late_us) > 1 else [math.nan] * 99
        slowdown = shown(self.slowdowns or [math.nan], ".3f")
        lateness = f"{late[49]:.0f} / {late[89]:.0f} / {late[98]:.0f}"
        lost = f"{len(self.lost)} of {len(self.slowdowns) + len(self.lost)}"
        tabled(f"{self.quantum_ms:g}", slowdown, lateness, len(self.late_us), lost, self.agent)


def failure(result):
    return next(filter(None, [result.failure, *(job.failure for job in result.jobs)]), "")


def makespan_s(result):
    return max(job.finish_ns or 0 for job in result.jobs) / 1e9


def ran(options, quantum_ms=None, in_python=False):
    """The run of one job alone, or of JOBS with slots of ``quantum_ms``."""
    phases = round(options.seconds * 1e6 / options.granularity_us)
    shared = {"granularity_us": options.granularity_us, "phases": phases, "timeout_s": 300.0}
    if quantum_ms is None:
        local = "rr" if options.mechanism == "realtime" else "other"
        return run_workload(workload("none", jobs=1, local=local, **shared))
    slots = {"options": {"quantum_ms": quantum_ms}, "mechanism": options.mechanism}
    # Without a compiler on its PATH and with an empty cache, an agent changes slots in Python.
    with tempfile.TemporaryDirectory() as empty:
        hidden = {"XDG_CACHE_HOME": empty, "PATH": str(Path(sys.executable).parent)} if in_python else {}
        with mock.patch.dict(os.environ, hidden):
            return run_workload(workload("gang", jobs=JOBS, **slots, **shared))


def main():
    options = parsed(
        __doc__,
        quanta={"default": "10,5,2,1", "help": "in milliseconds"},
        seconds={"default": 1.0, "help": "of work of each job"},
        python={"default": False, "help": "also without the helper in C"},
        **{"rounds": 5, "granularity_us": 1000.0, "mechanism": "signals"},
    )
    ways = (False, True) if options.python else (False,)
    rows = [SlotRow(float(quantum_ms), way) for quantum_ms in options.quanta.split(",") for way in ways]
    for number in range(options.rounds):
        alone = ran(options)
        if reason := failure(alone):
            raise SystemExit(f"the job alone has failed: {reason}")
        for at in range(len(rows)):
            row = rows[(number + at) % len(rows)]
            row.add(ran(options, row.quantum_ms, row.in_python), makespan_s(alone))
        said = f"round {number + 1} of {options.rounds}: alone {makespan_s(alone):.3f} s"
        print(said, file=sys.stderr, flush=True)
    late = "late, us: 50 / 90 / 99 %"
    headed("slots, ms", "workload slowdown (least-most)", late, "changes", "lost", "agent")
    for row in rows:
        row.show()
    for reason in sorted({reason for row in rows for reason in row.lost}):
        print(f"lost: {reason}")


if __name__ == "__main__":
    main()
