"""What policies decide after given events, by hand."""

import pytest
from sessions import MS, after, session, slots

from coordinator.view import Job

GANG, ROUND = {"quantum_ms": 10}, {"service": 2, "quanta_ms": [10]}
FLEXIBLE = [Job(number, 2, moldable=True) for number in range(3)]

SCENES = [
    # policy, options, jobs or their sizes, processors, events, slots, end of the first slot in ms if told
    ("none", {}, (2, 2, 2), 2, "0 1 2", "0+1+2 0+1+2", None),
    ("implicit", {}, (2, 2, 2), 2, "0 1 2", "0+1+2 0+1+2", None),
    ("partitioned", {}, FLEXIBLE, 2, "0 1 2", "0 1", None),
    ("partitioned", {}, FLEXIBLE, 2, "0 1 2 ~1@5", "0 2", None),
    ("partitioned", {}, (2, 2), 2, "0 1", "0 0", None),
    ("partitioned", {}, (2, 2), 2, "0 1 ~0@5", "1 1", None),
    ("batch", {}, (2, 2, 2), 2, "0 1 2 ~0@5 ~1@9", "2 2", None),
    ("batch", {}, (2, 2, 2), 2, "0 1 2 ~0 ~1 ~2@10", "- -", None),
    # Gangs: one row a job if they do not fit beside each other; a slot that is interrupted goes on.
    ("gang", GANG, (2, 2, 2), 2, "0 1 2", "0 0 | 1 1 | 2 2", 10),
    ("gang", GANG, (2, 2, 4), 4, "0 1 2", "0 0 1 1 | 2 2 2 2", 10),
    ("gang", GANG, (2,), 2, "0", "0 0", None),
    ("gang", GANG, (2, 2, 2, 2), 2, "0 1 2 3@14", "1 1 | 2 2 | 0 0 | 3 3", 20),
    ("gang", GANG, (2, 2, 2), 2, "0 1 2 ~1@14", "2 2 | 0 0", 24),
    # Holes of rows, rows that could be one, and gangs that move.
    ("gang", {"fill": "none"}, (3, 3, 1), 4, "0 1 2", "0 0 0 2 | 1 1 1 -", 100),
    ("gang", {"fill": "jobs"}, (3, 3, 1), 4, "0 1 2", "0 0 0 2 | 1 1 1 2", 100),
    ("gang", {"fill": "jobs"}, (3, 4), 4, "0 1", "0 0 0 - | 1 1 1 1", 100),
    ("gang", {"fill": "processes"}, (3, 4), 4, "0 1", "0 0 0 1 | 1 1 1 1", 100),
    ("gang", {"unify": False}, (3, 2, 1), 4, "0 1 2 ~0@1", "- - - 2 | 1 1 - -", 100),
    ("gang", {"unify": True}, (3, 2, 1), 4, "0 1 2 ~0@1", "1 1 - 2", None),
    ("gang", {"unify": True}, (3, 2, 1, 2), 4, "0 1 2 3 ~3@1", "0 0 0 2 | 1 1 - -", 100),
    ("gang", GANG, (1, 1, 1, 1), 2, "0 1 2 3 ~0@12 ~2@14", "- 3 | - 1", 20),
    ("gang", {"migrate": True, **GANG}, (1, 1, 1, 1), 2, "0 1 2 3 ~0@12 ~2@14", "3 1", None),
    ("gang", {"rows": 2}, (3, 4, 2, 1), 4, "0 1 2 3", "0 0 0 - | 1 1 1 1", 100),
    ("gang", {"rows": 2}, (3, 4, 2, 1), 4, "0 1 2 3 ~1@1", "0 0 0 3 | 2 2 - -", 100),
    # Processors that begin their slots at phases of their own.
    ("gang", {"synchronised": False, **GANG}, (2, 2), 2, "0", "0 0", None),
    ("gang", {"synchronised": False, **GANG}, (2, 2), 2, "0 1", "0 1 | 0 0 | 1 0 | 1 1", 5),
    ("gang", {"share": "sequential"}, (2, 1), 2, "0 1", "0+1 0", None),
    ("gang", {}, (2, 1), 2, "0 1", "0 0 | 1 -", 100),
    # Processes hold their processors until their time is over and others wait; then they share the pool.
    ("processor-sets", {"hold_ms": 100}, (2, 2, 1, 1), 3, "0 1@30", "0 0 -", 100),
    ("processor-sets", {"hold_ms": 100}, (2, 2, 1, 1), 3, "0 1@30 end@100", "0+1 0 1", None),
    ("processor-sets", {"hold_ms": 100}, (2, 2, 1, 1), 3, "0 1@30 end@100 2@120", "0+1 0+2 1", None),
    (
        *("processor-sets", {"hold_ms": 100}, (2, 2, 1, 1), 3),
        *("0 1@30 end@100 2@120 ~0@150 ~2@160 3@200", "1 3 1", None),
    ),
    ("processor-sets", {"hold_ms": 10}, (2, 2), 2, "0 1@25", "0+1 0+1", None),
    ("processor-sets", {"hold_ms": 10}, (2, 2, 2), 2, "0 1@25 ~0@30 ~1@31 2@40", "2 2", None),
    # A round of turns by job; it goes on where it was interrupted.
    ("rr-job", GANG, (2, 1), 2, "0 1", "0 0 | 1 -", 10),
    ("rr-job", GANG, (2, 1), 4, "0 1@5", "0 0 1 -", None),
    ("rr-job", GANG, (2, 2, 2), 2, "0 1 2@14", "1 1 | 2 2 | 0 0", 20),
    # Controllers of a level rotate independently, levels take turns, and halves of an idle block run.
    ("dhc", GANG, (2, 2, 2, 2, 2), 4, "0 1 2 3 4", "0 0 1 1 | 2 2 3 3 | 4 4 1 1", 10),
    ("dhc", GANG, (2, 2, 2, 2, 2), 4, "0 1 2 3 4 end@30", "0 0 3 3 | 2 2 1 1 | 4 4 3 3", 40),
    ("dhc", GANG, (4, 2, 1), 4, "0 1 2", "0 0 0 0 | 1 1 2 - | - - 2 -", 10),
    ("dhc", GANG, (2,), 4, "0", "0 0 - -", None),
    # Queues on one processor. An inserted arrival has the next slot, and the round goes on.
    (
        "multilevel-two-queue",
        {"insert": True, "slots": [1], **ROUND},
        (1,) * 4,
        1,
        "0 1 end@20 2@24",
        "0 | 2 | 1",
        30,
    ),
    (
        *("multilevel-two-queue", {"insert": True, "slots": [1], **ROUND}, (1,) * 4, 1),
        *("0 1 end@20 2@24 3@30", "2 | 3 | 1", 40),
    ),
    ("multilevel-two-queue", {"insert": True, **ROUND}, (1,) * 5, 1, "0 1 2 3 4@4", "0 | 1 | 2 | 3 | 4", 10),
    # Arrivals of one instant are served as if they had come together, also in a round.
    ("multilevel-two-queue", {"slots": [1], **ROUND}, (1,) * 5, 1, "0 1 2", "0 | 1", 10),
    ("multilevel-two-queue", {"slots": [1], **ROUND}, (1,) * 5, 1, "3 end@10 0 1 2", "0 | 1", 20),
    # Arrivals wait for a place in the service queue; the first that waits gets it at once, and is the last there.
    ("two-queue", {"service": 2, **GANG}, (1, 1, 1), 1, "0 1 2@4", "0 | 1", 10),
    ("two-queue", {"service": 2, **GANG}, (1, 1, 1), 1, "0 1 2@4 ~0@7", "1 | 2", 17),
    ("two-queue", {"service": 2, **GANG}, (1, 1, 1), 1, "0 1 2@4 ~0@7 end@27", "1 | 2", 37),
    ("two-queue", {"service": 2, **GANG}, (1,) * 4, 1, "0 1 2 3 ~2@4", "0 | 1", 10),
    *(
        (name, {"service": 2}, (1,) * 4, 1, "0 1 2 ~0@4 3@5", "1 | 2", ...)
        for name in ("two-queue", "modified-two-queue", "multilevel-two-queue")
    ),
]


@pytest.mark.parametrize(
    ("name", "options", "jobs", "processors", "events", "shown", "end_ms"), SCENES, ids=str
)
def test_policies_decide_so(name, options, jobs, processors, events, shown, end_ms):
    run = session(name, jobs, processors, **options)
    plan = after(run, events)
    assert slots(plan) == shown
    now_ns = max([float(event.partition("@")[2] or 0) for event in events.split()]) * MS
    if end_ms is not ...:
        assert plan.cycle.slot_at(round(now_ns)) == (0, end_ms and end_ms * MS)
