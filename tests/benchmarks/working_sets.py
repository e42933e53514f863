"""What long slots save where working sets fill the cache: two jobs of two ranks under gang scheduling.

    python tests/benchmarks/working_sets.py [--slots-ms 5 20 50 200] [--repeats 5] [--dedicated-s 2]

The cache argument of Zhou, Brent and Qu 1997, section 1, on real ranks. Working sets of a quarter, one and
two times the last-level cache's share of a processor; a row for each length of slots. It gives the makespan
over the sum of the jobs' dedicated times, measured and predicted: the slowdown without a working set plus
one calibrated reload in every slot. Run it on a machine that does nothing else.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import answer, parsed

CACHES = Path("/sys/devices/system/cpu")
SHARES = {"1/4": 0.25, "1": 1.0, "2": 2.0}
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cache_share(processor):
    """Bytes of the last-level cache over the processors that share it."""
    caches = list((CACHES / f"cpu{processor}" / "cache").glob("index*"))
    last = max(caches, key=lambda cache: int((cache / "level").read_text()))
    number, unit = re.fullmatch(r"(\d+)([KMG]?)", (last / "size").read_text().strip()).groups()
    sharing = 0
    for part in (last / "shared_cpu_list").read_text().strip().split(","):
        first, _, end = part.partition("-")
        sharing += int(end or first) - int(first) + 1
    return int(number) * UNITS[unit] // sharing


def experiment(sizes, options):
    schedulers = "".join(
        f'[[schedulers]]\npolicy = "gang"\nquantum_ms = {slot_ms}\n' for slot_ms in options.slots_ms
    )
    return f"""
name = "working-sets"
processors = 2
repeats = {options.repeats}
[[jobs]]
count = 2
program = {{ pattern = "BARRIER", processes = 2, granularity_us = 5000, dedicated_s = {options.dedicated_s} }}
{schedulers}
[sweep]
"program.working_set_bytes" = {[0, *sizes]}
"""


def main():
    slots_ms = {"type": float, "nargs": "+", "default": [5, 10, 20, 50, 100, 200]}
    options = parsed(__doc__, slots_ms=slots_ms, repeats=5, dedicated_s=2.0)
    share = cache_share(min(os.sched_getaffinity(0)))
    sizes = {name: int(share * factor) for name, factor in SHARES.items()}
    with tempfile.TemporaryDirectory() as folder:
        reloads_ms = {}
        for name, size in sizes.items():
            found = answer(folder, "calibrate", "--json", "--results", ".", "--working-set-bytes", str(size))
            (reload_us,) = (row["median_us"] for row in found["constants"] if row["quantity"] == "reload")
            reloads_ms[name] = max(0.0, reload_us) / 1e3
        file = Path(folder, "working-sets.toml")
        file.write_text(experiment(sizes.values(), options))
        rows = answer(folder, "run", file.name, "--json", "--results", ".", "--no-simulate")["rows"]
    slowdowns = {
        (row["program"]["working_set_bytes"], row["scheduler"]["quantum_ms"]): row["measured"][
            "workload_slowdown"
        ]["median"]
        for row in rows
    }
    print(f"share of the last-level cache: {share / 2**20:.1f} MiB; slowdown measured (predicted)")
    print("reload: " + ", ".join(f"{name} {reload_ms:.3f} ms" for name, reload_ms in reloads_ms.items()))
    print(f"{'slot (ms)':>10} {'none':>8}" + "".join(f"{name:>18}" for name in sizes))
    for slot_ms in options.slots_ms:
        base = slowdowns[0, slot_ms]
        cells = [
            f"{slowdowns[size, slot_ms]:.3f} ({base + reloads_ms[name] / slot_ms:.3f})"
            for name, size in sizes.items()
        ]
        print(f"{slot_ms:>10g} {base:>8.3f}" + "".join(f"{cell:>18}" for cell in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
