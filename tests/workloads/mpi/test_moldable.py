"""Moldable programs: some of the launched ranks begin, the others sleep. For any number of ranks."""

import pytest
from mpi4py import MPI

from workloads.blocking import waiting
from workloads.execute import LaunchedProgram
from workloads.messaging import Messenger
from workloads.program import Draws, Program
from workloads.rank import prepare
from workloads.record import Recorder
from workloads.timeline import Timeline

COMM = MPI.COMM_WORLD
KEY = (1, 0, 0)
LAST = range(COMM.size)[-1:]
SOME = range(COMM.size)[: max(1, COMM.size // 2)]
REVERSED = range(COMM.size)[::-1]


def rule(name):
    return lambda program: waiting(
        name, switch_us=20.0, latency_us=2.0, spin_switches=2, imbalance_us=program.imbalance_us
    )


def run(program, ranks, blocking="immediate", timeline=None):
    """The records of the ranks that take part, in their order, once all have closed."""
    execution = prepare(LaunchedProgram(COMM, program, rule(blocking), KEY, 1000.0), timeline)
    record = execution.run(ranks) if COMM.rank in ranks else None
    execution.close()
    records = COMM.allgather(record)
    return [records[rank] for rank in ranks]


@pytest.mark.parametrize("ranks", [LAST, SOME, REVERSED], ids=["last", "some", "reversed"])
@pytest.mark.parametrize(
    ("options", "blocking"),
    [
        ({"pattern": "BARRIER"}, "spin"),
        ({"pattern": "TRANSPOSE"}, "global-adaptive"),
        ({"pattern": "NEWS", "read": "rma"}, "immediate"),
    ],
    ids=str,
)
def test_those_that_take_part_do_the_work_of_all(options, blocking, ranks):
    phases = 24 if blocking == "spin" else 60  # ranks that outnumber the processors spin for whole slices
    program = Program(processes=COMM.size, granularity_us=20, imbalance=1, phases=phases, **options)
    records = run(program, ranks, blocking)
    moulded = program.on(len(ranks))
    reads = moulded.reads()
    for rank, record in enumerate(records):
        assert (record["rank"], record["processes"], record["phases"]) == (rank, len(ranks), phases)
        wanted_ns = sum(Draws(moulded, rank, KEY).compute_ns(phases))
        assert record["computing_ns"] >= wanted_ns
        read = record["waits"]["read"]
        assert read["spun"] + read["blocked"] == phases * sum(target != rank for target in reads[rank])
        assert record["rechecks"] == 0


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
    assert recorder.barriers.spun + recorder.barriers.blocked == took_part
    assert messenger.rechecks == 0
