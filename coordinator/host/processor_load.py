"""How much of its time each processor of this host is used, by whatever programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

STAT = Path("/proc/stat")
LINE = re.compile(r"cpu(\d+) ([\d ]+)")

IDLE = 3
WAITING = 4
OF_GUESTS = 8  # these and later ones are counted in the first ones, too


class ProcessorLoads:
    """Looks at all processors of this host again and again."""

    def __init__(self) -> None:
        self._before: Mapping[int, tuple[int, int]] = {}

    def look(self) -> dict[int, float]:
        """The share of its time in which each processor was used since the last look; empty at the first."""
        now = _clocks()
        loads = {}
        for processor, (used, every) in now.items():
            if processor in self._before:
                used_before, every_before = self._before[processor]
                loads[processor] = (used - used_before) / max(1, every - every_before)
        self._before = now
        return loads


def _clocks() -> dict[int, tuple[int, int]]:
    """How long each processor was used, and used or idle, in ticks of the kernel's clock."""
    clocks = {}
    with suppress(OSError):
        for number, fields in LINE.findall(STAT.read_text()):
            ticks = list(map(int, fields.split()))[:OF_GUESTS]
            clocks[int(number)] = (sum(ticks) - sum(ticks[IDLE : WAITING + 1]), sum(ticks))
    return clocks
