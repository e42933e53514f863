"""Traces that are written can be read again, and placements give no processor twice."""

import numpy as np
import pytest

from coordinator import policies
from harness.predict.trace import read
from harness.simulator.jobs import swf
from harness.simulator.jobs.model import rigid
from harness.simulator.jobs.simulate import simulate

pytestmark = pytest.mark.slow

S = 1_000_000_000


def outcome():
    submit = np.array([0, 0, 1, 2]) * S
    jobs = rigid(submit, np.array([3, 2, 1, 4]), np.array([5, 3, 10, 1]) * S)
    return simulate(jobs, 4, policies.create("easy", {}))


@pytest.mark.parametrize("name", ["out.swf", "out.swf.gz"])
def test_what_is_written_can_be_read_again(tmp_path, name):
    first = outcome()
    swf.write(tmp_path / name, first, policy="easy")
    data = (tmp_path / name).read_bytes()
    again = read(tmp_path / name)
    np.testing.assert_array_equal(again.jobs.times_ns(again.jobs.most), first.finish_ns - first.start_ns)
    np.testing.assert_array_equal(again.jobs.submit_ns, first.jobs.submit_ns)
    assert again.processors == 4
    swf.write(tmp_path / name, first, policy="easy")
    assert (tmp_path / name).read_bytes() == data


@pytest.mark.parametrize("name", ["easy", "fcfs-bb", "gang", "asp"])
def test_the_placement_never_gives_a_processor_twice_in_space_sharing(tmp_path, name):
    jobs = outcome().jobs
    swf.write_placement(tmp_path / "p", simulate(jobs, 4, policies.create(name, {})))
    lines = (tmp_path / "p").read_text().splitlines()
    assert lines[0].startswith("# placement 1:")
    held = []
    for line in lines[1:]:
        job, start, finish, text = line.split()
        place = set()
        for part in text.split(","):
            first, _, last = part.partition("-")
            place |= set(range(int(first), int(last or first) + 1))
        assert len(place) == jobs.most[int(job) - 1]
        assert place <= set(range(4))
        if name != "gang":
            assert all(place.isdisjoint(other) for end, other in held if end > float(start))
        held.append((float(finish), place))
    assert len(held) == len(jobs)
