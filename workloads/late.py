"""Modules that are loaded at their first use: slow ones, and those that a small installation lacks.

A module says ``np = Late("numpy")`` where type checkers see ``import numpy as np``. Not for what is
compiled, or used in hot loops.
"""

from __future__ import annotations

import importlib
from functools import cached_property
from types import ModuleType
from typing import Any


class Late:
    """Stands for a module; each attribute is the module's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._module, attribute)

    @cached_property
    def _module(self) -> ModuleType:
        return importlib.import_module(self._name)
