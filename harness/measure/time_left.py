"""The time that the parts of a piece of work still take: guesses, corrected by the parts that have ended."""

import bisect
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

GOLDEN = (math.sqrt(5) - 1) / 2

SAMPLE, LARGE = 0.15, 0.03
"""The share of the work that is a sample of the rest, and the share of a part too large to belong to it."""

NEAR = 2  # how many parts that have ended count on either side of one that has not
OVERDUE = 0.1  # a part takes at least this share longer of what it has taken
COMPILED = 2  # so many simulations must have ended before their times tell of others: the first has compiled
AGAIN_S = 0.2  # the time left is calculated at most so often: that takes as long as there are parts


class Guess(NamedTuple):
    """How long a part takes, more than 0, up to a factor that parts of one kind and similar length share."""

    seconds: float
    kind: str = ""


def alike(part: object) -> Guess:
    return Guess(1.0)


def spread(count: int) -> list[int]:
    """The numbers below ``count`` in an order whose every beginning is spread evenly over all.

    Multiples of the golden ratio, modulo 1, fill the unit interval evenly (Knuth, The Art of Computer
    Programming, volume 3, section 6.4).
    """
    return sorted(range(count), key=lambda number: number * GOLDEN % 1)


def order(guesses: Sequence[Guess]) -> list[int]:
    """The numbers of the parts in the order in which to begin them.

    First a sample: parts of all lengths but the greatest, whose times tell the times of the rest. Then the
    longest first, so that no processor is left with them at the end.
    """
    ascending = sorted(range(len(guesses)), key=lambda number: guesses[number].seconds)
    spread_out = [ascending[place] for place in spread(len(guesses))]
    whole = math.fsum(guess.seconds for guess in guesses)
    sample: dict[int, None] = {}
    taken = 0.0
    for number in spread_out:
        share = guesses[number].seconds / whole
        if share <= LARGE and taken + share <= SAMPLE:
            sample[number] = None
            taken += share
    rest = [number for number in spread_out if number not in sample]
    return [*sample, *sorted(rest, key=lambda number: -guesses[number].seconds)]


class _Mark(NamedTuple):
    """How many steps of a part were done when, and how many there will be."""

    at_s: float
    done: float
    whole: float


class Factors:
    """By how much guesses were wrong; ``least`` of a kind must have ended before they count for others."""

    def __init__(self, least: int) -> None:
        self._least = least
        self._of: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def took(self, guess: Guess, seconds: float) -> None:
        bisect.insort(self._of[guess.kind], (guess.seconds, seconds / guess.seconds))

    def known(self) -> list[tuple[float, float]]:
        return [(factor, seconds) for ended in self._of.values() for seconds, factor in ended]

    def of(self, guess: Guess, usual: float) -> float:
        """The median factor of a kind's parts with this guess or the nearest ones; ``usual`` without enough.

        A median disregards a part that compiled something, and so does the lesser of two.
        """
        ended = self._of[guess.kind]
        seconds = guess.seconds
        if len(ended) < self._least:
            return usual
        low = bisect.bisect(ended, (seconds, -math.inf))
        high = bisect.bisect(ended, (seconds, math.inf))
        factors = [factor for _, factor in ended[max(0, low - NEAR) : high + NEAR]]
        return statistics.median(factors) if len(factors) > 2 else min(factors)


class Pace:
    """The time of parts that run one after the other; unknown before the first ``least`` have ended.

    So many must have ended of a kind, too, before they tell of its others: the first one may have compiled.
    """

    def __init__(self, least: int) -> None:
        self._begin_s = time.monotonic()
        self._least = least
        self._done = 0
        self._factors = Factors(max(1, least))

    def took(self, guess: Guess, seconds: float) -> None:
        self._factors.took(guess, seconds)
        self._done += 1

    def state(self, left: Sequence[Guess]) -> tuple[int, int, float, float | None]:
        """How many parts are done, of how many, and the time that they took and that those ``left`` take."""
        left_s = self._left_s(left) if self._done >= self._least or not left else None
        return self._done, self._done + len(left), time.monotonic() - self._begin_s, left_s

    def _left_s(self, left: Sequence[Guess]) -> float:
        usual = weighted_median(sorted(self._factors.known())) if self._done else 1.0
        return math.fsum(guess.seconds * self._factors.of(guess, usual) for guess in left)


