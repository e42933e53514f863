"""A program that lists what an import of ``lockstep`` and its calls change of the process around them.

    python process_state.py WHERE

WHERE is "main", "thread", "loop" (a thread of asyncio's), "cell" (within a loop that runs, as in a
notebook), "fork" or "spawned" (in a pool). It prints, as JSON, by the name of what has changed the former and
the new value: after the import, and for each call in the order of CALLS as a watcher sees it during the call,
and after the call. Former values are those before the import.
"""

import asyncio
import contextlib
import ctypes
import decimal
import functools
import gc
import json
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import struct
import sys
import threading
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

PR_GET_PDEATHSIG = 2
PR_GET_DUMPABLE = 3
PR_GET_CHILD_SUBREAPER = 37
SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}[os.uname().machine]
LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]
LIBC = ctypes.CDLL(None)

EXPERIMENT = {
    "name": "mine",
    "processors": 2,
    "repeats": 1,
    "jobs": [{"count": 2, "program": {"pattern": "BARRIER", "processes": 2, "dedicated_s": 0.02}}],
    "schedulers": [{"policy": "none"}, {"policy": "gang", "quantum_ms": 20}],
}


def state():
    """What others may have set of this process and this thread, each as a text."""
    values = of_python() | of_libraries() | of_the_kernel()
    if threading.current_thread() is threading.main_thread():
        values["wakeup descriptor"] = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(values["wakeup descriptor"])
    return {name: str(value) for name, value in values.items()}


def of_python():
    """Of the interpreter and the standard library."""
    loggers = {"root": logging.root} | logging.root.manager.loggerDict
    known = {name: one for name, one in loggers.items() if isinstance(one, logging.Logger)}
    signals = {f"signal {number}": handler(number) for number in sorted(signal.valid_signals())}
    return signals | {
        "warnings": (warnings.filters, warnings.showwarning),
        "loggers": {
            name: (one.level, one.handlers, one.disabled)
            for name, one in known.items()
            if one.level or one.handlers or one.disabled
        },
        "logging": logging.root.manager.disable,
        "environment": dict(os.environ),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "locale": locale.setlocale(locale.LC_ALL),
        "decimal": decimal.getcontext(),
        "random": hash(random.getstate()),
        "hooks": (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook),
        "streams": (sys.stdout, sys.stderr, sys.stdin),
        "imports": (sys.path, sys.meta_path),
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "interpreter": (sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace()),
        "start method": multiprocessing.get_start_method(allow_none=True),
    }


def handler(number):
    """The handler of a signal; that of an asyncio loop would tell what its task waits for."""
    known = signal.getsignal(number)
    return known.func if isinstance(known, functools.partial) else known


def of_libraries():
    displayed = ("width", "max_rows", "max_columns", "precision")
    return {
        "matplotlib": dict(dict.items(mpl.rcParams)),  # without the backend's choice, which reading it makes
        "numpy": (np.geterr(), np.get_printoptions()),
        "numpy's random numbers": hash(np.random.get_state()[1].tobytes()),
        "pandas": [pd.get_option(f"display.{name}") for name in displayed],
    }


def of_the_kernel():
    """Of the process and the thread, as the kernel has them."""
    status = Path("/proc/thread-self/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    timers = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    return {name: resource.getrlimit(getattr(resource, name)) for name in LIMITS} | {
        "umask": fields["Umask"],
        "name": fields["Name"],
        "blocked signals": fields["SigBlk"],
        "directory": Path.cwd(),
        "children": Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text(),
        "kernel's threads": len(list(Path("/proc/self/task").iterdir())),
        "descriptors": descriptors(),
        "timers": [signal.getitimer(which) for which in timers],
        "session": (os.getsid(0), os.getpgid(0)),
        "processors": sorted(os.sched_getaffinity(0)),
        "scheduling": scheduling(),
        "reaper": [asked(which) for which in (PR_GET_CHILD_SUBREAPER, PR_GET_PDEATHSIG)],
        "dumpable": LIBC.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0),
    }


def descriptors():
    """What each open descriptor is."""
    targets = {}
    for entry in sorted(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # that of the list itself
            targets[entry.name] = str(entry.readlink())
    return targets


def asked(option):
    value = ctypes.c_int(-1)
    LIBC.prctl(option, ctypes.byref(value), 0, 0, 0)
    return value.value


def scheduling():
    """Policy, flags, nice value, priority and slice of this thread."""
    attributes = ctypes.create_string_buffer(48)
    LIBC.syscall(SCHED_GETATTR, 0, attributes, 48, 0)
    return struct.unpack_from("=IQiIQ", attributes, 4)


class Watcher:
    """Looks whenever it is told something."""

    def __init__(self, before):
        self.before = before
        self.seen = {}

    def progress(self, *_, **__):
        self.seen |= differences(self.before)

    row_status = note = warn = progress


def differences(before):
    return {name: [before.get(name), value] for name, value in state().items() if before.get(name) != value}


CALLS = {
    "run": ((EXPERIMENT,), {"simulate": False, "no_wait": True}),
    "colocate": (([["sleep", "0.1"], ["sleep", "0.1"]],), {"rounds": 1, "no_wait": True}),
    "simulate": ((EXPERIMENT,), {}),
}
"""The last one leaves something, which all that follow would find."""


def found():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most // 2, most))
    before = state()
    import lockstep  # noqa: PLC0415 - what that changes is asked for

    answer = {"import": differences(before)}
    import among_others  # noqa: PLC0415

    among_others.settle()
    for name, (given, options) in CALLS.items():
        watcher = Watcher(before)
        getattr(lockstep, name)(*given, **options, results=f"results-{name}", watcher=watcher)
        gc.collect()
        answer[name] = {"during": watcher.seen, "after": differences(before)}
    return answer


def in_thread():
    answers = []
    thread = threading.Thread(target=lambda: answers.append(found()))
    thread.start()
    thread.join()
    return answers[0]


async def in_cell():
    return found()


def in_fork():
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(writer, "w") as stream:
            json.dump(found(), stream)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    return json.loads(answer)


def in_pool():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(found)


PLACES = {
    "main": found,
    "thread": in_thread,
    "loop": lambda: asyncio.run(asyncio.to_thread(found)),
    "cell": lambda: asyncio.run(in_cell()),
    "fork": in_fork,
    "spawned": in_pool,
}

if __name__ == "__main__":
    print(json.dumps(PLACES[sys.argv[1]]()))
