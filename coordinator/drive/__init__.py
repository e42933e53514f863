"""The driver of a run: its jobs and its nodes."""
