"""The project's own rules, as tests."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("workloads", "coordinator", "harness", "slurm")
MAY_IMPORT = {
    "workloads": {"workloads"},
    "coordinator": {"coordinator", "workloads"},
    "harness": {"harness", "coordinator", "workloads", "slurm"},
    "slurm": set(),
}
"""workloads <- coordinator <- harness -> slurm; slurm is a leaf."""

ONLY_IN = {
    "mpi4py": (
        "workloads/messaging.py",
        "workloads/rank.py",
        "workloads/twophase.py",
        "harness/mpi_pool.py",
    ),
    "numba": ("harness/simulator/",),
    "zmq": ("coordinator/",),
    "rich": ("harness/cli.py", "harness/report/"),
}
MAY_PRINT = ("harness/cli.py",)
MAY_SIGNAL = ("coordinator/processes.py", "coordinator/mechanisms.py")


def sources():
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def modules(tree):
    """Names of all modules that a file imports, at whatever depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def calls(tree):
    """Dotted names of all functions that a file calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


MAY_NAME_PYTHON = ("coordinator/environment.py", "coordinator/launch.py")
"""Others start our processes by ``environment.PYTHON``, which ignores the current directory."""


@pytest.fixture(params=sources(), ids=lambda path: str(path.relative_to(ROOT)))
def source(request):
    path = request.param
    return path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def test_imports_go_in_one_direction(source):
    name, tree = source
    room = name.split("/")[0]
    ours = {module.split(".")[0] for module in modules(tree)} & set(ROOMS)
    assert ours <= MAY_IMPORT[room] | ({room} if room != "slurm" else {"slurm"})


def test_heavy_imports_stay_where_they_belong(source):
    name, tree = source
    for module in modules(tree):
        allowed = ONLY_IN.get(module.split(".")[0])
        assert allowed is None or name.startswith(allowed), f"{name} imports {module}"


def test_only_the_command_line_prints(source):
    name, tree = source
    assert name in MAY_PRINT or "print" not in calls(tree)


def test_only_the_process_handles_send_signals(source):
    name, tree = source
    sending = {"os.kill", "os.killpg", "signal.pidfd_send_signal"} & set(calls(tree))
    assert not sending or name in MAY_SIGNAL


def test_every_module_says_what_it_is_for(source):
    _, tree = source
    assert ast.get_docstring(tree)


def test_files_stay_readable(source):
    name, _ = source
    assert len((ROOT / name).read_text().splitlines()) <= 450


def test_tests_are_not_installed():
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_our_processes_are_started_in_one_way(source):
    name, tree = source
    named = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert name in MAY_NAME_PYTHON or "sys.executable" not in named
