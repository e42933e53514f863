"""The policies by name, and how each is carried out."""

from fractions import Fraction
from itertools import combinations, product

from independent_scheduler import priorities
from independent_scheduler.loop import schedule
from independent_scheduler.partition_sizes import all_here, limited, ordered, rounded_up, shared
from independent_scheduler.queues import GUESSES, SCORES, batch, easy, fcfs, partitioned, reordered
from independent_scheduler.shared_processors import by_service, controlled, divided, malleable, processor_sets
from independent_scheduler.subcubes import block, gray, higher, placed, scan, subcube
from independent_scheduler.submeshes import frames, pages, square, submesh

TARGETS = {"ap1": rounded_up(lambda state: len(state.waiting)), "aep": rounded_up(all_here)}
WORTH = {
    "parallelism-range": (lambda w, p: Fraction(2 * w, 2 * p + 1), "average", "largest"),
    "parallelism-variance": (lambda w, p: Fraction(2 * w, 2 * p + 1), "average", "deviation"),
    "square-root": (lambda w, p: Fraction(w * w, p * (p + 1)), "root", "largest"),
    "equal-time": (Fraction, "work", "largest"),
}
EQUAL = shared(lambda _, p: Fraction(1, p))


def rules():
    """A rule for each policy with its options."""
    rules_by_name = {
        ("fcfs", ()): fcfs,
        ("batch", ()): batch,
        ("partitioned", ()): partitioned,
        ("easy", ()): easy,
    }
    for order in ("fcfs", *SCORES):
        for backfill, estimate in product(("none", "easy", "conservative"), GUESSES):
            settings = (("order", order), ("backfill", backfill), ("estimate", estimate))
            rules_by_name["ordered", settings] = reordered(order, backfill, estimate)
    rules_by_name |= priorities.rules()
    rules_by_name["fcfs-bb", ()] = placed(block)
    rules_by_name |= {("scan-up", ()): scan(1), ("scan-down", ()): scan(-1)}
    for order in range(3):
        of_order = (("order", order),)
        for name, target in TARGETS.items():
            rules_by_name[name, of_order] = ordered(limited(target), order)
        rules_by_name["knee", of_order] = ordered(limited(TARGETS["aep"], "knee"), order, "knee")
        every = limited(lambda state: state.processors, "average")
        rules_by_name["average-parallelism", of_order] = ordered(every, order, "average")
        rules_by_name["asp", of_order] = ordered(EQUAL, order)
        for name, (worth, share, bound) in WORTH.items():
            rules_by_name[name, of_order] = ordered(shared(worth, share, bound), order, bound)
    rules_by_name["rtc-sdf", ()] = ordered(EQUAL, 2)
    rules_by_name["sdf", ()] = ordered(limited(lambda state: state.processors), 1)
    for max_processes in (2, 6):
        rules_by_name["sdf-max", (("maximum", max_processes),)] = ordered(
            limited(lambda _, max_processes=max_processes: max_processes), 1
        )
    for parts in (2, 4):
        part = limited(lambda state, parts=parts: max(1, state.processors // parts))
        rules_by_name["equipartition", (("parts", parts),)] = ordered(part)
    cubes = {
        "buddy": subcube(lambda _, k: [range(k)], by_choice=False),
        "gray-code": gray,
        "modified-buddy": subcube(higher, by_choice=False),
        "tree-collapsing": subcube(lambda n, k: combinations(range(n), k), by_choice=True),
        "all-subcubes": subcube(lambda n, k: combinations(range(n), k), by_choice=False),
    }
    for name, find in cubes.items():
        rules_by_name["hypercube", (("allocator", name),)] = placed(find)
    meshes = {
        "first-fit": submesh(turns=True),
        "interval-sets": submesh(turns=True),
        "adaptive-scan": submesh(turns=False),
        "frame-sliding": frames,
        "buddy": square,
    }
    for name, find in meshes.items():
        rules_by_name["mesh", (("allocator", name),)] = placed(find)
    rules_by_name["mesh", (("allocator", "paging"), ("page", 2))] = placed(pages(2))
    for name in ("paging", "multiple-buddy"):  # any processors will do
        rules_by_name["mesh", (("allocator", name),)] = fcfs
    for hold_s in (1, 3):
        rules_by_name["processor-sets", (("hold_ms", 1000.0 * hold_s),)] = processor_sets(hold_s)
    for name in ("condor", "idle-partition", "owner-share"):  # no workstation has an owner
        rules_by_name[name, ()] = fcfs
    return rules_by_name


RULES = rules()
MALLEABLE = {"dyn-equi": divided, "dynamic": by_service, "process-control": controlled}
"""How they divide the processors."""


def scheduled(name, options, jobs, processors):
    """What runs after each instant: the processors of jobs, or if they change how many each has.

    The jobs, which are new ones, get their times.
    """
    if name in MALLEABLE:
        return malleable(jobs, processors, MALLEABLE[name])
    return schedule(jobs, processors, RULES[name, options])
