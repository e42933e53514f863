"""Recordings of programs that run for more than an hour: what they take on a disk, and in memory."""

import tracemalloc

import pytest
from compiled_only import takes_minutes
from long_recordings import KEPT, PHASES, long_recording

from coordinator import policies
from harness.predict.recorded_steps import replayed
from harness.simulator.processes.machine import SimulatedMachine, replaying
from harness.simulator.processes.model import OPERATION
from harness.simulator.processes.simulate import simulate
from harness.store import recording

pytestmark = pytest.mark.slow

MACHINE = SimulatedMachine(processors=2, local="eevdf")


def test_the_file_of_a_program_of_an_hour_is_smaller_than_what_its_windows_hold(tmp_path):
    long_one = long_recording("exchange")
    path = tmp_path / "long.npz"
    recording.write(long_one, path)
    assert long_one.elapsed_ns > 3600e9
    kept = [rank.windows["kept"].tolist() for rank in long_one.ranks]
    assert kept == [recording.SLOTS * [KEPT]] * 2
    assert path.stat().st_size < 2 * recording.SLOTS * KEPT * recording.OPERATION.itemsize < 200e6
    assert recording.read(path).elapsed_ns == long_one.elapsed_ns


@takes_minutes
@pytest.mark.parametrize("phase", PHASES)
def test_replay_takes_no_more_memory_if_its_stretches_stand_for_more(phase):
    """More than ten times as many steps do not: they are never all there at one time."""
    long_one = long_recording(phase, kept=1024)

    def replay(max_s):
        """Steps of a rank, and the most memory that the simulation took at one time."""
        program = replayed(long_one, max_s=max_s)
        tracemalloc.start()
        try:
            outcome = simulate([replaying(0, program)], MACHINE, policies.create("none", {}))
            _, max_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert not outcome.failure
        return program.count(0), max_bytes

    replay(0.01)  # what is loaded at first counts for neither
    (few, few_bytes), (many, many_bytes) = replay(0.5), replay(30.0)
    assert many > 10 * few
    assert many_bytes - few_bytes < 0.1 * OPERATION.itemsize * (many - few)
