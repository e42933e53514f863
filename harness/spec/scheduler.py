"""The [[schedulers]] tables of an experiment: a policy each, with its waiting rule and local scheduler."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from coordinator import policies
from coordinator.host import mechanisms, quotas
from coordinator.policies import Policy
from coordinator.policies.preempt import Preempt
from coordinator.policies.sharing import Uncoordinated
from harness.spec.table_checks import Table, each, field_names
from workloads import waiting_rules
from workloads.options import DEFAULTS, WITHIN_JOB, Options
from workloads.parameters import Numbers
from workloads.validation import InputError, known_keys, one_of
from workloads.waiting_rules import DEFAULT_ESTIMATE

SHARED = field_names(Options)  # keys of every [[schedulers]] table, whatever its policy

IMPLICIT = "global-adaptive"  # the waiting rule of the policy implicit, if its table names none

OF_RULES = {"spin_switches": "fixed", "imbalance_estimate": "global-adaptive"}
"""Keys that mean something to one waiting rule only."""

STOPPING = ("defer", "warning", "activations")
"""Remedies that say something about slots, and so need slots in which Lockstep stops processes."""

OF_SLOTS = ("quantum_ms", "long_quantum_ms", "quanta_ms")  # keys of policies that give lengths of slots

LEAST_SLOT_MS = 0.1


@dataclass(frozen=True)
class Scheduler:
    """A policy with its name, and with the options: how processes wait, stay on processors and are helped."""

    setting = ""  # the name of one, if it is such (``harness.spec.settings``)
    decides = True  # whether Lockstep decides by its policy which process runs when

    name: str
    policy: Policy
    options: Options = DEFAULTS

    def __post_init__(self) -> None:
        options = self.options
        if options.waiting != "global-adaptive" and options.imbalance_estimate != DEFAULT_ESTIMATE:
            raise InputError(
                "imbalance_estimate",
                options.imbalance_estimate,
                f"cannot act under the waiting rule {options.waiting}",
                'write waiting = "global-adaptive", or leave it out',
            )
        one_of("mechanism", options.mechanism, ("auto", *mechanisms.known()))
        if options.bind == WITHIN_JOB and self.policy.moves:
            raise InputError(
                "bind",
                options.bind,
                f"cannot hold under {self.name!r}, which gives running jobs other processors",
                "write true or false, or choose another policy",
            )
        self._check_remedy(options.remedy.kind)
        if self.policy.coscheduling and options.local != "rr":
            raise InputError(
                "local",
                options.local,
                f"must be rr under {self.name!r}, which reorders time slices of SCHED_RR",
                'write local = "rr", or leave it out',
            )
        if self.policy.coscheduling and options.bind is not True:
            raise InputError(
                "bind",
                options.bind,
                f"must be true under {self.name!r}, which sends messages to a rank's own processor",
                "leave bind out",
            )

    def _check_remedy(self, kind: str) -> None:
        if kind == "none":
            return
        if kind == "inheritance":
            if self.policy.stops_processes:
                raise InputError(
                    "remedy.kind",
                    kind,
                    f"cannot act under {self.name!r}, which stops processes whatever their priority",
                    'write kind = "none", or another remedy',
                )
            if self.options.local != "other":
                raise InputError(
                    "local",
                    self.options.local,
                    "must be other with inheritance, which lifts the holder of a lock into SCHED_RR",
                    'write local = "other", or leave it out',
                )
        if kind not in STOPPING:
            return
        if not self.policy.stops_processes:
            raise InputError(
                "remedy.kind",
                kind,
                f"needs a policy that stops processes, and {self.name!r} stops none",
                "choose gang, or leave it out",
            )
        if self.options.mechanism == "realtime":
            raise InputError(
                "remedy.kind",
                kind,
                "cannot act with the realtime mechanism, which does not stop the processes that wait",
                "choose another mechanism",
            )
        min_ms = min(shortest_ms(vars(self.policy)).values(), default=math.inf)
        if kind == "warning" and self.options.remedy.warning_us >= min_ms * 1e3:
            raise InputError(
                "remedy.warning_us",
                self.options.remedy.warning_us,
                f"must be shorter than a slot ({min_ms:g} ms), else no process would enter a section",
                "write less",
            )
        if kind == "activations" and self.options.bind is not True:
            raise InputError(
                "bind",
                self.options.bind,
                "must be true with activations, since a holder goes back to its own processor",
                "leave bind out, or choose another remedy",
            )

    @property
    def not_simulated(self) -> str:
        """Why no simulation has its remedy; empty if one has."""
        kind = self.options.remedy.kind
        of_queue = kind in ("conscious", "inheritance") and self.options.bind is not True
        return f"the remedy {kind!r} is simulated for bound processes only" if of_queue else ""

    @property
    def table(self) -> dict[str, Any]:
        """The keys of the [[schedulers]] table with every default filled in, as records keep them."""
        own = {key: plain(getattr(self.policy, key)) for key in policies.parameters(self.name)}
        return {"policy": self.name} | own | asdict(self.options)


@dataclass(frozen=True)
class ClusterScheduler(Scheduler):
    """The scheduler of a cluster, to which each job is submitted by itself, and which decides alone."""

    decides = False

    @property
    def not_simulated(self) -> str:
        return "the cluster decides by a configuration of which there is no model"

    @property
    def table(self) -> dict[str, Any]:
        return {"policy": self.name, "waiting": self.options.waiting}


THROUGH_SLURM = ClusterScheduler("slurm", Uncoordinated(), Options(bind=False))


@dataclass(frozen=True)
class JobScheduler(Scheduler):
    """A policy for jobs without processes: its table has only the keys that were ``written``."""

    written: Table = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """The options say how processes wait and stay on processors: there is nothing to check."""

    @property
    def table(self) -> dict[str, Any]:
        return {"policy": self.name} | {
            key: _whole(value) for key, value in self.written.items() if key != "policy"
        }


def _whole(value: Any) -> Any:
    """A number in the form in which it is compared: 100.0 is 100."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def plain(value: Any) -> Any:
    if isinstance(value, Numbers):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


