"""How honest the time left of a simulation is: what a command said, over what was true.

    python -P tests/benchmarks/time_left.py [--warm] [--record FILE] -- reproduce hori96 --quick
    python -P tests/benchmarks/time_left.py -- simulate adaptive
    python -P tests/benchmarks/time_left.py -- simulate three-jobs

It runs the command, whose simulator should be compiled already, and prints the time left that was shown
after 10, 25, 50, 75 and 90 % of the time, over the true one. With --warm it runs it once before, so that the
simulator is loaded, too, which takes seconds. --record keeps the processor time
that each part took, in the order of the parts, under the command (tests/support/recorded_costs.json).
"""

import argparse
import json
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from harness import cli
from harness.predict import pool
from harness.report import progress

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--record", type=Path)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    said, costs = [], {}

    class Listening(progress.PlainWatcher):
        def progress(self, progress):
            said.append((time.monotonic(), progress.done, progress.total, progress.left_s))

    values = pool._values

    def timed(executor, work, parts, *more):
        said.append((time.monotonic(), 0, len(parts), None))

        def one(number):
            begin_s = time.thread_time()
            try:
                return work(number)
            finally:
                costs[number] = time.thread_time() - begin_s

        by_threads = isinstance(parts, range)  # else one cannot go to the processes
        return values(executor, one if by_threads else work, parts, *more)

    pool._values = timed
    progress.BarWatcher = progress.PlainWatcher = Listening
    for _ in range(1 + options.warm):
        said.clear()
        with redirect_stdout(StringIO()):
            status = cli.main(options.command)
    if options.record:
        known = json.loads(options.record.read_text()) if options.record.exists() else {}
        known[" ".join(options.command)] = [round(costs[number], 6) for number in sorted(costs)]
        options.record.write_text(json.dumps(known, indent=1) + "\n")
    begin_s, end_s = next(at for at, done, *_ in said if done == 0), said[-1][0]
    what = f"{' '.join(options.command)}: {said[-1][2]} parts in {end_s - begin_s:.1f} s"
    print(f"{what}; shown / true:", end="")
    for share in SHARES:
        now_s = begin_s + share * (end_s - begin_s)
        known = [(at, left_s) for at, _, _, left_s in said if at <= now_s and left_s is not None]
        shown = f"{max(0.0, known[-1][0] + known[-1][1] - now_s) / (end_s - now_s):.2f}" if known else "none"
        print(f"  {share:.0%} {shown}", end="")
    print()
    return status


if __name__ == "__main__":
    sys.exit(main())
