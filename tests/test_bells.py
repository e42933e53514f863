"""Two-phase waits in a program that is not ours, whose ranks are on two nodes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from netns_cluster import Cluster, cluster, unavailable

from workloads import native

PROGRAMS = Path(__file__).parent / "native"
EXEC = [sys.executable, "-P", "-m", "harness", "exec", "--blocking"]


@pytest.fixture(scope="module")
def hosts() -> Iterator[Cluster]:
    if why := unavailable():
        pytest.skip(why)
    with cluster(2) as made:
        yield made


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """A function that compiles one of the programs."""
    folder = tmp_path_factory.mktemp("programs")

    def compile_one(name: str) -> str:
        wrapper = native.wrapper(["mpiexec"])
        if not wrapper.exists():
            pytest.skip("no compiler wrapper beside mpiexec")
        subprocess.run([wrapper, "-O1", "-o", folder / name, PROGRAMS / f"{name}.c"], check=True)
        return str(folder / name)

    return compile_one


def run(hosts: Cluster, before: list[str], ranks: int, *program: str) -> str:
    """What the program prints, with its ranks dealt to the hosts in turn."""
    argv = [*before, "mpiexec", "-hosts", ",".join(hosts.hosts), "-ppn", "1", "-n", str(ranks), *program]
    job = hosts.start(argv)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    return out


def answers(printed: str) -> list[str]:
    """The lines of all ranks. MPI does not say whether a message that was only probed is cancelled."""
    return sorted(re.sub(r"(probe: .*) cancelled \d", r"\1", line) for line in printed.splitlines())


@pytest.mark.slow
def test_a_rank_on_another_node_rings(hosts: Cluster, compiled: Callable[[str], str], tmp_path: Path) -> None:
    """A sleep lasts until the ring: naps alone would test every 0.4 ms, 60 times in a wait of 25 ms."""
    loop = [compiled("bsp"), "50000", "1.5", "20"]
    run(hosts, [*EXEC, "immediate", "--record", str(tmp_path), "--"], 2, *loop)
    waits = [json.loads(path.read_text())["waits"]["barrier"] for path in tmp_path.iterdir()]
    rechecks = sum(json.loads(path.read_text())["rechecks"] for path in tmp_path.iterdir())
    blocked = sum(wait["blocked"] for wait in waits)
    assert blocked >= 20
    assert sum(wait["blocks"] for wait in waits) < 25 * blocked
    assert rechecks <= blocked / 4


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_rare_and_wrong_uses_give_across_nodes_what_they_give_without(
    hosts: Cluster, compiled: Callable[[str], str], ranks: int
) -> None:
    program = compiled("rare")
    plain = answers(run(hosts, [], ranks, program))
    assert len(plain) > 20
    assert answers(run(hosts, [*EXEC, "immediate", "--"], ranks, program)) == plain
