"""Memory limits of control groups, and the processes that the kernel has killed for want of memory there."""

from collections.abc import Iterator
from pathlib import Path

from coordinator.host.mechanisms import cgroup_base

LIMITS = ("memory.max", "memory.limit_in_bytes")
COUNTS = ("memory.events", "memory.oom_control")
"""Files of a group with its limit, and with the number of processes killed, in versions 2 and 1."""


def kills() -> Iterator[str]:
    """A sentence for each group around this process in which the kernel has killed for want of memory."""
    for base in map(cgroup_base, ("", "memory")):
        for group in (base, *base.parents) if base else ():
            words = _text(group, COUNTS).split()
            count = dict(zip(words[::2], words[1::2], strict=False)).get("oom_kill", "0")
            if count != "0":
                limit = _text(group, LIMITS).strip()
                size = f" (limit: {int(limit) >> 20} MiB)" if limit.isdigit() else ""
                yield (
                    f"For want of memory the kernel has killed {count} processes of the control group "
                    f"{group}{size} so far: give it more memory, or run fewer or smaller programs"
                )


def _text(group: Path, names: tuple[str, str]) -> str:
    for name in names:
        try:
            return (group / name).read_text(encoding="ascii")
        except (OSError, ValueError):
            continue
    return ""
