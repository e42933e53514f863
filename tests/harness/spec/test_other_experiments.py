"""Experiments with commands, sequential and interactive jobs: their tables, baselines, records, rows."""

import dataclasses
import json

import pytest
from fake_commands import fake_commands
from fake_runs import TOOLS, Quiet, imitate, measured, probe
from runs import needs_two

from coordinator.workload import SubmittedJob
from harness import cli
from harness.analyse import summary
from harness.analyse.rows import Responses
from harness.analyse.verdicts import NOT_COMPARABLE, verdict
from harness.measure.plan import plan
from harness.measure.session import Tools
from harness.predict import missing
from harness.predict.process_level import simulated_job
from harness.predict.recorded_programs import RecordedPrograms
from harness.spec.experiment import load
from harness.spec.jobs import described, rebuilt
from harness.store.database import Store
from workloads.program import Program
from workloads.record import ALWAYS, RankResult
from workloads.validation import InputError
from workloads.work import Command, InteractiveWork, SequentialWork

PROGRAM = "program = { granularity_us = 100, phases = 50 }\n"
MIX = f"""
processors = 2
repeats = 1
[[jobs]]
{PROGRAM}
[[jobs]]
kind = "sequential"
work_s = 0.02
[[jobs]]
count = 2
kind = "interactive"
burst_ms = 1
think_ms = 2
bursts = 5
[[jobs]]
command = ["{{launcher}}", "-n", "{{processes}}", "sh", "-c", "exit 0", "{{processes}}"]
processes = 2
dedicated_s = 0.1
[[schedulers]]
policy = "none"
[[schedulers]]
policy = "gang"
quantum_ms = 10
"""
COMMAND = Command(("sh", "-c", "exit 0", "2"), 2, dedicated_s=0.1)


def written(tmp_path, text):
    path = tmp_path / "mix.toml"
    path.write_text(text)
    return str(path)


def only(tmp_path, lines):
    return load(written(tmp_path, f'processors = 8\n[[jobs]]\n{lines}\n[[schedulers]]\npolicy = "gang"\n'))


def test_each_kind_of_job_is_read(tmp_path):
    jobs = load(written(tmp_path, MIX)).cells[0].jobs()
    user = InteractiveWork(1, 2, 5)
    assert [job.program for job in jobs[1:]] == [SequentialWork(0.02), user, user, COMMAND]


