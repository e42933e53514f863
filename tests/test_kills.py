"""Whatever part of a run is killed at whatever moment, nothing of the run remains."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
from runs import eventually, running, usable

PARTS = ("driver", "agent", "guardian", "mpiexec", "rank")
SEED = int(os.environ.get("LOCKSTEP_TEST_SEED", random.randrange(10**6)))


def kill_a_part(number: int, mechanism: str) -> None:
    """Kill one part at a random moment of a run of three jobs and look for remains."""
    usable(mechanism)
    random_ = random.Random(f"{SEED}-{number}")
    part = PARTS[number % len(PARTS)]
    delay_s = random_.uniform(0.0, 2.5)
    print(f"seed {SEED}, kill {number}: {part} after {delay_s:.3f} s under {mechanism}")
    with running(policy="gang", mechanism=mechanism, phases=9000) as run:
        time.sleep(delay_s)
        victim = eventually(lambda: run.part(part))
        assert victim
        run.note()
        segments = run.segments()
        os.kill(victim, signal.SIGKILL)
        if part == "driver":
            run.driver.communicate()
        else:
            told = run.result()
            assert told["failure"]
            if part in ("mpiexec", "rank"):
                assert sum(not failure for failure in told["jobs"]) == 2, told
        eventually(lambda: not run.remains())
        assert run.remains() == []
        assert [path for path in segments if path.exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(10))
def test_nothing_remains_after_a_kill(number: int) -> None:
    kill_a_part(number, ("signals", "freezer")[number // len(PARTS) % 2])


@pytest.mark.soak
@pytest.mark.parametrize("number", range(10, 60))
def test_nothing_remains_after_many_kills(number: int) -> None:
    kill_a_part(number, ("signals", "freezer")[number // len(PARTS) % 2])


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["signals", "freezer", "realtime"])
@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_takes_effect_when_all_is_released(
    signum: signal.Signals, status: int, mechanism: str
) -> None:
    usable(mechanism)
    with running(policy="gang", mechanism=mechanism, phases=20000) as run:
        assert eventually(lambda: run.part("rank"))
        time.sleep(random.Random(SEED).uniform(0, 1))
        run.note()
        run.driver.send_signal(signum)
        run.driver.send_signal(signum)
        run.driver.communicate(timeout=20)
        # Python ends by SIGINT itself after an uncaught KeyboardInterrupt.
        assert run.driver.returncode in (status, -signum)
        assert run.remains() == []
