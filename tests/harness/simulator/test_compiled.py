"""The decorators that compile the simulator: what is inlined, what is compiled once, what is passed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest
from compiled_only import needs_compiler
from numpy.typing import NDArray
from places import ROOT

from harness.simulator.by_reference import by_reference
from harness.simulator.compiled import entry, hot, step
from harness.simulator.jobs import space
from harness.simulator.jobs.case import Scheme
from harness.simulator.jobs.model import rigid
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import CACHE_LINE_BYTES
from harness.simulator.processes.state import allocate
from harness.simulator.target import jit
from workloads.program import Program


class Pair(NamedTuple):
    counts: NDArray[np.int32]
    sums: NDArray[np.float64]


@step
def count(pair, place, by):
    pair.counts[place] += by
    if pair.counts[place] < 100:
        pair.sums[place, 1] = 2 * pair.counts[place]


@hot
def count_all(pair, by):
    count(pair, 0, 1)
    count(pair, 1, by)
    count(pair, pair.counts[0], by)


def run(pair):
    whole = by_reference(pair)
    count_all(whole, 2)
    count_all(whole, 3)
    return len(pair.sums)


def new_pair():
    return Pair(np.zeros(3, dtype=np.int32), np.zeros((3, 2)))


def test_changes_reach_the_arrays_of_the_tuple():
    pair = new_pair()
    assert entry(run)(pair) == 3
    assert pair.counts.tolist() == [2, 7, 3]
    assert pair.sums[:, 1].tolist() == [4, 14, 6]


@needs_compiler
def test_a_step_is_compiled_once_and_called():
    jit(run)(new_pair())  # not loaded from the cache of an earlier run
    dispatchers = [count, count_all]
    for dispatcher, inlined in zip(dispatchers, (False, True), strict=True):
        (compiled,) = dispatcher.overloads.values()
        assert ("alwaysinline" in str(compiled.library._get_module_for_linking())) == inlined


@needs_compiler
def test_other_kernels_of_the_process_may_count_from_the_end():
    last = numba.njit(lambda values, place: values[place])
    assert last(np.arange(3), -1) == 2


def test_records_of_processes_and_processors_begin_at_cache_lines():
    jobs = [SimulatedJob(0, Program("BARRIER", 3, granularity_us=100, phases=10))]
    state = allocate(SimulatedMachine(processors=3), jobs, timeline=False)
    for records in (state.processes, state.processors):
        assert [records[place:].ctypes.data % CACHE_LINE_BYTES for place in range(3)] == [0, 0, 0]


@needs_compiler
def test_later_processes_load_the_kernel_of_space_sharing():
    one = np.ones(1, dtype=np.int64)
    space.simulate(rigid(0 * one, one, one), 1, Scheme(rigid=True))
    kernel = space._run
    (compiled,) = kernel.overloads.values()
    assert not compiled.library.has_dynamic_globals, "numba keeps no such code in its cache"


DOUBLE = """
import os, sys
files = [os.dup(0) for _ in range(int(sys.argv[1]))]
from harness.simulator.compiled import entry

@entry
def double(number):
    return 2 * number

print(double(21), sum(double.stats.cache_hits.values()))
"""


@needs_compiler
@pytest.mark.slow
def test_later_processes_load_code_however_many_files_they_have_open(tmp_path):
    (tmp_path / "double.py").write_text(DOUBLE)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    printed = [
        subprocess.run(
            [sys.executable, "double.py", files],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            check=True,
        ).stdout
        for files in ("0", "5")
    ]
    assert printed == [b"42 0\n", b"42 1\n"]
