"""Where in its program a process is, as real tools and false ones tell it."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from runs import eventually, state

from harness.measure import stacks
from harness.measure.stacks import Frame, Stack, Thread, read

PYTHON = sys.executable


@contextmanager
def running(*argv):
    """A process that has printed a line, by its main thread."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        yield Thread.of(process.pid, process.pid)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def asleep():
    """The main thread of a compiled program."""
    with running("sh", "-c", "echo; exec sleep 1000") as thread:
        assert eventually(lambda: Path(f"/proc/{thread.pid}/comm").read_text() == "sleep\n")
        yield thread


@pytest.fixture(scope="module")
def places(compiled):
    """A program that says where it is."""
    return compiled("here", "places.c", "-g", "-pthread")


@pytest.fixture(scope="module")
def without_lines(compiled):
    return compiled("here", "places.c", "-pthread")


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A directory with all tools that there are, and no interpreter beside which there are others."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(folder))
    return folder


@pytest.fixture
def false_tool(path):
    """A function that makes a tool from lines of shell."""

    def make(name, *lines):
        tool = path / name
        tool.write_text("\n".join(["#!/bin/sh", "PATH=/usr/bin:/bin", *lines]))
        tool.chmod(0o755)

    return make


def real_tool(path, name):
    place = shutil.which(name, path=f"{Path(PYTHON).parent}:/usr/bin:/usr/local/bin")
    if place is None:
        pytest.skip(f"no {name}")
    (path / name).symlink_to(place)


def one_stack(thread):
    """The stack of a thread, which can be read."""
    result = read([thread], limit_s=60)
    if stacks.DENIED.search(result.reason):
        pytest.skip(f"ptrace is forbidden: {result.reason}")
    assert result.reason == ""
    return result.of[thread]


def lines_of(source, *texts):
    lines = source.read_text().splitlines()
    return [next(number for number, line in enumerate(lines, 1) if text in line) for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["eu-stack", "gdb"])
@pytest.mark.parametrize(
    "kind, texts, functions",
    [
        ("nested", ["MPI_Recv", "return exchange", "sum = step"], ["exchange", "step", "main"]),
        ("operation", ["in an operation", "MPI_Reduce_local"], ["combine", "main"]),  # which MPI has called
    ],
)
def test_functions_of_a_compiled_program_are_told_from_those_of_mpi(
    places, path, tool, kind, texts, functions
):
    real_tool(path, tool)
    source = Path(__file__).parents[2] / "support/native/places.c"
    with running(places, kind) as thread:
        eventually(lambda: one_stack(thread).frames[0].function == functions[0])  # it is about to call
        frames = one_stack(thread).frames
        assert state(thread.pid) in "SR"
    assert [one.function for one in frames] == functions
    assert [one.line for one in frames] == lines_of(source, *texts)
    assert {Path(one.file).name for one in frames} == {"places.c"}


@pytest.mark.slow
def test_functions_without_lines_have_their_names(without_lines, path):
    real_tool(path, "eu-stack")
    with running(without_lines, "nested") as thread:
        eventually(lambda: one_stack(thread).frames[0].function == "exchange")
        assert str(one_stack(thread)) == "in exchange, called in step, called in main"


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["eu-stack", "gdb"])
def test_a_thread_of_a_process_has_a_stack_of_its_own(places, path, tool):
    real_tool(path, tool)
    with running(places, "nested") as main:
        threads = [Thread.of(main.pid, int(one)) for one in os.listdir(f"/proc/{main.pid}/task")]  # noqa: PTH208
        eventually(lambda: one_stack(main).frames[0].function == "exchange")
        stacks_read = read(threads, limit_s=60).of
    innermost = {thread.number: stack.frames[0].function for thread, stack in stacks_read.items()}
    assert innermost.pop(main.pid) == "exchange"
    assert "other" in innermost.values()


def test_a_thread_that_a_process_does_not_have_is_taken_for_its_main_one():
    assert Thread.of(os.getpid(), 1 << 30) == Thread(os.getpid(), os.getpid())


@pytest.mark.slow
def test_lines_of_python_are_those_of_files_of_the_user(path, tmp_path):
    real_tool(path, "py-spy")
    script = tmp_path / "waits.py"
    script.write_text(
        textwrap.dedent("""
            import threading

            class Solver:
                def step(self):
                    threading.Event().wait()

            print(flush=True)
            Solver().step()
        """)
    )
    with running(PYTHON, script) as thread:
        eventually(lambda: one_stack(thread).frames[0].function == "Solver.step")
        stack = one_stack(thread)
    assert str(stack) == "at waits.py:6 in Solver.step, called at waits.py:9"
    assert stack.document[0] == {"function": "Solver.step", "file": str(script), "line": 6}


@pytest.mark.slow
def test_nothing_is_said_without_tools(asleep, path):
    assert read([asleep]) == stacks.Stacks({}, "")


PRINTED = """PID 4711 - process
TID 4711:
#0  0x0000000000000001 - 1 __poll
    ../sysdeps/unix/sysv/linux/poll.c:29:10
#1  0x0000000000000002 PMPI_Recv
#2  0x0000000000000003 halo<int>(std::vector<int>&)
    /home/user/my grid.cc:41:3
#3  0x0000000000000004 step.constprop.0
#4  0x0000000000000005
#5  0x0000000000000006 main
    /home/user/grid.cc:102
"""
FRAMES = (
    Frame("halo<int>", "/home/user/my grid.cc", 41),
    Frame("step"),
    Frame("main", "/home/user/grid.cc", 102),
)


