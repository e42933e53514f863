"""What policies decide after given events, by hand."""

import pytest
from sessions import MS, after, session, sizes, slots

from coordinator.view import Job

GANG = {"quantum_ms": 10}
ROUND = {"service": 2, "quanta_ms": [10]}
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
    # Gangs in their slots share with the sequential jobs of their processors.
    *(
        (name, {"share": "sequential"}, (2, 2, 1, 1), 2, "0 1 2 3", "0+2 0+3 | 1+2 1+3", ...)
        for name in ("dhc", "gang", "modified-two-queue", "multilevel-two-queue", "two-queue")
    ),
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
        *(1, "0 1 end@20 2@24", "0 | 2 | 1", 30),
    ),
    (
        *("multilevel-two-queue", {"insert": True, "slots": [1], **ROUND}, (1,) * 4, 1),
        *("0 1 end@20 2@24 3@30", "2 | 3 | 1", 40),
    ),
    ("multilevel-two-queue", {"insert": True, **ROUND}, (1,) * 5, 1, "0 1 2 3 4@4", "0 | 1 | 2 | 3 | 4", 10),
    # Arrivals of one instant are served as if they had come together, also in a round.
    ("multilevel-two-queue", {"slots": [1], **ROUND}, (1,) * 5, 1, "0 1 2", "0 | 1", 10),
    ("multilevel-two-queue", {"slots": [1], **ROUND}, (1,) * 5, 1, "3 end@10 0 1 2", "0 | 1", 20),
    # Arrivals wait for a place in the service queue; the first of them gets it at once, as the last there.
    ("two-queue", {"service": 2, **GANG}, (1, 1, 1), 1, "0 1 2@4", "0 | 1", 10),
    ("two-queue", {"service": 2, **GANG}, (1, 1, 1), 1, "0 1 2@4 ~0@7", "1 | 2", 17),
    ("two-queue", {"service": 2, **GANG}, (1, 1, 1), 1, "0 1 2@4 ~0@7 end@27", "1 | 2", 37),
    ("two-queue", {"service": 2, **GANG}, (1,) * 4, 1, "0 1 2 3 ~2@4", "0 | 1", 10),
    *(
        (name, {"service": 2}, (1,) * 4, 1, "0 1 2 ~0@4 3@5", "1 | 2", ...)
        for name in ("two-queue", "modified-two-queue", "multilevel-two-queue")
    ),
]


@pytest.mark.parametrize("name, options, jobs, processors, events, shown, end_ms", SCENES, ids=str)
def test_policies_decide_so(name, options, jobs, processors, events, shown, end_ms):
    run = session(name, jobs, processors, **options)
    plan = after(run, events)
    assert slots(plan) == shown
    now_ns = max([float(event.partition("@")[2] or 0) for event in events.split()]) * MS
    if end_ms is not ...:
        assert plan.cycle.slot_at(round(now_ns)) == (0, end_ms and end_ms * MS)


ABLE = [Job(number, 4, malleable=True) for number in range(3)]
SMALL_BESIDE = [Job(0, 1, malleable=True), ABLE[1]]
RIGID_BESIDE = [ABLE[0], Job(1, 3), Job(2, 4)]
SOON = {"grace_s": 10}
BATCH = {"vacate": False, "start_load": 0.3, "stop_load": 0.7}

