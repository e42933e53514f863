"""Processors that are lost: no policy puts a process on one, jobs that fit run, larger ones fail."""

import json
import tomllib

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from job_sets import JobSet, conduct
from sessions import session, slots

from coordinator import policies
from coordinator.policies import packing
from coordinator.policies.regions import hypercube, mesh
from coordinator.view import Job
from harness.cli import main
from harness.predict.drawn_jobs import draw
from harness.predict.job_level import SimulatedByJob
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs import simulate as by_job
from harness.simulator.jobs.model import rigid
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import IDLE
from harness.simulator.processes.simulate import simulate
from harness.spec import experiment
from workloads.machine import QUEUES
from workloads.options import Options
from workloads.program import Program
from workloads.validation import InputError

MS = 1_000_000

VARIANTS = [
    *((name, {}) for name in policies.known()),
    *(("gang", {"packing": name}) for name in packing.PACKINGS),
    *(("gang", {"packing": name, "migrate": True, "unify": True}) for name in ("matrix", "buddy")),
    *(("gang", options) for options in ({"rows": 1}, {"synchronised": False}, {"fill": "processes"})),
    *((name, {"share": "sequential"}) for name in ("gang", "dhc", "two-queue")),
    *(("mesh", {"allocator": name}) for name in mesh.ALLOCATORS),
    ("mesh", {"allocator": "paging", "page": 2}),
    *(("hypercube", {"allocator": name}) for name in hypercube.ALLOCATORS),
    *((name, {"sequential": 2}) for name in ("condor", "idle-partition", "owner-share")),
]


@st.composite
def machines(draw):
    """A number of processors, and some of them, but not all."""
    processors = draw(st.integers(2, 9))
    lost = draw(st.sets(st.integers(0, processors - 1), min_size=1, max_size=processors - 1))
    return processors, frozenset(lost)


class Launching(JobSet):
    """Launches jobs at once, and fails those that it is to launch on lost processors; ``running`` in turn.

    No plan puts a process on a lost processor, except those of jobs that are too large for what is left.
    """

    def __init__(self):
        super().__init__()
        self.lost, self.large, self.waiting, self.running = frozenset(), set(), [], []

    def launch(self, job, placement):
        self.waiting.append((job, self.lost.isdisjoint(placement)))

    def begin(self, job, at_ns, placement):
        self.running.append(job)

    def vacate(self, job):
        self.running.remove(job)

    def serve(self, conductor, now_ns):
        """Tell the conductor of all that it has asked for."""
        while self.waiting:
            self.waiting.sort(key=lambda one: one[1])
            job, starts = self.waiting.pop(0 if not self.waiting[0][1] else -1)
            if starts:
                conductor.ready(job, now_ns)
            else:
                conductor.leave(job)
                conductor.advance(now_ns)
        for _, plan in self.published[-1:]:
            places = plan.decision.placements.items()
            assert all(self.lost.isdisjoint(place) or job in self.large for job, place in places)
            assert all(self.large.issuperset(slot.runs[p]) for slot in plan.decision.slots for p in self.lost)


@pytest.mark.parametrize("name, options", VARIANTS, ids=str)
@settings(max_examples=10)
@example(rows=[(1, 0, False), (3, 0, False), (1, 0, False)], machine=(3, frozenset({1, 2})), loss_ms=1)
@example(rows=[(1, 0, False), (3, 1, False)], machine=(4, frozenset({1})), loss_ms=2)
@example(rows=[(1, 0, False), (1, 0, False), (3, 0, False)], machine=(3, frozenset({1, 2})), loss_ms=1)
@given(
    rows=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 90), st.booleans()), min_size=1, max_size=6),
    machine=machines(),
    loss_ms=st.integers(-1, 40),
)
def test_every_job_that_fits_runs_to_its_end_whenever_processors_are_lost(
    name, options, rows, machine, loss_ms
):
    """After the loss, at each step the oldest job ends. Moldable jobs may be larger than what is left."""
    processors, lost = machine
    jobs = [
        Job(number, min(size, processors), arrival_ms * MS, moldable)
        for number, (size, arrival_ms, moldable) in enumerate(rows)
    ]
    policy = policies.create(name, options)
    conductor, job_set = conduct(policy, jobs, processors, job_set=Launching())
    job_set.serve(conductor, 0)
    now_ns = 0
    loss_ns = loss_ms * MS
    while (due_ns := conductor.due_ns()) is not None and due_ns <= loss_ns:
        now_ns = max(now_ns, due_ns)
        conductor.advance(now_ns)
        job_set.serve(conductor, now_ns)
    fit = {
        job.number
        for job in jobs
        if policy.allows_oversubscription or job.processes <= processors - len(lost)
    }
    job_set.lost = lost
    job_set.large = {job.number for job in jobs} - fit
    hit = [job for job in job_set.running if not lost.isdisjoint(conductor.placements[job])]
    conductor.lose(sorted(lost), hit)
    conductor.advance(max(loss_ns, 0))
    job_set.running = [job for job in job_set.running if job not in hit]
    job_set.serve(conductor, now_ns)
    finished = []
    for _ in range(200):
        if conductor.over:
            break
        if job_set.running:
            finished.append(job_set.running.pop(0))
            conductor.leave(finished[-1])
            conductor.advance(now_ns)
        elif (due_ns := conductor.due_ns()) is not None:
            now_ns = max(now_ns, due_ns)
            conductor.advance(now_ns)
        job_set.serve(conductor, now_ns)
    assert conductor.over
    assert fit - {*hit} <= {*finished} <= (fit | {job.number for job in jobs if job.moldable}) - {*hit}


