"""The run's clock: an estimate of the driver's CLOCK_MONOTONIC on another node.

Each exchange of a beat and its echo gives the offset between the two clocks to within half
of its round trip, however the trip is divided. The exchange with the shortest trip counts
most; the uncertainty of older ones grows by as much as clocks may drift apart.
Source: Mills, RFC 5905, section 8 (offset and delay) and section 10 (the shortest of eight).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns

DRIFT_BOUND = 100e-6  # largest relative drift of two clocks; ordinary oscillators keep within half of it
WINDOW = 32  # number of exchanges from which the offset is estimated
ANCHOR_NS = 8_000_000_000  # the drift is estimated from the best exchanges of spans of this length

ANCHORS = 32


@dataclass(frozen=True)
class Sample:
    """One exchange: its time on this clock, the offset of the other, the round trip. Nanoseconds."""

    at_ns: int
    offset_ns: int
    trip_ns: int

    @classmethod
    def of(cls, sent_ns: int, received_ns: int, replied_ns: int, arrived_ns: int) -> Sample:
        """The sample of a beat and its echo, whose times are on the other clock."""
        offset_ns = ((received_ns - sent_ns) + (replied_ns - arrived_ns)) // 2
        trip_ns = max(0, (arrived_ns - sent_ns) - (replied_ns - received_ns))
        return cls((sent_ns + arrived_ns) // 2, offset_ns, trip_ns)


class Clock:
    """Reads the run's clock and converts between it and this node's clock, which ``read`` returns.

    Before the first exchange, the two clocks are taken for equal. ``drift`` is the relative speed of the
    run's clock, minus 1, and 0 while unknown; ``steps`` is the number of jumps of either clock.
    """

    def __init__(self, read: Callable[[], int] = monotonic_ns) -> None:
        self._read = read
        self._samples: deque[Sample] = deque(maxlen=WINDOW)
        self._anchors: deque[Sample] = deque(maxlen=ANCHORS)
        self._best: Sample | None = None
        self.drift = 0.0
        self.steps = 0

    def read_ns(self) -> int:
        return self._read()

    def now_ns(self) -> int:
        return self.run_ns(self._read())

    def run_ns(self, local_ns: int) -> int:
        return local_ns + self.offset_ns(local_ns)

    def local_ns(self, run_ns: int) -> int:
        best = self._best
        if not best:
            return run_ns
        return best.at_ns + round((run_ns - best.at_ns - best.offset_ns) / (1 + self.drift))

    def offset_ns(self, local_ns: int) -> int:
        best = self._best
        return best.offset_ns + round(self.drift * (local_ns - best.at_ns)) if best else 0

    def uncertainty_ns(self) -> int:
        """The largest error that the offset may have now."""
        return self._uncertainty_ns(self._best, self._read()) if self._best else 0

    def learn(self, sample: Sample) -> None:
        if self._best is not None:
            surprise_ns = abs(sample.offset_ns - self.offset_ns(sample.at_ns))
            if surprise_ns > self._uncertainty_ns(self._best, sample.at_ns) + sample.trip_ns / 2:
                # No division of the trip explains this: a clock has jumped; old samples are worthless.
                self._samples.clear()
                self._anchors.clear()
                self.drift = 0.0
                self.steps += 1
        self._samples.append(sample)
        self._best = min(self._samples, key=lambda one: self._uncertainty_ns(one, sample.at_ns))
        self._learn_drift(sample)

    @staticmethod
    def _uncertainty_ns(sample: Sample, at_ns: int) -> int:
        return sample.trip_ns // 2 + round(DRIFT_BOUND * max(0, at_ns - sample.at_ns))

    def _learn_drift(self, sample: Sample) -> None:
        anchors = self._anchors
        if not anchors or sample.at_ns - anchors[-1].at_ns >= ANCHOR_NS:
            anchors.append(sample)
        elif sample.trip_ns < anchors[-1].trip_ns:
            anchors[-1] = sample
        first = anchors[0]
        last = anchors[-1]
        moved_ns = last.offset_ns - first.offset_ns
        span_ns = last.at_ns - first.at_ns
        # A smaller change may be an error of the two exchanges.
        if span_ns >= ANCHOR_NS and abs(moved_ns) > (first.trip_ns + last.trip_ns) // 2:
            self.drift = max(-DRIFT_BOUND, min(DRIFT_BOUND, moved_ns / span_ns))
