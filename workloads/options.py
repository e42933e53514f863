"""A scheduler's options but its policy: one value from the file to ranks, agents and the simulator.

Remedies are for processes that lose their processors in critical sections: docs/critical-sections.md.
"""

from dataclasses import dataclass
from typing import Annotated

from workloads.parameters import Bounds, Checked, OneOf
from workloads.validation import InputError
from workloads.waiting_rules import DEFAULT_ESTIMATE, ESTIMATES, RULES, SPIN_SWITCHES, Waiting, waiting_rule

NO_REMEDY, WARNING, CONSCIOUS, INHERITANCE, ACTIVATIONS = range(5)

REMEDIES = {
    "none": NO_REMEDY,
    "defer": NO_REMEDY,
    "warning": WARNING,
    "activations": ACTIVATIONS,
    "conscious": CONSCIOUS,
    "inheritance": INHERITANCE,
}
"""The part of the processes themselves in each kind of remedy."""

HOLDER_CHECK_NS = 10_000
"""How often a process that spins under ``conscious`` or ``inheritance`` looks whether the holder runs."""


@dataclass(frozen=True)
class Remedy(Checked):
    """A remedy of a scheduler for processes that lose their processors in critical sections."""

    # "none". "defer", the do-not-preempt bit: a change of slot waits for a process in a section. "warning",
    # Psyche's two-minute warning: no process enters a section shortly before its slot ends. "activations",
    # as scheduler activations do: a stopped holder runs on in the place of another process of its job,
    # until it leaves. "conscious", scheduler-conscious synchronization: locks go to processes that run, and
    # processes spin for those that run. "inheritance": processes that spin lift the holder of the lock
    # above others.
    kind: Annotated[str, OneOf(REMEDIES)] = "none"
    deferrals: Annotated[int, Bounds(1, 10)] = 4  # how often at most a change of slot waits for one process
    deferral_us: Annotated[float, Bounds(1, 1000)] = 50.0  # for how long each time
    # How long before the end of its slot a process enters no section.
    warning_us: Annotated[float, Bounds(1, 1e5)] = 100.0

    @property
    def code(self) -> int:
        return REMEDIES[self.kind]

    @property
    def times(self) -> int:
        return self.deferrals if self.kind == "defer" else 0

    @property
    def warning_ns(self) -> int:
        """How long before the end of its slot a process enters no section any more; 0 without a warning."""
        return round(self.warning_us * 1e3) if self.kind == "warning" else 0

    @property
    def holder_check_ns(self) -> int:
        """How often a process that spins looks after the holder; 0 for never."""
        return HOLDER_CHECK_NS if self.code in (CONSCIOUS, INHERITANCE) else 0


NOTHING_DONE = Remedy()


LEAST_QUOTA_NS = 1_000_000

WITHIN_JOB = "job"
"""The binding of processes to the processors of their job, among which the kernel chooses."""


@dataclass(frozen=True)
class Options(Checked):
    """How processes wait, who schedules them on a processor, where they stay, and their remedies."""

    waiting: Annotated[str, OneOf(RULES)] = "spin"  # name of the waiting rule of all ranks
    spin_switches: Annotated[float, SPIN_SWITCHES] = 2  # spin of the rule ``fixed``, in context switches
    # Source of the estimate of the load imbalance, for the rule ``global-adaptive``.
    imbalance_estimate: Annotated[str, OneOf(ESTIMATES)] = DEFAULT_ESTIMATE
    # "other" or "rr", the local scheduler's class of the ranks.
    local: Annotated[str, OneOf(("other", "rr"))] = "other"
    # The way to stop and continue processes, if the policy needs one: a name, or "auto".
    mechanism: str = "auto"
    # Whether each process stays on the processor that the policy gives it (true), or on the processors of
    # its job ("job"), among which the kernel chooses; else it chooses among all processors of the run on
    # the node.
    bind: bool | str = True
    remedy: Remedy = NOTHING_DONE  # against the preemption of processes in critical sections
    # The CPU quota of all jobs together, 0 for none: in each ``quota_period_ms`` they may use the time of
    # so many processors. Then all their processes are stopped to the end of the period.
    quota_processors: Annotated[float, Bounds(0, 10_000)] = 0.0
    quota_period_ms: Annotated[float, Bounds(1, 1000)] = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mechanism == "realtime" and self.local == "rr":
            raise InputError(
                "local",
                self.local,
                "the realtime mechanism sets the scheduling class itself",
                "leave local out, or choose another mechanism",
            )
        if not isinstance(self.bind, bool) and self.bind != WITHIN_JOB:
            raise InputError(
                "bind", self.bind, f'must be true, false or "{WITHIN_JOB}"', "choose one of them"
            )
        if self.quota_processors and self.quota_ns < LEAST_QUOTA_NS:
            raise InputError(
                "quota_processors",
                self.quota_processors,
                f"gives less than 1 ms in a period of {self.quota_period_ms:g} ms, which Linux refuses",
                "give more, or 0 for no limit",
            )
        kind = self.remedy.kind
        alone = {"realtime", "freezer", "rr", "activations", "inheritance"}
        for key, value in (("local", self.local), ("mechanism", self.mechanism), ("remedy.kind", kind)):
            if self.quota_ns and value in alone:
                raise InputError(
                    key,
                    value,
                    "a CPU quota is for processes of SCHED_OTHER, in one control group",
                    "leave one of the two out",
                )

    @property
    def quota_ns(self) -> int:
        """The CPU time of all jobs together in each period; 0 without a limit."""
        return round(self.quota_processors * self.quota_period_ms * 1e6)

    def check_adapting(self) -> None:
        if self.bind == WITHIN_JOB:
            raise InputError(
                "bind",
                self.bind,
                "a job of TASKS, or one that is malleable, gets other processors while it runs",
                "write true or false",
            )

    def waiting_rule(
        self, *, context_switch_us: float, latency_us: float, imbalance_us: float = 0.0
    ) -> Waiting:
        return waiting_rule(
            self.waiting,
            context_switch_us=context_switch_us,
            latency_us=latency_us,
            spin_switches=self.spin_switches,
            imbalance_us=imbalance_us,
            imbalance_estimate=self.imbalance_estimate,
        )


DEFAULTS = Options()
