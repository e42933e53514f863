"""How long each part of a simulation takes: the costs that tests/harness/predict/test_time_left.py replays.

    python -P tests/benchmarks/time_left.py -- reproduce hori96 --quick
    python -P tests/benchmarks/time_left.py -- simulate adaptive
    python -P tests/benchmarks/time_left.py -- simulate tests/support/time_left.toml

It runs the command, whose simulator should be compiled already, and keeps the CPU time that each part
took, in the order of the parts, under the command in tests/support/recorded_costs.json.
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import SUPPORT, parsed

from harness import cli
from harness.predict import pool

COSTS = SUPPORT / "recorded_costs.json"


def main():
    command = parsed(__doc__, _command={"nargs": "+"}).command
    costs, values = {}, pool._values

    def timed(executor, work, parts, *more):
        def one(number):
            begin_s = time.thread_time()
            try:
                return work(number)
            finally:
                costs[number] = time.thread_time() - begin_s

        by_threads = isinstance(parts, range)  # else one cannot go to the processes
        return values(executor, one if by_threads else work, parts, *more)

    pool._values = timed
    status = cli.main(command)
    known = json.loads(COSTS.read_text())
    key = " ".join(command).replace("tests/support/", "")
    known[key] = [round(costs[number], 6) for number in sorted(costs)]
    COSTS.write_text(json.dumps(known, indent=1) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
