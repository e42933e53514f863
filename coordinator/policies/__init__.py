"""Scheduling policies by name: one file per family, each a pure ``decide(view, why)``."""

from coordinator.policies import gang, sharing, space
from coordinator.policies.registry import Policy, create, known, parameters

__all__ = ["Policy", "create", "gang", "known", "parameters", "sharing", "space"]
