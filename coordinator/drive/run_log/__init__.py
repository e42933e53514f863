"""The log of a run, for a driver that takes over: the beginning of the run, and its events.

Policies are pure, so the same events lead a new conductor to the same decisions. The file exists
from the start of the run to its end, in the run directory, where its user alone can write. Only the same
version on the same host reads it. It holds data only: the reader refuses a line that is none of the
dataclasses in ``events``.
"""
