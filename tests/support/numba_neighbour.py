"""A program that uses numba itself, before, between and after simulations in the same process.

    python numba_neighbour.py NAME...

Gives functions of its own the names given, compiles and calls them, and prints as JSON the faults: answers
that are wrong, and what the simulations have changed of numba's public classes and settings.
"""

import json
import sys

import numba
import numpy as np
from numba.core import types
from numba.experimental import jitclass

FIRST = 3.0
LAST = 9.0
VALUES = np.array([FIRST, 5.0, LAST])


def last_of(name):
    """A function of this name whose answer depends on an index that counts from the end."""
    scope = {}
    exec(f"def {name}(values):\n    return values[-1] + values[0]\n", scope)
    return scope[name]


def plain(name):
    return numba.njit(last_of(name)), lambda compiled: compiled(VALUES)


def without_references(name):
    return numba.njit(_nrt=False)(last_of(name)), lambda compiled: compiled(VALUES)


def cached(name):
    """Numba keeps code of files only."""
    source = (
        f"import numba\n@numba.njit(cache=True)\ndef {name}(values):\n    return values[-1] + values[0]\n"
    )
    with open(f"cached_{name}.py", "w") as file:  # noqa: PTH123
        file.write(source)
    return getattr(__import__(f"cached_{name}"), name), lambda compiled: compiled(VALUES)


def parallel(name):
    scope = {"prange": numba.prange}
    exec(
        f"def {name}(values):\n"
        "    total = 0.0\n"
        "    for place in prange(2):\n"
        "        total += values[-2 * place - 1]\n"
        "    return total\n",
        scope,
    )
    return numba.njit(parallel=True)(scope[name]), lambda compiled: compiled(VALUES)


def method(name):
    def start(self, first):
        self.first = first

    scope = {}
    exec(f"def {name}(self, values):\n    return values[-1] + self.first\n", scope)
    members = {"__init__": start, name: scope[name]}
    compiled = jitclass([("first", types.float64)])(type(name.title(), (), members))
    return compiled, lambda compiled: getattr(compiled(FIRST), name)(VALUES)


def universal(name):
    scope = {}
    exec(f"def {name}(values, found):\n    found[0] = values[-1] + values[0]\n", scope)
    compiled = numba.guvectorize(["void(float64[:], float64[:])"], "(n)->()")(scope[name])
    return compiled, lambda compiled: compiled(VALUES)


FORMS = (plain, without_references, cached, parallel, method, universal)


def state():
    """Numba's settings, and what is in its modules and their public classes, but for its counters."""
    values = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "numba" and module is not None:
            values |= {(name, key): value for key, value in vars(module).items() if not key.startswith("__")}
            for owner, kind in vars(module).items():
                if isinstance(kind, type) and kind.__module__ == name and not owner.startswith("_"):
                    values |= {(name, owner, key): value for key, value in vars(kind).items()}
    settings = {("config", key): repr(value) for key, value in vars(numba.config).items() if key.isupper()}
    return settings | {key: id(value) for key, value in values.items() if type(value) is not int}


def simulated_processes():
    from coordinator import policies  # noqa: PLC0415 - not before it is asked for
    from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine  # noqa: PLC0415
    from harness.simulator.processes.simulate import simulate  # noqa: PLC0415
    from workloads.program import Program  # noqa: PLC0415

    jobs = [SimulatedJob(0, Program(processes=2, granularity_us=100, phases=20))]
    return simulate(jobs, SimulatedMachine(processors=2), policies.create("implicit", {})).end_ns


def simulated_jobs():
    from coordinator import policies  # noqa: PLC0415 - not before it is asked for
    from harness.simulator.jobs.model import rigid  # noqa: PLC0415
    from harness.simulator.jobs.simulate import simulate  # noqa: PLC0415

    times_ns = np.array([1_000_000, 2_000_000])
    sizes = np.array([1, 2])
    return simulate(rigid(0 * times_ns, sizes, times_ns), 2, policies.create("easy", {})).finish_ns.max()


def main():
    sys.path.insert(0, ".")
    names = sys.argv[1:]
    faults = []
    kept = []

    def use(name, make):
        kept.append((f"{make.__name__} {name}", *make(name)))

    def check(when):
        for name, compiled, call in kept:
            answer = call(compiled)
            if answer != FIRST + LAST:
                faults.append(f"{name} {when}: {answer}")

    for make in FORMS:
        use(names[0], make)
    check("before")
    before = state()
    assert simulated_processes() > 0
    for name, make in zip(names, FORMS, strict=False):
        use(name, make)
    check("between")
    assert simulated_jobs() > 0
    for name in names:
        use(name, plain)
    check("after")
    after = state()
    faults += [f"{'.'.join(key)} is {after.get(key)}" for key in before if after.get(key) != before[key]]
    print(json.dumps(faults))


if __name__ == "__main__":
    main()
