"""The text of traces: files and pipes, compressed or not, their lines, and the numbers in them."""

import bz2
import gzip
import lzma
import re
import shlex
import stat
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from workloads.bounds import BOUNDS, within
from workloads.validation import InputError, shown

UNKNOWN = -1

Faults = Callable[[InputError], None]
"""What becomes of a line of a log that cannot be read: ``refuse`` raises its error."""

_MAGIC: Mapping[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": gzip.decompress,
    b"BZh": bz2.decompress,
    b"\xfd7zXZ\0": lzma.decompress,
}
"""How compressed data begin. A pipe has no suffix, and suffixes may be wrong."""

_PACKED: Mapping[bytes, tuple[str, str]] = {
    b"PK\x03\x04": ("a zip archive", "unzip -p"),
    b"\x28\xb5\x2f\xfd": ("compressed by zstd", "zstd -dc"),
    b"\x1f\x9d": ("compressed by compress", "gzip -dc"),
    b"7z\xbc\xaf": ("an archive of 7-Zip", "7z x -so"),
    b"\x04\x22\x4d\x18": ("compressed by lz4", "lz4 -dc"),
}
"""Archives, and data that Python does not decompress; and which command gives their text."""

PLAIN = r"[-+.0-9]{1,25}(?:[eE][-+]?[0-9]{1,2})?"
"""The characters of a number. Python takes letters, underscores and digits of other scripts, too, and takes
numbers for 0 that are too small for it."""


def lines(path: Path) -> list[str]:
    """The lines of a file or pipe, also one that gzip, bzip2 or xz has compressed.

    Lines end at a line feed, or at a carriage return and a line feed. The text is UTF-8, with or without
    a byte order mark; bytes that are none become U+FFFD, which is in no number.
    """
    try:
        if stat.S_ISCHR(path.stat().st_mode) or stat.S_ISBLK(path.stat().st_mode):
            raise ValueError("it is a device, which may never end")
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path that cannot be one
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("trace", str(path), f"cannot be read: {reason.lower()}", "check the path") from None
    for magic, decompress in _MAGIC.items():
        if data.startswith(magic):
            try:
                data = decompress(data)
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, MemoryError) as error:
                reason = str(error).lower() or "too large"
                raise InputError(
                    "trace",
                    str(path),
                    f"cannot be read: its compression is damaged or incomplete: {reason}",
                    "copy the file again",
                ) from None
            break
    for magic, (what, command) in _PACKED.items():
        if data.startswith(magic):
            raise InputError(
                "trace",
                str(path),
                f"is {what}, and must be text, or compressed by gzip, bzip2 or xz",
                f"unpack it first: {command} {shlex.quote(str(path))} > log.swf",
            )
    if data[257:262] == b"ustar":
        raise InputError(
            "trace",
            str(path),
            "is a tar archive, and must be a single log",
            f"unpack it first: tar -xOf {shlex.quote(str(path))} > log.swf",
        )
    text = data.decode("utf-8-sig", errors="replace")
    if (at := text.find("\0")) >= 0:
        line = text.count("\n", 0, at) + 1
        raise refusal(path, line, "the line", "\0", "must be text, without a byte 0", "save it as UTF-8")
    return [line.removesuffix("\r") for line in text.split("\n")]


def decimal(text: str) -> float:
    """The number in a text of ASCII digits, perhaps with sign, point and exponent."""
    if not re.fullmatch(PLAIN, text):
        raise ValueError(text)
    return float(text)


def number(path: Path, line: int, name: str, text: str, bounds: str) -> float:
    """The number ``name`` in a line, within ``BOUNDS[bounds]``, or UNKNOWN."""
    value: float | str
    try:
        value = decimal(text)
    except ValueError:
        value = text
    if value == UNKNOWN:
        return UNKNOWN
    try:
        whole = isinstance(value, float) and value.is_integer() and BOUNDS[bounds].whole
        within(bounds, int(value) if whole else value)
    except InputError as error:
        raise refusal(path, line, name, text, f"{error.rule}, or -1 if unknown") from None
    return float(value)


def refuse(fault: InputError) -> None:
    raise fault


def refusal(
    path: Path, line: int, name: str, text: str, rule: str, remedy: str = "correct or remove that line"
) -> InputError:
    return InputError("trace", str(path), f"line {line}: {name} {rule} ({shown(text)})", remedy)
