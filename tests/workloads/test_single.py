"""Jobs of one process: what they compute, and how long their user waits."""

from workloads.single import execute
from workloads.work import InteractiveWork, SequentialWork

MS = 1_000_000


def test_sequential_work_is_processor_time():
    result = execute(SequentialWork(work_s=0.02))
    assert 20 * MS <= result.computing_ns <= result.cpu_ns
    assert (result.processes, result.phases, result.responses_ns) == (1, 1, None)


def test_a_user_waits_from_the_end_of_thinking_to_the_end_of_the_burst():
    result = execute(InteractiveWork(burst_ms=2, think_ms=3, bursts=6))
    assert 6 * 2 * MS <= result.computing_ns <= result.cpu_ns
    assert result.finish_ns - result.start_ns >= 6 * (2 + 3) * MS
    assert len(result.responses_ns) == result.phases == 6
    assert min(result.responses_ns) >= 2 * MS
