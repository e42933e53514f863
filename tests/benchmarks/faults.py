"""What faults cost: does each many times to runs on emulated hosts and writes a table.

``python tests/benchmarks/faults.py [--kills N] [--others N] [--only NAME] [--out docs/faults.md]``
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import parsed
from faults import FAULTS, Fault, Outcome, inject
from netns_cluster import cluster, unavailable

HEAD = """# Faults

What becomes of a run when something goes wrong. Four jobs of one process run on two emulated
hosts under gang scheduling (signals, 10 ms); jobs 0 and 2 on the first host, 1 and 3 on the
second, to which the fault is done at a random moment. Made by `python tests/benchmarks/faults.py`.

*Lost* counts jobs that did not finish although the fault left them their processors. *Released*
is the time from the fault until nothing of the run was held or left on the hosts concerned
(median and longest). *Remains* counts runs after which a process, file, cgroup or shared-memory
segment was left on any host. "Nothing" is released where a run goes on to its end.

| fault | times | jobs that must go on | lost | released, s | remains |
|---|---|---|---|---|---|
"""


def row(name: str, fault: Fault, outcomes: list[Outcome]) -> str:
    lost = sum(
        1 for outcome in outcomes if outcome.told for job in fault.survivors if outcome.told["jobs"][job]
    )
    times = sorted(outcome.released_s for outcome in outcomes)
    goes_on = len(fault.survivors) == 4
    released = "nothing" if goes_on else f"{times[len(times) // 2]:.1f} / {times[-1]:.1f}"
    remains = sum(1 for outcome in outcomes if outcome.remains)
    survivors = ", ".join(map(str, fault.survivors)) or "none"
    return f"| {fault.what} | {len(outcomes)} | {survivors} | {lost} | {released} | {remains} |\n"


def repeat(fault: Fault, seeds: Iterable[int]) -> list[Outcome]:
    """Do a fault once on new hosts for each seed."""
    outcomes = []
    for seed in seeds:
        with cluster(2) as hosts:
            outcome = inject(hosts, fault, seed)
        outcomes.append(outcome)
        print(seed, f"{outcome.released_s:.2f} s", outcome.told and outcome.told["jobs"], outcome.remains)
    return outcomes


def main() -> None:
    only = {"choices": FAULTS, "action": "append", "help": "this fault (may be repeated)"}
    out = {"type": Path, "help": "where the table goes (default: stdout)"}
    options = parsed(__doc__, kills=50, others=10, only=only, out=out)
    if reason := unavailable():
        raise SystemExit(reason)
    text = HEAD
    for name in options.only or FAULTS:
        print(f"== {name}")
        times = options.kills if "killed" in name else options.others
        text += row(name, FAULTS[name], repeat(FAULTS[name], range(times)))
        if options.out:
            options.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
