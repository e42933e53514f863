"""Sequential and interactive jobs, and commands, as descriptions."""

import pytest

from workloads.validation import InputError
from workloads.work import Command, InteractiveWork, SequentialWork

REFUSED = [
    (lambda: SequentialWork(0), "work_s"),
    (lambda: SequentialWork(float("nan")), "work_s"),
    (lambda: InteractiveWork(-1, 50, 10), "burst_ms"),
    (lambda: InteractiveWork(5, -1, 10), "think_ms"),
    (lambda: InteractiveWork(5, 50, 0), "bursts"),
    (lambda: InteractiveWork(5, 50, 2.5), "bursts"),
    (lambda: Command(()), "argv"),
    (lambda: Command(("a", "")), "argv"),
    (lambda: Command(("a",), 0), "processes"),
    (lambda: Command(("python3", "a.py"), waits="spin"), "waits"),
]


@pytest.mark.parametrize("make, key", REFUSED)
def test_what_cannot_be_is_refused_with_its_key(make, key):
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.key == key


def test_sequential_and_interactive_jobs_have_one_process():
    assert SequentialWork(2).processes == InteractiveWork(5, 50, 10).processes == 1
