"""Scheduling policies by name: one file for each family, each policy a pure ``decide(view, reason)``."""

from importlib import import_module
from pkgutil import walk_packages

from coordinator.policies.registry import Policy, PolicyError, create, known, parameters, register

__all__ = ["Policy", "PolicyError", "create", "known", "parameters", "register"]

for _module in walk_packages(__path__, f"{__name__}."):
    if all(part.isidentifier() for part in _module.name.split(".")):  # no copy, as "gang (1).py"
        import_module(_module.name)  # a file of policies registers them
