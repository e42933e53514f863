"""``lockstep record``: what it says of a program, what it stores, and what it refuses."""

import json
import os
import shlex
import subprocess
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from made_recordings import recorded
from native_programs import LOCKSTEP, launcher, run
from runs import eventually

from harness.analyse.program_profile import profile
from harness.report.documents import jobs_table
from harness.store import recording
from harness.store.recording import KIND
from harness.store.stretches import steady, stretches
from workloads.program import Program


def test_a_bulk_synchronous_program_is_recognized_with_its_granularity_and_imbalance():
    numbers = np.random.default_rng(1)
    phases = 4000
    phases_of_ranks = [[("ALLREDUCE", g) for g in numbers.uniform(75, 125, phases)] for _ in range(4)]
    estimates = profile(recorded(phases_of_ranks))
    assert estimates["phases"] == phases
    assert estimates["program"]["pattern"] == "BARRIER"
    assert estimates["program"]["granularity_us"] == pytest.approx(100, rel=0.01)
    assert estimates["program"]["imbalance"] == pytest.approx(0.5, rel=0.03)
    assert estimates["per_phase"]["collectives"] == 1
    (job,) = tomllib.loads(jobs_table(estimates["program"]))["jobs"]
    assert job["program"] == estimates["program"], "the table to paste is one of an experiment file"


@pytest.mark.parametrize(
    "step, phases, median_us",
    [
        # Calls and messages with little computing between them end one phase, collective operations do not.
        ([("IRECV", 50.0), ("ISEND", 1.0), ("WAIT", 0.0), ("WAIT", 2.0), ("ALLREDUCE", 3.0)], 200, 56),
        ([("RECV", 500.0), ("RECV", 20.0), ("RECV", 20.0)], 200, 540),
        ([("ALLREDUCE", 500.0), ("ALLREDUCE", 20.0)], 400, 260),
        # A program that hardly computes has a phase for each operation.
        ([*99 * [("ALLREDUCE", 1.0)], ("ALLREDUCE", 20.0)], 20_000, 1),
    ],
)
def test_what_ends_a_phase(step, phases, median_us):
    estimates = profile(recorded([200 * step] * 2, peer=1))
    assert estimates["phases"] == pytest.approx(phases, abs=1)
    assert estimates["computing_us"]["median"] == pytest.approx(median_us)


def test_a_stretch_is_not_cut_where_that_would_leave_little_of_it():
    program = recorded([100 * [("RECV", 10.0)]] * 2, windows=5, peer=1)
    for rank in program.ranks:
        rank.rows["kind"][:2] = KIND["BARRIER"]
    (one,) = stretches(program, 0, 4)
    assert [len(rows) for rows in one.rows] == [80, 80]


@pytest.mark.parametrize(
    "step, ranks, pattern",
    [
        ([("ALLTOALL", 50.0)], 3, "TRANSPOSE"),
        ([("ALLTOALL", 50.0), ("BARRIER", 50.0)], 3, "TRANSPOSE"),
        ([("ALLTOALL", 50.0), ("BARRIER", 50.0), ("BARRIER", 50.0)], 3, "BARRIER"),
        ([("BARRIER", 50.0), *4 * [("ISEND", 0.0)], *4 * [("RECV", 0.0)]], 3, "NEWS"),
        ([("ISEND", 0.0), ("RECV", 50.0)], 2, "BARRIER"),
    ],
)
def test_the_nearest_pattern(step, ranks, pattern):
    program = profile(recorded([100 * step] * ranks, peer=1))["program"]
    assert program["pattern"] == pattern
    Program(**program)  # the nearest one is a valid one


def test_a_program_that_only_ends_has_no_phases():
    assert profile(recorded([[("COMPUTE", 100.0)]] * 2))["program"] is None


def test_stretches_of_a_long_program_begin_and_end_at_the_same_operations_on_all_ranks():
    program = recorded([100 * [("ALLREDUCE", 10.0)]] * 2, windows=4, kept=20)
    second = program.ranks[1]
    late = second.windows.copy()
    late["collectives"][1:] += 3  # it is ahead by three operations
    windows_left = stretches(replace(program, ranks=(program.ranks[0], replace(second, windows=late))))
    assert [[len(rows) for rows in one.rows] for one in windows_left] == [
        [20, 20],
        [16, 16],
        [16, 16],
        [16, 16],
    ], "what was before the first operation of all in a window may have had messages that it lacks"
    (whole,) = stretches(recorded([100 * [("ALLREDUCE", 10.0)]] * 2, windows=4))
    assert [len(rows) for rows in whole.rows] == [100, 100]


def test_the_start_up_is_left_out():
    program = recorded([100 * [("ALLREDUCE", 10.0)]] * 2, windows=5)
    for rank in program.ranks:
        rank.windows["operations"][0] = 2
    assert steady(program) == (1, 5)


