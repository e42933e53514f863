"""Slurm's commands: submit a script, ask about jobs."""

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from slurm.allocation import expand
from slurm.command import Reply, SlurmError, answer, ask
from slurm.job import Ending, JobState, SlurmJob, Standing, judge
from slurm.script import status_file

UNDECIDED = ("timed out", "Zero Bytes were transmitted")
"""Errors of sbatch after which Slurm may have the job: the answer is lost, not the question."""

GONE = ("Invalid job id", "already completing or completed")
"""What Slurm's commands say about a job that is over."""

_ROW = re.compile(r"([0-9]+(?:_[0-9]+|_\[[0-9,-]+)?)(?:(?:%[0-9]+)?(\])|\+0)? *\| *([A-Z_]+(?: by .*|\+)?) *")
"""A line with a state, and a job, a task, tasks ("12_[1-4%2]") or the first component of a job ("12+0").

Lines of banners and steps do not match.
"""


class LostJobError(SlurmError):
    """Slurm may have queued a job whose id is not known; the message states how to find and end it."""


def submission(script: Path, after: SlurmJob | None = None) -> list[str]:
    """The command that submits a script; ``after`` is as in ``submit``."""
    where = [*after.place, f"--dependency=afterany:{after}"] if after else []
    return ["sbatch", *where, str(script)]


def submit(script: Path, *, after: SlurmJob | None = None) -> SlurmJob:
    command, *words = submission(script, after)
    reply = answer(command, "--parsable", *words)
    jobs = SlurmJob.printed(reply.out)
    if reply.status == 0 and len(jobs) == 1:
        return jobs[0]
    ended = 0 < (reply.status or 0) < 128  # by itself, neither by us nor by a signal
    if ended and not jobs and not any(sign in reply.err for sign in UNDECIDED):
        raise SlurmError(reply.failure)
    raise LostJobError(f"a job may be queued: {_unclear(reply, jobs)}; {_search(script)}")


def _unclear(reply: Reply, jobs: Sequence[SlurmJob]) -> str:
    if jobs:
        output = f"sbatch printed {' and '.join(map(str, jobs))}"
    else:
        output = f"sbatch printed no job id, but {reply.out.strip()[:300]!r}"
    return f"{reply.failure}; {output}" if reply.failure else output


def _search(script: Path) -> str:
    place = shlex.quote(str(script))
    return f'squeue --me --format="%i %T %o" shows its id beside {place}, and scancel with this id ends it'


def cancel(jobs: Collection[SlurmJob]) -> None:
    """End jobs; jobs that are over stay unchanged."""
    replies = [answer(*command) for command in _ends(jobs)]
    failures = [reply.failure for reply in replies if reply.failure and not _over(reply)]
    if failures:
        raise SlurmError("; ".join(failures))


def ends(jobs: Collection[SlurmJob]) -> str:
    return "; ".join(map(shlex.join, _ends(jobs)))


def _ends(jobs: Collection[SlurmJob]) -> list[list[str]]:
    places = dict.fromkeys(job.place for job in jobs)
    return [["scancel", *place, *(job.id for job in jobs if job.place == place)] for place in places]


def states(jobs: Sequence[SlurmJob], directory: str) -> dict[SlurmJob, tuple[JobState, Ending | None]]:
    """State and ending of each job, or task of an array, of scripts that write to ``directory``."""
    reported = _queued(jobs)
    unknown = [job for job in jobs if job not in reported]
    if unknown:
        reported |= _accounted(unknown)
    judgments = {}
    for job in jobs:
        remaining = ending(directory, job)
        judgments[job] = judge(reported.get(job), remaining), remaining
    return judgments


def standings(ids: Sequence[str]) -> list[Standing]:
    """The jobs with these ids that Slurm still knows; of an array, those of its tasks that it lists."""
    return _listed("-t", "all", "-j", ",".join(ids))


def running(partition: str) -> list[Standing]:
    """The jobs of a partition that have processors, suspended or not; of arrays their tasks."""
    return _listed("-t", "RUNNING,SUSPENDED,STOPPED,SIGNALING,RESIZING", "-p", partition)


