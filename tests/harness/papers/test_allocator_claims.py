"""What the survey reports of allocators (docs/allocators.md), on machines at which jobs always wait."""

import itertools
from functools import cache

import numpy as np
import pytest

from coordinator import policies
from harness.predict.job_level import SimulatedByJob
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.model import WHOLE_NS, rigid
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from harness.spec.experiment import load
from workloads.program import Program

JOBS = 300
POPULATION = 12
SEEDS = (0, 1, 2)


def label(policy):
    return policy.allocator if getattr(policy, "page", 1) == 1 else f"{policy.allocator} {policy.page}"


@cache
def under(experiment, lost=()):
    """The outcomes under every allocator of a built-in experiment, by name; the same jobs for all."""
    wanted = SimulatedByJob.of(load(experiment)).experiment
    (cell,) = wanted.cells
    results = {}
    for seed in SEEDS if experiment == "hypercube-allocators" else SEEDS[:1]:
        random = np.random.default_rng(seed)
        sizes = random.choice(np.array(cell.source.model.maxima), JOBS)
        run_ns = np.rint(random.exponential(10 * WHOLE_NS, JOBS)).astype(np.int64)
        jobs = rigid(np.zeros(JOBS, dtype=np.int64), sizes, run_ns)
        for scheduler in wanted.schedulers:
            policy = scheduler.policy
            how = {"population": POPULATION, "topology": cell.topology, "lost": lost}
            outcome, _ = event_by_event.simulate(jobs, wanted.processors, policy, **how)
            results.setdefault(label(policy), []).append(outcome)
    return results


def shares(experiment, name):
    """The means of a kind of fragmentation over the seeds."""
    return {
        key: np.mean([getattr(outcome.fragmentation, name) for outcome in outcomes])
        for key, outcomes in under(experiment).items()
    }


def ends_ns(experiment):
    return {
        key: np.mean([outcome.finish_ns.max() for outcome in outcomes])
        for key, outcomes in under(experiment).items()
    }


CUBES = ("buddy", "gray-code", "modified-buddy", "all-subcubes")
"""In the order of how many subcubes they recognize."""


def test_the_more_subcubes_an_allocator_recognizes_the_less_fragmentation_and_the_sooner_the_end():
    for values in (shares("hypercube-allocators", "external"), ends_ns("hypercube-allocators")):
        assert [values[name] for name in CUBES] == sorted((values[name] for name in CUBES), reverse=True)
        assert len(set(values.values())) == len(values)
        assert values["tree-collapsing"] < values["modified-buddy"]
    missed = shares("hypercube-allocators", "missed")
    more = [missed[name] for name in ("modified-buddy", "tree-collapsing", "all-subcubes")]
    assert max(more) < missed["buddy"]
    assert min(missed.values()) > 0, "even those that find every subcube miss processors that make none"
    internal = list(shares("hypercube-allocators", "internal").values())
    assert internal == pytest.approx([internal[0]] * len(internal)) and internal[0] > 0.1


def test_squares_waste_most_of_a_mesh_frames_miss_what_a_scan_finds_and_noncontiguous_allocation_ends_first():
    internal, missed = (shares("mesh-allocators", name) for name in ("internal", "missed"))
    assert internal["buddy"] > 2 * internal["first-fit"]
    for name in ("frame-sliding", "adaptive-scan"):
        assert internal["first-fit"] == pytest.approx(internal[name])
    assert internal["paging"] == internal["multiple-buddy"] == 0 < internal["paging 2"]
    assert missed["frame-sliding"] > max(missed["adaptive-scan"], missed["first-fit"])
    end_ns = ends_ns("mesh-allocators")
    for name in ("multiple-buddy", "paging"):
        (outcome,) = under("mesh-allocators")[name]
        assert (outcome.fragmentation.external, outcome.fragmentation.missed) == (0, 0)
        assert end_ns[name] < min(end_ns["adaptive-scan"], end_ns["first-fit"])
    assert max(end_ns["adaptive-scan"], end_ns["first-fit"]) < end_ns["frame-sliding"] < end_ns["buddy"]


@pytest.mark.slow
def test_faulty_nodes_cost_contiguous_allocation_more_than_their_share():
    """Four of them at random places; noncontiguous allocation loses little more than what they are."""
    lost = tuple(np.random.default_rng(0).permutation(64)[:4].tolist())
    whole = under("faulty-mesh")
    faulty = under("faulty-mesh", lost)
    longer = {name: faulty[name][0].finish_ns.max() / whole[name][0].finish_ns.max() for name in whole}
    assert max(longer["paging"], longer["multiple-buddy"]) < min(longer["first-fit"], longer["buddy"])
    assert max(longer["paging"], longer["multiple-buddy"]) < 1.1 < longer["first-fit"]
    for name in ("paging", "multiple-buddy"):
        fragmentation = faulty[name][0].fragmentation
        assert (fragmentation.internal, fragmentation.external, fragmentation.missed) == (0, 0, 0)
    assert faulty["first-fit"][0].fragmentation.missed > whole["first-fit"][0].fragmentation.missed


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["NEWS", "TRANSPOSE"])
def test_programs_run_longer_on_two_rows_of_a_mesh_than_on_a_square(pattern):
    program = Program(pattern=pattern, processes=16, granularity_us=100, phases=20)
    mesh = {"topology": "mesh", "sides": (8, 8)}
    end_ns = {}
    for allocator, hop_latency_us in itertools.product(("multiple-buddy", "paging"), (0.0, 5.0)):
        machine = SimulatedMachine(processors=64, latency_us=5, hop_latency_us=hop_latency_us, **mesh)
        policy = policies.create("mesh", {"allocator": allocator})
        end_ns[allocator, hop_latency_us] = simulate([SimulatedJob(0, program)], machine, policy).end_ns
    assert end_ns["multiple-buddy", 0.0] == end_ns["paging", 0.0] < end_ns["multiple-buddy", 5.0]
    assert end_ns["multiple-buddy", 5.0] < 0.9 * end_ns["paging", 5.0]
