"""What README and docs show in console blocks is carried out, and prints what they show.

A page is one session in one directory. A line after ``$`` is a command, and the lines below it are among
what it prints, in this order: words exactly, figures within a range. ``run`` has made-up runs, ``simulate``
is quick, and programs have small stand-ins.
"""

import ast
import math
import os
import re
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
import slurm_cluster
from places import ROOT, SUPPORT
from runs import needs_two

pytestmark = [pytest.mark.slow, needs_two]
KINDS = "tutorials", "how-to", "concepts"
PAGES = [
    ROOT / "README.md",
    *(page for kind in KINDS for page in sorted((ROOT / "docs" / kind).glob("*.md"))),
]
LANGUAGES = {"console", "text", "c", "python", "toml", "yaml", "dockerfile", "make", "csv", "goal", "ini"}
AT_A_TIME = 2
"""Pages; more would only disturb each other on two processors."""

NOT_HERE = {
    "needs other hosts": (
        "ssh",
        "mpiexec -hosts",
        "lockstep exec -- mpiexec -hosts",
        "lockstep run three-jobs --host",
        "lockstep turns --host",
        "lockstep colocate --host",
    ),
    "needs Slurm": (
        "lockstep submit",
        "sinfo",
        "squeue",
        "sacct",
        "lockstep run queue.toml --through",
        "lockstep turns --slurm",
        "lockstep turns --watch",
    ),
    "needs Docker": ("docker run",),
    "writes to the whole host": ("lockstep exec --mpicc /usr/bin/mpicc --task-prolog /opt",),
    "makes an environment": ("python3 -m venv",),
    "needs a package that the tests do not have": (
        "lockstep trace timeline --format otf2",
        "lockstep exec -- pytest test_",
        'lockstep exec -- mpiexec -n 4 pytest -m "parallel',
        "reframe",
        "ramble",
    ),
    "takes minutes": (
        "lockstep tune",
        "lockstep colocate --settings",
        "OMP_NUM_THREADS=2 lockstep tune",
    ),
}
"""How commands begin that are checked in form only (test_documented_commands.py), by the reason."""

RANGES = {"lockstep simulate": 1.25, "python generous.py": 1.25, "lockstep colocate --rounds 3 -- sleep": 4}
"""By which factor figures may differ, by how commands begin; those of others are numbers and no more."""

OF_TOOLS = re.compile(r" +rank \d+: at .*\.py:\d+")
"""Lines that py-spy makes possible, where it may look into processes."""

NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*")
PIDS = "4711", "4712"
LEAVE_NOTHING = tuple(f"lockstep {name}" for name in ("simulate", "doctor", "show", "policies"))
PROGRAMS = ["one", "two.sh", "two", "three", "app", "hybrid", "long", "short"]
PROGRAMS += ["quick_look.sh", "build/slowest_test"]
FILES = {
    "tests/test_sum.py": "from mpi4py import MPI\ndef test_sum():\n    assert MPI.COMM_WORLD.allreduce(1)\n",
    "build/CTestTestfile.cmake": "add_test(app mpiexec -n 2 ../app)\n",
    "commands.txt": "./one\n./two.sh\n./three\n",
    "accounting/20261128": "11/28/2026 10:20:00;E;1.site;user=u ctime=1795860000 start=1795860600 "
    "end=1795861200 Resource_List.ncpus=4\n",
}


@dataclass
class Shown:
    """A command of a page, and the lines that the page has below it."""

    command: str
    output: list[str] = field(default_factory=list)

    @property
    def reason(self):
        begins = [reason for reason, starts in NOT_HERE.items() if self.command.startswith(starts)]
        return begins[0] if begins else None


def fences(page):
    """The blocks of a page: language, text, and the name of the file that a reader makes of it."""
    matches = re.findall(r'(?ms)^( *)```(\w*)(?: title="(.*?)")?\n(.*?)^\1```$', page.read_text())
    return [(kind, textwrap.dedent(body), title) for _, kind, title, body in matches]


