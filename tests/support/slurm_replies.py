"""Replies of Slurm's tools as sites make them, drawn together with their meaning: no reader is here.

A case is one script's life: sbatch, squeue, sacct, scancel and scontrol are shell scripts that print
some lines between banners, with line ends of this system or another.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fake_commands import fake_commands

from slurm import client, partition
from slurm.command import SlurmError
from slurm.job import SlurmJob

BANNERS = (
    *("", "*** Welcome: 3 nodes are down ***", "sbatch: 12 jobs are queued", "2026-05-01T10:00:00"),
    *("2026/05/01", "Balance: 1500.5 h|500 h", "job|RUNNING", "|COMPLETED"),
    *("--> Verifying valid submit host (login1)...OK", "CLUSTER: slaking", "0", "007", "-5", "99999999999"),
    *("\u0661\u0662\u0663", "12_3", "12;two words", "\x1b[32mwelcome\x1b[0m"),
    "Warnung: nächste Wartung in 5 Tagen",
)
WARNINGS = ("", "", "sbatch: warning: no account given", "locale: cannot set LC_ALL", "12|RUNNING", "4711")
MEANT = {
    **dict.fromkeys(("PENDING", "CONFIGURING", "REQUEUE_HOLD", "RESV_DEL_HOLD", "POWER_UP_NODE"), "PENDING"),
    **dict.fromkeys(("RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "UPDATE_DB", "REVOKED"), "RUNNING"),
    **{"CANCELLED": "CANCELLED", "CANCELLED by 1000": "CANCELLED", "CANCELLED+": "CANCELLED"},
    **{"NODE_FAIL": "NODE_FAIL", "BOOT_FAIL": "NODE_FAIL", "RECONFIG_FAIL": "NODE_FAIL"},
    **{
        "OUT_OF_MEMORY": "OUT_OF_MEMORY",
        "PREEMPTED": "PREEMPTED",
        "TIMEOUT": "TIMEOUT",
        "DEADLINE": "TIMEOUT",
    },
}
"""Slurm's words and the states that they mean, whatever the status file says."""

OPEN = ("COMPLETED", "FAILED", "LAUNCH_FAILED", "N/A", "INVALID", "", None)
"""Words after which the status file decides."""

ENDINGS = {"0 \n": "COMPLETED", "3 \n": "FAILED", "130 time-limit\n": "TIMEOUT", "": "", "x\n": "", None: ""}
"""Contents of a status file, and the states that they prove."""

Check = tuple[str, Any, Callable[[], Any]]
"""What is asked, what must come of it (a value, or the class of an error), and the question."""


@dataclass
class Outcome:
    """What became of some cases."""

    replies: int = 0
    tracebacks: int = 0
    wrong: int = 0
    first: str = ""

    def note(self, what):
        self.first = self.first or what


class Tools:
    """Slurm's commands in a directory, each with one reply, and what they were asked."""

    def __init__(self, folder, draw):
        self.folder = folder
        self.draw = draw
        self.log = folder / "asked"

    def set(self, name, lines, status=0, errors=""):
        """The reply of a command: lines between banners."""
        draw = self.draw
        before, after = (draw.choices(BANNERS, k=draw.choice((0, 0, 1, 3))) for _ in range(2))
        end = draw.choice(("\n", "\n", "\r\n"))
        out = end.join([*before, *lines, *after]) + (end if draw.random() < 0.8 else "")
        said = [errors, draw.choice(WARNINGS)]
        draw.shuffle(said)
        (self.folder / f"{name}.out").write_text(out, newline="")
        (self.folder / f"{name}.err").write_text("\n".join(said) + "\n")
        place = self.folder / name
        told = f'echo "${{0##*/}} $*" >> {self.log}'
        fake_commands(self.folder, **{name: f"{told}\ncat {place}.out\ncat {place}.err >&2\nexit {status}"})


def submission(tools, job):
    draw = tools.draw
    parsable = f"{job};{job.cluster}" if job.cluster else draw.choice((f"{job}", f"{job};"))
    long = f"Submitted batch job {job}" + (f" on cluster {job.cluster}" if job.cluster else "")
    line = draw.choice((parsable, parsable, f"  {parsable} ", long))
    wrong = "sbatch: error: Batch job submission failed: "
    way = draw.choice(("read", "read", "read", "none", "two", "failed", "late", "refused"))
    lines = {"read": [line], "two": [line, "4711"], "failed": [line]}.get(way, [])
    errors = {"failed": "quota", "late": f"{wrong}Socket timed out on send/recv operation", "refused": wrong}
    tools.set("sbatch", lines, int(way in errors), errors.get(way, ""))
    lost = client.LostJobError
    meant = {"read": job, "refused": SlurmError}.get(way, lost)
    return f"sbatch, {way}", meant, lambda: client.submit(tools.folder / "x.sbatch")


