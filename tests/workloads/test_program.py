"""Programs: validation, run length, and reproducible compute times."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.program import Draws, Program
from workloads.validation import InputError

KEY = (7, 0, 2)


def test_the_length_is_given_exactly_once():
    with pytest.raises(InputError, match="either phases or dedicated_s must be given"):
        Program()
    with pytest.raises(InputError, match="phases = 3: cannot be combined with dedicated_s"):
        Program(phases=3, dedicated_s=1.0)


def test_a_barrier_program_has_its_opening_barrier():
    with pytest.raises(InputError, match="consists of its opening barrier"):
        Program(pattern="BARRIER", opening_barrier=False, phases=1)


def test_phase_duration_of_a_hand_computed_case():
    # 1000 + 250/2 * 1/3 for the slower of two, a barrier of 2 * 10 us.
    program = Program(granularity_us=1000, imbalance=0.25, processes=2, dedicated_s=2.0)
    assert program.phase_us() == pytest.approx(1000 + 125 / 3 + 20)
    assert program.phase_count() == round(2e6 / (1000 + 125 / 3 + 20))


def test_the_expected_slowest_process_matches_the_draws():
    for kind in ("uniform", "exponential"):
        program = Program(granularity_us=100, imbalance=1.5, imbalance_kind=kind, processes=8, phases=4000)
        slowest = np.max([Draws(program, rank, KEY).compute_ns(4000) for rank in range(8)], axis=0)
        assert slowest.mean() / 1e3 == pytest.approx(program.phase_us(latency_us=0), rel=0.02)


@given(
    st.sampled_from(["uniform", "exponential"]),
    st.floats(0, 2),
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
)
def test_draws_do_not_depend_on_block_sizes(kind, imbalance, blocks):
    program = Program(imbalance=imbalance, imbalance_kind=kind, read_imbalance=0.5, phases=1)
    pieces = Draws(program, 1, KEY)
    whole = Draws(program, 1, KEY)
    total = sum(blocks)
    assert np.concatenate([pieces.compute_ns(n) for n in blocks]).tolist() == whole.compute_ns(total).tolist()
    assert np.concatenate([pieces.gap_ns(n) for n in blocks]).tolist() == whole.gap_ns(total).tolist()


@given(st.floats(0, 2))
def test_uniform_times_stay_in_their_interval(imbalance):
    program = Program(granularity_us=1000, imbalance=imbalance, phases=1)
    times = Draws(program, 0, KEY).compute_ns(500)
    assert times.min() >= 1e6 * (1 - imbalance / 2) - 1
    assert times.max() <= 1e6 * (1 + imbalance / 2) + 1


def test_streams_differ_by_rank_job_repeat_and_seed():
    program = Program(imbalance=1, phases=1, processes=4)
    keys = [(0, (1, 0, 0)), (1, (1, 0, 0)), (0, (2, 0, 0)), (0, (1, 1, 0)), (0, (1, 0, 1))]
    assert len({Draws(program, rank, key).compute_ns(8).tobytes() for rank, key in keys}) == len(keys)


def test_the_draws_of_a_seed_never_change():
    # What a published experiment file with this seed computes: a change breaks comparability.
    program = Program(granularity_us=100, imbalance=0.25, phases=1)
    assert Draws(program, 0, (1, 0, 0)).compute_ns(3).tolist() == [108528, 109307, 111598]


@given(st.integers(1, 64), st.integers(1, 64))
def test_moulding_conserves_the_work(processes, other):
    program = Program(pattern="NEWS", processes=processes, imbalance=0.5, dedicated_s=0.5)
    moulded = program.on(other)
    assert moulded.processes == other
    assert moulded.phase_count() == program.phase_count()
    assert moulded.processes * moulded.granularity_us == pytest.approx(
        program.processes * program.granularity_us
    )
    assert moulded.imbalance == program.imbalance
