"""Scheduling policies by name: one file for each family, each policy a pure ``decide(view, why)``."""

from coordinator.policies import (  # noqa: F401 - each registers its policies
    adaptive,
    characteristics,
    cube_allocation,
    dqt,
    dynamic,
    easy,
    gang,
    hierarchical,
    mesh_allocation,
    processor_sets,
    queueing,
    round_robin_jobs,
    scan,
    sharing,
    slurm_gang,
    space,
)
from coordinator.policies.registry import Policy, create, known, parameters, register

__all__ = ["Policy", "create", "known", "parameters", "register"]
