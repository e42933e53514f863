"""The run's clock as another node knows it."""

import random

from hypothesis import given
from hypothesis import strategies as st

from coordinator.host.clock import DRIFT_BOUND, WINDOW, Clock, Sample

SECOND = 10**9


class Pair:
    """Two clocks: ours, which is read, and the run's, which is ahead and goes at another rate."""

    def __init__(self, ahead_ns, drift, seed):
        self.now_ns = SECOND
        self.ahead_ns = ahead_ns
        self.drift = drift
        self.random = random.Random(seed)
        self.clock = Clock(lambda: self.now_ns)

    def true_ns(self):
        return self.now_ns + self.ahead_ns + round(self.drift * self.now_ns)

    def exchange(self):
        """A beat and its echo, each under way for as long as the network likes."""
        sent_ns = self.now_ns
        self.now_ns += self.random.randrange(20_000, 2_000_000)
        received_ns = self.true_ns()
        self.now_ns += 30_000
        replied_ns = self.true_ns()
        self.now_ns += self.random.randrange(20_000, 2_000_000)
        self.clock.learn(Sample.of(sent_ns, received_ns, replied_ns, self.now_ns))

    def live(self, seconds):
        for _ in range(2 * seconds):
            self.exchange()
            self.now_ns += SECOND // 2


@given(
    ahead_ns=st.integers(-(10**15), 10**15),
    drift=st.floats(-DRIFT_BOUND / 2, DRIFT_BOUND / 2),
    seed=st.integers(0, 10**6),
    seconds=st.integers(1, 60),
)
def test_the_clock_is_never_further_off_than_it_says(ahead_ns, drift, seed, seconds):
    pair = Pair(ahead_ns, drift, seed)
    for _ in range(16):
        pair.exchange()
    pair.live(seconds)
    assert abs(pair.clock.now_ns() - pair.true_ns()) <= pair.clock.uncertainty_ns() + 100
    assert pair.clock.steps == 0
    now_ns = pair.clock.now_ns()
    # There and back: each way is rounded.
    assert abs(pair.clock.run_ns(pair.clock.local_ns(now_ns)) - now_ns) <= 1


def test_a_drift_is_found_in_time():
    pair = Pair(5 * SECOND, 40e-6, seed=1)
    pair.live(240)
    assert abs(pair.clock.drift - 40e-6) < 10e-6


def test_a_step_is_noticed_and_followed():
    pair = Pair(0, 0.0, seed=1)
    pair.live(WINDOW)
    pair.ahead_ns += 30_000_000
    pair.exchange()
    assert pair.clock.steps == 1
    assert abs(pair.clock.now_ns() - pair.true_ns()) <= pair.clock.uncertainty_ns()


def test_without_an_exchange_the_clock_is_our_own():
    clock = Clock(lambda: 7)
    assert (clock.now_ns(), clock.local_ns(9), clock.uncertainty_ns()) == (7, 9, 0)