Reader = Callable[[Table], Scheduler]
"""Makes the scheduler of a [[schedulers]] table."""


def reader(*, here: bool = False, adapting: bool = False) -> Reader:
    """Reads schedulers of processes: ``here`` those that this host has.

    ``adapting``: some job may get other processors while it runs.
    """

    def read(table: Table) -> Scheduler:
        scheduler = _here(table) if here else scheduler_of(table)
        if adapting:
            scheduler.options.check_adapting()
        return scheduler

    return read


def of_jobs(table: Table) -> JobScheduler:
    """The scheduler of a [[schedulers]] table for jobs without processes, which has no options of them."""
    policy = policy_of(table)
    return JobScheduler(table["policy"], policy, written=table)


def schedulers_of(tables: Any, read: Reader, *, merge: bool = False) -> tuple[Scheduler, ...]:
    """The schedulers that the [[schedulers]] tables describe; of several alike ``merge`` takes the first."""
    schedulers = each(tables, "schedulers", 'policy = "gang"', read)
    if merge:
        return tuple(dict.fromkeys(schedulers))
    for index, scheduler in enumerate(schedulers):
        if (first := schedulers.index(scheduler)) < index:
            raise InputError(
                f"schedulers[{index}]",
                tables[index],
                f"cannot be the same as schedulers[{first}]",
                "remove one (repeats = N measures more often)",
            )
    return schedulers


