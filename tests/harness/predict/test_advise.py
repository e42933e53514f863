"""Advice: what is best where, and what it rests on."""

import json
import os
import re
from pathlib import Path

import pytest
from fake_runs import TOOLS, command_on_made_up_runs
from made_recordings import recorded
from native_programs import launcher

from coordinator.workload import ParallelJob
from harness import cli
from harness.analyse import advise
from harness.analyse.rows import JobRow, Row, Summary
from harness.analyse.statistics import Estimate, estimate
from harness.spec.scheduler import scheduler_of
from harness.store import recording
from harness.store.database import Store
from workloads.program import Program
from workloads.validation import InputError
from workloads.work import SequentialWork

PROGRAM = Program(granularity_us=300, dedicated_s=1.0)


def rows(*points):
    """One row for each slowdown of ``points``: (granularity, slowdown of candidate 0, 1, ...)."""
    return [
        Row(
            (JobRow(0.0, {"granularity_us": g_us}),),
            {},
            {"policy": f"p{number}"},
            None,
            Summary(Estimate(value, None, 1)),
        )
        for g_us, *values in points
        for number, value in enumerate(values)
    ]


def told(found):
    return [(one.from_us, one.to_us, one.scheduler["policy"]) for one in found]


def test_a_range_goes_on_while_one_scheduler_is_as_good_as_the_best():
    found = advise.ranges(rows((50, 1.0, 1.5), (100, 1.01, 1.0), (200, 1.3, 1.1), (500, 1.2, 1.0)))
    assert told(found) == [(50, 100, "p0"), (200, 500, "p1")]
    assert found[1].slowdown == pytest.approx(1.05)


def test_of_several_the_best_on_average_stands_for_a_range():
    assert told(advise.ranges(rows((50, 1.01, 1.0), (100, 1.0, 1.015)))) == [(50, 100, "p0")]


def test_a_simulation_that_does_not_finish_is_never_advised():
    found = advise.ranges(rows((50, None, 9.0)))
    assert told(found) == [(50, 50, "p1")]


def test_the_asked_granularity_is_among_those_tried():
    wanted = advise.experiment(PROGRAM, 4, 2)
    grid = [cell.settings["program.granularity_us"] for cell in wanted.cells]
    assert grid == sorted({*map(float, advise.GRID_US), 300.0})
    assert all(len(cell.jobs()) == 4 for cell in wanted.cells)
    least = min(cell.groups[0].program.phase_count() for cell in wanted.cells)
    assert least >= 0.8 * advise.LEAST_PHASES


def test_what_cannot_be_advised_on_is_refused():
    with pytest.raises(InputError, match="one process per processor"):
        advise.experiment(Program(processes=4, dedicated_s=1.0), 3, 2)
    with pytest.raises(InputError, match=r"--like = '../r4': .* synthetic program"):
        advise.like(Path("../r4"), [ParallelJob(0, PROGRAM), ParallelJob(1, SequentialWork(1.0))])
    assert advise.like(Path("x"), [ParallelJob(0, PROGRAM), ParallelJob(1, PROGRAM)]) == (PROGRAM, 2)


def test_advice_on_a_recording_is_about_copies_of_its_program(tmp_path):
    path = tmp_path / "app.npz"
    recording.write(recorded([3 * [("ALLREDUCE", 10.0)]] * 2), path)
    wanted = advise.of_recording(path, 3, 2)
    (job, *_), (cell,) = wanted.cells[0].jobs(), wanted.cells
    assert (len(cell.jobs()), job.program.processes, job.program.recording) == (3, 2, str(path))
    assert "partitioned" not in [one.name for one in wanted.schedulers], "one job would wait for the other"
    assert len(wanted.schedulers) == len(advise.CANDIDATES) - 1
    assert len(advise.of_recording(path, 3, 4).schedulers) == len(advise.CANDIDATES)
    with pytest.raises(InputError, match="--recording"):
        advise.of_recording(path, 3, 1)


MEASURED = """
processors = 2
repeats = 3
[[jobs]]
count = 2
{program}
[[schedulers]]
policy = "none"
[[schedulers]]
policy = "gang"
quantum_ms = 100
"""


@pytest.fixture
def on_a_recording(tmp_path, monkeypatch, capsys):
    """``lockstep advise --recording app.npz``, of which none, gang 20 ms and gang 100 ms are candidates."""
    recording.write(recorded([3 * [("ALLREDUCE", 10.0)]] * 2), tmp_path / "app.npz")
    lockstep = command_on_made_up_runs(monkeypatch, tmp_path, capsys)
    made = [
        Row(
            (JobRow(0.0, {"argv": ["app"], "processes": 2}),), {}, table, None, Summary(estimate([value] * 3))
        )
        for table, value in (
            (scheduler_of({"policy": "none"}).table, 2.0),
            (scheduler_of({"policy": "gang", "quantum_ms": 20}).table, 1.1),
            (scheduler_of({"policy": "gang", "quantum_ms": 100}).table, 1.0),
        )
    ]
    monkeypatch.setattr(advise, "predict", lambda *given: list(made))
    monkeypatch.setattr("harness.application.real_tools", lambda *nodes, **also: TOOLS)

    def run(program):
        (tmp_path / "a.toml").write_text(MEASURED.format(program=program))
        return lockstep("run", "a.toml", "--no-wait")

    def advised(*words):
        _, out, _ = lockstep("advise", "--no-wait", "--recording", "app.npz", *words)
        return json.loads(out) if words else " ".join(out.split())

    return run, advised


