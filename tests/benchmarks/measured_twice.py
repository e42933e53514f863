"""How far the same experiment agrees with itself when it is measured again.

    python -P tests/benchmarks/measured_twice.py DIR DIR

Each DIR has one measured experiment with its simulations, the same in both. For each scheduler it prints how
far the measured workload slowdowns of the rows differ, and how far the simulated ones of the second DIR
are off: from those measured there, and from the geometric means of both measured ones.
"""

import math
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import parsed, stored

from harness.analyse import summary
from harness.spec.naming import scheduler_name


def rows_of(results):
    """The measured and the simulated slowdown of each row."""
    return {
        (scheduler_name(row.scheduler), *row.settings.items()): (
            row.measured.workload_slowdown.median,
            row.simulated.workload_slowdown.median,
        )
        for row in summary.rows(*stored(results))
    }


def shown(errors):
    return (
        f"{statistics.median(errors):6.1%} {statistics.quantiles(errors, n=10, method='inclusive')[-1]:6.1%}"
    )


def main():
    once, again = map(rows_of, parsed(__doc__, _results={"type": Path, "nargs": 2}).results)
    print(f"{'median, 90th percentile of':28} measured again      simulated  against both means")
    for name in [*dict.fromkeys(key[0] for key in once), "all"]:
        rows = [(once[key][0], *again[key]) for key in once if name in (key[0], "all")]
        differences = [abs(before / measured - 1) for before, measured, _ in rows]
        errors = [abs(simulated / measured - 1) for _, measured, simulated in rows]
        means = [abs(simulated / math.sqrt(before * measured) - 1) for before, measured, simulated in rows]
        print(f"{name:28}{shown(differences)}  {shown(errors)}       {shown(means)}")


if __name__ == "__main__":
    main()
