"""Jobs that change their processors while they run, or share them."""

from independent_scheduler.loop import NS, start


def processor_sets(hold_s):
    """A job has processors that no other has for a time; then it shares them with jobs that wait."""

    def rule(state):
        until_ns = state.memory.setdefault("until_ns", {})
        late = []
        for job in state.waiting:
            held = [one for one in state.running if until_ns.get(one.number, 0) > state.now_ns]
            pool = set(range(state.processors)).difference(*(one.place for one in held))
            crowd = {p: sum(p in one.place for one in state.running) for p in pool}
            if late or job.max_processes > len(pool):
                late.append(job)
                continue
            chosen = sorted(pool, key=lambda p: (crowd[p], p))[: job.max_processes]
            job.place = frozenset(chosen)
            start(state, job, job.max_processes)
            if not any(crowd[p] for p in chosen):
                until_ns[job.number] = state.now_ns + hold_s * NS
        ends = [until_ns.get(job.number, 0) for job in state.running]
        state.again_ns = min((ns for ns in ends if ns > state.now_ns), default=None) if late else None

    return rule


def malleable(jobs, processors, divide):
    """Processors that are divided again at each instant; returns the sizes of all jobs after each."""
    history = {}
    coming = sorted(jobs, key=lambda job: (job.arrival_ns, job.number))
    here, left_ns, now_ns = [], {}, 0
    while coming or here:
        ends = [
            now_ns + left_ns[job.number] if job.told_ns is None else job.told_ns for job in here if job.size
        ]
        before_ns, now_ns = now_ns, min(ends + [job.arrival_ns for job in coming])
        for job in here:
            if job.size:
                left_ns[job.number] -= now_ns - before_ns
                job.served_ns += job.size * (now_ns - before_ns)
                over = left_ns[job.number] == 0 if job.told_ns is None else job.told_ns == now_ns
                job.end_ns = now_ns if over else -1
        here = [job for job in here if job.end_ns < 0]
        here += [job for job in coming if job.arrival_ns == now_ns]
        coming = [job for job in coming if job.arrival_ns > now_ns]
        sizes = divide(here, processors)
        for job in here:
            new, old = sizes[job.number], job.size
            if new and not old:
                job.begin_ns, left_ns[job.number] = now_ns, job.time_ns(new)
            elif new != old:
                left_ns[job.number] = round(left_ns[job.number] * (job.time_ns(new) / job.time_ns(old)))
            job.size = new
        history[now_ns] = {job.number: job.size for job in here if job.size}
    return history


def by_service(here, processors):
    """As ``divided``, those first that had least service so far."""
    return divided(sorted(here, key=lambda job: job.served_ns), processors)


def controlled(here, processors):
    """Equal parts of what rigid jobs leave, the larger ones to earlier jobs, one processor at least."""
    rigid = {job.number: job.max_processes for job in here if job.min_processes == job.max_processes}
    able = [job for job in here if job.number not in rigid]
    sizes = {job.number: 0 for job in able}
    for _ in range(processors - sum(rigid.values())):
        more = [job for job in able if sizes[job.number] < job.useful]
        if more:
            sizes[min(more, key=lambda job: sizes[job.number]).number] += 1
    return rigid | {number: max(1, size) for number, size in sizes.items()}


def divided(order, processors):
    """The processors of each job: at least one for all that have begun, equal parts of what they can use."""
    sizes = {
        job.number: job.size if job.min_processes == job.max_processes else min(1, job.size) for job in order
    }
    for job in order:
        if job.size == 0:
            if sum(sizes.values()) + job.min_processes > processors:
                break
            sizes[job.number] = job.min_processes
    able = [job for job in order if job.min_processes < job.max_processes and sizes[job.number]]
    for _ in range(processors - sum(sizes.values())):
        more = [job for job in able if sizes[job.number] < job.useful]
        if not more:
            break
        sizes[min(more, key=lambda job: sizes[job.number]).number] += 1
    return sizes