def test_a_candidate_has_the_errors_of_commands_that_were_simulated_and_measured_under_it(on_a_recording):
    run, advised = on_a_recording
    assert run('command = ["{launcher}", "-n", "2", "true"]\nrecording = "app.npz"')[0] == 0
    found = advised("--json")
    best, short, none = found["rows"]
    assert (best["scheduler"]["quantum_ms"], best["errors"]["rows"], short["errors"]) == (100, 1, None)
    assert best["errors"]["median_error"] == best["errors"]["p90_error"] == pytest.approx(0.03, abs=1e-6)
    assert none["errors"]["bias"] == pytest.approx(-0.03, abs=1e-6)
    assert found["errors"]["rows"] == 2
    said = advised()
    assert "error so" in said and "gang 100 ms 1.00 1.00-1.00 - - 3.0 3.0 1 " in said
    assert "gang 20 ms 1.10 1.10-1.10 - - - - - " in said
    assert said.endswith("differed (medians). -: not known here: docs/validation.md has ours.")


def test_what_a_store_knows_of_other_programs_is_no_error_of_commands(on_a_recording):
    run, advised = on_a_recording
    assert run("program = { processes = 2, dedicated_s = 1.0 }")[0] == 0
    found = advised("--json")
    said = advised()
    assert found["errors"] is None and {row["errors"] for row in found["rows"]} == {None}
    assert "error so" not in said
    assert said.endswith("have been wrong is not known here: docs/validation.md has ours.")


@pytest.mark.slow
def test_advice_rests_on_the_last_calibration(tmp_path, monkeypatch, capsys):
    """Without one it calibrates; the next time it goes by that, and says the same."""
    monkeypatch.setattr("harness.application.real_tools", lambda *nodes, **also: TOOLS)
    monkeypatch.setattr(advise, "GRID_US", (5000, 20_000))
    words = ["advise", "--granularity-us", "2000", "--imbalance", "1.5", "--results", str(tmp_path), "--json"]
    assert cli.main(words) == 0
    first = json.loads(capsys.readouterr().out)
    with Store(tmp_path, existing=True) as store:
        assert next(store.calibrations())
    assert first["constants"]["remote_wakeup_us"] == 5.0
    assert len(first["rows"]) == len(advise.CANDIDATES)
    slowdowns = {row["scheduler"]["policy"]: row["workload_slowdown"]["median"] for row in first["rows"]}
    assert slowdowns["implicit"] < slowdowns["none"]  # coarse and imbalanced: the papers' case
    assert [one["to_us"] for one in first["ranges"]][-1] == 20_000
    monkeypatch.setattr("harness.application.real_tools", None)
    assert cli.main(words) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert cli.main(words[:-1]) == 0
    assert re.search("Use implicit|Not conclusive; implicit", capsys.readouterr().out)  # as busy as it was


def test_a_command_is_recorded_and_advised_on_at_once(compiled, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("harness.application.real_tools", lambda *nodes, **also: TOOLS)
    monkeypatch.setattr(advise, "CANDIDATES", advise.CANDIDATES[-2:])
    program = [*launcher("here"), "-n", "2", compiled("here", "operations.c"), "loop", "200", "300"]
    words = [
        "advise",
        "--no-wait",
        "--jobs",
        "2",
        "--results",
        str(tmp_path),
        "--json",
        "--command",
        *program,
    ]
    assert cli.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    (path,) = (tmp_path / recording.FOLDER).iterdir()
    assert (found["program"]["argv"], found["program"]["recording"]) == (program, str(path))
    roomy = len(os.sched_getaffinity(0)) >= 4  # for two jobs side by side
    assert found["jobs"] == 2 and len(found["rows"]) == len(advise.CANDIDATES) - (not roomy)


@pytest.mark.parametrize(
    "words, complaint",
    [
        (["--command"], "lockstep advise --command -- mpiexec"),
        (
            ["--recording", "a.npz", "--command", "true"],
            "--recording = 'a.npz': cannot be combined with --command",
        ),
    ],
)
def test_a_command_to_advise_on_is_refused_with_a_reason(tmp_path, capsys, words, complaint):
    assert cli.main(["advise", "--results", str(tmp_path / "none"), *words]) == 2
    assert complaint in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
