"""The shared libraries that a program would load, from files alone: neither it nor a loader runs.

ELF files name the libraries that they need. The dynamic loader looks for them in the directories that these
files and LD_LIBRARY_PATH name, in the cache of ldconfig, and in the system's directories.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

MAGIC = b"\x7fELF"
CLASS_64 = 2
HEADER, SEGMENT, ENTRY = struct.Struct("=16sHHIQQQIHHHHHH"), struct.Struct("=IIQQQQQQ"), struct.Struct("=qQ")
"""Of 64-bit files in the byte order of this host; others cannot run with the libraries that are read here."""
LOAD, DYNAMIC = 1, 2  # kinds of segments
NEEDED, STRINGS, RPATH, RUNPATH = 1, 5, 15, 29  # kinds of dynamic entries
MOST_BYTES = 1 << 16  # of the dynamic entries of a file that is no program, but looks like one

CACHE = Path("/etc/ld.so.cache")
CACHE_MAGIC = b"glibc-ld.so.cache1.1"
CACHE_HEADER = struct.Struct("=20sII20x")
CACHE_ENTRY = struct.Struct("=iIIIQ")

SYSTEM = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")


@dataclass(frozen=True)
class ElfFile:
    """The libraries that an ELF file needs, and the directories that it names for them."""

    machine: int
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]


def elf_file(path: Path) -> ElfFile | None:
    """The content of a file; None if it is no ELF file for this host, or cannot be read."""
    try:
        if not path.is_file():  # a pipe would be waited for
            return None
        with path.open("rb") as file:
            return _read(file, path)
    except (OSError, struct.error, ValueError, OverflowError):
        return None


def needed(*files: Path, variables: Mapping[str, str] = os.environ) -> dict[str, Path | None]:
    """The libraries that files need, by name, with all that these need; None where none is found."""
    found: dict[str, Path | None] = {}
    search = tuple(filter(None, variables.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")))
    coming: list[tuple[Path, tuple[str, ...]]] = [(file, ()) for file in files]
    for path, inherited in coming:
        one = elf_file(path)
        if one is None:
            continue
        rpath = () if one.runpath else (*one.rpath, *inherited)
        for name in one.needed:
            if name not in found:
                found[name] = _search(name, one.machine, (*rpath, *search, *one.runpath))
                if library := found[name]:
                    coming.append((library, rpath))
    return found


def _read(file: BinaryIO, path: Path) -> ElfFile | None:
    header = file.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    if header[:5] != MAGIC + bytes([CLASS_64]) or header[5] != (1 if sys.byteorder == "little" else 2):
        return None
    _, _, machine, _, _, segments_at, _, _, _, size, count, *_ = HEADER.unpack(header)
    segments = [
        SEGMENT.unpack(_part(file, segments_at + size * place, SEGMENT.size)) for place in range(count)
    ]
    dynamic = next((segment for segment in segments if segment[0] == DYNAMIC), None)
    if dynamic is None:
        return ElfFile(machine, (), (), ())
    _, _, dynamic_at, _, _, dynamic_bytes, *_ = dynamic
    length = min(dynamic_bytes, MOST_BYTES) // ENTRY.size * ENTRY.size
    entries = [*ENTRY.iter_unpack(_part(file, dynamic_at, length))]
    strings = next((value for kind, value in entries if kind == STRINGS), 0)
    at = next(
        (
            offset + strings - address
            for kind, _, offset, address, _, length, *_ in segments
            if kind == LOAD and address <= strings < address + length
        ),
        0,
    )

    def texts(wanted: int) -> Iterator[str]:
        for kind, value in entries:
            if kind == wanted:
                yield _part(file, at + value, 4096).partition(b"\0")[0].decode(errors="replace")

    def folders(wanted: int) -> tuple[str, ...]:
        origin = str(path.resolve().parent)
        return tuple(
            folder.replace("$ORIGIN", origin).replace("${ORIGIN}", origin)
            for text in texts(wanted)
            for folder in text.split(":")
            if folder
        )

    return ElfFile(machine, tuple(texts(NEEDED)), folders(RPATH), folders(RUNPATH))


def _part(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def _search(name: str, machine: int, folders: Iterable[str]) -> Path | None:
    places = [Path(name)] if "/" in name else [Path(folder, name) for folder in folders]
    places += [*_cached().get(name, ()), *(Path(folder, name) for folder in SYSTEM)]
    return next((place for place in places if place.is_file() and _fits(place, machine)), None)


@cache
def _fits(path: Path, machine: int) -> bool:
    one = elf_file(path)
    return one is not None and one.machine == machine


@cache
def _cached() -> dict[str, list[Path]]:
    """What ldconfig has found, by name."""
    found: dict[str, list[Path]] = {}
    try:
        data = CACHE.read_bytes()
        data = data[max(0, data.find(CACHE_MAGIC)) :]
        _, count, _ = CACHE_HEADER.unpack_from(data)
        for place in range(count):
            _, name, path, *_ = CACHE_ENTRY.unpack_from(data, CACHE_HEADER.size + place * CACHE_ENTRY.size)
            name_and_path = [data[at : data.index(b"\0", at)].decode(errors="replace") for at in (name, path)]
            found.setdefault(name_and_path[0], []).append(Path(name_and_path[1]))
    except (OSError, struct.error, ValueError):
        pass
    return found
