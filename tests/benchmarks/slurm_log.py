"""Recorded waits of a real Slurm against simulated ones: a log that a cluster here makes, in one command.

``python tests/benchmarks/slurm_log.py [--jobs N] [--seed S] [--keep FILE]``

Starts a Slurm with accounting on four emulated nodes of one core. Submits jobs of one to four nodes over
time, with limits that are too long by random factors; Slurm backfills. Asks ``sacct`` for the log when all
have ended, and ``lockstep log`` for its comparison under three policies. Prints Markdown; ``--keep`` writes
the log.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import slurm_accounting
from benchmark import ENVIRONMENT, LOCKSTEP, headed, parsed, tabled
from slurm_cluster import slurm_cluster, unavailable

from harness.spec.other_logs import SACCT

NODES = 4
LOAD = 1.0  # work that is submitted over what the nodes do, until the last job arrives
SIZES, SHARES = (1, 2, 3, 4), (0.45, 0.3, 0.1, 0.15)
SHORT_S, LONG_S = 2, 20  # run times
LIMITS_MIN = (1, 4)  # Slurm keeps limits in minutes
USERS = ("daemon", "bin", "games")  # whom every Debian has
CONFIGURATION = f"""
{slurm_accounting.OF_SLURM}
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_resolution=1,bf_continue
"""
POLICIES = ("easy", "ordered backfill=conservative", "fcfs")
PATIENCE_S = 900


def main():
    options = parsed(__doc__, jobs=40, seed=1, keep={"type": Path, "default": None})
    if reason := unavailable() or slurm_accounting.unavailable():
        raise SystemExit(reason)
    with TemporaryDirectory() as folder:
        log = Path(folder) / "jobs.txt"
        log.write_text(recorded(options.jobs, options.seed))
        if options.keep:
            options.keep.write_text(log.read_text())
        answers = {policy: compared(log, policy) for policy in POLICIES}
    first = answers[POLICIES[0]]
    print(f"{options.jobs} jobs on {NODES} nodes of one processor, seed {options.seed}\n")
    heads = ("waits, s", "mean", "median", "90th percentile", "longest")
    headed(*heads, "mean off by", "90th percentile off by", "rank correlation")
    tabled("recorded", *times(first["recorded"]), "", "", "")
    for policy, answer in answers.items():
        errors = (f"{100 * answer[name]:+.0f} %" for name in ("mean_error", "p90_error"))
        tabled(policy, *times(answer["simulated"]), *errors, f"{answer['rank_correlation']:.2f}")
    for reason, count in first["left_out"].items():
        print(f"\nNot compared: {count} jobs {reason}.")
    for text in first["differences"]:
        print(f"- {text}")


def recorded(jobs, seed):
    """What sacct prints of so many jobs, which this cluster has run."""
    accounts = ["add account lab", *(f"add user {user} account=lab" for user in USERS)]
    before = slurm_accounting.started("add cluster emulated", *accounts)
    with slurm_cluster(NODES, more=CONFIGURATION, before=before) as cluster:
        cluster.hosts.root.chmod(0o711)  # scripts of jobs lie below it
        begin_s = time.monotonic()
        for user, size, run_s, limit_min, arrival_s in drawn(jobs, seed):
            time.sleep(max(0.0, begin_s + arrival_s - time.monotonic()))
            words = ["--account=lab", f"--uid={user}", f"--nodes={size}", f"--time={limit_min}", "--chdir=/"]
            command = ["--output=/dev/null", "--wrap", f"sleep {run_s}"]
            cluster.call("sbatch", "--parsable", f"--ntasks={size}", "--partition=whole", *words, *command)
        while cluster.call("squeue", "-h").strip():
            if time.monotonic() > begin_s + PATIENCE_S:
                raise SystemExit(f"jobs do not end:\n{cluster.call('squeue')}")
            time.sleep(1)
        time.sleep(2)  # the last end goes to the database by itself
        return cluster.call("env", "SLURM_TIME_FORMAT=%s", *SACCT.split(), "-a", "-X")


def drawn(jobs, seed):
    """The user of each job, its size, run time in s, limit in minutes, and arrival in s."""
    random = np.random.default_rng(seed)
    sizes = random.choice(SIZES, jobs, p=SHARES)
    run_s = random.integers(SHORT_S, LONG_S + 1, jobs)
    between_s = random.exponential(float(np.mean(sizes * run_s)) / (NODES * LOAD), jobs)
    users, limits_min = random.choice(USERS, jobs), random.integers(*LIMITS_MIN, jobs)
    columns = (users, sizes, run_s, limits_min, np.cumsum(between_s))
    return zip(*(column.tolist() for column in columns), strict=True)


def compared(log, policy):
    """The comparison that ``lockstep log`` has under a policy."""
    command = [*LOCKSTEP, "log", str(log), "--processors", str(NODES), "--policy", policy, "--json"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["recorded_waits"]


def times(waits):
    return [f"{waits[name]:.1f}" for name in ("mean_s", "median_s", "p90_s", "max_s")]


if __name__ == "__main__":
    main()
