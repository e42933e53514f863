"""Jobs of a partition under ``lockstep turns --watch``, and under Slurm's own gang scheduling, one table.

``python tests/benchmarks/slurm_turns.py [--repeats N] [--seconds S] [--no-accounting]``

Each of two Slurms has two nodes of one core: one without gang scheduling and with ``turns --watch`` in 100 ms
slots, one with gang scheduling in its shortest slots, 5 s. Both get the same batch scripts: a job alone,
three at once (makespan over the time of three alone), and short jobs, one after the other, while two long
ones run (response from submission to end). On the first, Slurm is asked what it accounts to jobs that take
turns, and a job with a time limit of a minute shows whether time in which it is stopped counts (not with
``--no-accounting``). Takes about eight minutes, and prints Markdown.
"""

import os
import platform
import re
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import headed, parsed, tabled
from runs import text
from slurm_cluster import slurm_cluster, unavailable
from slurm_gang import job_script

SLOT_S = 5
LONG_S = 3600.0
PATIENCE_S = 600
OURS = "PreemptMode=OFF\nKillWait=2\nJobAcctGatherType=jobacct_gather/linux\nJobAcctGatherFrequency=1"
WATCH = [sys.executable, "-m", "harness.cli", "turns", "--watch", "gang"]


class Jobs:
    """Submits jobs of two ranks to a cluster; ``seconds`` are those of a job that has the cluster alone."""

    def __init__(self, cluster, folder):
        self.cluster = cluster
        self.folder = folder
        self.begins_s = []
        self.ids = []

    def submit(self, seconds, *options):
        number = len(self.begins_s)
        script = self.folder / f"{number}.sbatch"
        script.write_text(job_script(self.folder, number, seconds, retry=True))
        self.begins_s.append(time.time())
        self.ids.append(self.cluster.call("sbatch", "--parsable", *options, str(script)).strip())
        return number

    def response_s(self, number):
        """Wait for the end of a job; returns the time from its submission to that."""
        end = self.folder / f"{number}.ended"
        while not end.exists():
            if time.time() > self.begins_s[number] + PATIENCE_S:
                sys.exit(f"job {number} has not ended\n{self.cluster.logs()}")
            time.sleep(0.05)
        return float(end.read_text()) - self.begins_s[number]

    def makespan_s(self, *seconds):
        numbers = [self.submit(one) for one in seconds]
        ends_s = [self.begins_s[number] + self.response_s(number) for number in numbers]
        return max(ends_s) - self.begins_s[numbers[0]]

    def cancel(self):
        self.cluster.call("scancel", "-p", "gang")
        while self.cluster.call("squeue", "-h").strip():
            time.sleep(0.2)


def measured(jobs, options):
    """Times of a job alone, makespans over the sum alone, and responses of short jobs among two long ones."""
    alone_s, ratios, responses_s = [], [], []
    for _ in range(options.repeats):
        alone_s.append(jobs.makespan_s(options.seconds))
        ratios.append(jobs.makespan_s(*[options.seconds] * 3) / (3 * alone_s[-1]))
    for _ in range(2):
        jobs.submit(LONG_S)
    time.sleep(3 * SLOT_S)
    for number in range(options.shorts):
        responses_s.append(jobs.response_s(jobs.submit(options.short)))
        time.sleep(1 + number % SLOT_S)  # at other times of a slot
    jobs.cancel()
    return alone_s, ratios, responses_s


def accounted(jobs):
    """What Slurm says of two jobs after some time of turns, and how long a job lives that has a minute."""
    numbers = [jobs.submit(LONG_S, "--time=1"), jobs.submit(LONG_S)]
    limited, other = (jobs.ids[number] for number in numbers)
    time.sleep(40)
    for job in (limited, other):
        text = jobs.cluster.call("scontrol", "show", "job", job)
        told = " ".join(re.findall(r"(?:RunTime|SuspendTime|SecsPreSuspend)=\S+", text))
        used = jobs.cluster.call("sstat", "-n", "-P", "-a", "-j", job, "-o", "JobID,AveCPU,NTasks")
        print(f"after 40 s, job {job}: {told}; sstat: {' '.join(used.split())}")
    while (state := jobs.cluster.call("squeue", "-h", "-t", "all", "-j", limited, "-o", "%T").strip()) in (
        "RUNNING",
        "COMPLETING",
    ):
        time.sleep(0.5)
    lived_s = time.time() - jobs.begins_s[numbers[0]]
    print(f"the job with --time=1 ends as {state} {lived_s:.0f} s after its submission")
    jobs.cancel()
    done = jobs.cluster.call(
        "sacct", "-c", "-n", "-P", "-j", f"{limited},{other}", "-o", "JobID,State,Elapsed"
    )
    print(f"sacct -c: {' '.join(done.split())}\n")


def driver_of(cluster):
    """The pid of ``turns``, which what starts it on the head does not pass signals to."""
    (pid,) = [
        pid
        for pid in cluster.hosts.head.processes()
        if {"harness.cli", "turns"} <= set(text(f"/proc/{pid}/cmdline").split("\0"))
        and "python" in text(f"/proc/{pid}/comm")
    ]
    return pid


def main():
    options = parsed(__doc__, repeats=3, seconds=8.0, short=0.5, shorts=8, no_accounting=False)
    if reason := unavailable():
        sys.exit(reason)
    load = os.getloadavg()[0]
    rows = {}
    with tempfile.TemporaryDirectory(prefix="ls-turns-") as name:
        for way, more in (("ours", OURS), ("slurm", "")):
            folder = Path(name) / way
            folder.mkdir()
            with slurm_cluster(2, SLOT_S, more) as cluster:
                jobs = Jobs(cluster, folder)
                watch = cluster.hosts.start(WATCH) if more else None
                rows[way] = measured(jobs, options)
                print(way, rows[way], file=sys.stderr)
                if watch is not None and not options.no_accounting:
                    accounted(jobs)
                if watch is not None:
                    os.kill(driver_of(cluster), signal.SIGTERM)
                    watch.communicate(timeout=60)
    headed("", "alone, s", "makespan over the sum alone", "response of a short job, s")
    for way, name in (("ours", "turns --watch, 100 ms"), ("slurm", f"Slurm's gang, {SLOT_S} s")):
        alone_s, ratios, responses_s = rows[way]
        mean_s = statistics.fmean(responses_s)
        spread = f"{mean_s:.1f} ({min(responses_s):.1f} to {max(responses_s):.1f})"
        tabled(name, f"{statistics.median(alone_s):.1f}", f"{statistics.median(ratios):.2f}", spread)
    ratio = statistics.fmean(rows["ours"][2]) / statistics.fmean(rows["slurm"][2])
    print(
        f"\nResponse over that under Slurm's gang: {ratio:.2f}. {options.repeats} repeats (medians), "
        f"{options.shorts} short jobs of {options.short:g} s (mean, range). {os.cpu_count()} cores, "
        f"Linux {platform.release()}, load before {load:.1f}, after {os.getloadavg()[0]:.1f}."
    )


if __name__ == "__main__":
    main()
