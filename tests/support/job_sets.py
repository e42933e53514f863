"""A job set that only writes down what a conductor orders."""

from collections.abc import Sequence
from typing import Any

from coordinator.decide.conductor import Conductor
from coordinator.decide.session import Plan, Session
from coordinator.policies import Policy
from coordinator.view import Decision, Job, Machine, Reason


class JobSet:
    """Keeps orders in turn, plans, and by job where it is, where it was launched, when and where it began."""

    def __init__(self) -> None:
        self.orders: list[tuple[Any, ...]] = []
        self.published: list[tuple[int, Plan]] = []
        self.places: dict[int, Sequence[int]] = {}
        self.launched: dict[int, Sequence[int]] = {}
        self.begun: dict[int, tuple[int, Sequence[int]]] = {}
        self.decided: list[tuple[Reason, int, Decision]] = []

    def watch(self, session: Session) -> Session:
        """The session, which notes in ``decided`` from now on why, when and what it decides."""
        decide = session.decide

        def noted(now_ns: int) -> Plan:
            reason = session.reason
            assert reason is not None
            plan = decide(now_ns)
            self.decided.append((reason, now_ns, plan.decision))
            return plan

        session.decide = noted  # type: ignore[method-assign]
        return session

    @property
    def reasons(self) -> list[Reason]:
        return [reason for reason, _, _ in self.decided]

    def publish(self, plan: Plan, from_ns: int) -> None:
        self.published.append((from_ns, plan))

    def launch(self, job: int, placement: Sequence[int]) -> None:
        self.orders.append(("launch", job, placement))
        self.places[job] = self.launched[job] = placement

    def begin(self, job: int, at_ns: int, placement: Sequence[int]) -> None:
        self.orders.append(("begin", job, at_ns, placement))
        self.places[job] = placement
        self.begun[job] = at_ns, placement

    def resize(self, job: int, placement: Sequence[int]) -> None:
        self.orders.append(("resize", job, placement))

    def move(self, job: int, placement: Sequence[int]) -> None:
        self.orders.append(("move", job, placement))

    def vacate(self, job: int) -> None:
        self.orders.append(("vacate", job))


def conduct(
    policy: Policy, jobs: Sequence[Job], processors: int = 2, job_set: JobSet | None = None, **how: Any
) -> tuple[Conductor, JobSet]:
    """A conductor that has prepared, and its job set, which notes the decisions of the session."""
    job_set = job_set or JobSet()
    session = job_set.watch(Session(policy, Machine(processors), jobs))
    conductor = Conductor(session, jobs, job_set, **how)
    conductor.prepare()
    return conductor, job_set
