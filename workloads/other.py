"""Jobs other than bulk-synchronous programs: sequential, interactive, or any command.

Source: Dusseau, Arpaci, Culler 1996, sections 1 and 8, which ask what coscheduling and implicit
scheduling do to interactive jobs beside parallel ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from workloads.bounds import ALONE_S, within
from workloads.validation import InputError, one_of


@dataclass(frozen=True)
class SequentialWork:
    """One process that computes.

    Attributes:
        work_s: its processor time.
    """

    work_s: float
    processes: ClassVar[int] = 1

    def __post_init__(self) -> None:
        within("jobs.work_s", self.work_s)


@dataclass(frozen=True)
class InteractiveWork:
    """One process that answers a user: it alternates between think times and bursts of computation.

    A burst's *response time* runs from the end of the think time before it to the end of the burst.
    The next think time begins then.

    Attributes:
        burst_ms: processor time of a burst.
        think_ms: how long the process sleeps before each burst.
        bursts: how many there are.
    """

    burst_ms: float
    think_ms: float
    bursts: int
    processes: ClassVar[int] = 1

    def __post_init__(self) -> None:
        within("jobs.burst_ms", self.burst_ms)
        within("jobs.think_ms", self.think_ms)
        within("jobs.bursts", self.bursts)
        if self.bursts * (self.burst_ms + self.think_ms) / 1e3 > ALONE_S:
            rule = f"that many bursts take longer than {ALONE_S:g} s alone"
            raise InputError("bursts", self.bursts, rule, "give fewer, or shorter ones")


@dataclass(frozen=True)
class Command:
    """Any MPI program, as it is.

    Attributes:
        argv: what each rank executes.
        processes: how many ranks there are.
        launcher: the mpiexec that starts them; empty for the launcher of the run.
        dedicated_s: approximate run time alone; it determines time-outs.
        waits: "mpi", as its MPI waits, or "two-phase", by the run's rule (``workloads.native``).
        record: whether its dedicated runs are recorded.
        recording: a file with a recording of it, by which it is simulated; empty for that of a dedicated run.
    """

    argv: tuple[str, ...]
    processes: int = 1
    launcher: str = ""
    dedicated_s: float = 60.0
    waits: str = "mpi"
    record: bool = False
    recording: str = ""

    def __post_init__(self) -> None:
        if not self.argv or not all(isinstance(word, str) and word for word in self.argv):
            raise InputError("argv", self.argv, "must be a program and its arguments", 'write ["./my_app"]')
        within("jobs.processes", self.processes)
        within("jobs.dedicated_s", self.dedicated_s)
        one_of("waits", self.waits, ("mpi", "two-phase"))
        if not isinstance(self.record, bool):
            raise InputError("record", self.record, "must be true or false", "write record = true")
        if not isinstance(self.recording, str) or "\0" in self.recording:
            rule = "must be the name of a file"
            raise InputError("recording", self.recording, rule, "write what lockstep observe -o has written")
