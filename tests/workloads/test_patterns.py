"""Who reads from whom."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import patterns

sizes = st.integers(1, 200)


@given(sizes)
def test_the_grid_is_the_nearest_to_a_square(processes):
    rows, columns = patterns.grid(processes)
    assert rows * columns == processes
    better = [r for r in range(rows + 1, columns) if processes % r == 0]
    assert rows <= columns
    assert not better


@given(sizes)
def test_transpose_reads_every_process_once_in_rotated_order(processes):
    reads = patterns.reads("TRANSPOSE", processes)
    assert reads.shape == (processes, processes)
    for p in range(min(processes, 20)):
        assert list(reads[p]) == [(p + i) % processes for i in range(processes)]


@given(sizes)
def test_news_reads_four_neighbours_and_is_read_by_four(processes):
    reads = patterns.reads("NEWS", processes)
    assert reads.shape == (processes, 4)
    assert (np.bincount(reads.ravel(), minlength=processes) == 4).all()


def test_news_on_a_four_by_three_grid():
    # 0 1 2 3 / 4 5 6 7 / 8 9 10 11: process 5 sees north, east, west, south.
    assert patterns.reads("NEWS", 12)[5].tolist() == [1, 6, 4, 9]
    assert patterns.reads("NEWS", 12)[0].tolist() == [8, 1, 3, 4]


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_neighbours_coincide_on_thin_grids(processes):
    reads = patterns.reads("NEWS", processes)
    assert set(reads[0]) == {0, (0 + 1) % processes, (processes - 1) % processes}


@given(st.sampled_from(patterns.PATTERNS), sizes)
def test_the_number_of_reads_is_known_without_them(pattern, processes):
    assert patterns.reads_per_phase(pattern, processes) == patterns.reads(pattern, processes).shape[1]


@pytest.mark.parametrize("pattern, processes", [("NEWS", 12), ("TRANSPOSE", 3), ("TRANSPOSE", 128)])
def test_schedulers_know_the_partners_of_processes_that_read(pattern, processes):
    assert patterns.partners(pattern, processes) == tuple(map(tuple, patterns.reads(pattern, processes)))


def test_schedulers_know_no_partners_without_reads_or_of_too_many_processes():
    assert patterns.partners("BARRIER", 12) == patterns.partners("NEWS", 129) == ()
