"""The priorities of ``multifactor`` beside those that Slurm gives the same pending jobs (``sprio``).

``pytest -m slurm -s tests/slurm/test_priorities.py`` prints both.
"""

import re
from datetime import datetime
from typing import NamedTuple

import pytest
import slurm_accounting
from runs import eventually
from slurm_cluster import slurm_cluster, unavailable

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.view import Job, Machine, Submitter, View

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

NODES = 4
MAX_AGE_S = 600
HALF_LIFE_S = 10_000 * 86_400
"""Slurm forgets once a minute, Lockstep all the time: so long that it makes no difference here."""
WEIGHTS = {"age": 1_000_000, "fairshare": 100_000, "job_size": 3_000, "partition": 2_000, "qos": 5_000}
"""A second of age is worth much, so that a wrong one shows."""
CONFIGURATION = f"""
{slurm_accounting.OF_SLURM}
PriorityType=priority/multifactor
PriorityCalcPeriod=1
PriorityDecayHalfLife={HALF_LIFE_S // 86_400}-0
PriorityMaxAge={MAX_AGE_S // 60}
PriorityWeightAge={WEIGHTS["age"]}
PriorityWeightFairshare={WEIGHTS["fairshare"]}
PriorityWeightJobSize={WEIGHTS["job_size"]}
PriorityWeightPartition={WEIGHTS["partition"]}
PriorityWeightQOS={WEIGHTS["qos"]}
PartitionName=short Nodes=ALL State=UP PriorityJobFactor=30
PartitionName=long Nodes=ALL State=UP PriorityJobFactor=7
"""
ACCOUNTS = {"physics": 60, "physics/optics": 2, "physics/lasers": 1, "chemistry": 40}
USERS = {
    "optics/daemon": 3,
    "optics/bin": 1,
    "lasers/games": 1,
    "physics/man": 2,
    "chemistry/mail": 5,
    "chemistry/news": 1,
    "chemistry/lp": 1,
}
"""Users whom every Debian has. Slurm has root in the account root, too, with one share."""
QOS = {"high": 100, "low": 30}

OPTIONS = {
    **{f"priority_weight_{name}": weight for name, weight in WEIGHTS.items()},
    "priority_max_age_s": MAX_AGE_S,
    "priority_decay_half_life_s": HALF_LIFE_S,
    "account_shares": ACCOUNTS,
    "user_shares": {**USERS, "root/root": 1},
    "priority_job_factor": {"short": 30, "long": 7},
    "qos_priority": QOS,
}
CLASSIC = {"fair_share": "classic", "priority_favor_small": True}
VARIANTS = [("", {}), ("PriorityFlags=NO_FAIR_TREE\nPriorityFavorSmall=YES\n", CLASSIC)]
"""Further lines of slurm.conf, and the same as options."""

RAN = (("optics/daemon", 2, 3), ("optics/bin", 1, 5), ("lasers/games", 1, 4), ("chemistry/mail", 2, 2))
RAN += (("physics/man", 1, 6), ("chemistry/lp", 2, 2), ("optics/daemon", 1, 2))
"""Jobs that have run: whose they are, their processors, and seconds."""

WAITING = (
    ("optics/daemon", 1, "whole", "normal", 0),
    ("optics/bin", 2, "short", "high", 0),
    ("lasers/games", 4, "long", "low", 0),
    ("physics/man", 3, "whole", "high", 250),
    ("chemistry/mail", 1, "short", "normal", -100),
    ("chemistry/news", 2, "gang", "low", 0),
    ("chemistry/lp", 4, "short", "high", 0),
    ("optics/daemon", 3, "long", "high", 5),
    ("optics/bin", 1, "whole", "low", 2_000_000_000),
    ("lasers/games", 2, "gang", "normal", 0),
    ("physics/man", 4, "short", "low", 0),
    ("chemistry/news", 1, "whole", "high", 77),
)
"""Jobs that wait: whose, processors, partition, quality of service, nice."""


class Known(NamedTuple):
    """What Slurm says of a job: its times in seconds, and when it began to wait."""

    start_s: int
    end_s: int
    since_s: int


def commands():
    """What sacctmgr is told."""
    yield "add cluster emulated"
    for name, priority in QOS.items():
        yield f"add qos {name} priority={priority}"
    for path, shares in ACCOUNTS.items():
        parent, _, name = path.rpartition("/")
        yield f"add account {name} fairshare={shares}" + (f" parent={parent}" if parent else "")
    for path, shares in USERS.items():
        account, _, name = path.partition("/")
        yield f"add user {name} account={account} fairshare={shares} qos=normal,high,low"


@pytest.fixture(scope="module")
def cluster():
    if reason := unavailable() or slurm_accounting.unavailable():
        pytest.skip(reason)
    with slurm_cluster(NODES, more=CONFIGURATION, before=slurm_accounting.started(*commands())) as nodes:
        nodes.hosts.root.chmod(0o711)  # scripts of jobs lie below it
        yield nodes


def submit(cluster, path, size, command, *options):
    account, _, user = path.partition("/")
    words = [f"--uid={user}", f"--account={account}", f"--nodes={size}", f"--ntasks={size}", "--chdir=/"]
    return cluster.call(
        "sbatch", "--parsable", "--output=/dev/null", *words, *options, "--wrap", command
    ).strip()


