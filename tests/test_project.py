"""The project's own rules, as tests."""

import ast
import re
import subprocess
import sys
from configparser import ConfigParser
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("workloads", "coordinator", "harness", "slurm", "lockstep")
MAY_IMPORT = {
    "workloads": {"workloads"},
    "coordinator": {"coordinator", "workloads"},
    "harness": {"harness", "coordinator", "workloads", "slurm"},
    "slurm": set(),
    "lockstep": {"harness", "workloads"},
}
"""workloads <- coordinator <- harness -> slurm; slurm is a leaf."""

ORDER = {
    "coordinator": (
        *("topology", "owners", "migration", "view", "policies", "workload", "decide", "host", "wire"),
        *("node", "drive"),
    ),
    "harness": (
        *("spec", "store", "simulator", "measure", "predict"),
        *("analyse", "papers", "report", "application", "commands", "cli", "__main__"),
    ),
}
"""The rooms inside: each imports only those before it, and itself."""

EXCEPTIONS = {("harness.predict.replicate", "harness.analyse.statistics")}
"""Intervals of means are made in one place, also those that decide when to stop replicating."""

SIMULATOR_MAY_IMPORT = ("workloads", "coordinator", "harness.simulator")

ONLY_IN = {
    "mpi4py": (
        *("workloads/messaging.py", "workloads/rank.py", "workloads/tasks.py"),
        "harness/predict/mpi_pool.py",
    ),
    "numba": ("harness/simulator/",),
    "zmq": ("coordinator/",),
    "rich": ("harness/cli.py", "harness/report/"),
}
MAY_PRINT = ("harness/cli.py",)
MAY_SIGNAL = ("coordinator/host/processes.py", "coordinator/host/mechanisms.py", "slurm/command.py")


@cache
def sources():
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


@cache
def parsed(path):
    return ast.parse(path.read_text())


@cache
def nodes(tree):
    return list(ast.walk(tree))


