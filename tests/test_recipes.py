"""The recipes for Spack and conda can be read, and need what setup.cfg needs."""

import ast
import re
from configparser import ConfigParser

import pytest
from places import ROOT

PACKAGING = ROOT / "docs" / "packaging"


@pytest.fixture(scope="module")
def ours():
    """The version and, by name, the versions of what is needed, as setup.cfg has them."""
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg")
    needed = dict(line.split(">=", 1) for line in parser["options"]["install_requires"].split())
    return parser["metadata"]["version"], needed | {"python": parser["options"]["python_requires"][2:]}


def test_spacks_recipe_needs_the_same(ours):
    tree = ast.parse((PACKAGING / "spack" / "lockstep_scheduling" / "package.py").read_text())
    calls = [(node.func.id, node.args[0].value) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    needed = dict(name.removeprefix("py-").split("@") for call, name in calls if "@" in name)
    needed = {name: _as_pip_says(versions) for name, versions in needed.items()}
    assert needed.pop("setuptools") in (ROOT / "pyproject.toml").read_text()
    assert (next(name for call, name in calls if call == "version"), needed) == ours
    assert {name for call, name in calls if call == "depends_on" and "@" not in name} == {"mpi", "c"}


def _as_pip_says(versions):
    """Spack's range of versions, which has its last one in it, as setup.cfg writes it."""
    least, _, last = versions.partition(":")
    major, _, minor = last.partition(".")
    return f"{least},<{major}.{int(minor) + 1}" if last else least


def test_condas_recipe_needs_the_same(ours):
    yaml = pytest.importorskip("yaml", reason="comes with the extra docs")
    recipe = yaml.safe_load((PACKAGING / "conda" / "lockstep-scheduling" / "meta.yaml").read_text())
    lines = (re.split(r" >=", line) for line in recipe["requirements"]["run"] if line != "__linux")
    needed = {name.removesuffix("-base"): version for name, version in lines}
    assert (recipe["package"]["version"], needed) == ours
    assert recipe["package"]["version"] in recipe["source"]["url"]