def rows(tools, words, whole):
    """A table of states, as squeue and sacct write them, with rows of other jobs and of steps."""
    draw = tools.draw
    lines = [f"{whole}.batch|FAILED", f"{int(whole.id) + 1}|FAILED", f"1{whole}_1|PENDING"]
    together = [job for job in words if words[job] == "PENDING" and "_" in job.id]
    if len(together) > 1 and draw.random() < 0.5:
        numbers = ",".join(job.id.partition("_")[2] for job in together)
        lines.append(f"{whole}_[{numbers}{draw.choice(('', '%2'))}]|PENDING")
    else:
        together = []
    for job, word in words.items():
        if word is not None and job not in together:
            first = draw.choice(("", "+0")) if job == whole else ""
            lines.append(f"{job}{first}|{word}")
    draw.shuffle(lines)
    return lines


def states(tools, jobs):
    draw = tools.draw
    queue = draw.choice(("rows", "rows", "gone", "silent", "fails"))
    accounts = draw.choice(("rows", "rows", "disabled"))
    words = [*MEANT, *OPEN, *OPEN]
    queued = {job: draw.choice(words) if queue == "rows" else None for job in jobs}
    counted = {job: draw.choice(words) if accounts == "rows" else None for job in jobs}
    errors = {"gone": "slurm_load_jobs error: Invalid job id specified", "fails": "error: Socket timed out"}
    failed = queue in errors
    whole = jobs[0].whole
    tools.set(
        "squeue", rows(tools, queued, whole) if queue == "rows" else [], int(failed), errors.get(queue, "")
    )
    off = accounts == "disabled"
    tools.set("sacct", rows(tools, counted, whole), int(off), "accounting storage is disabled" if off else "")
    meant = {}
    for job in jobs:
        left = draw.choice([*ENDINGS])
        file = tools.folder / f"{job}.status"
        file.unlink(missing_ok=True)
        if left is not None:
            file.write_text(left)
        word = queued[job] if queued[job] not in (None, "", "N/A") else counted[job]
        proved = ENDINGS[left] or ("FAILED" if word in ("FAILED", "LAUNCH_FAILED") else "UNKNOWN")
        meant[job] = MEANT.get(word) or proved

    def read():
        found = client.states(jobs, str(tools.folder))
        return {job: state.value for job, (state, _) in found.items()}

    return f"squeue, {queue}; sacct, {accounts}", SlurmError if queue == "fails" else meant, read


def cancellation(tools, jobs):
    gone = "scancel: error: Kill job error on job id 12: "
    way, errors = tools.draw.choice(
        (
            ("ends", ""),
            ("over", f"{gone}Invalid job id specified"),
            ("over", f"{gone}Job/step already completing or completed"),
            ("refused", f"{gone}Invalid job id specified\n{gone}Access/permission denied"),
        )
    )
    tools.set("scancel", [], int(way != "ends"), errors)
    return f"scancel, {way}", SlurmError if way == "refused" else None, lambda: client.cancel(jobs)


def configuration(tools, place):
    draw = tools.draw
    size, most = draw.choice(
        (("1001", 1000), ("1", 0), ("0", 0), ("N/A", None), ("UNLIMITED", None), ("(null)", None), ("", None))
    )
    slot = draw.choice(("5 sec", "30 sec", "N/A", "UNLIMITED", ""))
    equals = draw.choice(("             = ", "=", " ="))
    lines = [f"PreemptMode{equals}GANG,SUSPEND", "   OverSubscribe=FORCE:4 PreemptMode=GANG"]
    lines += [f"MaxArraySize{equals}{size}", f"SchedulerTimeSlice{equals}{slot}", f"DefMaxArraySize{equals}7"]
    tools.set("scontrol", lines)

    return "scontrol", most, lambda: partition.most_tasks(place)


def tried(folder, cases, seed):
    """Draw so many cases, and read the replies with the tools of ``folder``, which must be on PATH."""
    outcome = Outcome()
    for case in range(cases):
        draw = random.Random(f"{seed} {case}")
        tools = Tools(folder, draw)
        tools.log.write_text("")
        job = SlurmJob(str(draw.randint(1, 2**32 - 1)), draw.choice(("", "slaking", "c-1.x")))
        tasks = draw.choice((0, 0, 1, 4))
        jobs = [job.task(number) for number in range(1, tasks + 1)] or [job]
        checks = [states(tools, jobs), cancellation(tools, jobs), configuration(tools, job.place)]
        for what, meant, question in (submission(tools, job), *checks):
            try:
                found = question()
            except SlurmError as error:
                found = type(error)
            except Exception as error:
                outcome.tracebacks += 1
                outcome.note(f"case {case}, {what}: {error!r}")
                continue
            if found != meant:
                outcome.wrong += 1
                outcome.note(f"case {case}, {what}: read {found}, meant {meant}")
        asked = tools.log.read_text().splitlines()
        outcome.replies += len(asked)
        others = [line for line in asked if not line.startswith("sbatch")]
        if not all((f" -M {job.cluster} " in line) == bool(job.cluster) for line in others):
            outcome.wrong += 1
            outcome.note(f"case {case}: not all ask {job.cluster or 'the usual cluster'}: {others}")
    return outcome
