"""Scheduling policies by name: one file for each family, each policy a pure ``decide(view, reason)``."""

from coordinator.policies import (  # noqa: F401 - each registers its policies
    adaptive,
    dqt,
    dynamic,
    easy,
    gang,
    hierarchical,
    queueing,
    round_robin_jobs,
    scan,
    sharing,
    space,
    working_sets,
    workstations,
)
from coordinator.policies.regions import hypercube, mesh  # noqa: F401 - as above
from coordinator.policies.registry import Policy, PolicyError, create, known, parameters, register

__all__ = ["Policy", "PolicyError", "create", "known", "parameters", "register"]
