"""The experiment file: its source with line numbers, overrides, checks, and validated values."""
