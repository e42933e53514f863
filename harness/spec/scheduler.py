"""The [[schedulers]] tables of an experiment: a policy each, with its waiting rule and local scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator import policies
from coordinator.host import mechanisms
from coordinator.policies import Policy
from coordinator.policies.slurm_gang import SlurmGang
from coordinator.workload import WITHIN_JOB
from harness.spec.table_checks import each, known_keys
from workloads import blocking
from workloads.blocking import DEFAULT_ESTIMATE
from workloads.bounds import within
from workloads.locks.remedies import REMEDIES, needs_kernel, needs_slots
from workloads.validation import InputError, one_of

OF_SECTIONS = ("do_not_preempt", "put_off_us", "remedy", "warning_us")
SHARED = ("blocking", "spin_switches", "imbalance_estimate", "local", "mechanism", "bind", *OF_SECTIONS)
"""Keys of every [[schedulers]] table, whatever its policy."""

ADDED = {
    **{"bind": True, "imbalance_estimate": DEFAULT_ESTIMATE, "rows": 0, "migrate": False, "share": "none"},
    **{"do_not_preempt": 0, "put_off_us": 50.0, "remedy": "none", "warning_us": 100.0},
    **{"mapping": "order", "synchronised": True},
}
"""Keys that older records lack, and the values that those records imply."""

IMPLICIT = "global-adaptive"
"""The waiting rule of the policy implicit, if its table names none."""

OF_RULES = {"spin_switches": "fixed", "imbalance_estimate": "global-adaptive"}
"""Keys that mean something to one waiting rule only."""

LOCAL_CLASSES = ("other", "rr")

OF_SLOTS = ("quantum_ms", "long_quantum_ms", "quanta_ms")
"""Keys of policies that give lengths of slots."""

LEAST_SLOT_MS = 0.1


@dataclass(frozen=True)
class Scheduler:
    """A policy with its waiting rule and its local scheduler.

    Attributes:
        name: of the policy.
        policy: with its parameters.
        blocking: the waiting rule of all ranks.
        spin_switches: spin of the fixed rule, in context switches.
        imbalance_estimate: how the rule global-adaptive estimates the load imbalance.
        local: class of the local scheduler, "other" or "rr".
        mechanism: the way to stop and continue processes, if the policy needs one.
        bind: whether each process stays on the processor that the policy gives it (true), or on the
            processors of its job ("job"), among which the kernel chooses; else it chooses among those of
            the experiment.
        do_not_preempt: how often a change of slot is put off for a process in a critical section.
        put_off_us: for how long each time.
        remedy: against the preemption of processes in critical sections (``workloads.locks.remedies``).
        warning_us: how long before the end of their slot ``warning`` keeps processes from entering one.
    """

    name: str
    policy: Policy
    blocking: str = "spin"
    spin_switches: float = 2
    imbalance_estimate: str = DEFAULT_ESTIMATE
    local: str = "other"
    mechanism: str = "auto"
    bind: bool | str = True
    do_not_preempt: int = 0
    put_off_us: float = 50.0
    remedy: str = "none"
    warning_us: float = 100.0

    def __post_init__(self) -> None:
        one_of("blocking", self.blocking, blocking.RULES)
        within("schedulers.spin_switches", self.spin_switches)
        one_of("imbalance_estimate", self.imbalance_estimate, blocking.ESTIMATES)
        if self.blocking != "global-adaptive" and self.imbalance_estimate != DEFAULT_ESTIMATE:
            rule = f"the waiting rule {self.blocking} has no such estimate"
            remedy = 'write blocking = "global-adaptive", or leave it out'
            raise InputError("imbalance_estimate", self.imbalance_estimate, rule, remedy)
        one_of("local", self.local, LOCAL_CLASSES)
        one_of("mechanism", self.mechanism, ("auto", *mechanisms.known()))
        if self.mechanism == "realtime" and self.local == "rr":
            rule = "the realtime mechanism sets the scheduling class itself"
            raise InputError("local", self.local, rule, "leave local out, or choose another mechanism")
        self._check_binding()
        self._check_sections()
        self._check_coscheduling()

    def _check_binding(self) -> None:
        if not isinstance(self.bind, bool) and self.bind != WITHIN_JOB:
            rule, remedy = f'must be true, false or "{WITHIN_JOB}"', "choose one of them"
            raise InputError("bind", self.bind, rule, remedy)
        if self.of_slurm and self.bind is not True:
            raise InputError("bind", self.bind, "jobs of Slurm's bind their processes", "leave bind out")
        if self.bind == WITHIN_JOB and self.policy.moves:
            rule = f"the policy {self.name!r} gives running jobs other processors"
            raise InputError("bind", self.bind, rule, "write true or false, or choose another policy")

    def _check_sections(self) -> None:
        within("schedulers.do_not_preempt", self.do_not_preempt)
        within("schedulers.put_off_us", self.put_off_us)
        within("schedulers.warning_us", self.warning_us)
        one_of("remedy", self.remedy, REMEDIES)
        if self.do_not_preempt and self.remedy != "none":
            rule = "a scheduler has one remedy, and this one has the do-not-preempt bit"
            raise InputError("remedy", self.remedy, rule, "leave one of the two out")
        if self.of_slurm and self.remedy != "none":
            raise InputError("remedy", self.remedy, "Slurm schedules these jobs", "leave remedy out")
        if needs_kernel(self.remedy):
            self._check_inheritance()
        if not self.do_not_preempt and not needs_slots(self.remedy):
            return
        key = "do_not_preempt" if self.do_not_preempt else "remedy"
        if not self.policy.needs_mechanism or self.of_slurm:
            rule = f"the policy {self.name!r} stops no process, and the kernel knows of no sections"
            raise InputError(key, getattr(self, key), rule, "choose gang, or leave it out")
        if self.mechanism == "realtime":
            rule = "the realtime mechanism does not stop the processes that it holds"
            raise InputError(key, getattr(self, key), rule, "choose another mechanism")
        if self.remedy == "activations" and self.bind is not True:
            rule = "a holder runs on on another processor of its job, and then goes back to its own"
            raise InputError("bind", self.bind, rule, "leave bind out, or choose another remedy")

    def _check_inheritance(self) -> None:
        if self.policy.needs_mechanism:
            rule = f"the policy {self.name!r} stops processes, and who is stopped runs at no priority"
            raise InputError("remedy", self.remedy, rule, "choose none, or another remedy")
        if self.local != "other":
            rule = "who holds a lock is lifted into SCHED_RR above SCHED_OTHER"
            raise InputError("local", self.local, rule, 'write local = "other", or leave it out')

    def check_adapting(self) -> None:
        """Raise InputError if no job may get other processors while it runs."""
        if self.bind == WITHIN_JOB:
            rule = "a job of TASKS, or one that is malleable, gets other processors while it runs"
            raise InputError("bind", self.bind, rule, "write true or false")

    @property
    def not_simulated(self) -> str:
        """Why no simulation has its remedy; empty if one has."""
        of_queue = self.remedy in ("conscious", "inheritance") and self.bind is not True
        return f"the remedy {self.remedy!r} is simulated for bound processes only" if of_queue else ""

    def _check_coscheduling(self) -> None:
        if not self.policy.coscheduling:
            return
        if self.local != "rr":
            rule = f"the policy {self.name!r} reorders turns of SCHED_RR"
            raise InputError("local", self.local, rule, 'write local = "rr", or leave it out')
        if self.bind is not True:
            raise InputError("bind", self.bind, "a message is for a processor", "leave bind out")

    @property
    def of_slurm(self) -> bool:
        """Whether Slurm's controller does the scheduling."""
        return isinstance(self.policy, SlurmGang)

    @property
    def table(self) -> dict[str, Any]:
        """The keys of the [[schedulers]] table with every default filled in, as records keep them."""
        options = {key: _plain(getattr(self.policy, key)) for key in policies.parameters(self.name)}
        shared = {key: getattr(self, key) for key in SHARED}
        return {"policy": self.name} | options | shared

    @property
    def identity(self) -> dict[str, Any]:
        """Its table without the keys of ``added`` that have their defaults; different for every scheduler."""
        later = added(self.name)
        return {key: value for key, value in self.table.items() if (key, value) not in later.items()}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def added(policy: str) -> dict[str, Any]:
    """The entries of ADDED that a table of the policy ``policy`` has."""
    own = policies.parameters(policy) if policy in policies.known() else {}
    return {key: value for key, value in ADDED.items() if key in SHARED or key in own}


