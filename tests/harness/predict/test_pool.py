"""Parts of a piece of work in processes of their own: results, errors, and that no process is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from places import ROOT
from runs import state

from harness.predict.pool import compute, compute_apart


def square(number):
    return number * number, os.getpid()


def fail_at_two(number):
    if number == 2:
        raise ValueError("two")
    time.sleep(0 if number < 2 else 600)


@pytest.mark.slow
def test_parts_are_done_elsewhere_and_their_values_come_in_order():
    done = []
    values = compute_apart(range(5), square, lambda *step: done.append(step))
    assert [value for value, _ in values] == [0, 1, 4, 9, 16]
    assert list(dict.fromkeys(n for n, *_ in done if n)) == [1, 2, 3, 4, 5] and done[-1] == (5, 5, 0.0)
    if len(os.sched_getaffinity(0)) > 1:
        assert os.getpid() not in {pid for _, pid in values}


def test_values_are_kept_as_they_come_and_returned_in_order():
    kept = []
    values = compute(range(40), lambda number: number * number, lambda *step: None, kept.append)
    assert values == [number * number for number in range(40)]
    assert sorted(kept) == values


@pytest.mark.slow
def test_an_error_ends_the_other_parts():
    with pytest.raises(ValueError, match="two"):
        compute_apart(range(8), fail_at_two, lambda *step: None)


SLEEPERS = """
import sys, time
from harness.predict.pool import compute_apart
if __name__ == "__main__":
    print(flush=True)
    compute_apart([600] * 4, time.sleep, lambda *step: None)
"""


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor: nothing is done elsewhere")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_its_caller(number, tmp_path):
    (tmp_path / "sleepers.py").write_text(SLEEPERS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, tmp_path / "sleepers.py"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as caller:
        caller.stdout.readline()
        children = Path(f"/proc/{caller.pid}/task/{caller.pid}/children")
        # The processes that work, beside the one that tracks resources.
        while len(pids := children.read_text().split()) < 3:
            time.sleep(0.05)
        os.kill(caller.pid, number)
        caller.communicate()
    deadline_s = time.monotonic() + 30
    while left := [pid for pid in pids if state(int(pid)) not in ("", "Z")]:  # init may not reap them
        assert time.monotonic() < deadline_s, left
        time.sleep(0.05)
