"""Slurm's multifactor priority, plain and slow, from docs/policies/queues.md and Slurm's own pages."""

import math

from independent_scheduler.loop import NS, in_turn
from independent_scheduler.queues import by_user, conservative, easy

WEIGHTS = {"age": 101, "fairshare": 997, "job_size": 89, "partition": 53, "qos": 211}
MAX_AGE_S = 7
ACCOUNTS = {"physics": 6, "physics/optics": 2, "physics/lasers": 2, "chemistry": 6}
USERS = {
    "optics/ann": 3,
    "optics/bob": 1,
    "lasers/cyd": 1,
    "physics/dan": 2,
    "chemistry/eve": 5,
    "root/root": 1,
}
PARTITIONS = {"short": 30, "long": 7}
QOS = {"high": 100, "low": 30}
HAVE_JOBS = ("optics", "lasers", "physics", "chemistry", "new", "root", "")
"""Accounts, those of the table and others."""
OPTIONS = {
    **{f"priority_weight_{name}": weight for name, weight in WEIGHTS.items()},
    "priority_max_age_s": MAX_AGE_S,
    "account_shares": ACCOUNTS,
    "user_shares": USERS,
    "priority_job_factor": PARTITIONS,
    "qos_priority": QOS,
}
"""All this as options of the policy."""


def parents(name):
    """The accounts from the root on, to which an account belongs, itself the last."""
    path = next((path for path in ACCOUNTS if path.split("/")[-1] == name), name)
    parts = [] if name == "root" else path.split("/")
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]


def used_s(state, half_life_s):
    """Processor seconds by user, of all jobs that have ever begun."""
    used = {}
    for job in state.memory["begun"]:
        begin_s, end_s = (
            (state.now_ns - at_ns) / NS for at_ns in (job.begin_ns, min(job.end_ns, state.now_ns))
        )
        time_s = begin_s - end_s
        if half_life_s:
            time_s = (2 ** (-end_s / half_life_s) - 2 ** (-begin_s / half_life_s)) * half_life_s / math.log(2)
        used[job.owner] = used.get(job.owner, 0.0) + job.size * time_s
    return used


def paths(used, here):
    """For each user, the names from the root on, its own the last: "@" and the owner."""
    return {owner: [*parents(owner.split("/")[0]), "@" + owner] for owner in {*USERS, *used, *here}}


def levels(used, here):
    """For each user, what is known of each level from the root on: part of the shares, usage, usage above."""
    lines = paths(used, here)
    below, sums = {}, {}
    for account in ACCOUNTS:
        parent = account.rpartition("/")[0] or "root"
        below.setdefault(parent, set()).add(account)
    for owner, line in lines.items():
        for above, name in zip(["root", *line], line, strict=False):
            below.setdefault(above, set()).add(name)
            sums[name] = sums.get(name, 0.0) + used.get(owner, 0.0)
    total = math.fsum(used.values())

    def shares(name):
        return USERS.get(name[1:], 1) if name.startswith("@") else ACCOUNTS.get(name, 1)

    return total, {
        owner: [
            (shares(name) / sum(map(shares, below[above])), sums[name], sums.get(above, total))
            for above, name in zip(["root", *line], line, strict=False)
        ]
        for owner, line in lines.items()
    }


def classic(used, here):
    total, known = levels(used, here)
    factors = {}
    for owner, line in known.items():
        normal, effective = 1.0, 0.0
        for depth, (part, usage, _) in enumerate(line):
            normal *= part
            norm = usage / total if total else 0.0
            effective = norm if depth == 0 else norm + (effective - norm) * part
        factors[owner] = 2 ** -(effective / normal)
    return factors


def tree(used, here):
    """Users in order of the values of their levels; equal ones share a rank, also with the first below an
    account of the same value."""
    _, known = levels(used, here)
    values = {
        owner: tuple(part / (usage / above) if usage else math.inf for part, usage, above in line)
        for owner, line in known.items()
    }
    order = sorted(
        known, key=lambda one: [(-v, depth + 1 < len(values[one])) for depth, v in enumerate(values[one])]
    )
    factors, before, rank = {}, None, 0
    for place, owner in enumerate(order):
        if before is None or values[owner][: len(before)] != before:
            rank = len(order) - place
        factors[owner], before = rank / len(order), values[owner]
    return factors


def by_priority(algorithm, small, half_life_s):
    def order(state):
        here = {job.owner for job in [*state.waiting, *state.running]}
        shares = algorithm(used_s(state, half_life_s), here)

        def priority(job):
            size = job.max_processes / state.processors
            factors = {
                "age": min(1.0, (state.now_ns - job.arrival_ns) / NS / MAX_AGE_S),
                "fairshare": shares[job.owner],
                "job_size": 1 - size if small else size,
                "partition": PARTITIONS.get(job.partition, 1) / 30,
                "qos": QOS.get(job.qos, 0) / 100,
            }
            value = sum(WEIGHTS[name] * factor for name, factor in factors.items()) - job.nice
            return max(1, math.floor(value))

        return sorted(state.waiting, key=lambda job: -priority(job))

    return order


def multifactor(backfill, *facts):
    order = by_priority(*facts)
    rule = {
        "none": lambda state: in_turn(state, order(state), lambda job: job.max_processes),
        "easy": lambda state: easy(state, order),
        "conservative": conservative(order, by_user),
    }[backfill]

    def decided(state):
        begun = state.memory.setdefault("begun", [])
        state.memory.pop("reserved", None)  # priorities change, and reservations with them
        rule(state)
        begun += [job for job in state.running if job not in begun]

    return decided


def rules():
    """By backfilling, algorithm of fair shares, favour of small jobs and half-life."""
    found = {}
    for backfill in ("none", "easy", "conservative"):
        for name, algorithm in (("tree", tree), ("classic", classic)):
            for small, half_life_s in ((False, 0), (True, 5)):
                settings = (
                    ("backfill", backfill),
                    ("fair_share", name),
                    ("priority_favor_small", small),
                    ("priority_decay_half_life_s", half_life_s),
                )
                found["multifactor", settings] = multifactor(backfill, algorithm, small, half_life_s)
    return found