def schedulers_of(
    tables: Any, here: bool, *, merge: bool = False, adapting: bool = False
) -> tuple[Scheduler, ...]:
    """The schedulers that the [[schedulers]] tables describe; of several alike ``merge`` takes the first.

    ``adapting``: some job may get other processors while it runs.

    Raises:
        InputError: below ``schedulers``, for any fault; with ``here`` also for what this host lacks.
    """

    def read(table: Mapping[str, Any]) -> Scheduler:
        scheduler = _here(table) if here else scheduler_of(table)
        if adapting:
            scheduler.check_adapting()
        return scheduler

    made = each(tables, "schedulers", 'policy = "gang"', read)
    if merge:
        return tuple(dict.fromkeys(made))
    for index, scheduler in enumerate(made):
        if (first := made.index(scheduler)) < index:
            rule = f"is the same as schedulers[{first}]"
            remedy = "remove one; repeats = N measures more often"
            raise InputError(f"schedulers[{index}]", tables[index], rule, remedy)
    return made


def _here(table: Mapping[str, Any]) -> Scheduler:
    """The scheduler of a table, if this host has its mechanism and its scheduling class."""
    scheduler = scheduler_of(table)
    mechanisms.check_local(scheduler.local)
    if scheduler.policy.needs_mechanism:
        mechanisms.choose(scheduler.mechanism)
        _check_slots(scheduler.policy)
    if needs_kernel(scheduler.remedy) and (reason := mechanisms.Realtime.unavailable()):
        raise InputError("remedy", scheduler.remedy, reason, "raise the limit, or choose another remedy")
    return scheduler


