"""Records of runs: their content, the store that keeps them, the conditions of the runs."""

from harness.store.database import load

__all__ = ["load"]
