"""What simulated processes find out about their messages, by the rule of ``workloads.observer``.

How many messages a process gets in a phase follows from its program. So nobody counts them.

When simulated processes look at their messages: at the end of a phase, as in ``workloads.observer``.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.simulator.compiled import step
from harness.simulator.processes.model import GOING, LOOKS, OBSERVES, PASSES, REFILL, Records, State
from workloads.observer import Correspondents
from workloads.program import Program
from workloads.validation import InputError


@step
def observe(state: State, q: int, operation: Records) -> None:
    """Process ``q`` has just begun another phase: it looks if it is time, or later if Python is busy."""
    process = state.processes[q]
    clock = state.clock[0]
    begins = operation.marks & (OBSERVES | PASSES) == OBSERVES | PASSES
    if not begins or clock.now_ns < process.observe_at_ns or clock.status not in (GOING, REFILL):
        return
    process.observe_at_ns = clock.now_ns + state.machine[0].observe_ns
    clock.status = LOOKS
    clock.subject = q


class Observers:
    """The processes that observe their messages, if the policy wants that.

    Args:
        state: its machine's record gets what the kernel needs to know.
        local: the local scheduler.
        observation: parameters of the policy; empty if it does without.

    Raises:
        InputError: for a local scheduler without turns: processes that share a slot would spin for ever.
    """

    def __init__(self, state: State, local: str, observation: Mapping[str, float]) -> None:
        self._found: dict[int, Correspondents] = {}
        if observation and local == "fifo":
            rule = "a process that is not observed to communicate needs its turn beside others that spin"
            raise InputError("local", local, rule, 'write local = "rr", or "eevdf"')
        if observation:
            self._per_ms = observation["messages_per_ms"]
            state.machine[0].observe_ns = round(observation["observe_ms"] * 1e6)
            state.machine[0].skips = 0  # looks are events

    def look(self, state: State, q: int, program: Program) -> tuple[int, ...] | None:
        """The ranks from which process ``q``, which runs, gets messages often; None if they are as before."""
        process = state.processes[q]
        program = program.on(int(state.jobs[process.job].processes))
        found = self._found.setdefault(q, Correspondents(self._per_ms))
        got = program.messages_to(int(process.rank)) * int(process.phase)
        cpu_ns = process.cpu_ns + state.clock[0].now_ns - process.dispatched_ns
        return found.ranks if found.look(got.tolist(), int(cpu_ns)) else None
