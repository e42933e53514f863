"""ELF files that name libraries, and nothing else."""

import struct
from pathlib import Path

LOAD = 1
DYNAMIC = 2
NEEDED, STRINGS, RPATH, RUNPATH = 1, 5, 15, 29
X86_64 = 62


def elf(path, needed=(), *, runpath="", rpath="", holds="", machine=X86_64):
    """Write an executable that needs these libraries, and holds a text that is no name; returns its path."""
    strings = b"\0"
    entries = []
    for kind, text in [*((NEEDED, name) for name in needed), (RPATH, rpath), (RUNPATH, runpath)]:
        if text:
            entries.append((kind, len(strings)))
            strings += text.encode() + b"\0"
    headers = 64 + 2 * 56
    dynamic = b"".join(struct.pack("=qQ", *one) for one in [*entries, (STRINGS, headers), (0, 0)])
    body = strings + holds.encode()
    size = headers + len(body) + len(dynamic)
    data = b"\x7fELF\2\1\1".ljust(16, b"\0")
    data += struct.pack("=HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    data += struct.pack("=IIQQQQQQ", LOAD, 5, 0, 0, 0, size, size, 4096)
    at = headers + len(body)
    data += struct.pack("=IIQQQQQQ", DYNAMIC, 6, at, at, at, len(dynamic), len(dynamic), 8)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(data + body + dynamic)
    Path(path).chmod(0o755)
    return Path(path)
