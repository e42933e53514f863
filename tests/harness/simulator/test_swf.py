"""Traces that are written can be read again, and placements give no processor twice."""

import numpy as np
import pytest

from coordinator import policies
from harness.predict.trace import read
from harness.simulator.jobs import swf
from harness.simulator.jobs.model import JobLevelOutcome, rigid
from harness.simulator.jobs.simulate import simulate

S = 1_000_000_000


def outcome():
    submit = np.array([0, 0, 1, 2]) * S
    jobs = rigid(submit, np.array([3, 2, 1, 4]), np.array([5, 3, 10, 1]) * S)
    return simulate(jobs, 4, policies.create("easy", {}))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.swf", "out.swf.gz"])
def test_what_is_written_can_be_read_again(tmp_path, name):
    first = outcome()
    swf.write(tmp_path / name, first, np.arange(1, 5), policy="easy")
    data = (tmp_path / name).read_bytes()
    again = read(tmp_path / name)
    np.testing.assert_array_equal(
        again.jobs.times_ns(again.jobs.max_processes), first.finish_ns - first.start_ns
    )
    np.testing.assert_array_equal(again.jobs.submit_ns, first.jobs.submit_ns)
    assert again.processors == 4
    swf.write(tmp_path / name, first, np.arange(1, 5), policy="easy")
    assert (tmp_path / name).read_bytes() == data


@pytest.mark.slow
@pytest.mark.parametrize("name", ["easy", "fcfs-bb", "gang", "asp"])
def test_the_placement_never_gives_a_processor_twice_in_space_sharing(tmp_path, name):
    jobs = outcome().jobs
    swf.write_placement(tmp_path / "p", simulate(jobs, 4, policies.create(name, {})), np.arange(1, 5))
    lines = (tmp_path / "p").read_text().splitlines()
    assert lines[0].startswith("# placement 1:")
    held = []
    for line in lines[1:]:
        job, start, finish, text = line.split()
        place = set()
        for part in text.split(","):
            first, _, last = part.partition("-")
            place |= set(range(int(first), int(last or first) + 1))
        assert len(place) == jobs.max_processes[int(job) - 1]
        assert place <= set(range(4))
        if name != "gang":
            assert all(place.isdisjoint(other) for end, other in held if end > float(start))
        held.append((float(finish), place))
    assert len(held) == len(jobs)


def begun_at_random(seed, count, processors):
    """Jobs that start one after the other where enough processors are free, and end at random."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, processors // 3, count)
    start = np.zeros(count, dtype=np.int64)
    finish = np.zeros(count, dtype=np.int64)
    now = 0
    for job in range(count):
        while processors - sizes[:job][finish[:job] > now].sum() < sizes[job]:
            now = finish[:job][finish[:job] > now].min()
        start[job], finish[job] = now, now + random.integers(1, 9) * S
    jobs = rigid(np.zeros(count, dtype=np.int64), sizes, finish - start)
    return JobLevelOutcome(jobs, processors, start, finish, sizes.astype(float), np.full(count, -1))


@pytest.mark.parametrize("seed", range(5))
def test_jobs_get_the_lowest_free_processors(seed):
    outcome = begun_at_random(seed, 60, 16)
    held: dict[int, list[int]] = {}
    for job, place in swf.placements(outcome):
        running = [other for other in held if outcome.finish_ns[other] > outcome.start_ns[job]]
        taken = {p for other in running for p in held[other]}
        free = [p for p in range(16) if p not in taken]
        held[job] = free[: outcome.jobs.max_processes[job]]
        assert [p for first, last in place for p in range(first, last + 1)] == held[job]
    assert len(held) == 60


def test_the_places_on_a_machine_of_a_million_processors_are_written_as_ranges(tmp_path):
    outcome = begun_at_random(1, 1_000, 1_000_000)
    swf.write_placement(
        tmp_path / "p", outcome, np.arange(1_000)
    )  # a list of the free processors would take minutes
    lines = (tmp_path / "p").read_text().splitlines()[1:]
    assert len(lines) == 1_000
    parts = [part.split("-") for part in lines[-1].split()[3].split(",")]
    assert sum(int(ends[-1]) - int(ends[0]) + 1 for ends in parts) == outcome.jobs.max_processes[999]
