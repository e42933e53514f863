"""The simulator of processes: every message, clock tick and context switch."""