def test_a_program_of_which_a_rank_has_nothing_has_no_phases():
    estimates = profile(recorded([[("ALLREDUCE", 10.0)], []]))
    assert (estimates["stretches"], estimates["phases"], estimates["program"]) == (0, 0, None)


@pytest.mark.skipif(os.getuid() != 0, reason="mounting takes root")
@pytest.mark.parametrize("size", ["4k", "600k"])
def test_a_recording_without_room_is_refused_in_a_line_and_leaves_nothing(compiled, tmp_path, size):
    argv = [*launcher("here"), "-n", "2", compiled("here", "operations.c"), "loop", "500", "300"]
    record = [*LOCKSTEP, "record", "--no-wait", "-o", str(tmp_path / "a.npz"), "--", *argv]
    place = shlex.quote(str(tmp_path))
    script = (
        f"mount -t tmpfs -o size={size} tmpfs {place} || exit 77; {shlex.join(record)}; s=$?; ls -A {place}"
    )
    result = run(["unshare", "--mount", "sh", "-c", f"{script}; exit $s"])
    if result.returncode in (1, 77) and ("unshare:" in result.stderr or "mount:" in result.stderr):
        pytest.skip("nothing can be mounted here")
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    assert "had no room to record what it does" in result.stderr.splitlines()[-1]


def test_a_program_is_observed_and_its_recording_kept(compiled, tmp_path):
    argv = [*launcher("here"), "-n", "2", compiled("here", "operations.c"), "loop", "500", "300"]
    place = tmp_path / "with space"
    place.mkdir()
    result = run([*LOCKSTEP, "record", "--no-wait", "--json", "--results", str(place), "--", *argv])
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert (document["processes"], document["operations"], document["kept"]) == (2, 1002, 1002)
    assert document["program"]["pattern"] == "BARRIER"
    assert 295 < document["computing_us"]["median"] < 400
    assert document["per_phase"]["bytes"] == pytest.approx(16, rel=0.02)
    (path,) = (place / "recordings").iterdir()
    assert str(path) == document["recording"] and path.name.startswith("operations-here-")
    assert [len(rank.rows) for rank in recording.read(path).ranks] == [501, 501]


def test_a_program_that_fails_is_reported_with_what_it_did(compiled, tmp_path):
    argv = [*launcher("here"), "-n", "2", compiled("here", "operations.c"), "abort"]
    output = tmp_path / "a.npz"
    result = run([*LOCKSTEP, "record", "--no-wait", "-o", str(output), "--", *argv])
    assert result.returncode == 1, result.stderr
    assert "the command failed, and the recording ends there" in result.stdout
    assert recording.read(output).processes == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_of_several_programs_of_a_command_the_longest_is_recorded_and_a_warning_says_so(compiled, tmp_path):
    program = [*launcher("here"), "-n", "2", compiled("here", "operations.c"), "loop"]
    argv = ["sh", "-c", f"{shlex.join(program)} 30 100 && {shlex.join(program)} 90 100"]
    result = run([*LOCKSTEP, "record", "--no-wait", "-o", str(tmp_path / "a.npz"), "--", *argv])
    assert "the command ran 2 MPI programs, and this is the longest" in result.stdout, result.stderr
    assert [len(rank.rows) for rank in recording.read(tmp_path / "a.npz").ranks] == [91, 91]


def test_nothing_is_left_of_a_killed_observation_but_the_directory_that_the_user_named(compiled, tmp_path):
    argv = [*launcher("here"), "-n", "2", compiled("here", "operations.c"), "loop", "1000000", "1000"]
    argv = [*LOCKSTEP, "record", "--no-wait", "-o", str(tmp_path / "a.npz"), "--", *argv]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert eventually(lambda: any(tmp_path.glob(".recording-*/files/rank-*")))
        process.kill()
    assert eventually(lambda: not any(tmp_path.iterdir()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "words, options, complaint",
    [
        ([], [], "COMMAND"),
        (["./no-such-command"], [], "the program was not found, or is not executable"),
        (["true"], [], "started no program"),
        (["true"], ["-o", "{file}/below/a.npz"], "cannot be written"),
    ],
)
def test_what_cannot_be_observed_is_refused_with_a_reason(tmp_path, words, options, complaint):
    launcher("here")
    (tmp_path / "file").touch()
    options = [word.format(file=tmp_path / "file") for word in options or ["-o", "{file}-a.npz"]]
    result = run([*LOCKSTEP, "record", "--no-wait", *options, "--", *words])
    assert result.returncode == 2 and complaint in result.stderr, result.stderr
    assert "Traceback" not in result.stderr
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208
