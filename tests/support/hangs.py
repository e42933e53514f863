"""Ranks that hang (``native/hangs.c``): by what command, and what must be said of them."""

import json
import re
import subprocess
import threading
import time
from dataclasses import dataclass

from native_programs import LOCKSTEP

from harness.analyse.rank_report import NO_CONCLUSION

RANKS = 4
COLLECTIVE = "in MPI_Barrier on MPI_COMM_WORLD"

VERDICTS = {
    "large-sends": "ranks 0-1 wait for each other: .* in MPI_Send.* none of them has begun to receive",
    "tag": "ranks 0-1 wait for each other: .*in MPI_(Recv|Mprobe)",
    "communicator": "ranks 0-1 wait for each other: .*in MPI_Recv",
    "skipped": "ranks 0, 3 wait for each other: rank 0 for rank 3 in MPI_Allreduce",
    "other-collective": "collective calls differ on .*rank 3 in MPI_Barrier",
    "orders": "ranks 0, 3 wait for each other: .*MPI_Barrier.*MPI_Barrier",
    "loop": f"rank 3 is missing: ranks 0-2 wait for it {COLLECTIVE}",
    "read": f"rank 3 is missing: ranks 0-2 wait for it {COLLECTIVE}",
    "lock": f"rank 3 is missing: ranks 0-2 wait for it {COLLECTIVE}",
    "mutex": f"rank 3 is missing: ranks 0-2 wait for it {COLLECTIVE}",
    "waitall": "ranks 0-3 wait for each other: .*MPI_Waitall",
    "half": "^rank 0 is missing: rank 2 waits for it in MPI_Allreduce on a communicator of 2 [^;]*$",
    "fence": "ranks 0, 3 wait for each other: rank 0 for rank 3 in MPI_Win_fence",
    "iprobe": f"rank 3 is missing: ranks 0-2 wait for it {COLLECTIVE}",
    "init": "rank 3 has not come: ranks 0-2 wait for it in MPI_Init",
    "threads": "ranks 0, 3 wait for each other: ",
    "finalize": "rank 0 is in MPI_Finalize, and rank 1 waits for it in MPI_Recv",
    "grid": "ranks 0, 3 wait for each other: rank 0 for rank 3 in MPI_Allreduce",
    "stopped": f"rank 3 is missing: ranks 0-2 wait for it {COLLECTIVE}",
    "exit": f"rank 3 has ended: ranks 0-2 wait for it {COLLECTIVE}",
    "spawn": "ranks 0-3 wait in MPI_Comm_spawn on MPI_COMM_WORLD, and no process that they started has come",
    "late": "rank 3 is missing: ranks 0-2 wait for it in MPI_Finalize",
    "callback": "ranks? .*3 (is|are) in MPI_Finalize, and no rank has yet to come there",
}
"""The right verdict for each kind of hang."""

BY_THEMSELVES = ("small-sends",)
"""These kinds end, and are not reported."""

ENDED_BY_LAUNCHERS = ("exit",)
"""Of these, the launcher may end the job before it is stuck."""

LANGUAGES = {
    "hangs.c": (*VERDICTS, *BY_THEMSELVES),
    "hangs.f90": ("large-sends", "skipped", "waitall"),
    "hangs.py": ("other-collective", "read", "tag"),
}
"""The kinds that each program in ``native`` has."""

LINES = {
    "loop": r"rank 3: not in MPI for \d+ s, after MPI_Allreduce; computing",
    "read": r"rank 3: not in MPI for \d+ s, after MPI_Allreduce; asleep in read\(\d+\)",
    "lock": r"asleep in flock\(\d+\)",
    "mutex": r"asleep in futex\(\)",
    "stopped": r"rank 3: not in MPI .*; stopped",
    "iprobe": r"rank 3: polls with MPI_Iprobe for \d+ s",
    "waitall": r"rank 1: in MPI_Waitall for 2 requests, .*: MPI_Irecv from rank 2, tag 6, MPI_COMM_WORLD",
    "tag": r"rank 1: in MPI_(Recv|Mprobe) from rank 0, tag 4, MPI_COMM_WORLD",
    "grid": r'ranks 0-2: in MPI_Allreduce on a communicator of 4 \("grid", from MPI_Cart_create\)',
    "threads": r"rank 3: in MPI_Recv from rank [01], .* and in MPI_Recv from rank [01], tag [89]",
    "half": "ranks 1, 3: at work, last with MPI_Allreduce",
}
"""What a line of the report must say, too."""


