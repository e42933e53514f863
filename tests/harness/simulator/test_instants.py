"""All events of an instant, then one decision: our schedulers against one that has nothing of ours."""

import random

import pytest
from schedules import POLICIES, differing

from coordinator import policies
from harness.predict.trace import read
from harness.simulator.jobs.simulate import simulate

TIE = """; MaxProcs: 4
1 0 -1 100 2 -1 -1 2 100 -1 1 -1 -1 -1 -1 -1 -1 -1
2 0 -1 100 2 -1 -1 2 1000 -1 1 -1 -1 -1 -1 -1 -1 -1
3 10 -1 50 4 -1 -1 4 50 -1 1 -1 -1 -1 -1 -1 -1 -1
4 20 -1 500 2 -1 -1 2 500 -1 1 -1 -1 -1 -1 -1 -1 -1
"""
"""Two jobs end at once; the third needs both places, and the fourth must not pass it."""


def sampled(options):
    """Whether fast tests play a policy: of other estimates than the user's a few orders are enough."""
    settings = dict(options)
    return settings.get("estimate", "user") == "user" or settings["order"] in ("fcfs", "sjf", "wfp3")


@pytest.mark.parametrize("logs", [(5, 9), pytest.param(range(10, 18), marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "options"), [one for one in POLICIES if sampled(one[1])], ids=str)
def test_both_simulators_and_the_driver_start_jobs_when_an_independent_scheduler_does(name, options, logs):
    """``tests/benchmarks/instants.py`` plays as many logs as it is told to."""
    assert {seed: differences for seed in logs if (differences := differing(seed, name, options))} == {}


@pytest.mark.parametrize("name", ["fcfs", "easy"])
def test_the_order_of_lines_decides_nothing(tmp_path, name):
    header, *lines = TIE.splitlines(keepends=True)
    path = tmp_path / "log.swf"
    for seed in range(5):
        path.write_text(header + "".join(random.Random(seed).sample(lines, len(lines))))
        trace = read(path)
        outcome = simulate(trace.jobs, 4, policies.create(name, {}))
        assert trace.numbers.tolist() == [1, 2, 3, 4]
        assert outcome.wait_s.tolist() == [0, 0, 90, 130]
