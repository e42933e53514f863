"""Reads under gang scheduling: a stopped target answers only after it runs again."""

import pytest
from runs import two_processors

from coordinator import policies
from coordinator.drive.driver import run_workload
from coordinator.workload import ParallelJob, Workload
from workloads.program import Program

QUANTUM_MS = 60
"""Other work on the same processors delays no read for half as long."""

PHASES = 30_000
"""Enough for thirty slots on a fast host."""

LONG_BIN = (QUANTUM_MS * 1_000_000 // 2).bit_length() + 1
"""Histogram bins from here on count waits longer than half a slot."""


def run(jobs, phases, policy, **options):
    program = Program(pattern="TRANSPOSE", processes=2, granularity_us=20, read_gap_us=1, phases=phases)
    workload = Workload(
        tuple(ParallelJob(number, program) for number in range(jobs)),
        policies.create(policy, options),
        two_processors(),
    )
    result = run_workload(workload)
    assert not result.failure
    return result


def long_reads(result):
    return sum(sum(rank["waits"]["read"]["spun_histogram"][LONG_BIN:]) for rank in result.ranks)


@pytest.mark.slow
def test_a_read_waits_for_the_slot_in_which_its_target_runs():
    """Processors change slots within microseconds; about one slot in four ends in the middle of a read."""
    assert long_reads(run(1, PHASES // 4, "batch")) == 0
    result = run(2, PHASES, "gang", quantum_ms=QUANTUM_MS)
    assert long_reads(result) >= 2
    assert sum(rank["served"] for rank in result.ranks) == 2 * 2 * PHASES
