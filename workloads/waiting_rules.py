"""Waiting rules: how long a process spins before it blocks.

Leaf functions over numbers and arrays, called once per wait, never per poll. MPI ranks call them as they
stand (with a list for ``sample``); the simulator compiles each (with a row of an int64 array), so they call
no other function of this file.

Source: Dusseau, Arpaci, Culler, SIGMETRICS 1996, sections 4 (immediate), 5 (fixed), 6.1 (oracle), 6.2 (local
approximation), 6.3 (global approximation).
"""

from collections.abc import MutableSequence
from typing import Any, NamedTuple

from workloads.parameters import Bounds
from workloads.validation import number, one_of

SPIN, IMMEDIATE, FIXED, ORACLE, LOCAL_ADAPTIVE, GLOBAL_ADAPTIVE = range(6)

RULES = {
    "spin": SPIN,
    "immediate": IMMEDIATE,
    "fixed": FIXED,
    "oracle": ORACLE,
    "local-adaptive": LOCAL_ADAPTIVE,
    "global-adaptive": GLOBAL_ADAPTIVE,
}

OTHER_NAMES = {"spin-block": "fixed"}  # names in the literature of rules that have another one here

LONGEST_WAIT, ARRIVAL_SPREAD = range(2)

ESTIMATES = {"longest-wait": LONGEST_WAIT, "arrival-spread": ARRIVAL_SPREAD}
"""How the root of a barrier estimates the load imbalance (global-adaptive): from the longest wait that
a process reports, or from the time between the first and the last arrival at the barrier."""

DEFAULT_ESTIMATE = "longest-wait"  # the better one on real ranks (docs/decisions.md)
FOREVER_NS = 1 << 62  # a spin limit that never ends
UNKNOWN_NS = -1  # the estimate of an adaptive rule before its first measurement

SAMPLE_SIZE = 64
SAMPLE_HEADER = 2
"""A sample is SAMPLE_HEADER + SAMPLE_SIZE integers: count, random state, sorted waits."""


class Waiting(NamedTuple):
    """A waiting rule with the parameters of the machine and the program.

    ``rule`` and ``estimate`` are codes above; ``switch_ns`` is the cost of a context switch,
    ``round_trip_ns`` twice the message latency, ``fixed_ns`` the spin of the fixed rule, ``imbalance_ns`` the
    program's v, which only the oracle may know.
    """

    rule: int
    switch_ns: int
    round_trip_ns: int
    fixed_ns: int
    imbalance_ns: int
    estimate: int = ESTIMATES[DEFAULT_ESTIMATE]


SPIN_SWITCHES = Bounds(0, 1e6)  # of the rule ``fixed``


def rule_name(name: Any) -> Any:
    """Our name of the rule that is called ``name``; anything else unchanged."""
    return OTHER_NAMES.get(name, name) if isinstance(name, str) else name


def waiting_rule(
    waiting: str,
    *,
    context_switch_us: float,
    latency_us: float,
    spin_switches: float = 2,
    imbalance_us: float = 0.0,
    imbalance_estimate: str = DEFAULT_ESTIMATE,
) -> Waiting:
    """The rule named ``waiting`` for a machine and a program; times become whole nanoseconds."""
    one_of("waiting", waiting, RULES)
    one_of("imbalance_estimate", imbalance_estimate, ESTIMATES)
    SPIN_SWITCHES.check("spin_switches", spin_switches)
    number("context_switch_us", context_switch_us, minimum=0)
    number("latency_us", latency_us, minimum=0)
    return Waiting(
        rule=RULES[waiting],
        switch_ns=round(context_switch_us * 1e3),
        round_trip_ns=round(2 * latency_us * 1e3),
        fixed_ns=round(spin_switches * context_switch_us * 1e3),
        imbalance_ns=round(imbalance_us * 1e3),
        estimate=ESTIMATES[imbalance_estimate],
    )


def read_limit(waiting: Waiting) -> int:
    """Nanoseconds to spin at a read before blocking.

    Rules that know or learn the imbalance spin S = 2 switches. Blocking at a barrier leaves this
    skew between processors (section 5.2), so such a spin keeps processes coordinated.
    """
    if waiting.rule == SPIN:
        return FOREVER_NS
    if waiting.rule == IMMEDIATE:
        return 0
    if waiting.rule == FIXED:
        return waiting.fixed_ns
    return 2 * waiting.switch_ns


def barrier_limit(waiting: Waiting, estimate_ns: int) -> int:
    """Nanoseconds to spin at a barrier before blocking, given the estimate of v.

    Rules that know or learn the imbalance spin v plus a round trip, but at least S = 2 switches, while v <= V
    = 10 switches. Beyond V they spin S: another job then gains more than all lose by coordinating again
    (section 6.1). The oracle takes v from ``waiting``. An adaptive rule that has measured nothing yet (a
    negative estimate) assumes v = V, so that it can observe an imbalance up to V.
    """
    if waiting.rule == SPIN:
        return FOREVER_NS
    if waiting.rule == IMMEDIATE:
        return 0
    if waiting.rule == FIXED:
        return waiting.fixed_ns
    least = 2 * waiting.switch_ns
    most = 10 * waiting.switch_ns
    v = estimate_ns
    if waiting.rule == ORACLE:
        v = waiting.imbalance_ns
    if v < 0:
        v = most
    if v > most:
        return least
    return max(least, v + waiting.round_trip_ns)


def report(waiting: Waiting, waited_ns: int, arrived_ns: int) -> int:
    """Nanoseconds that an arrival reports: this ``waited_ns`` at the last barrier, or ``arrived_ns``."""
    if waiting.estimate == ARRIVAL_SPREAD:
        return arrived_ns
    return waited_ns


def observed(waiting: Waiting, min_ns: int, greatest_ns: int) -> int:
    """The load imbalance that the root reads from a barrier's reports; negative if there is none yet.

    "The load-imbalance of a computation phase is equal to the longest waiting time of any given process"
    (section 6.3): of the first to arrive, whose report includes the time until it is scheduled again after
    the last arrival; the spread of arrivals does not.
    """
    if waiting.estimate == ARRIVAL_SPREAD:
        return greatest_ns - min_ns
    return greatest_ns


def learn(sample: MutableSequence[int], waited_ns: int) -> int:
    """Put a wait into the sample, modified in place, and return the new estimate of v.

    The estimate is the largest wait after dropping the top 10 % as scheduling
    irregularities. The sample holds at most SAMPLE_SIZE waits; a new one then
    replaces an entry chosen at random, so the estimate follows a program that changes
    (section 6.2). The waits are kept sorted, which makes a random position a random entry.
    """
    count = sample[0]
    if count < len(sample) - SAMPLE_HEADER:
        place = SAMPLE_HEADER + count
        count += 1
        sample[0] = count
    else:
        # A 31-bit linear congruential step: the same integers in Python and compiled.
        state = (sample[1] * 1103515245 + 12345) & 0x7FFFFFFF
        sample[1] = state
        place = SAMPLE_HEADER + (state >> 8) % count
    last = SAMPLE_HEADER + count - 1
    while place > SAMPLE_HEADER and sample[place - 1] > waited_ns:
        sample[place] = sample[place - 1]
        place -= 1
    while place < last and sample[place + 1] < waited_ns:
        sample[place] = sample[place + 1]
        place += 1
    sample[place] = waited_ns
    return sample[SAMPLE_HEADER + count - count // 10 - 1]


def new_sample(seed: int) -> list[int]:
    return [0, seed & 0x7FFFFFFF] + [0] * SAMPLE_SIZE
