"""Moldable programs, of whose ranks some begin and the others sleep, and malleable ones, whose ranks leave
and join between phases. For any number of ranks.
"""

import itertools

import pytest
from mpi4py import MPI

from workloads.execute import LaunchedProgram
from workloads.malleable import ANYWHERE
from workloads.messaging import Messenger
from workloads.program import Draws, Program
from workloads.rank import prepare
from workloads.record import Recorder
from workloads.timeline import Timeline
from workloads.waiting_rules import waiting_rule

COMM = MPI.COMM_WORLD
KEY = (1, 0, 0)
LAST = range(COMM.size)[-1:]
SOME = range(COMM.size)[: max(1, COMM.size // 2)]
REVERSED = range(COMM.size)[::-1]
PHASES = 60


def rule(name):
    return lambda program: waiting_rule(
        name, context_switch_us=20.0, latency_us=2.0, spin_switches=2, imbalance_us=program.imbalance_us
    )


def run(program, ranks, waiting="immediate", timeline=None):
    """The records of the ranks that take part, in their order, once all have closed."""
    execution = prepare(LaunchedProgram(COMM, program, rule(waiting), KEY, 1000.0), timeline)
    record = execution.run(ranks) if COMM.rank in ranks else None
    execution.close()
    records = COMM.allgather(record)
    return [records[rank] for rank in ranks]


@pytest.mark.parametrize("ranks", [LAST, SOME, REVERSED], ids=["last", "some", "reversed"])
@pytest.mark.parametrize(
    "options, waiting",
    [
        ({"pattern": "BARRIER"}, "spin"),
        ({"pattern": "TRANSPOSE"}, "global-adaptive"),
        ({"pattern": "NEWS", "read": "rma"}, "immediate"),
    ],
    ids=str,
)
def test_those_that_take_part_do_the_work_of_all(options, waiting, ranks):
    phases = 24 if waiting == "spin" else PHASES  # ranks that outnumber the processors spin for whole slices
    program = Program(processes=COMM.size, granularity_us=20, imbalance=1, phases=phases, **options)
    records = run(program, ranks, waiting)
    moulded = program.on(len(ranks))
    reads = moulded.reads()
    for rank, record in enumerate(records):
        assert (record.rank, record.processes, record.phases) == (rank, len(ranks), phases)
        wanted_ns = sum(Draws(moulded, rank, KEY).compute_ns(phases))
        assert record.computing_ns >= wanted_ns
        read = record.waits.read
        assert read.spun + read.blocked == phases * sum(target != rank for target in reads[rank])
        assert record.rechecks == 0


def test_a_timeline_names_the_peers_as_the_job_numbers_them():
    program = Program("TRANSPOSE", processes=COMM.size, granularity_us=20, phases=5)
    timeline = Timeline()
    run(program, REVERSED, timeline=timeline)
    peers = {int(peer) for peer in timeline.rows(0)[:, 3]}
    assert peers <= set(range(-1, COMM.size)) - ({COMM.size - 1 - COMM.rank} if COMM.size > 1 else set())


@pytest.mark.parametrize("network", [False, True])
def test_ranks_leave_and_come_back_without_a_message(network):
    """All, some, all again in another order: each barrier is passed by those that take part, and no other."""
    waits = rule("immediate")(Program(phases=1))
    recorder = Recorder()
    messenger = Messenger(COMM, waits, recorder, network=network)
    took_part = 0
    for ranks in (range(COMM.size), SOME, LAST, REVERSED):
        if COMM.rank in ranks:
            messenger.enter(ranks, waits)
            assert (messenger.rank, messenger.size) == (ranks.index(COMM.rank), len(ranks))
            messenger.barrier(learning=True)
            took_part += 1
        COMM.Barrier()
    messenger.close()
    assert recorder.barriers.counts().spun + recorder.barriers.counts().blocked == took_part
    assert messenger.rechecks == 0


def wishes(sizes, every):
    """Asked after each phase, it wishes the next of ``sizes`` after ``every`` more."""
    asked = itertools.count(1)

    def wish():
        turn, between = divmod(next(asked), every)
        return None if between or turn >= len(sizes) else [ANYWHERE] * sizes[turn]

    return wish


def changing(program, sizes, every=10, waiting="immediate"):
    """The records of all ranks of a malleable program, whose sizes are wished in turn."""
    execution = prepare(LaunchedProgram(COMM, program, rule(waiting), KEY, 0.0), wish=wishes(sizes, every))
    record = execution.run(range(sizes[0]) if sizes else ())
    execution.close()
    return COMM.allgather(record)


@pytest.mark.parametrize(
    "pattern, waiting",
    [("BARRIER", "global-adaptive"), ("BARRIER", "spin"), ("NEWS", "immediate"), ("TRANSPOSE", "immediate")],
)
def test_every_phase_is_run_once_by_the_ranks_that_are_active(pattern, waiting):
    size = COMM.size
    # Ranks that outnumber the processors spin for whole time slices.
    phases, every = (24, 4) if waiting == "spin" else (PHASES, 10)
    program = Program(pattern=pattern, processes=size, granularity_us=20, phases=phases, malleable=True)
    sizes = [size, 1, max(1, size // 2), size]
    records = changing(program, sizes, every, waiting)
    sizes_of_program = records[0].sizes
    assert sum(phases for phases, _ in sizes_of_program) == records[0].phases == phases
    assert [active for _, active in sizes_of_program] == [
        n for at, n in enumerate(sizes) if at == 0 or n != sizes[at - 1]
    ]
    for rank, record in enumerate(records):
        assert record.phases == sum(phases for phases, active in sizes_of_program if rank < active)


def test_a_change_takes_effect_within_two_phases():
    program = Program(processes=COMM.size, granularity_us=20, phases=PHASES, malleable=True)
    (first, _), *rest = changing(program, [COMM.size, 1], every=10)[0].sizes
    if COMM.size == 1:
        assert (first, rest) == (PHASES, [])
    else:
        assert 10 <= first <= 12


def test_parked_ranks_use_no_processor():
    """While one rank works for 50 ms and more, the others sleep."""
    program = Program(processes=COMM.size, granularity_us=2000, phases=25, malleable=True)
    records = changing(program, [1], every=1)
    for record in records[1:]:
        assert record.phases == 0
        assert record.cpu_ns < 20e6
        assert record.voluntary_switches >= 1
    assert records[0].computing_ns >= 0.05e9 * COMM.size * 0.95  # it does the work of all


def test_without_a_wish_it_is_the_program_that_does_not_change():
    program = Program(processes=COMM.size, granularity_us=50, imbalance=1, phases=PHASES, malleable=True)
    assert changing(program, [])[0].sizes == ((PHASES, COMM.size),)
