"""The run's clock as ranks read it."""

import time

from workloads.agent_line import RunClock, offset_word


def test_where_no_agent_keeps_an_offset_the_run_has_the_clock_of_the_node(tmp_path):
    before_ns = time.monotonic_ns()
    assert before_ns <= RunClock(tmp_path).now_ns() <= time.monotonic_ns()


def test_ranks_follow_what_the_agent_learns_while_they_run(tmp_path):
    word = offset_word(tmp_path)
    clock = RunClock(tmp_path)
    for ahead_ns in (0, 10**15, -(10**15)):
        word[0] = ahead_ns
        before_ns = time.monotonic_ns()
        assert before_ns <= clock.now_ns() - ahead_ns <= time.monotonic_ns()
