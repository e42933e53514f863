"""Jobs that start with any number of processors from ``min_processes`` on, and keep them."""

from independent_scheduler.loop import in_turn, start


def bounded(kind, job):
    """The most processors that a job gets."""
    wanted = {
        "largest": job.useful,
        "average": int(job.average + 0.5),
        "deviation": int(job.average + max(0.0, (job.useful - job.average) * (job.average - 1)) ** 0.5 + 0.5),
        "knee": min(range(job.min_processes, job.useful + 1), key=lambda p: (p * job.exactly(p) ** 2, p)),
    }
    return max(job.min_processes, min(job.useful, wanted[kind]))


def weight(kind, job):
    work = job.work * job.factor
    value = {"equal": 1e-6, "average": job.average, "root": work**0.5, "work": work}[kind]
    return max(1, int(1e6 * value + 0.5))


def limited(limit_of, bound="largest"):
    """Each job gets at most ``limit_of(state)``, and what is free."""

    def rule(state, order):
        limit = limit_of(state)
        in_turn(state, order, lambda job: max(job.min_processes, min(bounded(bound, job), limit, state.free)))
        return [job for job in order if job.begin_ns >= 0]

    return rule


def fitting(state, order):
    """The first jobs that can start together, each with ``min_processes``."""
    places, free = [], state.free
    for job in order:
        if job.min_processes > free:
            break
        places.append(job)
        free -= job.min_processes
    return places


def hand_out(sizes, caps, count, worth):
    """Give ``count`` processors one by one to the job that is worth most, the first of equals."""
    for _ in range(count):
        able = [i for i in range(len(sizes)) if sizes[i] < caps[i]]
        if not able or max(worth(i) for i in able) <= 0:
            break
        sizes[max(able, key=lambda i: (worth(i), -i))] += 1


def shared(worth_of, share="equal", bound="largest"):
    """Jobs that start together divide what they get one by one, by ``worth_of(weight, processors)``."""

    def rule(state, order):
        total = sum(weight(share, job) for job in [*state.waiting, *state.running])
        jobs = fitting(state, order)
        sizes, caps = [job.min_processes for job in jobs], [bounded(bound, job) for job in jobs]
        weights = [weight(share, job) for job in jobs]
        budget = state.free
        if share != "equal" and jobs:
            budget = min(budget, -(-state.processors * sum(weights) // total))
        hand_out(sizes, caps, budget - sum(sizes), lambda i: worth_of(weights[i], sizes[i]))
        for job, size in zip(jobs, sizes, strict=True):
            start(state, job, size)
        return jobs

    return rule


def ordered(rule, order=0, bound="largest"):
    """The queue by arrival (order 0) or demand (1, 2); with 2 differential allocation of what they get."""

    def decide(state):
        queue = sorted(state.waiting, key=lambda job: job.demand) if order else state.waiting
        jobs = rule(state, queue)
        if order < 2:
            return
        total, sizes = sum(job.size for job in jobs), [job.min_processes for job in jobs]
        caps = [bounded(bound, job) for job in jobs]

        def saved(i):
            job, p = jobs[i], sizes[i]
            return job.work * job.factor / (p * (p + 1.0)) - job.beta * job.factor

        hand_out(sizes, caps, total - sum(sizes), saved)
        state.running = [job for job in state.running if job not in jobs]
        for job, size in zip(jobs, sizes, strict=True):
            start(state, job, size)

    return decide


def all_here(state):
    return len(state.waiting) + len(state.running)


def rounded_up(count_of):
    return lambda state: -(-state.processors // max(1, count_of(state)))
