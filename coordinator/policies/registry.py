"""The registry of policies, and their base class."""

import dataclasses
import inspect
import re
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform

from coordinator.view import Decision, Job, Reason, View
from workloads.parameters import Bounds, Checked
from workloads.validation import InputError, LockstepError, any_of, brief, nearest, one_of

Quantum = Annotated[float, Bounds(0.01, 1e8)]
"""The length of a slot in milliseconds."""

Places = Annotated[int, Bounds(0, 1_000_000)]
"""How many jobs, or slots, there may be; usually 0 for any number."""


class Policy(Checked, ABC):
    """A pure scheduling policy: a frozen dataclass whose fields are its parameters.

    A policy holds no clock, process, socket, random generator or logger; the same view and
    reason always give the same decision. Annotations limit the parameters (``workloads.parameters``).
    """

    source: ClassVar[str]
    """The paper and section, or the system, that defines the policy."""
    stops_processes: ClassVar[bool] = False
    """Whether slots exclude arrived jobs, so that a mechanism must stop their processes."""
    allows_oversubscription: ClassVar[bool] = False
    """Whether processes of one job may share a processor, so that it may have more than there are."""

    uses_owner_load: ClassVar[bool] = False
    """Whether decisions depend on the owners of workstations (``View.owner_load``)."""

    uses_attained_service: ClassVar[bool] = False
    """Whether decisions depend on the service that jobs have had (``View.attained_ns``)."""

    @property
    def moves(self) -> bool:
        """Whether processes that run may change processors."""
        return False

    @property
    def relocates(self) -> bool:
        """Whether rigid jobs that have begun may change processors, or start again."""
        return self.moves

    reacts_to_phases: ClassVar[bool] = False
    """Whether the policy is asked when a program's parallelism changes."""

    def processes(self, job: Job, view: View) -> int | None:
        """The number of processes with which ``job`` will start; None if unknown before it starts.

        By default as many as the job requests. The driver asks before the run begins, with every job
        of the workload in ``view.jobs``, so that it can launch programs ahead of time.
        """
        return job.processes

    @property
    def coscheduling(self) -> Mapping[str, float]:
        """The parameters of dynamic coscheduling by the processes themselves; empty if they do without."""
        return {}

    @property
    def observation(self) -> Mapping[str, float]:
        """How processes observe messages that change working sets; empty if they need not."""
        return {}

    @abstractmethod
    def decide(self, view: View, reason: Reason) -> Decision:
        """Who may run where, from now to the next decision."""


@dataclasses.dataclass(frozen=True)
class TimeSlicing(Policy):
    """The base of policies whose slots are all of one length, or multiples of it.

    Attributes:
        quantum_ms: that length.
    """

    quantum_ms: Quantum = 100.0
    stops_processes = True

    @property
    def quantum_ns(self) -> int:
        """The same in nanoseconds, as tables have it."""
        return round(self.quantum_ms * 1e6)


class PolicyError(LockstepError, ValueError):
    """A policy of another file or package has failed, or decides what no machine can do."""


def is_ours(policy: type[Any]) -> bool:
    """Whether a policy is one of Lockstep's own, whose errors are faults of ours."""
    return policy.__module__.startswith("coordinator.")


@contextmanager
def blamed(policy: type[Any], method: str) -> Iterator[None]:
    """A context in which errors of this ``method``, or of checks of its answer, name the policy and the line.

    Errors of Lockstep's own policies pass unchanged.
    """
    try:
        yield
    except LockstepError:
        raise
    except Exception as error:  # whatever the policy raises
        if is_ours(policy):
            raise
        name = next((name for name, one in _known.items() if one is policy), policy.__name__)
        raise PolicyError(f"the policy {name!r} failed: {_place(policy, method, error)}") from error


