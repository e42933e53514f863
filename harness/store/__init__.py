"""Records of runs: what they hold, where they are kept, under which conditions they were made."""

from harness.store.database import load

__all__ = ["load"]
