"""The simulator as plain Python: what a test asks of it takes no compiler, and is quick for a few events."""

import importlib
import sys
from contextlib import contextmanager

import numba

import harness
import harness.simulator

ROOM = "harness.simulator"
COMPILED_ONLY = (f"{ROOM}.target", f"{ROOM}.cache")
"""These modules make numba know what it may know only once."""


def _ours():
    return {name: module for name, module in sys.modules.items() if f"{name}.".startswith(f"{ROOM}.")}


@contextmanager
def plain_simulator():
    """A context that gives a function to import modules of the simulator, by their names in its room.

    They are copies whose kernels are not compiled. Afterwards all others import what they did before.
    """
    compiled, config = _ours(), numba.config
    before, config.DISABLE_JIT = config.DISABLE_JIT, 1
    for name in compiled.keys() - {*COMPILED_ONLY}:
        del sys.modules[name]
    try:
        yield lambda name: importlib.import_module(f"{ROOM}.{name}")
    finally:
        for name in _ours():
            del sys.modules[name]
        sys.modules.update(compiled)
        harness.simulator = compiled[ROOM]
        config.DISABLE_JIT = before