def _here(table: Table) -> Scheduler:
    """The scheduler of a table, if this host has its mechanism and its scheduling class."""
    scheduler = scheduler_of(table)
    mechanisms.check_local(scheduler.options.local)
    if (quota := scheduler.options.quota_processors) and (reason := quotas.unavailable(scheduler.options)):
        raise InputError("quota_processors", quota, reason, "ask lockstep simulate, or leave it out")
    if scheduler.policy.stops_processes:
        mechanisms.choose(scheduler.options.mechanism)
        _check_slots(scheduler.policy)
    kind = scheduler.options.remedy.kind
    if kind == "inheritance" and (reason := mechanisms.Realtime.unavailable()):
        raise InputError("remedy.kind", kind, reason, "raise the limit, or choose another remedy")
    return scheduler


def shortest_ms(values: Table) -> dict[str, float]:
    """The shortest slot that each key of OF_SLOTS asks for which is there."""
    lengths = {key: value for key in OF_SLOTS if (value := values.get(key)) is not None}
    return {key: float(min(one if isinstance(one, list | tuple) else [one])) for key, one in lengths.items()}


def _check_slots(policy: Policy) -> None:
    """Refuse slots of which real changes would take a large part."""
    for key, length_ms in shortest_ms(vars(policy)).items():
        if length_ms < LEAST_SLOT_MS:
            value = getattr(policy, key)
            raise InputError(
                key,
                value,
                f"must be at least {LEAST_SLOT_MS} ms in real runs, since a change takes 0.04 ms",
                f"write {LEAST_SLOT_MS} or more, or ask lockstep simulate",
            )


def scheduler_of(table: Table) -> Scheduler:
    """The scheduler that a [[schedulers]] table describes."""
    policy = policy_of(table, SHARED)
    values = {key: table[key] for key in SHARED if key in table}
    if "waiting" in values:
        values["waiting"] = waiting_rules.rule_name(values["waiting"])
    elif table["policy"] == "implicit":
        values["waiting"] = IMPLICIT
    if policy.coscheduling:
        values.setdefault("local", "rr")
    return Scheduler(table["policy"], policy, Options(**values))


def check_tiers(key: str, scheduler: Scheduler, partitions: Collection[str]) -> None:
    """Refuse tiers of partitions that no job is in; ``key`` is that of the scheduler's table."""
    if not isinstance(scheduler.policy, Preempt):
        return
    there = ", ".join(map(repr, sorted(filter(None, partitions)))) or "no partition"
    for name, _ in scheduler.policy.tiers:
        if name not in partitions:
            raise InputError(
                f"{key}.tiers",
                dict(scheduler.policy.tiers),
                f"cannot have {name!r}, since no job is in that partition, but in {there}",
                f"correct {name!r}, or leave it out",
            )


def has_key(table: Any, key: str) -> bool:
    """Whether ``key`` means something in a [[schedulers]] table: to its policy, or to its waiting rule."""
    name = str(table.get("policy")) if isinstance(table, dict) else ""
    if name not in policies.known():
        return False
    rule = waiting_rules.rule_name(table.get("waiting", IMPLICIT if name == "implicit" else "spin"))
    return key in policies.parameters(name) or (key in SHARED and OF_RULES.get(key, rule) == rule)


def who_has(key: str) -> str:
    if key in OF_RULES:
        return f"it belongs to waiting = {OF_RULES[key]!r}"
    return "these policies have it: " + ", ".join(
        p for p in policies.known() if key in policies.parameters(p)
    )


def policy_of(table: Table, others: Sequence[str] = ()) -> Policy:
    """The policy of a [[schedulers]] table, whose keys are its parameters and ``others``."""
    if "policy" not in table:
        raise InputError(
            "policy",
            None,
            "every [[schedulers]] table must have one",
            'write policy = "gang", say (lockstep policies lists all)',
        )
    name = table["policy"]
    own = policies.parameters(name)
    for key in table:
        if key not in own and any(key in policies.parameters(other) for other in policies.known()):
            raise InputError(
                key, table[key], f"is not a key of the policy {name!r}", f"remove it ({who_has(key)})"
            )
    known_keys(table, ("policy", *others, *own), "")
    return policies.create(name, {key: table[key] for key in table if key not in ("policy", *others)})
