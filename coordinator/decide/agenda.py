"""The events of a run that are known beforehand, fed to its session in one order by all who own a session."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from coordinator.decide.session import Plan, Session
from coordinator.owners import OwnerChange
from coordinator.view import Reason


class Due(NamedTuple):
    """A foreseeable event: when it happens, and why the policy decides then."""

    at_ns: int
    why: Reason


class Agenda:
    """The foreseeable events of a session: changes of owners, arrivals, timers, and ends of tables.

    At one time they come in this order. Jobs that arrive at one time do so together.

    Args:
        session: gets the events.
        arrivals: time and number of each job that is to come.
        owners: the changes of the owners' loads, in order of time.
    """

    def __init__(
        self,
        session: Session,
        arrivals: Iterable[tuple[int, int]],
        owners: Iterable[OwnerChange] = (),
    ) -> None:
        self._session = session
        self._owners = iter(owners)  # they may never end
        self._owner = next(self._owners, None)
        self.coming = deque(sorted(arrivals))

    def due(self, *, tables: bool = True) -> Due | None:
        """The next event, None if nothing is foreseeable; without ``tables`` no end of a table."""
        found = []
        if self._owner is not None:
            found.append(Due(self._owner.at_ns, Reason.OWNER))
        if self.coming:
            found.append(Due(self.coming[0][0], Reason.ARRIVAL))
        if (plan := self._session.plan) is not None:
            if (timer_ns := plan.timer_ns) is not None:
                found.append(Due(timer_ns, Reason.TIMER))
            if tables and (end_ns := plan.cycle.end_ns) is not None:
                found.append(Due(end_ns, Reason.SLOT_END))
        return min(found, key=lambda due: due.at_ns, default=None)

    def decide(self, due: Due, now_ns: int) -> tuple[list[int], Plan]:
        """Tell the session of the next event; returns the jobs that arrive, and the new plan."""
        if due.why is Reason.OWNER:
            assert self._owner is not None
            change, self._owner = self._owner, next(self._owners, None)
            return [], self._session.owner(change.processors, change.load, now_ns)
        if due.why is Reason.TIMER:
            return [], self._session.timer(now_ns)
        if due.why is Reason.SLOT_END:
            return [], self._session.slot_end(now_ns)
        arriving = []
        while self.coming and self.coming[0][0] == due.at_ns:
            arriving.append(self.coming.popleft()[1])
        first, *others = arriving
        return arriving, self._session.arrive(first, now_ns, *others)
