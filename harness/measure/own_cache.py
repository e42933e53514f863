"""The cache that a processor has for itself."""

from __future__ import annotations

from pathlib import Path

PROCESSORS = Path("/sys/devices/system/cpu")
KIB = {"K": 1, "M": 1024, "G": 1 << 20}


def own_cache_kb(processor: int, processors: Path = PROCESSORS) -> int:
    """The largest cache of ``processor`` that no other shares, in KiB; 0 if the kernel names none."""
    found = [0]
    for index in processors.glob(f"cpu{processor}/cache/index*"):
        try:
            kind, shared, size = (
                (index / name).read_text().strip() for name in ("type", "shared_cpu_list", "size")
            )
        except OSError:
            continue
        if kind != "Instruction" and shared == str(processor) and size[:-1].isdigit():
            found.append(int(size[:-1]) * KIB.get(size[-1], 0))
    return max(found)