PLACES = [
    # policy, options, jobs, processors, events, places of jobs or their numbers, slots unless all run
    ("dhc", {}, (1, 2, 1), 4, "0 1 2", {0: (0,), 1: (2, 3), 2: (1,)}, "0 2 1 1 | 0 2 - -"),
    # All of the processors are divided again; of those that cannot suspend processes nobody asks it.
    ("process-control", {}, ABLE, 4, "0", {0: (0, 1, 2, 3)}, ""),
    ("process-control", {}, ABLE, 4, "0 1", {0: (0, 1), 1: (2, 3)}, ""),
    ("process-control", {}, ABLE, 4, "0 1 2", {0: (0, 1), 1: (2,), 2: (3,)}, ""),
    ("process-control", {}, ABLE, 4, "0 1 2 ~0", {1: (2, 0), 2: (3, 1)}, ""),
    ("process-control", {}, ABLE, 4, "0 1 2 ~0 ~2", {1: (2, 0, 1, 3)}, ""),
    ("process-control", {}, SMALL_BESIDE, 4, "0 1", {0: (0,), 1: (1, 2, 3)}, ""),
    ("process-control", {}, RIGID_BESIDE, 4, "0 1", {0: (3,), 1: (0, 1, 2)}, ""),
    (
        *("process-control", {}, RIGID_BESIDE, 4, "0 1 2"),
        *({0: (3,), 1: (0, 1, 2), 2: (3, 0, 1, 2)}, "1+2 1+2 1+2 0+2"),
    ),
    ("dyn-equi", {}, ABLE, 4, "0 1", {0: (0, 1), 1: (2, 3)}, ""),
    ("dyn-equi", {}, ABLE, 4, "0 1 ~0", {1: (2, 3, 0, 1)}, ""),
    # What a program cannot use goes to the others at once and back, what is over to the least served.
    ("dynamic", {}, ABLE, 4, "0 1", {0: 2, 1: 2}, ""),
    ("dynamic", {}, ABLE, 4, "0 1 0:1", {0: 1, 1: 3}, ""),
    ("dynamic", {}, ABLE, 4, "0 1 0:1 1:2", {0: 1, 1: 2}, ""),
    ("dynamic", {}, ABLE, 4, "0 1 0:1 1:2 0:4", {0: 2, 1: 2}, ""),
    ("dynamic", {}, ABLE, 4, "0 1 0:1 1:2 0:4 ~1", {0: 4}, ""),
    ("dynamic", {}, ABLE, 3, "0 1@10", {0: 1, 1: 2}, ""),
    ("dynamic", {}, ABLE, 3, "0 1@10 0:2@30", {0: 1, 1: 2}, ""),  # 50 ms against 40 ms
    ("dynamic", {}, ABLE, 3, "0 1@10 0:2@30 0:3@60", {0: 2, 1: 1}, ""),  # 80 ms against 100 ms
    # Condor suspends a job while the owner is there, and vacates it after the grace.
    ("condor", {}, (2, 1), 3, "0 1 p1=1@5000", {0: (0, 1), 1: (2,)}, "- - 1"),
    ("condor", {}, (2, 1), 3, "0 1 p1=1@5000 p1=0@9000", {0: (0, 1), 1: (2,)}, ""),
    ("condor", SOON, (1,), 3, "0 p0=1@5000 timer@15000", {0: (1,)}, ""),
    # Who finds no other workstation waits before those that came later.
    ("condor", SOON, (2, 1, 2), 3, "0 1 2 p0=1@5000 timer@15000", {1: (2,)}, ""),
    ("condor", SOON, (2, 1, 2), 3, "0 1 2 p0=1@5000 timer@15000 ~1@20000", {0: (1, 2)}, ""),
    # A workstation counts as idle only after a time, and may start and stop jobs at other loads.
    ("condor", {"idle_s": 10}, (1,), 1, "p0=1 0", {}, ""),
    ("condor", {"idle_s": 10}, (1,), 1, "p0=1 0 p0=0@4000", {}, ""),
    ("condor", {"idle_s": 10}, (1,), 1, "p0=1 0 p0=0@4000 timer@14000", {0: (0,)}, ""),
    ("condor", BATCH, (1,), 1, "0 p0=0.5", {0: (0,)}, ""),
    ("condor", BATCH, (1,), 1, "0 p0=0.5 p0=0.8", {0: (0,)}, "-"),
    ("condor", BATCH, (1,), 1, "0 p0=0.5 p0=0.8 p0=0.5", {0: (0,)}, "-"),
    ("condor", BATCH, (1,), 1, "0 p0=0.5 p0=0.8 p0=0.5 p0=0.2", {0: (0,)}, ""),
    # Sequential jobs have workstations of their own unless no partition is large enough for a job.
    ("condor", {"sequential": 1}, (1, 2, 2, 1), 4, "0 1 2 3", {0: (3,), 1: (0, 1)}, ""),
    ("condor", {"sequential": 1}, (4, 1), 4, "0 1", {0: (0, 1, 2, 3)}, ""),
    # One process leaves the workstation of an owner who comes; without an idle one the job is suspended.
    ("idle-partition", {}, (2,), 3, "0 p0=1@1000", {0: (2, 1)}, ""),
    ("idle-partition", {}, (2,), 3, "0 p0=1@1000 p1=1@2000", {0: (2, 1)}, "- - -"),
    ("idle-partition", {}, (2,), 3, "0 p0=1@1000 p1=1@2000 p0=0@3000", {0: (2, 0)}, ""),
]


@pytest.mark.parametrize("name, options, jobs, processors, events, places, shown", PLACES, ids=str)
def test_policies_place_jobs_so(name, options, jobs, processors, events, places, shown):
    plan = after(session(name, jobs, processors, **options), events)
    placements = plan.decision.placements
    assert places == (placements if any(isinstance(one, tuple) for one in places.values()) else sizes(plan))
    running = " ".join(
        "+".join(str(n) for n, at in placements.items() if p in at) or "-" for p in range(processors)
    )
    assert slots(plan) == (shown or running)
