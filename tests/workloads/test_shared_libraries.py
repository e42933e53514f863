"""The libraries that programs would load, read from files."""

import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from elf_files import elf

from workloads import shared_libraries
from workloads.shared_libraries import elf_file, needed


@pytest.fixture
def _only_ours(monkeypatch):
    """None of this host's libraries is there."""
    monkeypatch.setattr(shared_libraries, "_cached", dict)
    monkeypatch.setattr(shared_libraries, "SYSTEM", ())


only_ours = pytest.mark.usefixtures("_only_ours")


@only_ours
def test_libraries_of_libraries_are_found_where_the_files_say(tmp_path):
    elf(tmp_path / "lib" / "liba.so.1", ["libb.so.2"], runpath="$ORIGIN/deep")
    elf(tmp_path / "lib" / "deep" / "libb.so.2")
    program = elf(tmp_path / "bin" / "app", ["liba.so.1", "libnowhere.so"], runpath="${ORIGIN}/../lib")
    found = needed(program, variables={})
    assert list(found) == ["liba.so.1", "libnowhere.so", "libb.so.2"]
    assert found["libnowhere.so"] is None
    assert found["libb.so.2"].resolve() == tmp_path / "lib" / "deep" / "libb.so.2"


@only_ours
def test_rpath_comes_before_the_variable_and_holds_for_what_is_loaded_and_runpath_does_neither(tmp_path):
    for place in ("by-path", "by-variable"):
        elf(tmp_path / place / "liba.so", ["libb.so"])
        elf(tmp_path / place / "libb.so")
    variables = {"LD_LIBRARY_PATH": str(tmp_path / "by-variable")}
    old = elf(tmp_path / "old", ["liba.so"], rpath=str(tmp_path / "by-path"))
    new = elf(tmp_path / "new", ["liba.so"], runpath=str(tmp_path / "by-path"))
    assert {one.parent.name for one in needed(old, variables=variables).values()} == {"by-path"}
    assert {one.parent.name for one in needed(new, variables=variables).values()} == {"by-variable"}
    assert needed(new, variables={})["libb.so"] is None


@only_ours
def test_a_library_for_another_machine_is_none(tmp_path):
    elf(tmp_path / "one" / "liba.so", machine=3)
    right = elf(tmp_path / "two" / "liba.so")
    program = elf(tmp_path / "app", ["liba.so"], runpath=f"{tmp_path}/one:{tmp_path}/two")
    assert needed(program, variables={}) == {"liba.so": right}


@pytest.mark.parametrize(
    "text", [b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\2", b"\x7fELF\2\1", b"\x7fELF\2\1" + b"\xff" * 200]
)
def test_what_is_no_program_needs_nothing(tmp_path, text):
    (tmp_path / "file").write_bytes(text)
    assert elf_file(tmp_path / "file") is None
    assert needed(tmp_path / "file", tmp_path / "nowhere") == {}


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert elf_file(tmp_path / "pipe") is None


def test_of_several_dynamic_segments_the_first_counts(tmp_path):
    file = elf(tmp_path / "app", ["liba.so"])
    data = bytearray(file.read_bytes())
    data += b"\0" * (-len(data) % 8)
    segments = bytes(data[64 : 64 + 2 * 56])
    data[32:40] = struct.pack("=Q", len(data))  # where segments are
    data[56:58] = struct.pack("=H", 3)  # and how many
    file.write_bytes(bytes(data) + segments + segments[56:])
    assert elf_file(file).needed == ("liba.so",)


def of_ldd(path):
    printed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    return {name: Path(place).resolve() for name, place in re.findall(r"(?m)^\s*(\S+) => (/\S+)", printed)}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ldd") is None, reason="compares with ldd")
def test_the_loader_finds_the_same():
    import numpy  # noqa: PLC0415

    extension = next(Path(numpy.__file__).parent.rglob("_multiarray_umath*.so"))
    for path in (Path(sys.executable).resolve(), extension):
        found = {name: one for name, one in needed(path).items() if not name.startswith("ld-")}
        assert {name: one.resolve() for name, one in found.items()} == of_ldd(path)
