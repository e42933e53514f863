"""Modules that are loaded at their first use: slow ones, and those that a small installation lacks.

``np = Late("numpy")``, where type checkers see ``import numpy as np``; not for compiled or hot code.
"""

import importlib
from typing import Any


class Late:
    """Stands for a module; each attribute is the module's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)
