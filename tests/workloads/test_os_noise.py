"""Clock ticks among the jumps of the clock that a process sees, and turns."""

import os
import random
import subprocess

import pytest

from coordinator.host.environment import PYTHON, forwarded
from workloads.os_noise import TURNS_NS, Jump, tick_ns, ticks_ns

S = 1_000_000_000
TICK_NS = 4_000_000


def jumps(phase_ns, length_ns, share=1.0):
    """Jumps of a second: 250 ticks at a phase, ``share`` of them seen, 500 other interrupts, 25 detours."""
    chance = random.Random(1)
    ticks = [Jump(t + phase_ns + chance.randrange(-300, 300), length_ns, False) for t in range(0, S, TICK_NS)]
    others = [Jump(chance.randrange(S), 9_000, False) for _ in range(500)]
    detours = [Jump(t, 300_000, True) for t in range(phase_ns, S, 10 * TICK_NS)]
    return sorted(ticks[: round(share * len(ticks))] + others + detours)


@pytest.mark.slow
def test_two_processes_take_turns_on_a_processor():
    command = [*PYTHON, "-m", "workloads.os_noise", str(min(os.sched_getaffinity(0)))]
    output = subprocess.run(command, env=forwarded({}), capture_output=True, check=True).stdout
    assert 0.1 * tick_ns() <= float(output) < TURNS_NS / 2


@pytest.mark.parametrize("phase_ns", [0, 20_000, 1_234_567, 3_999_400])
def test_ticks_are_the_interrupts_at_one_phase(phase_ns):
    """Also where that phase is at the edge of the period; detours, where another program runs, are none."""
    ticks = ticks_ns(jumps(phase_ns, 45_000), S, TICK_NS)
    assert ticks.count(45_000) == 250
    assert len(ticks) <= 250 + 20
    assert 300_000 not in ticks


def test_ticks_that_are_too_short_to_be_seen_are_not_guessed():
    assert ticks_ns(jumps(0, 45_000, share=0.1), S, TICK_NS) == []
    assert ticks_ns(jumps(0, 45_000, share=0.8), S, TICK_NS).count(0) in range(35, 51)
    assert ticks_ns([], S, TICK_NS) == []
