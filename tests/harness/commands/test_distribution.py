"""The distribution, built from an sdist and installed where nothing of the checkout is in reach."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile

import places
import pytest
from places import ROOT

pytestmark = [pytest.mark.wheel, pytest.mark.slow]

ROOMS = ("workloads", "coordinator", "harness", "slurm", "lockstep")


@pytest.fixture(scope="module")
def tracked():
    names = places.tracked()
    return names or pytest.skip("not a checkout of git, which knows the files")


@pytest.fixture(scope="module")
def built(tmp_path_factory, tracked):
    """The sdist, and the wheel that was built from it, out of a copy of the project's files only."""
    folder = tmp_path_factory.mktemp("built")
    for name in tracked:
        (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / "tree" / name)
    venv.create(folder / "tools", with_pip=True)
    subprocess.run([folder / "tools/bin/pip", "install", "--quiet", "build", "twine"], check=True)
    tool = [folder / "tools/bin/python", "-m"]
    subprocess.run([*tool, "build", "--outdir", folder / "dist", folder / "tree"], check=True)
    files = sorted((folder / "dist").iterdir())
    assert [path.name.split("-")[0] for path in files] == ["lockstep_scheduling"] * 2
    subprocess.run([*tool, "twine", "check", "--strict", *files], check=True)
    wheel, sdist = sorted(files, key=lambda path: path.suffix, reverse=True)
    return sdist, wheel


@pytest.fixture(scope="module")
def done(tmp_path_factory, built):
    """A function that runs a command of an environment with only the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "venv", with_pip=True)
    subprocess.run([folder / "venv/bin/pip", "install", "--quiet", f"{built[1]}[mpich]"], check=True)

    def run(command, *words):
        environment = {"HOME": str(folder), "PATH": f"{folder}/venv/bin:/usr/bin:/bin"}
        argv = [folder / "venv/bin" / command, *words]
        return subprocess.run(
            argv, env=environment, cwd=folder, capture_output=True, text=True, timeout=300, check=True
        ).stdout

    return run


def test_the_sdist_has_every_file(built, tracked):
    with tarfile.open(built[0]) as archive:
        held = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert tracked - held <= {".gitignore"}


def test_the_wheel_has_every_file_of_the_rooms_and_no_other(built, tracked):
    with zipfile.ZipFile(built[1]) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == {name for name in tracked if name.startswith(tuple(f"{room}/" for room in ROOMS))}


def test_python_finds_all_of_it_in_the_environment(done):
    code = f"import sys, {', '.join(ROOMS)}; print(sys.prefix, *(sys.modules[r].__file__ for r in {ROOMS}))"
    prefix, *files = done("python", "-c", code).split()
    assert len(files) == len(ROOMS) and all(file.startswith(f"{prefix}{os.sep}") for file in files)
    assert prefix != sys.prefix


def test_its_commands_work(done, built):
    assert done("lockstep", "--version").split() == [
        "lockstep",
        built[0].name.split("-")[1].removesuffix(".tar.gz"),
    ]
    assert "gang" in done("lockstep", "policies")
    short = ["three-jobs", "--quick", "--json", "--set", 'schedulers=[{policy="gang"}, {policy="implicit"}]']
    for words in (["run", "--no-wait", "--no-simulate", "--set", "repeats=1"], ["simulate"]):
        rows = json.loads(done("lockstep", words[0], *short, *words[1:]))["rows"]
        assert [row["scheduler"]["policy"] for row in rows] == ["gang", "implicit"]
        side = "simulated" if words[0] == "simulate" else "measured"
        assert all(row[side]["workload_slowdown"]["median"] > 0 for row in rows), rows
