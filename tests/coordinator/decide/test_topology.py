"""Topologies: hops against a search of the graph, what a file may say, and who gets to know it."""

import tomllib

import pytest

from coordinator import policies
from coordinator.drive import preflight
from coordinator.topology import FLAT, Topology
from coordinator.view import ExecutionTime, Machine
from coordinator.workload import ParallelJob, Workload
from harness.predict.job_level import SimulatedByJob
from harness.spec.experiment import load
from workloads.program import Program
from workloads.validation import InputError

GRIDS = [Topology(name, sides) for name in ("mesh", "torus") for sides in ((4, 4), (3, 2), (1, 5), (6, 1))]


def neighbours(topology, processors, p):
    """The processors, and inner nodes of a tree, next to one of them, by the definition in words."""
    if topology.name == "hypercube":
        return {q for q in range(processors) if bin(p ^ q).count("1") == 1}
    columns, rows = topology.sides
    x = p % columns
    y = p // columns
    places = [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]
    if topology.name == "torus":
        places = [(x % columns, y % rows) for x, y in places]
    return {y * columns + x for x, y in places if 0 <= x < columns and 0 <= y < rows} - {p}


@pytest.mark.parametrize("topology", [*GRIDS, Topology("hypercube")], ids=str)
def test_hops_are_the_steps_of_a_search(topology):
    processors = topology.sides[0] * topology.sides[1] if topology.sides else 16
    for begin in range(processors):
        steps = {begin: 0}
        edge = [begin]
        while edge:
            here = edge.pop(0)
            for there in neighbours(topology, processors, here) - steps.keys():
                steps[there] = steps[here] + 1
                edge.append(there)
        assert steps == {p: topology.hops(begin, p) for p in range(processors)}


def test_hops_of_a_tree_go_through_its_switches():
    tree = Machine(8, Topology("tree"))
    assert [tree.hops(0, p) for p in range(8)] == [0, 2, 4, 4, 6, 6, 6, 6]
    assert [tree.hops(p, 5) for p in range(8)] == [6, 6, 6, 6, 2, 0, 4, 4]
    assert [Machine(3).hops(1, p) for p in range(3)] == [1, 0, 1], "a flat machine is one switch"


@pytest.mark.parametrize(
    "text, key, words",
    [
        ('topology = "cube"', "topology", ["must be one of flat, hypercube", "did you mean 'hypercube'"]),
        ('topology = "hypercube"', "topology", ["power of two", "processors is 6"]),
        ('topology = "mesh"', "sides", ["columns", "write sides = [4, 4]"]),
        ('topology = "mesh"\nsides = [2, 2]', "sides", ["2 x 2 are not the 6 processors"]),
        ('topology = "torus"\nsides = [6]', "sides", ["columns"]),
        ('topology = "torus"\nsides = [6, 0]', "sides[1]", ["from 1 to"]),
        ("sides = [3, 2]", "sides", ["needs a mesh or a torus"]),
        ('topology = "tree"\nsides = []', "sides", ["needs a mesh or a torus"]),
    ],
)
@pytest.mark.parametrize("level", ["jobs", "processes"])
def test_bad_topologies_are_told_by_key_rule_and_remedy(tmp_path, text, key, words, level):
    with pytest.raises(InputError) as error:
        found(tmp_path, level, text)
    assert error.value.key.endswith(f"machine.{key}")
    assert all(word in str(error.value) for word in words)


def found(folder, level, machine):
    """The topology that an experiment file gives six processors, at one of the levels."""
    jobs = '[[jobs]]\nprogram = { pattern = "NEWS", processes = 2, phases = 10 }\n'
    what = 'level = "jobs"\n' if level == "jobs" else ""
    text = f'{what}processors = 6\n[machine]\n{machine}\n[[schedulers]]\npolicy = "mesh"\n'
    text += "[model]\ncount = 10\n" if level == "jobs" else jobs
    if level == "jobs":
        return SimulatedByJob.of(load(tomllib.loads(text))).experiment.cells[0].topology
    (folder / "e.toml").write_text(text)
    return load(str(folder / "e.toml")).cells[0].topology


@pytest.mark.parametrize("level", ["jobs", "processes"])
def test_a_file_gives_a_machine_its_topology(tmp_path, level):
    assert found(tmp_path, level, "") == FLAT
    assert found(tmp_path, level, 'topology = "torus"\nsides = [3, 2]') == Topology("torus", (3, 2))


def test_a_topology_is_kept_with_a_run_and_comes_back():
    for topology in (FLAT, Topology("tree"), Topology("mesh", (3, 2))):
        assert Topology.of(topology.table(), 6) == topology


def test_the_policy_of_a_real_run_sees_the_topology_and_what_is_known_of_jobs():
    job = ParallelJob(0, Program(processes=1, phases=1), 0.5, ExecutionTime(9.0))
    workload = Workload((job,), policies.create("mesh", {}), (0,), topology=Topology("mesh", (1, 1)))
    first_session, (seen,) = preflight.session(workload)
    assert first_session.machine.topology == workload.topology
    assert (seen.arrival_ns, seen.estimate) == (500_000_000, job.estimate)