@dataclass(frozen=True)
class Hang:
    """A hang as ``exec --stuck`` has reported it, the last time: ranks that begin late may be one before.

    ``reported_s`` and ``ended_s`` are when it was reported, and when the command had ended, in seconds after
    the time that ranks may be stuck; None without a report, or if it is not known when the ranks had begun.
    """

    kind: str
    status: int
    report: dict
    stderr: str
    reported_s: float | None = None
    ended_s: float | None = None

    @property
    def verdict(self):
        return self.report.get("verdict", "")

    @property
    def judgement(self):
        """ "right", NO_CONCLUSION, "not reported", or "wrong" with the verdict."""
        if self.kind in BY_THEMSELVES:
            return "right" if (self.status, self.report) == (0, {}) else f"wrong: {self.verdict}"
        if not self.report and self.status != 124:
            return "right" if self.kind in ENDED_BY_LAUNCHERS else "did not hang"
        if not self.report:
            return "not reported"
        if self.verdict == NO_CONCLUSION:
            return NO_CONCLUSION
        return "right" if re.search(VERDICTS[self.kind], self.verdict) else f"wrong: {self.verdict}"


def _read(stream, lines):
    """Take lines with the times at which they come."""
    for line in stream:
        lines.append((time.monotonic(), line))


def _time_s(lines, text):
    """When the first of these lines with a text came; None without one."""
    return next((time_s for time_s, line in lines if text in line), None)


def started(argv):
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def hang(kind, command, folder, seconds=5, words=(), start=started):
    """Let the ranks of a command, whose last word is a program, hang in this way, and have them reported.

    Those that end are given a minute: on a busy host some ranks wait longer for others to start. Where no
    rank has begun to hang before the command is ended, it gets twice the time, up to a minute.
    """
    seconds = 60 if kind in (*BY_THEMSELVES, *ENDED_BY_LAUNCHERS) else seconds
    begun, one = _hang(kind, command, folder, seconds, words, start)
    while not begun and seconds < 60:
        seconds *= 2
        begun, one = _hang(kind, command, folder, seconds, words, start)
    return one


def _hang(kind, command, folder, seconds, words, start):
    """Whether the ranks have said that they begin to hang, and what was reported."""
    file = folder / f"{kind}.json"
    before = [*LOCKSTEP, "exec", "--stuck", str(seconds), "--stuck-report", file, *words, "--"]
    whole = [*before, *command, kind, folder / f"{kind}.lock"]
    output, errors = list[tuple[float, str]](), list[tuple[float, str]]()
    with start([str(word) for word in whole]) as process:
        readers = [
            threading.Thread(target=_read, args=(process.stdout, output)),
            threading.Thread(target=_read, args=(process.stderr, errors)),
        ]
        for one in readers:
            one.start()
        try:
            status = process.wait(120)
        except subprocess.TimeoutExpired:
            process.terminate()
            status = process.wait(30)
        end_s = time.monotonic()
        for one in readers:
            one.join()
    reports = json.loads(file.read_text())["reports"] if file.exists() else []
    begun_s, told_s = _time_s(output, "begun"), _time_s(reversed(errors), "no progress for")
    due_s = None if begun_s is None or told_s is None else begun_s + seconds
    stderr = "".join(line for _, line in errors)
    report = reports[-1] if reports else {}
    if due_s is None:
        return begun_s is not None, Hang(kind, status, report, stderr)
    return True, Hang(kind, status, report, stderr, told_s - due_s, end_s - due_s)
