"""The driver of a run: its jobs, its nodes, its log, and the takeover of a run."""
