"""Scheduling policies by name: one file per family, each a pure ``decide(view, why)``."""

from coordinator.policies import adaptive, backfilling, dqt, dynamic, gang, queueing, scan, sharing, space
from coordinator.policies.registry import Policy, create, known, parameters

__all__ = [
    "Policy",
    "adaptive",
    "backfilling",
    "create",
    "dqt",
    "dynamic",
    "gang",
    "known",
    "parameters",
    "queueing",
    "scan",
    "sharing",
    "space",
]
