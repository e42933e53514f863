"""The processors' caches: what a process pays to load its working set again.

Each processor has a cache of its own. The sets of those who ran on it last are there, the latest first, as
far as they fit. A process whose set is not there, or not whole, loads what is missing when it computes next;
so does one that has run elsewhere since, because it has changed its set there.

Source: Squillante and Lazowska 1993 (footprints), without partial walks: whoever gets the processor brings
its whole set.
"""

from __future__ import annotations

from harness.simulator.compiled import step
from harness.simulator.processes.model import COMPUTE, State


@step
def load_set(state: State, p: int, q: int) -> None:
    """Process ``q`` gets processor ``p``: note the time that it needs to load the missing part of its set.

    A process that computes needs this time at once, others when they compute next (``pay``).
    """
    process = state.processes[q]
    machine = state.machine[0]
    state.processors[p].turns += 1
    if process.set_bytes > 0:
        cold_ns = int(missing_bytes(state, p, q) / machine.cache_bytes * machine.reload_ns)
        process.warm_on = p
        if process.activity == COMPUTE:
            process.remaining_ns += cold_ns
        else:
            process.cold_ns = max(process.cold_ns, cold_ns)
    state.turns[p, q] = state.processors[p].turns


@step
def missing_bytes(state: State, p: int, q: int) -> int:
    """The part of ``q``'s working set that is not in ``p``'s cache but would fit."""
    process = state.processes[q]
    cache_bytes = state.machine[0].cache_bytes
    most = min(process.set_bytes, cache_bytes)
    if process.warm_on != p:
        return int(most)
    others = 0
    for other in range(len(state.processes)):
        if state.turns[p, other] > state.turns[p, q]:
            others += state.processes[other].set_bytes
    return int(min(most, max(0, others + process.set_bytes - cache_bytes))) if others > 0 else 0


@step
def pay(state: State, q: int) -> None:
    """Process ``q`` begins to compute: add the time that it needs to load its working set."""
    process = state.processes[q]
    process.remaining_ns += process.cold_ns
    process.cold_ns = 0
