"""What a process wants of its processor, and what the time there counts as."""

from functools import partial
from types import SimpleNamespace

COMPUTING, COMMUNICATING, SYNCHRONIZING, SWITCHING, IDLE = range(5)
AT_ONCE, SLOTS, QUOTAS, MESSAGES, TIMERS, ARRIVALS, DECISION = range(7)
"""What comes first at one time; messages come as they were sent, timers by processor."""
TICK, ALARM, END = range(3)  # what comes first on one processor at one time
# What interrupts a Time: no message; those that came while its process was off the processor; any.
DEAF, LATE, ALERT = range(3)
# then: what comes when it begins; asks: for its CPU time, all the while
Time = partial(SimpleNamespace, hears=DEAF, then=None, asks=False)
BEGIN, SLEEP, AWAKE = (Time(left=None, hears=ALERT) for _ in range(3))
