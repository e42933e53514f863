"""Check that a run of three-jobs shows the effect that Lockstep exists to show.

Usage: check_effect.py RESULT.json. Bounds are on ratios within the run, wide enough for a
noisy machine; absolute times are not looked at.
"""

import json
import sys
from pathlib import Path


def slowdown(rows, **wanted):
    """Median workload slowdown of the one row whose scheduler has the wanted keys."""
    (row,) = [row for row in rows if wanted.items() <= row["scheduler"].items()]
    return row["measured"]["workload_slowdown"]["median"]


def main():
    rows = json.loads(Path(sys.argv[1]).read_text())["rows"]
    spinning = slowdown(rows, policy="none", waiting="spin")
    print(f"no coordination, spinning: {spinning:.2f}")
    assert spinning > 1.5, "spinning without coordination must hurt"
    for wanted in (
        {"policy": "implicit", "waiting": "fixed"},
        {"policy": "implicit", "waiting": "global-adaptive"},
        {"policy": "gang", "quantum_ms": 100},
        {"policy": "gang", "quantum_ms": 10},
    ):
        found = slowdown(rows, **wanted)
        print(f"{wanted}: {found:.2f}")
        assert found < 0.75 * spinning, f"{wanted} must beat spinning without coordination"
        assert found < 1.5, f"{wanted} must be near perfect coscheduling"


if __name__ == "__main__":
    main()
