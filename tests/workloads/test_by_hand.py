"""The arguments of ``python -m workloads`` say a whole program."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.__main__ import described, parser
from workloads.by_hand import arguments
from workloads.locks.lock_program import LockProgram
from workloads.program import Program
from workloads.validation import InputError

PROGRAMS = st.builds(
    Program,
    pattern=st.sampled_from(["NEWS", "TRANSPOSE"]),
    processes=st.sampled_from([1, 2, 4]),
    granularity_us=st.floats(1, 1e5),
    imbalance=st.floats(0, 2),
    imbalance_kind=st.sampled_from(["uniform", "exponential"]),
    read_gap_us=st.floats(0, 100),
    read_imbalance=st.floats(0, 2),
    opening_barrier=st.booleans(),
    read=st.sampled_from(["message", "rma"]),
    dedicated_s=st.floats(0.01, 10),
    working_set_bytes=st.sampled_from([0, 4096]),
)


@given(program=PROGRAMS)
def test_arguments_are_read_as_the_program_with_as_many_phases(program):
    read = described(parser().parse_args(arguments(program)), program.processes)
    assert read == replace(program, dedicated_s=None, phases=program.phase_count())


@pytest.mark.parametrize(
    ("program", "key"),
    [
        (Program(malleable=True, phases=1), "malleable"),
        (Program(checkpoint_phases=5, phases=9), "checkpoint_phases"),
        (Program(pattern="TASKS", phases=1), "pattern"),
        (LockProgram(pattern="LOCK", phases=1), "pattern"),
    ],
)
def test_what_needs_a_coordinator_is_refused(program, key):
    with pytest.raises(InputError) as refusal:
        arguments(program)
    assert refusal.value.key == key
