"""Priorities with which our processes get a processor promptly among spinning ranks.

The driver, the agent and the guardian run for microseconds at a time, but must be on
time: above realtime ranks if the user has that privilege, otherwise with a short slice. Under
a limit (RLIMIT_RTPRIO), all priorities are below it, in the same order.
"""

import ctypes
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import NamedTuple


class Levels(NamedTuple):
    """Realtime priorities in descending order; the first two may be equal."""

    transport: int  # for the thread that sends and receives messages (SCHED_FIFO)
    control: int  # for driver, agent and guardian (SCHED_FIFO)
    ranks: int  # for realtime ranks (SCHED_RR)


WANTED = Levels(51, 50, 10)
LEAST = 2
"""The lowest limit (``ulimit -r``) that leaves a priority for ranks below ``control``."""

SLICE_NS = 100_000  # the smallest slice that EEVDF grants; a task with a short slice runs earlier

_RESET_ON_FORK = 1
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine)
_SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}.get(os.uname().machine)


class _Attributes(ctypes.Structure):
    """struct sched_attr of sched_setattr(2), first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    )


@cache
def levels() -> Levels | None:
    """The priorities that the kernel grants this user; None if too few for realtime ranks."""
    if granted((os.SCHED_FIFO, WANTED.transport)):
        return WANTED
    limit = _raise_limit()
    top = WANTED.transport if limit == resource.RLIM_INFINITY else min(WANTED.transport, limit)
    if top < LEAST or not granted((os.SCHED_FIFO, top)):
        return None
    control = min(WANTED.control, top)
    return Levels(top, control, min(WANTED.ranks, control - 1))


def _raise_limit() -> int:
    """Raise the limit of this process, and of those that it starts, as far as it may; returns the limit."""
    _, limit = resource.getrlimit(resource.RLIMIT_RTPRIO)
    resource.setrlimit(resource.RLIMIT_RTPRIO, (limit, limit))
    return limit


def granted(*policies: tuple[int, int]) -> bool:
    """Whether the kernel grants a thread these policies with their priorities, one after the other."""
    successes = []

    def attempt() -> None:
        with suppress(OSError):
            for policy, level in policies:
                os.sched_setscheduler(0, policy, os.sched_param(level))
            successes.append(True)

    thread = threading.Thread(target=attempt)
    with suppress(RuntimeError):  # no thread can be started
        thread.start()
        thread.join()
    return bool(successes)


@contextmanager
def prompt() -> Iterator[str]:
    """Give this thread a prompt priority, not its children, until exit; yields the priority in words."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    own = levels()
    if own is None:
        yield f"a slice of {SLICE_NS // 1000} us" if _request_slice(SLICE_NS) else "no special priority"
        _request_slice(0)
        return
    if own != WANTED:
        _raise_limit()  # as it was when the kernel granted this
    # Without reset-on-fork the ranks would inherit a priority above everything else.
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(own.control))
    try:
        yield f"SCHED_FIFO at priority {own.control}"
    finally:
        policy, parameters = before
        try:
            os.sched_setscheduler(0, policy, parameters)
        except PermissionError:
            # Without the capability, a process cannot clear the flag once it is set.
            os.sched_setscheduler(0, policy | os.SCHED_RESET_ON_FORK, parameters)


def _request_slice(slice_ns: int) -> bool:
    """Request a slice of this length, 0 for the default; return whether the kernel accepted it."""
    if _SCHED_SETATTR is None or os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK != os.SCHED_OTHER:
        return False
    attributes = _Attributes(
        size=ctypes.sizeof(_Attributes),
        policy=os.SCHED_OTHER,
        flags=_RESET_ON_FORK,
        nice=os.getpriority(os.PRIO_PROCESS, 0),
        runtime_ns=slice_ns,
    )
    return bool(ctypes.CDLL(None).syscall(_SCHED_SETATTR, 0, ctypes.byref(attributes), 0) == 0)


def own_slice_ns() -> int:
    """The slice that EEVDF gives this thread; 0 if the kernel does not report it (before Linux 6.12)."""
    attributes = _Attributes(size=ctypes.sizeof(_Attributes))
    if _SCHED_GETATTR is None:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.syscall(_SCHED_GETATTR, 0, ctypes.byref(attributes), attributes.size, 0)
    return 0 if failed else int(attributes.runtime_ns)
