"""Ranks that hang (``native/hangs.c``): by what command, and what must be said of them."""

import json
import re
import subprocess
import time
from dataclasses import dataclass

from native_programs import LOCKSTEP, launcher

RANKS = 4
COLLECTIVE = "in MPI_Barrier on MPI_COMM_WORLD"

VERDICTS = {
    "large-sends": "ranks 0-1 wait for each other: .* in MPI_Send.* none of them has begun to receive",
    "tag": "ranks 0-1 wait for each other: .*in MPI_Recv",
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
    "init": "rank 3 has not come to MPI_Init on this host, where ranks 0-2 wait",
    "threads": "ranks 0, 3 wait for each other: |no conclusion",
    "finalize": "rank 0 is in MPI_Finalize, and rank 1 waits for it in MPI_Recv",
    "grid": "ranks 0, 3 wait for each other: rank 0 for rank 3 in MPI_Allreduce",
    "stopped": f"rank 3 is missing: ranks 0-2 wait for it {COLLECTIVE}",
}
"""The right verdict for each kind of hang."""

LINES = {
    "loop": r"rank 3: not in MPI for \d+ s, after MPI_Allreduce; computing",
    "read": r"rank 3: not in MPI for \d+ s, after MPI_Allreduce; asleep in read\(\d+\)",
    "lock": r"asleep in flock\(\d+\)",
    "mutex": r"asleep in futex\(\)",
    "stopped": r"rank 3: not in MPI .*; stopped",
    "iprobe": r"rank 3: polls with MPI_Iprobe for \d+ s",
    "waitall": r"rank 1: in MPI_Waitall for 2 requests, .*: MPI_Irecv from rank 2, tag 6, MPI_COMM_WORLD",
    "tag": r"rank 1: in MPI_Recv from rank 0, tag 4, MPI_COMM_WORLD",
    "grid": r'ranks 0-2: in MPI_Allreduce on a communicator of 4 \("grid", from MPI_Cart_create\)',
    "threads": r"rank 3: in MPI_Recv from rank [01], .* and in MPI_Recv from rank [01], tag [89]",
    "half": "ranks 1, 3: at work, last with MPI_Allreduce",
}
"""What a line of the report must say, too."""


@dataclass(frozen=True)
class Hang:
    """A hang as ``exec --stuck`` has reported it."""

    kind: str
    status: int
    report: dict
    stderr: str
    wall_s: float

    @property
    def verdict(self):
        return self.report.get("verdict", "")

    @property
    def right(self):
        return re.search(VERDICTS[self.kind], self.verdict) is not None


def hang(kind, program, mpi, folder, seconds=5, words=()):
    """Let ranks of a program hang, and have them reported."""
    file = folder / f"{kind}.json"
    before = [*LOCKSTEP, "exec", "--stuck", str(seconds), "--stuck-report", file, *words, "--"]
    command = [*before, *launcher(mpi), "-n", str(RANKS), program, kind, folder / f"{kind}.lock"]
    begin = time.monotonic()
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    reports = json.loads(file.read_text())["reports"] if file.exists() else []
    wall_s = time.monotonic() - begin
    return Hang(kind, result.returncode, reports[0] if reports else {}, result.stderr, wall_s)