def session(page):
    """The commands of a page; a block without a command goes on with what the one before prints."""
    commands = []
    for kind, body, _ in fences(page):
        for line in body.replace("\\\n", " ").splitlines() if kind == "console" else ():
            if line.startswith("$ "):
                commands.append(Shown(line[2:]))
            elif line.strip() not in ("", "..."):
                commands[-1].output.append(line)
    return commands


def form(line):
    return " ".join(NUMBER.sub("#", re.sub("─+", "─", line)).split())


def figures(line):
    """The decimals of a line that have no sign; counts and errors may have any value."""
    return [float(text) for text in NUMBER.findall(line) if re.fullmatch(r"\d+\.\d+", text)]


def missing(shown, printed, factor):
    """The first shown line that is not among the printed ones, in this order; None if there is none."""
    rest = iter(printed)
    for line in shown:
        near = (one for one in rest if form(one) == form(line))
        if not any(fits(figures(line), figures(one), factor) for one in near):
            return line
    return None


def fits(shown, printed, factor):
    return all(not a or not b or 1 / factor <= a / b <= factor for a, b in zip(shown, printed, strict=True))


LOCKSTEP = f"""#!/bin/sh
name=$1
case "$*" in
*"3 -- sleep"*) run="{SUPPORT}/among_others.py";;
run* | demo* | colocate* | explore* | report*) run="{SUPPORT}/fake_runs.py 0";;
*) run="-m harness";;
esac
shift
case $name in
simulate) set -- --quick "$@";;
colocate) set -- --no-wait --rounds 1 "$@";;
record) set -- --no-wait "$@";;
esac
exec {sys.executable} -P $run $name "$@"
"""
MADE_UP = """import runpy, sys, fake_runs
fake_runs.application.real_tools = lambda *nodes, **also: fake_runs.TOOLS
fake_runs.missing.back_end = fake_runs.ImitatedSimulator
sys.argv[:1], sys.path[:0] = [], ["."]
runpy.run_path(sys.argv[0], run_name="__main__")"""
PYTHON = f"""#!/bin/sh
[ "$2" = run ] && exec {sys.executable} -c '{MADE_UP}' "$@"
exec {sys.executable} "$@"
"""
STAND_INS = {
    "lockstep": LOCKSTEP,
    "python": PYTHON,
    "pip": "#!/bin/sh\n",
    "meson": "#!/bin/sh\nexec mpiexec -n 2 ./app\n",
}
"""``run``, ``demo`` and ``colocate`` have made-up runs, but one ``colocate`` of sleeps; pages are small."""


def place(folder, files, mode=0o755):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(mode)


