"""Critical sections of real ranks; runs under ``mpiexec -n N`` for any N."""

import os

import pytest
from mpi4py import MPI

from workloads.execute import LaunchedProgram, page_of
from workloads.locks import SectionLocks
from workloads.locks.lock_program import LOCKS, LockProgram
from workloads.rank import prepare
from workloads.waiting_rules import read_limit, waiting_rule

pytestmark = pytest.mark.mpi

COMM = MPI.COMM_WORLD
PHASES = 40 if COMM.size <= len(os.sched_getaffinity(0)) else 12  # else some spin for whole time slices
KINDS = pytest.mark.parametrize("kind", LOCKS)
WAITS = pytest.mark.parametrize("waiting", ["spin", "immediate", "fixed"])


def rule(waiting):
    return waiting_rule(waiting, context_switch_us=5, latency_us=2)


def program(**given):
    return LockProgram(processes=COMM.size, granularity_us=20, section_us=5, phases=PHASES, **given)


@WAITS
@KINDS
def test_ranks_are_inside_one_at_a_time(kind, waiting, tmp_path):
    page = COMM.bcast(tmp_path / "locks", 0) if waiting == "fixed" else None
    file = page_of(LaunchedProgram(COMM, program(), rule, (1, 0, 0), 0.0, page=page))
    locks = SectionLocks(file, COMM.rank, COMM.size, 1, LOCKS[kind], read_limit(rule(waiting)))
    window = MPI.Win.Allocate_shared(8 if COMM.rank == 0 else 0, 8, comm=COMM)
    word = memoryview(window.Shared_query(0)[0]).cast("q")
    if COMM.rank == 0:
        word[0] = 0
    COMM.Barrier()
    for _ in range(PHASES):
        locks.enter(0)
        seen = word[0]
        word[0] = seen + 1
        locks.leave(0)
    COMM.Barrier()
    assert word[0] == COMM.size * PHASES
    assert locks.rechecks == 0, "a wake-up was lost"
    locks.close()
    os.close(file)
    word.release()
    window.Free()


@WAITS
@KINDS
def test_a_program_with_sections_records_its_waits_as_synchronization(kind, waiting):
    execution = prepare(
        LaunchedProgram(COMM, program(lock=kind, locks=2), lambda _: rule(waiting), (1, 0, 0), 0.0)
    )
    record = execution.run()
    execution.close()
    waits = record.waits.barrier
    assert waits.spun + waits.blocked == PHASES == record.phases
    assert record.rechecks == 0
    assert record.computing_ns >= PHASES * 24_000
    assert record.synchronizing_ns > 0 == record.communicating_ns