def modules(tree):
    """Names of all modules that a file imports, at whatever depth."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


@cache
def imported():
    """For each of our modules those of ours that it imports."""
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sources()}
    known = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    graph = {}
    for name, path in known.items():
        graph[name] = set()
        for node in nodes(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                outer = {node.module} if inner - known.keys() else set()
                graph[name] |= (inner | outer) & known.keys() - {name}
            elif isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names} & known.keys()
    return graph


LITTLE = {
    "coordinator.node.agent": {"numpy", "coordinator.policies", "coordinator.drive", "psutil"},
    "coordinator.host.guardian": {"numpy", "tempfile", "secrets", "zmq"},
    "workloads.rank": {"statistics", "psutil", "coordinator"},
}
"""Modules that every run starts, and what they do not import: their start is part of each run."""


@cache
def calls(tree):
    """Dotted names of all functions that a file calls."""
    return {ast.unparse(node.func) for node in nodes(tree) if isinstance(node, ast.Call)}


MAY_NAME_PYTHON = ("coordinator/host/environment.py", "coordinator/host/launcher_choice.py")
"""Others start our processes by ``environment.PYTHON``, which ignores the current directory."""


def files():
    """Name and syntax tree of every file of the product."""
    return [(path.relative_to(ROOT).as_posix(), parsed(path)) for path in sources()]


def test_imports_go_in_one_direction():
    offenders = []
    for name, tree in files():
        room = name.split("/")[0]
        ours = {module.split(".")[0] for module in modules(tree)} & set(ROOMS)
        offenders += [(name, other) for other in sorted(ours - MAY_IMPORT[room] - {room})]
    assert not offenders


def room_of(module):
    """Package and room of a module, the room as its place in the order; None for a package itself."""
    package, _, rest = module.partition(".")
    if package not in ORDER or not rest:
        return package, None
    return package, ORDER[package].index(rest.split(".")[0])


def test_rooms_import_only_what_comes_before_them():
    for module, others in imported().items():
        package, room = room_of(module)
        for other in others:
            theirs, below = room_of(other)
            if package == theirs and None not in (room, below) and (module, other) not in EXCEPTIONS:
                assert below <= room, f"{module} imports {other}"


@pytest.mark.parametrize("module", LITTLE)
def test_what_every_run_starts_imports_little(module):
    code = f"import sys, {module}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert LITTLE[module] & set(result.stdout.split()) == set()


def test_the_simulator_knows_nothing_of_experiments():
    for module, others in imported().items():
        if module.startswith("harness.simulator"):
            assert all(other.startswith(SIMULATOR_MAY_IMPORT) for other in others), module


def test_no_modules_import_each_other_in_a_circle():
    graph = imported()
    done = set()

    def visit(module, path):
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for other in sorted(graph[module]):
                visit(other, [*path, module])
            done.add(module)

    for module in graph:
        visit(module, [])


def test_heavy_imports_stay_where_they_belong():
    assert not [
        (name, module)
        for name, tree in files()
        for module in modules(tree)
        if not name.startswith(ONLY_IN.get(module.split(".")[0], ("",)))
    ]


def test_only_the_command_line_prints():
    assert not [name for name, tree in files() if name not in MAY_PRINT and "print" in calls(tree)]


def test_only_the_process_handles_send_signals():
    sending = {"os.kill", "os.killpg", "signal.pidfd_send_signal"}
    assert not [name for name, tree in files() if name not in MAY_SIGNAL and sending & calls(tree)]


def test_every_module_says_what_it_is_for():
    assert not [name for name, tree in files() if not ast.get_docstring(tree)]


def test_no_function_has_nine_positional_parameters():
    """Values that belong together have a type of their own."""
    for path in sources():
        for node in nodes(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = len(node.args.posonlyargs) + len(node.args.args)
                assert count < 9, f"{path}:{node.lineno}: {node.name}"


def test_tests_are_not_installed():
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_our_processes_are_started_in_one_way():
    assert not [
        name
        for name, tree in files()
        if name not in MAY_NAME_PYTHON
        and any(
            isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable" for node in nodes(tree)
        )
    ]


def test_no_c_sources_call_each_other_in_a_circle():
    """Of the library that is made for one MPI: its sources share a header, so includes do not show it."""
    comments_and_texts = re.compile(r'"(?:\\.|[^"\\])*"|/\*.*?\*/', re.DOTALL)
    functions = re.compile(r"^(?!static|typedef)[a-z_][\w *]*?\b(\w+)\([^;{}]*\)\s*\{", re.MULTILINE)
    texts = {
        path.name: comments_and_texts.sub("", path.read_text())
        for path in (ROOT / "workloads" / "native").glob("*.c")
        if path.name != "preload.c"  # another library
    }
    home = {name: source for source, text in texts.items() for name in functions.findall(text)}
    calls = {
        source: {home[name] for name in re.findall(r"\w+", text) if name in home} - {source}
        for source, text in texts.items()
    }
    while ends := {source for source, others in calls.items() if not others}:
        calls = {source: others - ends for source, others in calls.items() if source not in ends}
    assert not calls


def test_the_tests_that_ci_names_are_there():
    names = re.findall(r"tests/\S+\.py", (ROOT / ".ci" / "run").read_text())
    files = [
        name.replace(match[0], word)
        for name in names
        if (match := re.search(r"{(.*?)}|$", name))
        for word in (match[1] or "").split(",")
    ]
    assert files
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_the_version_is_the_same_everywhere():
    settings = ConfigParser(interpolation=None)
    settings.read(ROOT / "setup.cfg")
    version = settings["metadata"]["version"]
    cited = re.findall(r"(?m)^version: (\S+)$", (ROOT / "CITATION.cff").read_text())
    assert cited == [version]
    headings = re.findall(r"(?m)^## (\S+)", (ROOT / "CHANGELOG.md").read_text())
    assert headings.count(version) == 1 and headings[0] in (version, "Unreleased")


def test_the_image_gets_every_room():
    copied = re.findall(r"(?m)^COPY (\w+) /source/\1$", (ROOT / "Containerfile").read_text())
    assert sorted(copied) == sorted(ROOMS)