def shell(folder, program):
    """A function that carries out a line beside stand-ins; gives the status and all that it prints."""
    place(folder / "bin", STAND_INS)
    place(folder / "work", FILES | dict.fromkeys(PROGRAMS, f"#!/bin/sh\nexec {program} 100 .25 100\n"))
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    changes = {"PATH": path, "PYTHONPATH": f"{ROOT}{os.pathsep}{SUPPORT}", "COLUMNS": "80", "BROWSER": "true"}
    changes |= {"PYTHONUNBUFFERED": ""}  # as for most people: then answers and notes could change places

    def run(line, cluster=None):
        argv = ["timeout", "240", "bash", "-c", f"cd {folder / 'work'} || exit; {line}"]
        here = os.environ
        if cluster:
            argv = cluster.head.command(
                ["env", *(f"{name}={value}" for name, value in changes.items()), *argv]
            )
            here = cluster.environment
        with ExitStack() as stack:
            for pid in PIDS:
                if pid in argv[-1]:  # a job that runs already
                    job = stack.enter_context(subprocess.Popen(["sleep", "3"], start_new_session=True))
                    argv[-1] = argv[-1].replace(pid, str(job.pid))
            ran = subprocess.run(
                argv,
                env=here | changes,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
        return ran.returncode, ran.stdout

    return run


def carried_out(page, folder, program, cluster=None, done={}):  # noqa: B006 # pages share what leaves no files
    """The commands of a page, each with its status and what it prints."""
    place(folder / "work", {title: body for _, body, title in fences(page) if title})
    run = shell(folder, program)
    answers = []
    for shown in session(page):
        if cluster or shown.reason is None:
            key = shown.command, (folder / "work" / "lockstep-results").exists()
            alike = shown.command.startswith(LEAVE_NOTHING) and " -o " not in shown.command
            answer = done.get(key) or run(shown.command, cluster)
            done |= {key: answer} if alike else {}
            answers.append((shown, *answer))
    return answers


@pytest.fixture(scope="module")
def sessions(request, compiled, tmp_path_factory):
    """What the selected pages print, by page; their commands are carried out beside each other."""
    program = compiled("here", "bsp.c")
    mine = [item.callspec.params["page"] for item in request.session.items if "sessions" in item.fixturenames]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield {
            page: pool.submit(carried_out, page, tmp_path_factory.mktemp(page.stem), program) for page in mine
        }


@pytest.mark.parametrize("page", [page for page in PAGES if session(page)], ids=lambda page: page.stem)
def test_commands_print_what_the_page_shows(page, sessions):
    for answer in sessions[page].result():
        check(*answer)


@pytest.mark.slurm
def test_the_commands_for_a_site_print_what_the_tutorial_shows(compiled, tmp_path):
    if reason := slurm_cluster.unavailable():
        pytest.skip(reason)
    page = ROOT / "docs" / "tutorials" / "own-site.md"
    with slurm_cluster.slurm_cluster(2) as slurm:
        for answer in carried_out(page, tmp_path, compiled("here", "bsp.c"), slurm.hosts):
            check(*answer)


def check(shown, status, printed):
    expected = 124 if "--stuck 3" in shown.command else 0
    assert status == expected or "doctor" in shown.command, f"{shown.command}: status {status}\n{printed}"
    ranges = (factor for start, factor in RANGES.items() if shown.command.startswith(start))
    tools = shutil.which("py-spy") and not re.search("rank.* is not shown: .*py-spy", printed)
    output = [line for line in shown.output if tools or not OF_TOOLS.match(line)]
    lost = missing(output, printed.splitlines(), next(ranges, math.inf))
    assert lost is None, f"{shown.command} does not print\n{lost}\nbut\n{printed}"


def test_a_line_that_is_not_printed_is_found():
    table = ["policy   slowdown", "none         2.67", "gang         1.02"]
    assert missing(["none 2.80", "gang 1.00"], table, 1.25) is None
    assert missing(["gang 1.00", "none 2.80"], table, 1.25) == "none 2.80"
    assert missing(["gang 1.02 s"], table, math.inf) == "gang 1.02 s"
    assert missing(["none 1.80"], table, 1.25) == "none 1.80"


@pytest.mark.parametrize("start", [start for starts in NOT_HERE.values() for start in starts])
def test_what_is_not_carried_out_is_shown(start):
    assert any(shown.command.startswith(start) for page in PAGES for shown in session(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_have_a_language_and_commands_a_prompt(page):
    outside = re.sub(r"(?ms)^( *)```.*?^\1```$", "", page.read_text())
    assert re.findall(r"\n\n {4}[^ *-].*", outside) == [], "a fence says what it is"
    assert {kind for kind, *_ in fences(page)} <= LANGUAGES
    assert [body for _, body, _ in fences(page) if re.search(r"(?m)^ *```", body)] == [], "a fence is closed"
    bare = [body for kind, body, _ in fences(page) if kind not in ("console", "yaml", "dockerfile")]
    assert [body for body in bare if re.search(r"(?m)^(\$|lockstep) ", body)] == []


@cache
def sentences():
    """All strings of the product, with a blank where something is filled in."""
    strings = []
    for room in ("workloads", "coordinator", "harness", "slurm"):
        for file in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    strings.append(node.value)
    return " ".join(" ".join(strings).split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_messages_that_nobody_provokes_are_in_the_product(page):
    for kind, body, _ in fences(page):
        words = " ".join(body.split()) if kind == "text" else ""
        for part in re.split(r"\b[A-Z]\b%?|\S*\d\S*|\.\.\.|:", words):
            assert (text := part.strip(" ,")) in PROGRAMS or text in sentences(), f"{page.name}: {part}"