def known(cluster, job):
    text = cluster.call("scontrol", "show", "job", job)
    assert "JobState=COMPLETED" in text or "JobState=PENDING" in text, text
    times = dict(re.findall(r"(\w+Time)=([-0-9T:]+)", text))

    def seconds(name):
        return int(datetime.fromisoformat(times[name]).timestamp()) if name in times else 0

    return Known(seconds("StartTime"), seconds("EndTime"), seconds("AccrueTime"))


def job_of(number, path, size, arrival_s, partition="", qos="", nice=0):
    account, _, user = path.partition("/")
    submitter = Submitter(user, account, partition, qos, nice)
    return Job(number, size, arrival_s * 10**9, submitter=submitter)


def decided_before(policy, ran):
    """The last decision about the jobs that have run: they arrive when Slurm has started them."""
    jobs = [job_of(n, path, size, times.start_s) for n, ((path, size, _), times) in enumerate(ran)]
    session = Session(policy, Machine(NODES), jobs)
    for now_s in sorted({at_s for _, times in ran for at_s in times[:2]}):
        if ended := [number for number, (_, times) in enumerate(ran) if times.end_s == now_s]:
            session.depart(*ended)
        if started := [job.number for job in jobs if job.arrival_ns == now_s * 10**9]:
            session.arrive(*started)
        decision = session.decide(now_s * 10**9).decision
        assert {*started} <= {*decision.placements}
    return decision


def sprio(cluster):
    """The columns of sprio by job: the age from 0 to 1, then priority, weighted factors and nice."""
    text = cluster.call("sprio", "-h", "-o", "%i %a %Y %A %F %J %P %Q %N")
    return {words[0]: (float(words[1]), *map(int, words[2:])) for words in map(str.split, text.splitlines())}


@pytest.fixture(scope="module")
def waiting(cluster):
    """Jobs that wait for good on a cluster on which others have run: both with their times."""
    numbers = [submit(cluster, path, size, f"sleep {run_s}") for path, size, run_s in RAN]
    assert eventually(lambda: not cluster.call("squeue", "-h"), 120), cluster.call("squeue")
    ran = [(job, known(cluster, number)) for job, number in zip(RAN, numbers, strict=True)]
    used_s = sum(size * (times.end_s - times.start_s) for (_, size, _), times in ran)
    cluster.call("scontrol", "update", "nodename=ALL", "state=drain", "reason=test")
    numbers = []
    for path, size, partition, qos, nice in WAITING:
        options = (f"--partition={partition}", f"--qos={qos}", f"--nice={nice}")
        numbers.append(submit(cluster, path, size, "true", *options))
        cluster.call("sleep", "0.7")  # so that some are older
    usage = ("sshare", "-hP", "-A", "root", "-o", "RawUsage")  # Slurm counts it once a minute
    counted_s = eventually(lambda: int(cluster.call(*usage).split()[0]), 90)
    assert counted_s in (used_s, used_s - 1), cluster.call(
        "sshare", "-al"
    )  # a little is forgotten, and cut off
    return ran, {number: known(cluster, number).since_s for number in numbers}


def restarted(cluster, lines):
    """Start Slurm again, with further lines: it computes all priorities as it begins. Returns them."""
    cluster.call("scontrol", "shutdown", "slurmctld")
    assert eventually(lambda: "slurmctld" not in cluster.call("ps", "-eo", "comm").split(), 60)
    cluster.configuration.write_text(cluster.configuration.read_text() + lines)
    cluster.on(cluster.hosts.head, "slurmctld")
    return eventually(lambda: len(found := sprio(cluster)) == len(WAITING) and found, 60)


@pytest.mark.parametrize(("lines", "options"), VARIANTS, ids=["tree", "classic"])
def test_priorities_are_those_of_slurm(cluster, waiting, lines, options):
    policy = policies.create("multifactor", OPTIONS | options)
    ran, since_s = waiting
    found = restarted(cluster, lines)
    instants = {round(since_s[number] + age * MAX_AGE_S, 3) for number, (age, *_) in found.items()}
    (now_s,) = {round(at_s) for at_s in instants}  # Slurm has computed all at one time
    jobs = [
        job_of(n, path, size, since_s[number], *of_queue)
        for n, (number, (path, size, *of_queue)) in enumerate(zip(since_s, WAITING, strict=True))
    ]
    view = View(Machine(NODES), now_s * 10**9, tuple(jobs), len(jobs), decided_before(policy, ran))
    ours, factors = policy.priorities(view, jobs), policy.factors(view, jobs)
    print(
        "\n| job | Slurm | Lockstep | Slurm: age, fair share, size, partition, QOS | Lockstep |\n"
        + "|---" * 5
        + "|"
    )
    differing = []
    for job, (number, (_, priority, *parts, nice)) in zip(jobs, found.items(), strict=True):
        pairs = zip(factors[job.number], WEIGHTS.values(), strict=True)
        weighted = [round(factor * weight) for factor, weight in pairs]
        whose = f"{job.submitter.account}/{job.submitter.user}, {job.processes} processors"
        print(f"| {whose} | {priority} | {ours[job.number]} | {parts} | {weighted} |")
        assert nice == job.submitter.nice
        differing += [number] if (priority, parts) != (ours[job.number], weighted) else []
    assert not differing
    assert len({row[3] for row in found.values()}) > 4  # fair share tells users apart
