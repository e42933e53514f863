"""What the preload must leave alone: processes without MPI, sanitizers, and other tools around MPI."""

import re
import shutil
import subprocess
import sys

import pytest
from native_programs import LOCKSTEP, PROGRAMS, launcher, run, summary, two_phase, wrapper

from workloads import native
from workloads.waiting_rules import waiting_rule

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def preload():
    """The variables that bring the library into every process."""
    library = native.library(wrapper("here"))
    return library.environment(waiting_rule("immediate", context_switch_us=10.0, latency_us=2.0))


def cc(made, *words):
    subprocess.run(["cc", "-o", made, *map(str, words)], check=True)
    return str(made)


def test_it_exports_no_name_of_mpis_and_asks_for_no_young_library(preload):
    table = subprocess.run(
        ["objdump", "-T", preload["LD_PRELOAD"].split()[0]], capture_output=True, text=True, check=True
    ).stdout
    defined = {line.split()[-1] for line in table.splitlines() if " .text" in line or " .data" in line}
    assert defined == {"dlsym", "sched_yield", "__asan_default_options"}
    asked = [tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", table)]
    assert asked and max(asked) <= (2, 17)
    assert not re.search(r"MPI_", table)


def test_its_dlsym_ends_in_a_jump_so_that_the_real_one_sees_who_calls(preload, tmp_path):
    """RTLD_NEXT means the objects behind the caller: here a library that wraps a function of the next one."""
    first = tmp_path / "first.c"
    second = tmp_path / "second.c"
    first.write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n"
        'int value(void) { int (*next)(void) = dlsym(RTLD_NEXT, "value"); return 10 * next(); }\n'
    )
    second.write_text("int value(void) { return 4; }\n")
    main = tmp_path / "main.c"
    main.write_text("int value(void);\nint main(void) { return value() + 2; }\n")
    behind = cc(tmp_path / "libsecond.so", "-shared", "-fPIC", second)
    before = cc(tmp_path / "libfirst.so", "-shared", "-fPIC", first)
    program = cc(tmp_path / "main", main, "-Wl,--no-as-needed", before, behind, f"-Wl,-rpath,{tmp_path}")
    assert run([program], extra=preload).returncode == 42


@pytest.mark.parametrize("name", ["libstub.so", "libmpi.so", "libmpi.so.12"])
def test_a_serial_program_keeps_what_stands_in_for_an_mpi(name, preload, tmp_path):
    stub = cc(tmp_path / name, "-shared", "-fPIC", f"-Wl,-soname,{name}", PROGRAMS / "stub.c")
    program = cc(tmp_path / "serial", PROGRAMS / "serial.c", stub, f"-Wl,-rpath,{tmp_path}")
    result = run([program], extra=preload)
    assert (result.returncode, result.stdout, result.stderr) == (0, "1 42\n", "")


def test_a_program_that_asks_for_an_mpi_finds_none(preload, tmp_path):
    program = cc(tmp_path / "weak", "-DWEAK", PROGRAMS / "serial.c", "-ldl")
    result = run([program], extra=preload)
    assert (result.returncode, result.stdout, result.stderr) == (0, "0 0 0 0\n", "")


FAULT = """
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    char *text = malloc(8);
    (void)argv;
    strcpy(text, "fine");
    puts(text);
    free(text);
    return argc > 1 ? (INT_MAX - 1 + argc < 0) + (text[0] > 127) : 0;
}
"""


@pytest.mark.parametrize("sanitizer", ["address", "undefined", "thread", "leak"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_sanitizers_work_as_without_it(compiler, sanitizer, preload, tmp_path):
    source = tmp_path / "fault.c"
    program = tmp_path / "fault"
    source.write_text(FAULT)
    words = [compiler, f"-fsanitize={sanitizer}", "-g", "-o", program, source]
    if shutil.which(compiler) is None or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip(f"no {compiler} with -fsanitize={sanitizer}")
    for arguments in ([], ["fault"]):
        for options in ({}, {"ASAN_OPTIONS": "detect_leaks=0:exitcode=9"}):
            plain, ours = (run([str(program), *arguments], extra=options | extra) for extra in ({}, preload))
            assert ours.returncode == plain.returncode
            assert ours.stdout == plain.stdout
            assert ("runtime error" in ours.stderr) == ("runtime error" in plain.stderr)
            assert ("SUMMARY: " in ours.stderr) == ("SUMMARY: " in plain.stderr)


def mpicc(mpi, made, *words):
    subprocess.run([wrapper(mpi), "-o", made, *map(str, words)], check=True)
    return str(made)


@pytest.mark.parametrize("mpi", ["here", "openmpi"])
@pytest.mark.parametrize("sanitizer", ["address", "undefined"])
def test_an_mpi_program_with_a_sanitizer_waits_two_phase(mpi, sanitizer, tmp_path):
    program = mpicc(mpi, tmp_path / "bsp", f"-fsanitize={sanitizer}", PROGRAMS / "bsp.c")
    no_leaks = ["env", "ASAN_OPTIONS=detect_leaks=0"]
    result = two_phase([*launcher(mpi), "-n", "2", *no_leaks, program, "100", ".25", "50"])
    assert result.returncode == 0, result.stderr
    assert summary(result)["ranks"] == 2


@pytest.mark.parametrize(
    "mpi, how",
    [("openmpi", "around"), *(("here", how) for how in ("around", "before", "behind", "linked"))],
)
def test_tools_see_the_calls_that_they_see_without_it(mpi, how, tmp_path):
    """Two around each other in the caller's LD_PRELOAD, one that a script adds to ours, or one linked."""
    shared = ("-shared", "-fPIC", PROGRAMS / "tool.c")
    first = mpicc(mpi, tmp_path / "libfirst.so", '-DTOOL="first"', "-DNEXT", *shared)
    second = mpicc(mpi, tmp_path / "libsecond.so", '-DTOOL="second"', *shared)
    flags = ["-Wl,--no-as-needed", first, f"-Wl,-rpath,{tmp_path}"] if how == "linked" else []
    words = [mpicc(mpi, tmp_path / "bsp", PROGRAMS / "bsp.c", *flags), "100", ".25", "50"]
    if how in ("before", "behind"):
        both = f"{first} $LD_PRELOAD" if how == "before" else f"$LD_PRELOAD {first}"
        words = ["sh", "-c", f'LD_PRELOAD="{both}" exec "$@"', "sh", *words]
    extra = {"LD_PRELOAD": f"{first} {second}"} if how == "around" else {}
    command = [*launcher(mpi), "-n", "2", *words]
    plain, ours = (run(argv, extra=extra) for argv in (command, [*LOCKSTEP, "exec", "--", *command]))
    assert ours.returncode == 0, ours.stderr
    counted, wanted = (re.findall(r"\w+: \d+ barriers, \d+ sums", done.stdout) for done in (ours, plain))
    assert sorted(counted) == sorted(wanted)
    assert len(counted) == (4 if how == "around" else 2)
    assert summary(ours)["ranks"] == 2
    assert summary(ours)["waits"] >= 100


def test_an_mpi_that_is_loaded_late_waits_two_phase_however_it_is_called():
    """By mpi4py, and by ctypes with a function that was looked up before MPI_Init."""
    library = native.library(wrapper("here")).libraries[0]
    command = [*launcher("here"), "-n", "2", sys.executable, str(PROGRAMS / "late.py"), str(library)]
    result = two_phase(command)
    assert result.returncode == 0, result.stderr
    assert result.stdout.replace("\n", "") == "33"
    assert summary(result)["waits"] >= 2 * 60