@pytest.mark.parametrize("name", ["dyn-equi", "dynamic"])
@example(rows=[(1, False)] * 3, processors=3, lost={0, 1}, leaves=0)
@given(
    rows=st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=6),
    processors=st.integers(1, 6),
    lost=st.sets(st.integers(0, 5), min_size=1),
    leaves=st.integers(0, 5),
)
def test_a_malleable_job_keeps_one_of_its_processors_as_long_as_one_is_left(
    name, rows, processors, lost, leaves
):
    """Also while those leave that a loss ends; a job that has lost all waits, or gets others."""
    jobs = [Job(n, min(size, processors), 0, rigid, not rigid) for n, (size, rigid) in enumerate(rows)]
    run = session(name, jobs, processors)
    before = run.arrive(*range(len(jobs))).decide(0).decision.placements
    assume(not lost.issuperset(range(processors)))
    run.lose(p for p in lost if p < processors)
    left = {number: {*place} - lost for number, place in before.items() if jobs[number].malleable}
    gone = leaves % len(jobs)
    places = run.depart(gone).decide(1).decision.placements
    assert all(places.values()), "no job runs without a processor"
    assert all(left[n] & {*places[n]} for n in left if left[n] and n != gone)
    assert all(lost.isdisjoint(places[n]) for n in places if jobs[n].malleable)


@pytest.mark.parametrize(
    "name, options, sizes, stay, shown",
    [
        ("gang", {"unify": True}, (1,) * 16, (1, 10), "- 1 10 - - - - -"),
        ("gang", {"migrate": True}, (1,) * 16, (1, 10), "10 1 - - - - - -"),
        ("dqt", {}, (2, 2, 1, 1, 2), (1, 2, 3), "- - 2 - 1 1 3 -"),
        ("fair-dqt", {}, (2, 2, 1, 1, 2), (1, 2, 3), "- - 2 - 1 1 3 -"),
    ],
)
def test_jobs_that_end_when_a_processor_is_lost_leave_as_at_any_other_time(name, options, sizes, stay, shown):
    """The loss is the graver reason; no job that stays is on the processor. DQT: at the end of a quantum."""
    for lost in ([], [7]):
        run = session(name, sizes, 8, **{"quantum_ms": 10, **options})
        run.arrive(*range(len(sizes))).decide(0)
        run.depart(0).decide(10 * MS)
        run = run.lose(lost) if lost else run
        gone = set(range(1, len(sizes))).difference(stay)
        assert slots(run.depart(*gone).decide(10 * MS)) == shown


BY_PROCESS = [(name, options) for name, options in VARIANTS if not policies.create(name, options).moves]
"""Those whose processes stay where they begin."""


def idle(outcome, processors):
    """Whether nothing ever was on these processors."""
    return not any(outcome.switches[p] or outcome.spent_ns[p, :IDLE].any() for p in processors)


def programs(count, processes):
    """Jobs of one phase after another; one of them is a queue of tasks."""
    kinds = [Program(processes=processes, granularity_us=300, phases=40) for _ in range(count)]
    kinds[-1] = Program("TASKS", processes=processes, granularity_us=300, phases=60)
    return [SimulatedJob(n, program, 0.002 * n, moldable=n % 2 == 0) for n, program in enumerate(kinds)]


@pytest.mark.slow
@pytest.mark.parametrize("name, options", BY_PROCESS, ids=str)
def test_no_process_is_simulated_on_a_lost_processor(name, options):
    policy = policies.create(name, options)
    lost = (0, 3, 5)
    machine = SimulatedMachine(processors=8, local="rr", lost=lost)
    outcome = simulate(programs(3, 2), machine, policy, Options("fixed"))
    assert outcome.failure == ""
    assert idle(outcome, lost)
    assert all(set(lost).isdisjoint(job.placement) for job in outcome.jobs)


@pytest.mark.slow
@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("local", ["rr", "eevdf"])
def test_processes_that_are_not_bound_keep_off_lost_processors(queue, local):
    if local == "eevdf" and queue not in ("bound", "stealing"):
        return
    for name, within_job in (("none", False), ("none", True), ("gang", False)):
        machine = SimulatedMachine(
            processors=4, local=local, queue=queue, lost=(0, 2), within_job=within_job, tick_us=1000
        )
        outcome = simulate(programs(4, 2), machine, policies.create(name, {}), Options("fixed"))
        assert outcome.failure == ""
        assert idle(outcome, (0, 2)) and not idle(outcome, (1,)) and not idle(outcome, (3,))


