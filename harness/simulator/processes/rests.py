"""What chance decides: costs of a switch and of a send after a rest, and how long a computation takes.

A process that waits has rested since it last had a processor, and one that asks since its last wait ended.
Between two rests of the machine chance decides which one's costs count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.simulator.compiled import hot, step
from harness.simulator.processes.model import DISPATCHES, LEFT, READING, Records, State

PARTS = 4096
"""Into how many parts the time between two rests is divided, to decide by chance."""


@hot
def below(source: Records, count: int) -> int:
    """One of the numbers from 0 that are below ``count``, by the next random number of ``source``."""
    source.random = (source.random * 1103515245 + 12345) & 0x7FFFFFFF
    return int((source.random >> 8) % count)


@hot
def drawn(source: Records, values: NDArray[np.int64]) -> int:
    """One of ``values``, by the next random number of a processor or of the clock."""
    return int(values[below(source, len(values))])


@hot
def overrun_ns(state: State, p: int) -> int:
    """By how much longer than its program asks the next computation on processor ``p`` takes."""
    return drawn(state.processors[p], state.overrun_ns) if state.machine[0].overruns else 0


@step
def drawn_rest(state: State, source: Records, lasted_ns: int) -> int:
    """Which of the machine's rests counts for one of ``lasted_ns``; -1 for none.

    Between two neighbours chance decides, in proportion.
    """
    rests_ns = state.rest_ns
    longer = 0
    while longer < len(rests_ns) and rests_ns[longer] <= lasted_ns:
        longer += 1
    if longer == len(rests_ns):
        return longer - 1
    shorter_ns = rests_ns[longer - 1] if longer > 0 else 0
    share = (lasted_ns - shorter_ns) * PARTS // (rests_ns[longer] - shorter_ns)
    return longer if below(source, PARTS) < share else longer - 1


@step
def switch_cost_ns(state: State, p: int, q: int) -> int:
    """What it costs to switch processor ``p`` to process ``q``, where that differs."""
    processor = state.processors[p]
    waits = state.processes[q].activity >= READING and state.accounts[q, DISPATCHES] > 0
    if waits and len(state.rested_switch_ns) > 0:
        rest = drawn_rest(state, processor, state.clock[0].now_ns - state.accounts[q, LEFT])
        if rest >= 0:
            return drawn(processor, state.rested_switch_ns[rest])
    return drawn(processor, state.switch_costs_ns)


@step
def send_cost_ns(state: State, p: int, q: int) -> int:
    """What it costs running process ``q`` to ask what it asks.

    The root of a barrier sends nothing, but has rested like the others, and takes their messages in.
    """
    process = state.processes[q]
    silent = asks_itself(state, q)
    cost_ns = 0 if silent else int(state.machine[0].send_ns)
    of_others = process.activity != READING and state.jobs[process.job].processes > 1
    if state.machine[0].sends_differ and (of_others or not silent):
        rest = drawn_rest(state, state.processors[p], state.clock[0].now_ns - process.wait_ended_ns)
        if rest >= 0:
            cost_ns += drawn(state.processors[p], state.rested_send_ns[rest])
    return cost_ns


@hot
def asks_itself(state: State, q: int) -> bool:
    """Whether process ``q``'s request is to itself and so needs no message."""
    return bool(state.processes[q].target == q and not state.machine[0].messages_to_self)
