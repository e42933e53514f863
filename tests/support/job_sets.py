"""A job set that only writes down what a conductor orders."""

from coordinator.decide.conductor import Conductor
from coordinator.decide.session import Session
from coordinator.view import Machine


class JobSet:
    """Keeps orders in turn, plans, and by job where it is, where it was launched, when and where it began."""

    def __init__(self):
        self.orders = []
        self.published = []
        self.places = {}
        self.launched = {}
        self.begun = {}
        self.decided = []

    def watch(self, session):
        """The session, which notes in ``decided`` from now on why, when and what it decides."""
        decide = session.decide

        def noted(now_ns):
            reason = session.reason
            assert reason is not None
            plan = decide(now_ns)
            self.decided.append((reason, now_ns, plan.decision))
            return plan

        session.decide = noted  # type: ignore[method-assign]
        return session

    @property
    def reasons(self):
        return [reason for reason, _, _ in self.decided]

    def publish(self, plan, from_ns):
        self.published.append((from_ns, plan))

    def launch(self, job, placement):
        self.orders.append(("launch", job, placement))
        self.places[job] = self.launched[job] = placement

    def begin(self, job, at_ns, placement):
        self.orders.append(("begin", job, at_ns, placement))
        self.places[job] = placement
        self.begun[job] = at_ns, placement

    def resize(self, job, placement):
        self.orders.append(("resize", job, placement))

    def move(self, job, placement):
        self.orders.append(("move", job, placement))

    def vacate(self, job):
        self.orders.append(("vacate", job))


def conduct(policy, jobs, processors=2, job_set=None, **how):
    """A conductor that has prepared, and its job set, which notes the decisions of the session."""
    job_set = job_set or JobSet()
    session = job_set.watch(Session(policy, Machine(processors), jobs))
    conductor = Conductor(session, jobs, job_set, **how)
    conductor.prepare()
    return conductor, job_set
