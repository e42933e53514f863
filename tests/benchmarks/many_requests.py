"""What waits for many requests cost: CPU time with two-phase waits over the time as it is.

    python -P tests/benchmarks/many_requests.py [--launcher mpirun.openmpi] [--rounds 5] [--late-us 0]

Two ranks exchange so many messages of an integer and wait for them by each of MPI's forms
(tests/support/native/many.c). A row for each form, a column for each number of requests: the median over
rounds of alternating order, with the smallest and the largest. With ``--late-us`` one rank computes for so
long before, and the other waits: unchanged it spins. The start of programs is not in the times. Look at
ratios, and only on a quiet machine.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import ENVIRONMENT, compiled, headed, launched, parsed, shown, tabled

from workloads import native
from workloads.waiting_rules import waiting_rule

FORMS = ("Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall", "Testany", "Testsome")
SQUARE = ("Waitany", "Testany")
"""Forms that MPI asks about all requests for each one that it finds."""


def repeats(form, requests):
    """So many exchanges that they take some hundredths of a second."""
    messages = 40000 if form not in SQUARE else max(1, 4_000_000 // requests)
    return max(1, messages // requests)


def main():
    options = parsed(
        __doc__,
        launcher="mpiexec",
        rounds=5,
        late_us=0,
        requests={"default": "1,10,100,1000,10000,20000", "help": "numbers of requests, with commas"},
        only={"default": "", "help": "forms whose names contain this"},
    )
    rule = waiting_rule("global-adaptive", context_switch_us=10.0, latency_us=2.0, spin_switches=2)
    ours = native.library(native.wrapper([options.launcher])).environment(rule)
    numbers = [int(number) for number in options.requests.split(",")]
    headed("form", *numbers)
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(options.launcher, folder, "many.c")
        for form in FORMS:
            if options.only in form:
                tabled(form, *(shown(ratios(program, form, number, ours, options)) for number in numbers))


def ratios(program, form, requests, ours, options):
    exchanges = repeats(form, requests) if not options.late_us else min(10, repeats(form, requests))
    words = [program, form, requests, exchanges, options.late_us]
    command = launched(options.launcher, 2, words)
    found = []
    for number in range(options.rounds):
        used = {}
        for two_phase in (False, True) if number % 2 else (True, False):
            used[two_phase] = cpu_s(command, ours if two_phase else {})
        found.append(used[True] / used[False])
    return found


def cpu_s(command, variables):
    done = subprocess.run(
        command, env=ENVIRONMENT | variables, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode or "right" not in done.stdout:
        raise SystemExit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return float(done.stdout.split()[0])


if __name__ == "__main__":
    main()
