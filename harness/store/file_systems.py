"""File systems on which SQLite can share memory, as its write-ahead log needs."""

from __future__ import annotations

import os
import re
from pathlib import Path

LOCAL = frozenset(
    "bcachefs btrfs ext2 ext3 ext4 f2fs jfs overlay ramfs reiserfs tmpfs xfs zfs".split()  # noqa: SIM905
)
"""File systems that only one host mounts. On any other, two hosts could not share the memory."""

MOUNTS = Path("/proc/self/mountinfo")


def local(folder: Path, mounts: str | None = None) -> bool:
    """Whether ``folder`` lies on a file system that only this host has; False if unknown.

    ``mounts`` is the content of MOUNTS.
    """
    if mounts is None:
        try:
            mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return False
    place, kind = Path(os.path.realpath(folder)), ""
    longest = -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) < 5 or not kinds:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4]))
        if place.is_relative_to(point) and len(point.parts) >= longest:  # the last of two hides the first
            longest, kind = len(point.parts), kinds[0]
    return kind in LOCAL