def test_a_command_with_threads_is_as_wide_as_all_of_them_and_not_simulated(tmp_path):
    table = 'command = ["{launcher}", "-n", "4", "a"]\nthreads = 2'
    (job,) = only(tmp_path, table).cells[0].jobs()
    assert SubmittedJob(0, job.program).seen().processes == 8
    assert dict(job.program.environment) == {"OMP_NUM_THREADS": "2"}
    assert rebuilt(described(job.program)) == job.program
    with pytest.raises(InputError, match="ranks have threads"):
        simulated_job(job, RecordedPrograms({job.program: tmp_path}))
    (job,) = only(tmp_path, f'{table}\nenvironment = {{ OMP_NUM_THREADS = "1" }}').cells[0].jobs()
    assert dict(job.program.environment) == {"OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("launcher", ["mpiexec", "mpirun", "/usr/bin/mpiexec.openmpi", "srun"])
def test_a_command_may_name_its_own_launcher(tmp_path, launcher):
    (job,) = only(tmp_path, f'command = ["{launcher}", "-np", "3", "./app", "-n", "1"]').cells[0].jobs()
    assert job.program == Command(("./app", "-n", "1"), 3, launcher)


@pytest.mark.parametrize(
    "words",
    [
        ["{launcher}", "--mca", "btl", "tcp,self", "-x", "A=1", "-n", "3", "./app"],
        ["mpiexec", "-n", "3", "-genv", "OMP_NUM_THREADS", "2", "-wdir", "/tmp", "-l", "./app"],
        ["mpirun.openmpi", "-np", "3", "--wdir", "..", "-x", "A", "--tag-output", "./app"],
        ["srun", "--export=ALL,A=1", "--ntasks=3", "-D", "/tmp", "--mpi", "pmix", "./app"],
    ],
)
def test_a_command_may_give_its_launcher_options_that_place_no_process(tmp_path, words):
    (job,) = only(tmp_path, f"command = {words}").cells[0].jobs()
    program = job.program
    given = [word for word in words[1:-1] if word not in ("-n", "-np", "3", "--ntasks=3")]
    assert [*program.launcher_options] == given
    assert (program.argv, program.processes) == (("./app",), 3)
    assert rebuilt(json.loads(json.dumps(described(program)))) == program
    assert all(word in program.label for word in given)


@pytest.mark.parametrize(
    "launcher, option",
    [
        *(
            ("{launcher}", word)
            for word in ("--bind-to", "-map-by", "--host", "-hosts", "-ppn", "--rankfile")
        ),
        *(("mpiexec.openmpi", word) for word in ("-H", "--rankfile", "--npernode", "--cpu-set=0")),
        *(("srun", word) for word in ("-w", "--nodelist=a", "-N", "--cpu-bind=cores", "-x", "-c")),
    ],
)
def test_options_that_place_processes_are_refused_by_name(tmp_path, launcher, option):
    with pytest.raises(InputError) as caught:
        only(tmp_path, f'command = ["{launcher}", "{option}", "a", "-n", "2", "true"]')
    assert (caught.value.key, caught.value.value) == ("jobs[0].command", option)
    assert "cannot place or bind processes" in str(caught.value) and "bind" in caught.value.remedy


@pytest.mark.parametrize(
    "words",
    [
        *(["mpiexec", option, "none"] for option in ("-bind-to", "--bind-to", "-binding")),
        *(["mpirun.openmpi", *option] for option in (["--bind-to", "none"], ["-bind-to", "NONE"])),
        *(["mpirun.openmpi", option] for option in ("--bind-to-none", "-bind-to-none", "--bind-to=none")),
        *(["srun", *option] for option in (["--cpu-bind=none"], ["--cpu-bind", "none"])),
    ],
)
def test_options_that_bind_to_nothing_are_left_out_since_that_is_so_anyway(tmp_path, words):
    (job,) = only(tmp_path, f"command = {[*words, '-n', '2', './app']}").cells[0].jobs()
    program = job.program
    assert (program.launcher_options, program.argv, program.processes) == ((), ("./app",), 2)


@pytest.mark.parametrize("option", ["--genvv", "-2", "--", "-configfile"])
def test_unknown_options_are_refused_with_those_that_are_known(tmp_path, option):
    with pytest.raises(InputError, match=r"mpich or openmpi.*\bmca\b") as caught:
        only(tmp_path, f'command = ["mpiexec", "{option}", "-n", "2", "true"]')
    assert caught.value.value == option


def test_a_program_is_looked_for_on_the_path_of_its_job(tmp_path):
    (own := tmp_path / "own").mkdir()
    fake_commands(own, **{"some-program": "exit"})
    command = 'processors = 1\nrepeats = 1\n[[jobs]]\ncommand = ["{launcher}", "-n", "1", "some-program"]\n'
    after = '[[schedulers]]\npolicy = "none"\n'
    load(written(tmp_path, f'{command}environment = {{ PATH = "{own}" }}\n{after}'), here=True)
    with pytest.raises(InputError, match="needs a program 'some-program' on the PATH") as caught:
        load(written(tmp_path, command + after), here=True)
    assert caught.value.key == "jobs[0].command"


WRONG = [
    ('command = "mpiexec -n 4 ./app"', "jobs[0].command", "list of words"),
    ('command = ["./app"]', "jobs[0].command", "begin with a launcher"),
    ('command = ["{launcher}", "-n", "4"]', "jobs[0].command", "a number and the program"),
    ('command = ["{launcher}", "-bind-to", "core", "-n", "4", "a"]', "jobs[0].command", "Lockstep binds"),
    ('command = ["{launcher}", "-n", "{processes}", "a"]', "jobs[0].command", "a number"),
    ('command = ["{launcher}", "-n", "0", "a"]', "jobs[0].processes", "from 1 to"),
    ('command = ["{launcher}", "-n", "9", "a"]', "jobs[0].command", "must be at most 8"),
    ('command = ["{launcher}", "-n", "4", "a"]\nthreads = 0', "jobs[0].threads", "from 1 to"),
    ('command = ["{launcher}", "-n", "4", "a"]\nthreads = 3', "jobs[0].command", "must be at most 8"),
    (
        'command = ["{launcher}", "-n", "4", "a"]\nprocesses = 2',
        "jobs[0].processes",
        "must be 4, which the command starts",
    ),
    (
        'command = ["{launcher}", "-n", "4", "a"]\nkind = "sequential"',
        "jobs[0].kind",
        "cannot be combined with command",
    ),
    (f"{PROGRAM}processes = 4", "jobs[0].processes", "not a key"),
    ('kind = "sequentail"', "jobs[0].kind", "sequential"),
    ('kind = "sequential"', "jobs[0].work_s", "no default"),
    ('kind = "interactive"\nburst_ms = 1\nthink_ms = 1', "jobs[0].bursts", "no default"),
    ('kind = "sequential"\nwork_s = 1\nbursts = 2', "jobs[0].bursts", "not a key"),
    ("count = 2", "jobs[0].program", "a program, a command or a kind"),
]


@pytest.mark.parametrize("lines, key, rule", WRONG)
def test_a_wrong_table_is_refused_with_its_key(tmp_path, lines, key, rule):
    with pytest.raises(InputError) as caught:
        only(tmp_path, lines)
    assert caught.value.key == key
    assert rule in str(caught.value)


@pytest.mark.parametrize(
    "work",
    [Program(phases=3), COMMAND, SequentialWork(2.5), InteractiveWork(1, 0, 3)],
    ids=lambda work: type(work).__name__,
)
def test_what_a_job_runs_survives_its_record(work):
    assert rebuilt(json.loads(json.dumps(described(work)))) == work
    assert rebuilt(described(work)).label


def test_each_thing_that_is_run_has_a_baseline_of_its_own(tmp_path):
    """Two commands that differ in a word are two things; jobs of one group are one."""
    text = MIX.replace('"exit 0"', '"exit 0"', 1) + (
        '[[jobs]]\ncommand = ["{launcher}", "-n", "2", "sh", "-c", "exit 0", "3"]\n'
    )
    tasks = plan(load(written(tmp_path, text)))
    alone = [task.jobs[0].program for task in tasks if task.kind == "dedicated"]
    assert len(alone) == len(set(alone)) == 5


def test_overriding_the_programs_leaves_other_jobs_alone(tmp_path):
    path = written(tmp_path, MIX)
    settings = ["program.granularity_us=7", "jobs.1.work_s=0.5", "sweep.program.imbalance=[0,1]"]
    first, second = load(path, settings=settings).cells
    assert [job.program for job in second.jobs()][1:] == [job.program for job in first.jobs()][1:]
    assert (first.jobs()[0].program.granularity_us, second.jobs()[0].program.imbalance) == (7, 1)
    assert first.jobs()[1].program == SequentialWork(0.5)


def as_commands_report(workload, progress=None, history=None):
    """Made-up runs in which commands have recorded nothing, and bursts took 4, 5, ... ms."""
    result = imitate(workload)
    programs = {job.number: job.program for job in workload.jobs}

    def reported(rank):
        match programs[rank.job]:
            case Command():
                return RankResult(**{name: getattr(rank, name) for name in ALWAYS})
            case InteractiveWork():
                return dataclasses.replace(rank, responses_ns=tuple(n * 1_000_000 for n in range(4, 9)))
        return rank

    return dataclasses.replace(result, ranks=tuple(map(reported, result.ranks)))


def everything(tmp_path):
    experiment = load(written(tmp_path, MIX))
    tools = Tools(TOOLS.launcher, probe, as_commands_report)
    record_list = measured(experiment, tmp_path / "results", tools)
    with Store(tmp_path / "results") as opened:
        stored_runs = opened.runs(experiment.digest)
    assert [record.ranks for record in stored_runs] == [record.ranks for record in record_list]
    return experiment, stored_runs


def test_rows_tell_slowdowns_and_response_times_and_nothing_that_is_unknown(tmp_path):
    experiment, run_records = everything(tmp_path)
    for row in summary.rows(experiment, run_records):
        measured = row.measured
        assert measured.workload_slowdown.median > 0
        assert measured.breakdown is None
        assert measured.responses == Responses(n=10, mean_ms=6.0, p99_ms=pytest.approx(8.0))
        assert row.jobs[-1].program == described(COMMAND)


def test_what_the_simulator_does_not_know_is_not_comparable_with_the_reason(tmp_path):
    experiment, run_records = everything(tmp_path)
    assert missing.missing(experiment, run_records) == []
    answer = verdict(summary.rows(experiment, run_records)[0], run_records, 0.15)
    assert answer.verdict == NOT_COMPARABLE and "is not simulated" in answer.reason
    wanted = [(task.counterpart, run_records[0]) for task in plan(experiment)]
    with Store(tmp_path / "moved") as opened:
        assert (
            missing.complete(experiment, run_records, "s", opened, Quiet(), further=lambda *_: wanted) == []
        )


@pytest.mark.slow
def test_simulate_refuses_a_command(tmp_path, capsys):
    assert cli.main(["simulate", written(tmp_path, MIX)]) == 2
    assert "needs a recording to be simulated" in capsys.readouterr().err


@needs_two
@pytest.mark.slow
@pytest.mark.usefixtures("uncalibrated")
def test_a_mix_of_all_kinds_runs_on_real_processes(tmp_path, capsys):
    results = str(tmp_path / "results")
    words = [
        "run",
        "--no-wait",
        written(tmp_path, MIX),
        "--set",
        "schedulers=[{policy='gang',quantum_ms=10}]",
    ]
    assert cli.main([*words, "--json", "--results", results]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    responses = row["measured"]["responses"]
    assert row["measured"]["workload_slowdown"]["median"] > 0
    assert row["simulated"] is None
    assert responses["n"] == 10
    assert 1 <= responses["mean_ms"] <= responses["p99_ms"]