class TimeLeft:
    """Learns from the ends of parts how long the others take; ``workers`` of them run at a time."""

    def __init__(
        self, guesses: Sequence[Guess], workers: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.order = order(guesses)
        self._guesses = guesses
        self._workers = workers
        self._clock = clock
        self._waiting = iter(self.order)
        self._left = set(self.order)
        self._begun_s: dict[int, float] = {}
        self._factors = Factors(COMPILED)
        self._marks: dict[int, tuple[_Mark, _Mark]] = {}
        self._until_s: float | None = None
        self._due_s = -math.inf
        for _ in range(workers):
            self._begin(clock())

    def ended(self, number: int) -> None:
        now_s = self._clock()
        self._left.discard(number)
        if number in self._begun_s:  # else the end of its predecessor was noticed late
            self._factors.took(self._guesses[number], now_s - self._begun_s.pop(number))
            self._begin(now_s)

    def advanced(self, number: int, done: float, whole: float) -> None:
        """Note that a part has done so many of probably ``whole`` steps; any thread may call it."""
        now = _Mark(self._clock(), done, whole)
        self._marks[number] = self._marks.get(number, (now,))[0], now

    def left_s(self) -> float | None:
        """How long the parts that have not ended will take; None while unknown."""
        now_s = self._clock()
        if not self._left:
            return 0.0
        if self._until_s is None or now_s >= self._due_s:
            self._until_s = self._estimate(now_s)
            self._due_s = now_s + AGAIN_S
        return None if self._until_s is None else max(0.0, self._until_s - now_s)

    def _begin(self, now_s: float) -> None:
        if (number := next((one for one in self._waiting if one in self._left), None)) is not None:
            self._begun_s[number] = now_s

    def _estimate(self, now_s: float) -> float | None:
        """When all will have ended; None while only the first part is known, which may have compiled."""
        known = self._factors.known()
        paces_s = {number: pace_s for number in self._begun_s if (pace_s := self._pace_s(number))}
        if len(known) < COMPILED and not paces_s:
            return None
        for number, pace_s in paces_s.items():
            seconds = self._guesses[number].seconds
            known.append((pace_s * self._marks[number][1].whole / seconds, seconds))
        usual = weighted_median(sorted(known))
        factors: dict[Guess, float] = {}
        left_s = []
        for number in self._left:
            guess = self._guesses[number]
            gone_s = now_s - self._begun_s[number] if number in self._begun_s else 0.0
            if number in paces_s:
                _, last = self._marks[number]
                still_s = paces_s[number] * (last.whole - last.done) - (now_s - last.at_s)
            else:
                if guess not in factors:
                    factors[guess] = self._factors.of(guess, usual)
                still_s = guess.seconds * factors[guess] - gone_s
            left_s.append(max(still_s, OVERDUE * gone_s))
        return now_s + max(math.fsum(left_s) / self._workers, max(left_s, default=0.0))

    def _pace_s(self, number: int) -> float | None:
        """How long a step of a running part takes since its first one, which may have compiled; else None."""
        first, last = self._marks.get(number, (None, None))
        if first is None or last is None or last.done <= first.done:
            return None
        return (last.at_s - first.at_s) / (last.done - first.done)


def weighted_median(ascending: Sequence[tuple[float, float]]) -> float:
    half = math.fsum(weight for _, weight in ascending) / 2
    for value, weight in ascending:
        half -= weight
        if half <= 0:
            return value
    return ascending[-1][0]