def _place(policy: type[Any], method: str, error: Exception) -> str:
    """Where in its file a policy failed, and the error."""
    message = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    code = getattr(inspect.unwrap(getattr(policy, method)), "__code__", None)
    file = getattr(sys.modules.get(policy.__module__), "__file__", None) or policy.__module__
    line = f", line {code.co_firstlineno}, in {method}" if code and code.co_filename == file else ""
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == file:
            message = f"{type(error).__name__}: {error}"
            line = f", line {frame.lineno}, in {frame.name}"
    hint = _renamed(re.findall(r"'(\w+)'", message)) if isinstance(error, AttributeError | TypeError) else ""
    return f"{file}{line}: {brief(message.removesuffix(': '))}" + (f" ({hint})" if hint else "")


GROUP = "lockstep.policies"
"""Entry points of this group name modules of other packages that register policies."""

RENAMED = {
    "needs_mechanism": "stops_processes",
    "weighs_service": "uses_attained_service",
    "follows_phases": "reacts_to_phases",
    "heeds_owners": "uses_owner_load",
    "folds": "allows_oversubscription",
    "why": "reason",
    "memory": "state",
    "call_after_ns": "timer_ns",
    "only": "allowed_ranks",
    "least": "min_processes",
    "most": "max_processes",
}
"""Names in policies of versions before 0.3, and what they are now; errors give the present one."""


def _renamed(names: Iterable[str]) -> str:
    """Which of these names are old, and what to write instead; empty if none is."""
    return ", ".join(f"write {RENAMED[name]} for {name}" for name in names if name in RENAMED)


_known: dict[str, type[Any]] = {}
P = TypeVar("P", bound=type[Any])


@dataclass_transform(frozen_default=True)
def register(name: str) -> Callable[[P], P]:
    """Class decorator that enters a policy under ``name``, and makes it a frozen dataclass."""

    def enter(policy: P) -> P:
        if name in _known:
            modules = f"{_known[name].__module__} and {policy.__module__}"
            raise ValueError(f"two policies are called {name!r}, in {modules}")
        own = [key for key in vars(policy) if hasattr(Policy, RENAMED.get(key, ""))]
        if hint := _renamed([*own, *inspect.signature(policy.decide).parameters]):
            raise PolicyError(f"the policy {name!r} has names of an earlier version: {hint}")
        if "__dataclass_fields__" not in vars(policy):
            dataclasses.dataclass(frozen=True)(policy)
        _known[name] = policy
        return policy

    return enter


@cache
def _load_others() -> None:
    """Import the modules that other packages name for the group GROUP; they register their policies."""
    for point in metadata.entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:  # whatever it raises
            package = point.dist.name if point.dist else point.value
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = "" if isinstance(error, SyntaxError) else f"{frame.filename}, line {frame.lineno}: "
            rule = f"its policies cannot be imported: {place}{type(error).__name__}: {error}"
            raise InputError("policy", package, rule, "fix or uninstall that package") from error


def known() -> dict[str, type[Any]]:
    """All policies in order of names; an InputError if another package's cannot be imported."""
    _load_others()
    return dict(sorted(_known.items()))


def parameters(name: str) -> dict[str, Any]:
    """Names and defaults of a policy's parameters; for an unknown name an InputError with the known ones."""
    try:
        one_of("policy", name, known(), others="lockstep policies lists them")
    except InputError as error:
        if "did you mean" in error.remedy:
            raise
        own = "for a policy in your own file write python FILE.py in place of lockstep"
        raise InputError(error.key, name, error.rule, f"{error.remedy}, and {own}") from None
    return {field.name: field.default for field in dataclasses.fields(_known[name])}


def create(name: str, options: Mapping[str, Any]) -> Policy:
    """The policy ``name`` with ``options`` over its defaults.

    An InputError for an unknown name, for an unknown parameter (with the nearest), or for a forbidden value.
    """
    allowed = parameters(name)
    for key, value in options.items():
        if key not in allowed:
            remedy = nearest(
                key, allowed, f"remove it, or write {any_of([*allowed])}" if allowed else "remove it"
            )
            raise InputError(key, value, f"is not a parameter of the policy {name!r}", remedy)
    with blamed(_known[name], "__post_init__"):
        policy: Policy = _known[name](**options)
    return policy
