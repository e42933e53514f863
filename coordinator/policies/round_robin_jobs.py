"""Round robin by job: equal service to jobs, however many processes they have."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from coordinator.policies import partitions
from coordinator.policies.registry import TimeSlicing, register
from coordinator.view import Decision, Placement, Reason, Slot, View


class _Turn(NamedTuple):
    """A process of a job on a processor, from one time of the round to another."""

    begin_ns: int
    end_ns: int
    processor: int
    job: int
    rank: int


@register("rr-job")
class RoundRobinJobs(TimeSlicing):
    """In each round a process has a quantum of P/N quanta, with P processors and N processes of its job.

    Attributes:
        quantum_ms: the quantum of a process of a job of P processes.
    """

    source = "Leutenegger and Vernon 1990; the survey, section on shared memory"
    allows_oversubscription = True

    def decide(self, view: View, reason: Reason) -> Decision:
        """Rounds in which each processor serves its processes in order of arrival, one after another.

        A process stays on the processor where the least service was due when it came, even beside
        another one of its job. The round goes on where it was interrupted. While no two processes
        are on one processor, none is stopped. The state holds where in the round the table begins.
        """
        placements = partitions.still_running(view)
        due_ns = self._due_ns(view, placements)
        for job in partitions.waiting(view, placements):
            placements[job.number] = self._spread(job.processes, view, due_ns)
        turns = self._turns(view, placements)
        if len({turn.processor for turn in turns}) == len(turns):
            return partitions.for_good(view, placements)
        times_ns = sorted({time_ns for turn in turns for time_ns in (turn.begin_ns, turn.end_ns)})
        now_ns = _position_ns(view) % times_ns[-1]
        first = next(index for index, time_ns in enumerate(times_ns) if time_ns > now_ns) - 1
        slots = list(_slots(turns, times_ns, view.machine.processors))
        elapsed_ns = now_ns - times_ns[first]
        return Decision(
            placements, (*slots[first:], *slots[:first]), elapsed_ns=elapsed_ns, state=times_ns[first]
        )

    def _length_ns(self, processes: int, view: View) -> int:
        return max(1, self.quantum_ns * view.machine.processors // processes)

    def _due_ns(self, view: View, placements: partitions.Placements) -> list[int]:
        due_ns = [0] * view.machine.processors
        for turn in self._turns(view, placements):
            due_ns[turn.processor] = turn.end_ns
        return due_ns

    def _spread(self, processes: int, view: View, due_ns: list[int]) -> Placement:
        """Processors for a new job, each the one that owes least; ``due_ns`` is modified in place."""
        there, place = partitions.remaining(view), []
        for _ in range(processes):
            processor = min(there, key=lambda p: (due_ns[p], p))
            due_ns[processor] += self._length_ns(processes, view)
            place.append(processor)
        return tuple(place)

    def _turns(self, view: View, placements: partitions.Placements) -> list[_Turn]:
        """The turns of all placed processes in a round, in order of arrival and rank."""
        ends_ns = [0] * view.machine.processors
        turns = []
        for job in view.jobs:
            length_ns = self._length_ns(job.processes, view)
            for rank, processor in enumerate(placements.get(job.number, ())):
                begin_ns = ends_ns[processor]
                ends_ns[processor] = begin_ns + length_ns
                turns.append(_Turn(begin_ns, ends_ns[processor], processor, job.number, rank))
        return turns


def _slots(turns: list[_Turn], times_ns: list[int], processors: int) -> Iterator[Slot]:
    """The slots between consecutive times, at which turns begin or end."""
    begins = defaultdict[int, list[_Turn]](list)
    for turn in turns:
        begins[turn.begin_ns].append(turn)
    now: dict[int, _Turn] = {}
    for begin_ns, end_ns in pairwise(times_ns):
        now = {place: turn for place, turn in now.items() if turn.end_ns > begin_ns}
        now |= {turn.processor: turn for turn in begins[begin_ns]}
        runs = tuple((now[place].job,) if place in now else () for place in range(processors))
        yield Slot(runs, end_ns - begin_ns, tuple((turn.job, turn.rank) for turn in now.values()))


def _position_ns(view: View) -> int:
    """How far the round in force has gone; 0 before the first one."""
    if view.previous is None or view.previous.state is None:
        return 0
    lengths_ns = [slot.length_ns or 0 for slot in view.previous.slots]
    position_ns: int = view.previous.state + sum(lengths_ns[: view.slot]) + view.elapsed_ns
    return position_ns % sum(lengths_ns)
