"""A scheduler's options beside its policy: one value from the file to ranks, agents and the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from workloads.blocking import DEFAULT_ESTIMATE, ESTIMATES, RULES, SPIN_SWITCHES, Waiting, waiting
from workloads.locks.remedies import NOTHING_DONE, Remedy
from workloads.parameters import Checked, OneOf
from workloads.validation import InputError

WITHIN_JOB = "job"
"""The binding of processes to the processors of their job, among which the kernel chooses."""


@dataclass(frozen=True)
class Options(Checked):
    """How processes wait, who schedules them on a processor, where they stay, and what helps them.

    Attributes:
        blocking: name of the waiting rule of all ranks.
        spin_switches: spin of the rule ``fixed``, in context switches.
        imbalance_estimate: source of the estimate of the load imbalance, for the rule ``global-adaptive``.
        local: "other" or "rr", the local scheduler's class of the ranks.
        mechanism: the way to stop and continue processes, if the policy needs one: a name, or "auto".
        bind: whether each process stays on the processor that the policy gives it (true), or on the
            processors of its job ("job"), among which the kernel chooses; else it chooses among all
            processors of the run on the node.
        remedy: against the preemption of processes in critical sections.
    """

    blocking: Annotated[str, OneOf(RULES)] = "spin"
    spin_switches: Annotated[float, SPIN_SWITCHES] = 2
    imbalance_estimate: Annotated[str, OneOf(ESTIMATES)] = DEFAULT_ESTIMATE
    local: Annotated[str, OneOf(("other", "rr"))] = "other"
    mechanism: str = "auto"
    bind: bool | str = True
    remedy: Remedy = NOTHING_DONE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mechanism == "realtime" and self.local == "rr":
            rule = "the realtime mechanism sets the scheduling class itself"
            raise InputError("local", self.local, rule, "leave local out, or choose another mechanism")
        if not isinstance(self.bind, bool) and self.bind != WITHIN_JOB:
            rule = f'must be true, false or "{WITHIN_JOB}"'
            raise InputError("bind", self.bind, rule, "choose one of them")

    def check_adapting(self) -> None:
        """Raise InputError if no job may get other processors while it runs."""
        if self.bind == WITHIN_JOB:
            rule = "a job of TASKS, or one that is malleable, gets other processors while it runs"
            raise InputError("bind", self.bind, rule, "write true or false")

    def waiting(self, *, switch_us: float, latency_us: float, imbalance_us: float = 0.0) -> Waiting:
        """The waiting rule, for a machine and a program."""
        return waiting(
            self.blocking,
            switch_us=switch_us,
            latency_us=latency_us,
            spin_switches=self.spin_switches,
            imbalance_us=imbalance_us,
            imbalance_estimate=self.imbalance_estimate,
        )


DEFAULTS = Options()
