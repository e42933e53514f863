"""Changes of slot in C, by a thread on each processor: on time, at little cost, on all processors at once.

The library is made when it is first used, like ``workloads.native``. An agent whose host has no C compiler
changes slots in Python.
"""

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coordinator.host.directories import DirectoryGuardian
from coordinator.host.mechanisms import Order
from workloads import launcher_names, native

SOURCE = Path(__file__).with_suffix(".c")

ROOM = 256  # most changes of slot in a call

ANY_CORE = -1

SlotOrders = Mapping[int, Sequence[Order]]  # the orders for each processor that bring a slot about


class SlotNote(NamedTuple):
    """When a change to ``slot`` was due, and the first and last processor's orders out (CLOCK_MONOTONIC)."""

    slot: int
    due_ns: int
    first_ns: int
    last_ns: int


class _Order(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int32) for name in Order._fields)


class _Orders(ctypes.Structure):
    _fields_ = (("first", ctypes.c_int32), ("end", ctypes.c_int32))


class _Cycle(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("lengths_ns", "changes", "orders")),
        ("end_ns", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("slots", "current", "room", "error")),
    )


class SlotHelper:
    """Executes one cycle of slots at a time; ``cores`` has the core of each of the first processors."""

    def __init__(self) -> None:
        code = ctypes.CDLL(str(native.compiled(SOURCE, care=DirectoryGuardian)))
        code.lockstep_helper.argtypes = (ctypes.c_char_p,)
        code.lockstep_helper.restype = ctypes.c_void_p
        self._begin = code.lockstep_worker
        self._run = code.lockstep_slots
        self._begin.argtypes = (ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)
        self._run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64)
        self._helper = code.lockstep_helper(f" {' '.join(launcher_names.ALL)} ".encode())
        if not self._helper:
            raise MemoryError("no room for the helper that changes slots")
        self.cores: tuple[int, ...] = ()
        self._lengths_ns: Sequence[int] = ()
        self._cycle = _Cycle(room=ROOM)
        self._done_ns: list[ctypes.Array[ctypes.c_int64]] = []
        self._held: list[ctypes.Array[Any]] = []

    def load(self, lengths_ns: Sequence[int], orders: Sequence[SlotOrders]) -> None:
        """Take a cycle: the length of each slot, and the orders that bring it about after the slot before."""
        processors = max((p for slot in orders for p in slot), default=0) + 1
        for processor in range(len(self._done_ns), processors):
            done_ns = (ctypes.c_int64 * ROOM)()
            core = self.cores[processor] if processor < len(self.cores) else ANY_CORE
            if error := self._begin(self._helper, core, ctypes.addressof(done_ns)):
                raise OSError(error, os.strerror(error))
            self._done_ns.append(done_ns)
        changes: list[_Orders] = []
        flat: list[_Order] = []
        for processor in range(len(self._done_ns)):
            for slot in orders:
                actions = slot.get(processor, ())
                changes.append(_Orders(len(flat), len(flat) + len(actions)))
                flat += [_Order(*order) for order in actions]
        self._lengths_ns = lengths_ns
        self._held = [(ctypes.c_int64 * len(lengths_ns))(*lengths_ns), (_Orders * len(changes))(*changes)]
        self._held.append((_Order * len(flat))(*flat))
        cycle = self._cycle
        cycle.lengths_ns, cycle.changes, cycle.orders = map(ctypes.addressof, self._held)
        cycle.slots = len(lengths_ns)

    def run(
        self, current: int, end_ns: int, descriptor: int, until_ns: int
    ) -> tuple[list[SlotNote], int, int]:
        """Change slots until ``until_ns``, or less long; returns changes, the slot in force and its end."""
        cycle = self._cycle
        cycle.current = current
        cycle.end_ns = end_ns
        count = self._run(self._helper, ctypes.addressof(cycle), descriptor, until_ns)
        if cycle.error:
            raise OSError(cycle.error, os.strerror(cycle.error))
        notes = []
        slot = current
        due_ns = end_ns
        for done_ns in zip(*(times[:count] for times in self._done_ns), strict=True):
            slot = (slot + 1) % len(self._lengths_ns)
            if times_ns := [time_ns for time_ns in done_ns if time_ns]:
                notes.append(SlotNote(slot, due_ns, min(times_ns), max(times_ns)))
            due_ns += self._lengths_ns[slot]
        return notes, cycle.current, cycle.end_ns
