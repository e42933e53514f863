"""Rigid jobs: queues in various orders, with and without backfilling."""

import math

from independent_scheduler.loop import NS, in_turn, start


def fcfs(state):
    in_turn(state, state.waiting, lambda job: job.max_processes)


def batch(state):
    if not state.running and state.waiting:
        start(state, state.waiting[0], state.waiting[0].max_processes)


def partitioned(state):
    part = state.processors // min(state.count, state.processors)
    in_turn(
        state,
        state.waiting,
        lambda job: min(job.useful, part) if job.min_processes < job.max_processes else job.max_processes,
    )


def by_user(state, job):
    """How long a job takes by its user's estimate."""
    return job.guess_ns(job.max_processes)


def truly(state, job):
    """How long a job takes."""
    return job.time_ns(job.max_processes)


def by_last_two(state, job):
    """How long a job takes by a prediction, made when it arrived, and doubled whenever that is over."""
    predicted, limit_ns = state.memory.setdefault("predicted", {}), by_user(state, job)
    if job.number not in predicted:
        runs = [one.end_ns - one.begin_ns for one in state.over if one.user and one.user == job.user][-2:]
        predicted[job.number] = min(limit_ns, sum(runs) // 2) if len(runs) == 2 else limit_ns
    if job in state.running:
        while job.begin_ns + predicted[job.number] <= state.now_ns and predicted[job.number] < limit_ns:
            predicted[job.number] = min(2 * predicted[job.number], limit_ns)
    return predicted[job.number]


def asked_again(rule):
    """The same rule, which decides again when a prediction is over and jobs wait."""

    def predicting(state):
        for job in [*state.waiting, *state.running]:
            by_last_two(state, job)
        rule(state)
        ends = [
            job.begin_ns + by_last_two(state, job)
            for job in state.running
            if by_last_two(state, job) < by_user(state, job)
        ]
        if any(job.begin_ns < 0 for job in state.waiting):
            state.again_ns = min((end_ns for end_ns in ends if end_ns > state.now_ns), default=None)

    return predicting


def easy(state, order=lambda state: state.waiting, guess=by_user):
    """The first job that does not fit gets the earliest time by the estimates; no other may delay it."""
    queue = order(state)
    in_turn(state, queue, lambda job: job.max_processes)
    late = [job for job in queue if job.begin_ns < 0]
    if not late:
        return
    first, *others = late

    def guessed_end_ns(job):
        return max(job.begin_ns + guess(state, job), state.now_ns)

    reserved_ns = next(
        at_ns
        for at_ns in sorted({state.now_ns, *map(guessed_end_ns, state.running)})
        if state.processors - sum(job.size for job in state.running if guessed_end_ns(job) > at_ns)
        >= first.max_processes
    )
    for job in others:
        if job.max_processes > state.free:
            continue
        still = sum(one.size for one in state.running if guessed_end_ns(one) > reserved_ns)
        in_time = state.now_ns + guess(state, job) <= reserved_ns
        if in_time or still + job.max_processes + first.max_processes <= state.processors:
            start(state, job, job.max_processes)


def log10_since(job):
    return math.log10(max(1.0, job.arrival_ns / NS))


SCORES = {
    "sjf": lambda r, n, w, job: r,
    "ljf": lambda r, n, w, job: -r,
    "smallest": lambda r, n, w, job: n,
    "largest": lambda r, n, w, job: -n,
    "wfp3": lambda r, n, w, job: -((w / r) * (w / r) * (w / r)) * n,
    "unicep": lambda r, n, w, job: -w / (math.log2(max(2, n)) * r),
    "f1": lambda r, n, w, job: math.log10(r) * n + 870 * log10_since(job),
    "f2": lambda r, n, w, job: math.sqrt(r) * n + 25600 * log10_since(job),
    "f3": lambda r, n, w, job: r * n + 6860000 * log10_since(job),
    "f4": lambda r, n, w, job: r * math.sqrt(n) + 530000 * log10_since(job),
    "expansion": lambda r, n, w, job: -(w + r) / r,
}
"""Of a job with estimate r, n processors and wait w; the least comes first."""


def by_score(name, guess):
    """The waiting jobs in an order; those with equal scores as they came."""
    if name == "fcfs":
        return lambda state: state.waiting
    return lambda state: sorted(
        state.waiting,
        key=lambda job: SCORES[name](
            guess(state, job) / NS,
            job.max_processes,
            (state.now_ns - job.arrival_ns) / NS,
            job,
        ),
    )


def conservative(order, guess):
    """Each job, in order, gets the earliest time by the estimates that no other job's reservation forbids."""

    def rule(state):
        queue, reserved = order(state), state.memory.setdefault("reserved", {})
        until = {}
        for job in state.running:
            until[job.number] = max(job.begin_ns + guess(state, job), state.now_ns + 1)
        for job in queue:
            if job.number in reserved:
                reserved[job.number] = max(reserved[job.number], state.now_ns)
        for job in queue:
            length_ns = guess(state, job)
            spans = [(state.now_ns, until[one.number], one.size) for one in state.running]
            for other in queue:
                if other is not job and other.number in reserved:
                    at_ns = reserved[other.number]
                    end_ns = at_ns + guess(state, other)
                    spans.append((at_ns, end_ns, other.max_processes))

            def fits(at_ns, spans=spans, job=job, length_ns=length_ns):
                moments = {at_ns, *(begin for begin, _, _ in spans if at_ns < begin < at_ns + length_ns)}
                return all(
                    sum(size for begin, end, size in spans if begin <= moment < end) + job.max_processes
                    <= state.processors
                    for moment in moments
                )

            moments = {state.now_ns, *(end for _, end, _ in spans if end > state.now_ns)}
            reserved[job.number] = next(at_ns for at_ns in sorted(moments) if fits(at_ns))
        for job in queue:
            if reserved[job.number] == state.now_ns and job.max_processes <= state.free:
                del reserved[job.number]
                start(state, job, job.max_processes)

    return rule


GUESSES = {"user": by_user, "perfect": truly, "last-two": by_last_two}


def reordered(name, backfill, estimate):
    guess = GUESSES[estimate]
    order = by_score(name, guess)
    if backfill == "none":
        rule = lambda state: in_turn(state, order(state), lambda job: job.max_processes)  # noqa: E731
        if estimate != "last-two":
            return rule

        def predicted_first(state):
            for job in state.waiting:
                guess(state, job)
            rule(state)

        return predicted_first
    rule = conservative(order, guess)
    if backfill == "easy":
        rule = lambda state: easy(state, order, guess)  # noqa: E731
    return asked_again(rule) if estimate == "last-two" else rule