def shortest_slot_ms(values: Mapping[str, Any], key: str) -> float | None:
    """The shortest slot that the key ``key`` of OF_SLOTS asks for; None if there is no such key."""
    value = values.get(key)
    return None if value is None else float(min(value if isinstance(value, list | tuple) else [value]))


def _check_slots(policy: Policy) -> None:
    """Refuse slots of which real changes would take a large part."""
    for key in OF_SLOTS:
        shortest_ms = shortest_slot_ms(vars(policy), key)
        if shortest_ms is not None and shortest_ms < LEAST_SLOT_MS:
            value = getattr(policy, key)
            rule = f"a change takes 0.04 ms of each processor; real slots last {LEAST_SLOT_MS} ms or more"
            raise InputError(key, value, rule, f"write {LEAST_SLOT_MS} or more, or ask lockstep simulate")


def scheduler_of(table: Mapping[str, Any]) -> Scheduler:
    """The scheduler that a [[schedulers]] table describes.

    Raises:
        InputError: for unknown keys and values that do not fit.
    """
    policy = policy_of(table, SHARED)
    values = {key: table[key] for key in SHARED if key in table}
    if "blocking" in values:
        values["blocking"] = blocking.rule_name(values["blocking"])
    elif table["policy"] == "implicit":
        values["blocking"] = IMPLICIT
    if policy.coscheduling:
        values.setdefault("local", "rr")
    return Scheduler(table["policy"], policy, **values)


def has_key(table: Any, key: str) -> bool:
    """Whether ``key`` means something in a [[schedulers]] table: to its policy, or to its waiting rule."""
    if not isinstance(table, dict) or table.get("policy") not in policies.known():
        return False
    name = table["policy"]
    rule = blocking.rule_name(table.get("blocking", IMPLICIT if name == "implicit" else "spin"))
    return key in policies.parameters(name) or (key in SHARED and OF_RULES.get(key, rule) == rule)


def who_has(key: str) -> str:
    """The [[schedulers]] tables in which ``key`` means something, in words."""
    if key in OF_RULES:
        return f"it belongs to blocking = {OF_RULES[key]!r}"
    return "these policies have it: " + ", ".join(
        p for p in policies.known() if key in policies.parameters(p)
    )


def policy_of(table: Mapping[str, Any], others: Sequence[str] = ()) -> Policy:
    """The policy of a [[schedulers]] table, whose keys are its parameters and ``others``.

    Raises:
        InputError: for unknown keys and values that do not fit.
    """
    if "policy" not in table:
        remedy = "give one of " + ", ".join(policies.known())
        raise InputError("policy", None, "every [[schedulers]] table needs a policy", remedy)
    name = table["policy"]
    own = policies.parameters(name)
    for key in table:
        if key not in own and any(key in policies.parameters(other) for other in policies.known()):
            raise InputError(
                key, table[key], f"the policy {name!r} has no such key", f"remove it; {who_has(key)}"
            )
    known_keys(table, ("policy", *others, *own), "")
    return policies.create(name, {key: table[key] for key in table if key not in ("policy", *others)})
