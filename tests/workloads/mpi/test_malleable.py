"""Malleable programs: ranks leave and join between phases. For any number of ranks."""

import pytest
from mpi4py import MPI

from workloads.blocking import waiting
from workloads.execute import LaunchedProgram
from workloads.malleable import ANYWHERE
from workloads.program import Program
from workloads.rank import prepare

COMM = MPI.COMM_WORLD
PHASES = 60


def rule(blocking):
    return lambda program: waiting(
        blocking, switch_us=20.0, latency_us=2.0, spin_switches=2, imbalance_us=program.imbalance_us
    )


def wishes(sizes, every):
    """Asked after each phase, it wishes the next of ``sizes`` after ``every`` more."""
    asked = 0

    def wish():
        nonlocal asked
        asked += 1
        if asked % every or asked // every >= len(sizes):
            return None
        return [ANYWHERE] * sizes[asked // every]

    return wish


def run(program, sizes, every=10, blocking="immediate"):
    execution = prepare(
        LaunchedProgram(COMM, program, rule(blocking), (1, 0, 0), 0.0), wish=wishes(sizes, every)
    )
    record = execution.run(range(sizes[0]) if sizes else ())
    execution.close()
    return COMM.allgather(record)


@pytest.mark.parametrize(
    ("pattern", "blocking"),
    [("BARRIER", "global-adaptive"), ("BARRIER", "spin"), ("NEWS", "immediate"), ("TRANSPOSE", "immediate")],
)
def test_every_phase_is_run_once_whoever_is_active(pattern, blocking):
    size = COMM.size
    # Ranks that outnumber the processors spin for whole time slices.
    phases, every = (24, 4) if blocking == "spin" else (PHASES, 10)
    program = Program(pattern=pattern, processes=size, granularity_us=20, phases=phases, malleable=True)
    sizes = [size, 1, max(1, size // 2), size]
    records = run(program, sizes, every, blocking)
    told = records[0]["sizes"]
    assert sum(phases for phases, _ in told) == records[0]["phases"] == phases
    assert [active for _, active in told] == [
        n for at, n in enumerate(sizes) if at == 0 or n != sizes[at - 1]
    ]
    for rank, record in enumerate(records):
        assert record["phases"] == sum(phases for phases, active in told if rank < active)


def test_a_change_takes_effect_within_two_phases():
    program = Program(processes=COMM.size, granularity_us=20, phases=PHASES, malleable=True)
    (first, _), *rest = run(program, [COMM.size, 1], every=10)[0]["sizes"]
    if COMM.size == 1:
        assert (first, rest) == (PHASES, [])
    else:
        assert 10 <= first <= 12


def test_parked_ranks_use_no_processor():
    """While one rank works for 50 ms and more, the others sleep."""
    program = Program(processes=COMM.size, granularity_us=2000, phases=25, malleable=True)
    records = run(program, [1], every=1)
    for record in records[1:]:
        assert record["phases"] == 0
        assert record["cpu_ns"] < 20e6
        assert record["voluntary_switches"] >= 1
    assert records[0]["computing_ns"] >= 0.05e9 * COMM.size * 0.95  # it does the work of all


def test_without_a_wish_it_is_the_program_that_does_not_change():
    program = Program(processes=COMM.size, granularity_us=50, imbalance=1, phases=PHASES, malleable=True)
    assert run(program, [])[0]["sizes"] == [(PHASES, COMM.size)]
