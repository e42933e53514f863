"""The end of submitted jobs when the process that has submitted them ends, however that is."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from slurm.command import SlurmError, cleaned

GUARD = """
trap '' HUP INT QUIT TERM
name=$1
shift
read -r word
[ "$word" = over ] && exit 0
empty=5
[ "$word" = cancel ] && empty=2
for pause in 2 5 10 30 60 60 60; do
    scancel "$@" --name="$name"
    sleep "$pause"
    left=$(squeue "$@" -h --name="$name" -o %i) && [ -z "$left" ] && empty=$((empty - 1))
    [ "$empty" -gt 0 ] || exit 0
done
exit 1
"""
"""A shell that waits for a line. Unless that is "over", it cancels all jobs of a name.

An sbatch in progress may still submit a job, so one empty queue is not enough. Without a line we were killed,
and sbatch was not: then the shell looks for longer than a command of Slurm may take.
"""

ENDING_S = 60.0  # how long to wait for the end of jobs


@contextmanager
def ended_with_us(name: str, place: Sequence[str] = ()) -> Iterator[None]:
    """A context that cancels all jobs of this name unless it is left without an error; also if we are killed.

    Raises:
        SlurmError: if there is an error, and jobs may be left after ENDING_S.
    """
    guard = subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "lockstep", name, *place],
        env=cleaned(os.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert guard.stdin
    try:
        yield
    except BaseException as error:
        with suppress(BrokenPipeError):
            guard.stdin.write(b"cancel\n")
            guard.stdin.close()
        if not _ended(guard):
            hint = " ".join(["scancel", *place, f"--name={name}"])
            raise SlurmError(f"{error}; jobs may be left, and {hint} ends them".lstrip("; ")) from error
        raise
    guard.communicate(b"over\n")


def _ended(guard: subprocess.Popen[bytes]) -> bool:
    """Whether a guard has cancelled all jobs; one that takes longer continues by itself."""
    try:
        return guard.wait(ENDING_S) == 0
    except subprocess.TimeoutExpired:
        return False