def test_a_job_that_is_larger_than_what_is_left_is_refused_unless_it_folds():
    machine = SimulatedMachine(processors=4, lost=(1,))
    job = SimulatedJob(0, Program(processes=4, granularity_us=300, phases=2))
    with pytest.raises(
        InputError, match=r"must be at most 3.*, since machine.lost leaves 3 of 4; .*make lost short"
    ):
        simulate([job], machine, policies.create("gang", {}))


@pytest.mark.parametrize("lost", [4, -1])
def test_a_machine_has_the_processors_that_it_loses(lost):
    """What else is wrong of a list, tests of experiment files tell."""
    with pytest.raises(InputError) as error:
        SimulatedMachine(processors=4, lost=(lost,))
    assert error.value.key == "lost[0]"


LOCAL = ("none", "implicit", "dynamic-coscheduling", "working-sets", "process-control", "processor-sets")
BY_JOB = [
    (name, options)
    for name, options in VARIANTS
    if name not in (*LOCAL, "rr-job") and not {"share", "fill"} & options.keys()
]
"""Those under which no processor is left to a local scheduler, and whole jobs run."""


def mixture(most, count=60):
    """Rigid jobs of all sizes up to ``max_processes`` that come at random and wait for each other."""
    random = np.random.default_rng(1)
    submit_ns = np.cumsum(random.integers(0, 40, count)) * MS
    return rigid(submit_ns, random.integers(1, most + 1, count), random.integers(1, 100, count) * MS)


@pytest.mark.parametrize("name, options", BY_JOB, ids=str)
def test_no_job_is_simulated_on_a_lost_processor(name, options):
    lost = (0, 5, 6)
    places = []

    def watch(plan, now_ns):
        places.extend(plan.decision.placements.values())

    jobs = mixture(5)
    policy = policies.create(name, options)
    outcome = event_by_event.simulate(jobs, 8, policy, watch=watch, lost=lost)[0]
    assert outcome.finished.all()
    assert places and all(set(lost).isdisjoint(place) for place in places)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fcfs", "easy", "sdf", "asp", "dyn-equi"])
def test_policies_that_count_processors_do_as_on_a_smaller_machine(name):
    """The smaller machine is simulated by a compiled kernel, the one with lost processors event by event."""
    jobs = mixture(5)
    policy = policies.create(name, {})
    lost = by_job.simulate(jobs, 8, policy, lost=(0, 5, 6))
    smaller = by_job.simulate(jobs, 5, policy)
    assert (lost.finish_ns == smaller.finish_ns).all()
    assert (lost.start_ns == smaller.start_ns).all()


MODEL = """
level = "jobs"
processors = 16
replications = 3
[machine]
lost = [3, 4]
[model]
count = 100
maxima = [2, 16]
[[schedulers]]
policy = "fcfs"
"""


def of_jobs(text):
    return SimulatedByJob.of(experiment.load(tomllib.loads(text))).experiment


def test_jobs_of_a_model_ask_for_what_is_left():
    wanted = of_jobs(MODEL)
    (cell,) = wanted.cells
    assert cell.lost == {3, 4} and cell.source and cell.source.model
    drawn_jobs = draw(cell.source.model, wanted.processors, np.random.default_rng(1), len(cell.lost))
    assert set(drawn_jobs.max_processes.tolist()) == {2, 14}


@pytest.mark.parametrize(
    "change, words",
    [
        (("[2, 16]", "[2, 16]\nrigid = true"), r"model.maxima\[1\] = 16: .* machine.lost leaves 14"),
        (("[3, 4]", "[16]"), r"machine.lost\[0\] = 16: the machine has 16 processors"),
        (("lost =", "lots ="), "did you mean 'lost'"),
    ],
)
def test_bad_lost_processors_of_a_machine_for_jobs_are_named(change, words):
    assert change[0] in MODEL
    with pytest.raises(InputError, match=words):
        of_jobs(MODEL.replace(*change))


def test_a_job_of_a_trace_that_is_larger_than_what_is_left_is_named(tmp_path):
    trace = tmp_path / "log.swf"
    trace.write_text("; MaxProcs: 16\n" + "\n".join(f"{n} {n} -1 5 {14 + n} " + "-1 " * 13 for n in (0, 1)))
    text = MODEL.replace("[model]\ncount = 100\nmaxima = [2, 16]\n", "")
    text = text.replace("processors = 16", f'log = {{ file = "{trace}" }}')
    with pytest.raises(InputError, match=r"job 1 of the log asks for 15, .*leaves 14 \(1 of 2 jobs"):
        of_jobs(text)


@pytest.mark.slow
def test_the_command_says_which_processors_are_lost(tmp_path, capsys):
    file = tmp_path / "e.toml"
    file.write_text(MODEL)
    assert main(["simulate", str(file), "-o", str(tmp_path / "out")]) == 0
    assert "100 jobs on 16 processors, of which 2 are lost" in capsys.readouterr().out
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Lost processors" in page and "3, 4" in page
    assert main(["simulate", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lost"] == [3, 4]