def _listed(*which: str) -> list[Standing]:
    reply = answer("squeue", "-h", "-a", "-r", *which, "-o", "%A|%i|%T|%U|%N")
    if reply.failure and not _over(reply):
        raise SlurmError(reply.failure)
    return [_standing(row) for row in map(_STANDING.fullmatch, reply.out.splitlines()) if row]


_STANDING = re.compile(r"([0-9]+)\|([0-9]+(?:[_+]\S*)?)\|([A-Z_]+)\|([0-9]+)\|(\S*) *")


def _standing(row: re.Match[str]) -> Standing:
    number, name, state, user, nodes = row.groups()
    try:
        hosts = expand(nodes) if nodes and not nodes.startswith("(") else []
    except ValueError:
        hosts = []
    return Standing(number, name, state, int(user), tuple(hosts))


def processors(job: str, nodes: Sequence[str]) -> tuple[str, ...]:
    """The processors of a job that runs on ``nodes``, such as "node1/0"; none if Slurm does not tell them.

    The answer has words that users write, such as the job's name: only lines of this form count, and of
    them only these nodes.
    """
    own = False
    places: dict[str, None] = {}
    for line in ask("scontrol", "-d", "show", "job", job).splitlines():
        if line.startswith("JobId="):  # of an array, all tasks are listed
            own = line.startswith(f"JobId={job} ")
        if own and (held := _HELD.fullmatch(line)):
            with suppress(ValueError):
                cpus = expand(f"[{held[2]}]")[:MOST_CPUS]
                its = set(expand(held[1]))
                places |= dict.fromkeys(f"{node}/{cpu}" for node in nodes if node in its for cpu in cpus)
    return tuple(places)


_HELD = re.compile(r"\s+Nodes=(\S+) CPU_IDs=([0-9,-]+) Mem=.*")
MOST_CPUS = 8192  # of a node, as Linux has them at most


def ending(directory: str, job: SlurmJob) -> Ending | None:
    """The content of a job's status file; None if there is none."""
    try:
        return Ending.parse(Path(status_file(directory, job.id)).read_text())
    except (OSError, UnicodeDecodeError):
        return None


def _queued(jobs: Sequence[SlurmJob]) -> dict[SlurmJob, str]:
    """States by job or task from squeue, without the jobs that it no longer knows."""
    states_of_jobs: dict[SlurmJob, str] = {}
    for whole in dict.fromkeys(job.whole for job in jobs):
        reply = answer("squeue", *whole.place, "-h", "-r", "-t", "all", "-j", whole.id, "-o", "%i|%T")
        if reply.failure and not _over(reply):
            raise SlurmError(reply.failure)
        states_of_jobs |= {SlurmJob(name, whole.cluster): state for name, state in _rows(reply.out)}
    return states_of_jobs


def _accounted(jobs: Sequence[SlurmJob]) -> dict[SlurmJob, str]:
    """States of jobs that are over, from the accounting or the log of completed jobs."""
    states_of_jobs: dict[SlurmJob, str] = {}
    for place in dict.fromkeys(job.place for job in jobs):
        ours = {job.id: job for job in jobs if job.place == place}
        for source in ([], ["-c"]):
            try:
                output = ask("sacct", *place, *source, "-n", "-P", "-j", ",".join(ours), "-o", "JobID,State")
            except SlurmError:
                continue  # there is no such source
            if states := {ours[name]: state for name, state in _rows(output) if name in ours}:
                states_of_jobs |= states
                break
    return states_of_jobs


def _over(reply: Reply) -> bool:
    """Whether a command failed for no other reason than that jobs are over."""
    lines = reply.err.splitlines()
    others = [line for line in lines if not any(sign in line for sign in GONE)]
    return len(others) < len(lines) and not any("error" in line for line in others)


def _rows(text: str) -> Iterator[tuple[str, str]]:
    """Id and state of each job, or task, in a table of squeue or sacct."""
    for row in filter(None, map(_ROW.fullmatch, text.splitlines())):
        with suppress(ValueError):  # squeue shortens long lists of tasks
            yield from ((name, row[3]) for name in expand(row[1] + (row[2] or "")))