@pytest.mark.slow
@pytest.mark.parametrize("status", [0, 1])
def test_a_stack_counts_even_if_its_tool_had_some_error(asleep, false_tool, tmp_path, status):
    (tmp_path / "printed").write_text(PRINTED)
    false_tool("eu-stack", f"cat {tmp_path}/printed; echo missing >&2; exit {status}")
    assert read([asleep]) == stacks.Stacks({asleep: Stack(FRAMES)}, "")
    assert (
        str(Stack(FRAMES)) == "at my grid.cc:41 in halo<int>, called in step, called at grid.cc:102 in main"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "line, reason",
    [
        ("sleep 1000", "eu-stack: did not end within 1 s"),
        ("exit 2", "eu-stack: ended with status 2"),
        ("kill -SEGV $$", "eu-stack: ended with status -11"),
        ("echo; echo eu-stack: no DWARF >&2; exit 2", "eu-stack: eu-stack: no DWARF"),
        (r"printf 'no \377\033 stack'", "eu-stack: it has printed no stack"),
        (r"printf '\377\033' >&2; exit 1", "eu-stack: \ufffd?"),
        ("yes '#0  0x rubbish' | head -c 10000000", "eu-stack: printed more than 4 MB"),
    ],
)
def test_a_tool_that_fails_is_the_reason(asleep, false_tool, line, reason):
    false_tool("eu-stack", line)
    begin = time.monotonic()
    assert read([asleep], limit_s=1 if line.startswith("sleep") else 60) == stacks.Stacks({}, reason)
    assert time.monotonic() - begin < 30
    assert state(asleep.pid) == "S"


@pytest.mark.slow
def test_one_stack_of_several_is_enough_not_to_name_a_reason(asleep, false_tool, tmp_path):
    (tmp_path / "printed").write_text(PRINTED)
    false_tool("eu-stack", f"[ $2 = {asleep.number} ] && exec cat {tmp_path}/printed; exit 1")
    ended = Thread(asleep.pid, 1 << 30)
    assert read([asleep, ended]) == stacks.Stacks({asleep: Stack(FRAMES)}, "")


@pytest.mark.slow
def test_a_tool_asks_nothing_of_the_network_and_prints_what_is_understood(
    asleep, false_tool, monkeypatch, tmp_path
):
    monkeypatch.setenv("DEBUGINFOD_URLS", "https://debuginfod.invalid")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    false_tool("eu-stack", f"env > {tmp_path}/environment")
    read([asleep], {"LOCKSTEP_RUN": "r"})
    variables = (tmp_path / "environment").read_text().splitlines()
    assert {"LC_ALL=C.UTF-8", "LOCKSTEP_RUN=r"} <= {*variables}
    assert not [one for one in variables if one.startswith("DEBUGINFOD")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "scope, reason",
    [
        (
            "1",
            "kernel.yama.ptrace_scope = 1 forbids it to eu-stack; write: sysctl kernel.yama.ptrace_scope=0",
        ),
        ("0", "eu-stack: dwfl_attach_state: Operation not permitted"),
        (None, "eu-stack: dwfl_attach_state: Operation not permitted"),
    ],
)
def test_a_kernel_that_forbids_ptrace_is_named(asleep, false_tool, monkeypatch, tmp_path, scope, reason):
    monkeypatch.setattr(stacks, "YAMA", tmp_path / "ptrace_scope")
    if scope:
        stacks.YAMA.write_text(f"{scope}\n")
    false_tool("eu-stack", "echo dwfl_attach_state: Operation not permitted >&2; exit 2")
    assert read([asleep]).reason == reason


def spied(number, *frames):
    keys = ("name", "filename", "line")
    return {"os_thread_id": number, "frames": [dict(zip(keys, one, strict=True)) for one in frames]}


@pytest.mark.slow
def test_frames_of_packages_are_shown_if_there_are_no_others(false_tool, tmp_path):
    package = ("solve", "/venv/lib/python3.12/site-packages/solver.py", 3)
    frozen = ("_run_code", "<frozen runpy>", 88)
    with running(PYTHON, "-S", "-c", "import time; print(flush=True); time.sleep(1000)") as thread:
        for frames, shown in (
            ([package, ("<module>", "/home/user/run.py", 9), frozen], "at run.py:9"),
            ([package, ("main.<locals>.f", "/x.py", 2)], "at x.py:2 in main.f"),
            ([package], "at solver.py:3 in solve"),
            ([("f", "/x.py", 1)] * 5, "at x.py:1 in f, called at x.py:1 in f, called at x.py:1 in f, ..."),
        ):
            (tmp_path / "printed").write_text(json.dumps([spied(1, package), spied(thread.pid, *frames)]))
            false_tool("py-spy", f"cat {tmp_path}/printed")
            assert [str(one) for one in read([thread]).of.values()] == [shown]
        for text in (
            "{}",
            "[1]",
            '[{"os_thread_id": 1}]',
            '[{"os_thread_id": [], "frames": 3}]',
            "[]",
            "[" * 9999,
        ):
            (tmp_path / "printed").write_text(text)
            assert read([thread]) == stacks.Stacks({}, "py-spy: it has printed no stack")
