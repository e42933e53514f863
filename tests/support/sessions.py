"""Sessions of policies without processes, and what they decide in one line."""

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.view import Job, Machine

MS = 1_000_000


def session(name, jobs, processors=2, arrived=0, **options):
    """A session of jobs, or of jobs of these numbers of processes; the first ``arrived`` come at 0."""
    job_list = [Job(number, one) if isinstance(one, int) else one for number, one in enumerate(jobs)]
    run = Session(policies.create(name, options), Machine(processors), job_list)
    for job in job_list[:arrived]:
        run.arrive(job.number).decide(0)
    return run


def after(run, events):
    """The plan after events, each of which may have a time in milliseconds, else that of the one before.

    ``0@5`` is the arrival of job 0 at 5 ms, ``~0`` its departure, ``0:2`` that it can use two processors,
    ``p1=0.5`` the load that the owner of processor 1 brings, ``end`` that of a table, ``timer`` the timer's.
    """
    plan = None
    now_ns = 0
    for event in events.split():
        what, _, at_ms = event.partition("@")
        now_ns = round(float(at_ms) * MS) if at_ms else now_ns
        if what in ("end", "timer"):
            plan = (run.slot_end() if what == "end" else run.timer()).decide(now_ns)
        elif what[0] == "p":
            processor, load = what[1:].split("=")
            plan = run.owner([int(processor)], float(load)).decide(now_ns)
        elif what[0] == "~":
            plan = run.depart(int(what[1:])).decide(now_ns)
        elif ":" in what:
            plan = run.evolve(*map(int, what.split(":"))).decide(now_ns)
        else:
            plan = run.arrive(int(what)).decide(now_ns)
    return plan


def slots(plan):
    """The jobs on each processor in each slot, as in ``"0 0 - | 1+2 1 -"``."""
    return " | ".join(
        " ".join("+".join(map(str, jobs)) or "-" for jobs in slot.runs) for slot in plan.decision.slots
    )


def sizes(plan):
    """The number of processors of each job that has some."""
    return {number: len(place) for number, place in plan.decision.placements.items()}
