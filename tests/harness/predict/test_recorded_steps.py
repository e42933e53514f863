"""Recordings as programs to replay: which messages, when, and how often."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from made_recordings import recorded
from rank_results import rank_result
from step_lists import steps_of

from coordinator import policies
from coordinator.workload import ParallelJob
from harness import cli
from harness.measure.plan import plan
from harness.predict import recorded_programs
from harness.predict.process_level import Host, Simulated, simulated_job
from harness.predict.recorded_messages import DEFAULT
from harness.predict.recorded_programs import DedicatedTime, RecordedPrograms
from harness.predict.recorded_steps import CARRIED_BYTES_PER_NS, MOST_CARRIED_NS, replayed
from harness.simulator.processes.machine import SimulatedMachine, replaying
from harness.simulator.processes.model import COMPUTE, END, RECEIVE, SEND, SLEEPING
from harness.simulator.processes.simulate import simulate
from harness.spec.experiment import load
from harness.store import recording
from harness.store.conditions import Conditions
from harness.store.recording import COPIED_BYTES
from workloads import native
from workloads.validation import InputError
from workloads.work import Command


def made(by_rank, **columns):
    """Operations of each rank, as (kind, computing in us, {column: value}); the communicator 0 is known."""
    plain = recorded([[(kind, us) for kind, us, *_ in each] for each in by_rank], **columns)
    world = tuple(range(len(by_rank)))
    for rank, each in zip(plain.ranks, by_rank, strict=True):
        rank.rows["peer"] = -1
        for row, (_, _, *more) in zip(rank.rows, each, strict=False):
            for name, value in (more[0] if more else {}).items():
                row[name] = value
    return replace(plain, ranks=tuple(replace(rank, communicators={0: world}) for rank in plain.ranks))


def shown(program, part=-1):
    """Of each rank: microseconds, and for each message given or taken between whom, with its number."""
    names = {-1: None} | {number: tuple(row[:2]) for number, row in enumerate(program.channels.tolist())}
    return [
        [
            (
                round(step["busy_ns"] / 1e3),
                names[int(step["outgoing"])],
                names[int(step["incoming"])] and (*names[int(step["incoming"])], int(step["number"])),
            )
            for step in steps
        ]
        for steps in map(steps_of, program.parts[part].operations)
    ]


def first_steps(program):
    """The steps of each rank in the first part of a program."""
    return list(map(steps_of, program.parts[0].operations))


LARGE = {"bytes": DEFAULT.meets_from_bytes}
MEGABYTE = {"bytes": 1_000_000}
MESSAGES = {
    "receives belong to sends by tag and order and complete at their waits": (
        [("SEND", 10, {"peer": 1, "tag": 7}), ("SEND", 10, {"peer": 1, "tag": 5})],
        [
            ("IRECV", 1, {"peer": 0, "tag": 5, "request": 3}),
            *(("RECV", 4, {"peer": 0, "tag": 7}), ("WAIT", 2, {"request": 3, "peer": 0})),
        ],
        [(10, (0, 1), None), (10, (0, 1), None), (0, None, None)],
        [(5, None, (0, 1, 0)), (2, None, (0, 1, 1)), (0, None, None)],
    ),
    "a receive whose message came before the stretch does not wait for ever": (
        [(kind, 10, {"peer": 1}) for kind in ("RECV", "SEND", "RECV", "SEND")],
        [(kind, 20, {"peer": 0}) for kind in ("RECV", "SEND", "RECV")],
        [(20, (0, 1), None), (10, None, (1, 0, 0)), (10, (0, 1), None), (0, None, None)],
        [(20, None, (0, 1, 0)), (20, (1, 0), None), (20, None, (0, 1, 1)), (0, None, None)],
    ),
    "a receive from anyone is from whom its wait says": (
        [("SEND", 1, {"peer": 1, "tag": 9})],
        [("IRECV", 1, {"peer": -2, "tag": 255, "request": 1}), ("WAIT", 1, {"peer": 0, "request": 1})],
        [(1, (0, 1), None), (0, None, None)],
        [(2, None, (0, 1, 0)), (0, None, None)],
    ),
    "what has no counterpart is computing": (
        [("SEND", 5, {"peer": 1}), ("RECV", 5, {"peer": 1, "tag": 3}), ("SEND", 5, {"peer": 9})],
        [("COMPUTE", 1)],
        [(15, None, None)],
        [(1, None, None)],
    ),
    "the sender of a large message waits and the receiver says when it is ready": (
        [("SEND", 5, {"peer": 1, **LARGE})],
        [("IRECV", 1, {"peer": 0, "request": 1}), ("COMPUTE", 8)],
        [(5, (0, 1), (0, 1, 0)), (0, None, None)],
        [(1, (0, 1), None), (8, None, None)],
    ),
    "the receiver of a large message copies it after the wait, 1 ns for 4 bytes": (
        [("SEND", 5, {"peer": 1, **MEGABYTE})],
        [("RECV", 1, {"peer": 0, **MEGABYTE})],
        [(5, (0, 1), (0, 1, 0)), (0, None, None)],
        [(1, (0, 1), (0, 1, 0)), (250, None, None)],
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_messages_between_two_ranks(case):
    first, second, *wanted = MESSAGES[case]
    program = replayed(made([first, second]))
    assert shown(program) == wanted
    assert {meets for *_, meets in program.channels.tolist()} <= {int("large" in case)}


def test_two_large_sends_whose_receives_came_before_the_stretch_do_not_wait_for_each_other():
    ranks = [[(kind, 10, {"peer": peer, **LARGE}) for kind in ("SEND", "RECV")] for peer in (1, 0)]
    found = shown(replayed(made(ranks)))
    assert sum(step[2] is not None for steps in found for step in steps) == 2, "one message is left"


def test_large_messages_are_as_their_mpi_has_them():
    """The ranks of one host have found out what counts, also between and beyond the sizes that they tried."""
    copy_ns = tuple(size / 8 for size in COPIED_BYTES)
    for size, meets, copied_us in ((1000, False, 0), (80_000, True, 10), (4_000_000, True, 500)):
        message = {"bytes": size}
        plain = made([[("SEND", 5, message | {"peer": 1})], [("RECV", 1, message | {"peer": 0})]])
        ranks = [replace(rank, meets_from_bytes=4096, copy_ns=copy_ns) for rank in plain.ranks]
        program = replayed(replace(plain, ranks=tuple(ranks)))
        assert program.channels.tolist() == [[0, 1, meets]]
        assert [step[0] for step in shown(program)[1][1:]] == [copied_us]
        ranks[1] = replace(ranks[1], host="another")
        assert replayed(replace(plain, ranks=tuple(ranks))).channels.tolist() == [[0, 1, size >= 16_384]]


def test_the_wait_after_a_large_message_spins_longer_by_what_the_message_takes():
    """The limits are those of the library that waits (``workloads/native/wait.c``)."""
    text = (Path(native.__file__).parent / "wait.c").read_text()
    known = {name: int(value) for name, value in re.findall(r"#define (\w+_NS) (\d+)\b", text)}
    assert (known["BYTES_PER_NS"], known["CARRIED_NS"]) == (CARRIED_BYTES_PER_NS, MOST_CARRIED_NS)
    ours = [
        *(("ISEND", 5, {"peer": 1, "bytes": 400_000, "request": 1}), ("IRECV", 1, {"peer": 1, "request": 2})),
        *(("WAIT", 5, {"peer": 1, "request": 2, "within_ns": 9}), ("WAIT", 0, {"peer": 1, "request": 1})),
        *(("ALLREDUCE", 9, {"bytes": 8}), ("SEND", 1, {"peer": 1, "bytes": 8000})),
        ("ALLREDUCE", 9, {"bytes": 20_000_000}),
    ]
    theirs = [
        *(("RECV", 5, {"peer": 0, "bytes": 400_000}), ("SEND", 1, {"peer": 0}), ("ALLREDUCE", 9, {})),
        *(("RECV", 1, {"peer": 0}), ("ALLREDUCE", 9, {})),
    ]
    steps = first_steps(replayed(made([ours, theirs])))[0]
    assert steps["carries_us"][steps["incoming"] >= 0].tolist() == [100, 100, 0, 2000]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_all_hear_of_all_in_an_operation_of_all(ranks):
    program = replayed(made([3 * [("ALLREDUCE", 10)]] * ranks))
    heard = [{rank} for rank in range(ranks)]
    for steps in zip(*first_steps(program), strict=True):
        before = [set(one) for one in heard]
        for rank, step in enumerate(steps):
            if step["incoming"] >= 0:
                assert step["collective"]
                heard[rank] |= before[program.channels[step["incoming"]][0]]
    assert heard == [set(range(ranks))] * ranks
    rounds = (ranks - 1).bit_length()
    assert [len(steps) for steps in first_steps(program)] == [3 * rounds + 1] * ranks


def test_blocking_operations_of_all_gather_at_a_root_which_releases_all_if_the_mpi_does_so():
    plain = made([[("BARRIER", 10)]] * 4)
    rooted = replace(plain, ranks=tuple(replace(rank, rooted=True) for rank in plain.ranks))
    acts = [[step[1:] for step in steps[:-1]] for steps in shown(replayed(rooted))]
    assert acts[0] == [(None, (1, 0, 0)), (None, (2, 0, 0)), ((0, 2), None), ((0, 1), None)]
    assert acts[1] == [((1, 0), (0, 1, 0))]
    assert acts[2] == [(None, (3, 2, 0)), ((2, 0), (0, 2, 0)), ((2, 3), None)]
    others = [replayed(plain), replayed(rooted, blocking_calls=False)]
    apart = replace(rooted, ranks=(*rooted.ranks[:3], replace(rooted.ranks[3], host="another")))
    for program in (*others, replayed(apart)):
        assert [len(steps) for steps in first_steps(program)] == [3] * 4


def test_messages_go_from_a_root_along_a_tree_and_to_it_on_the_way_back():
    down = shown(replayed(made([[("BCAST", 10, {"peer": 1})]] * 4)))
    assert [step[1:] for step in down[1]] == [((1, 3), None), ((1, 2), None), (None, None)]
    assert [step[1:] for step in down[3]] == [(None, (1, 3, 0)), ((3, 0), None), (None, None)]
    up = shown(replayed(made([[("REDUCE", 10, {"peer": 1})]] * 4)))
    assert [step[2] for step in up[1]] == [(2, 1, 0), (3, 1, 0), None]


def test_a_nonblocking_operation_gives_at_its_begin_and_takes_at_its_wait():
    each = [("IALLREDUCE", 10, {"request": 1}), ("COMPUTE", 5), ("WAIT", 0, {"request": 1})]
    assert shown(replayed(made([each] * 2)))[0] == [(10, (0, 1), None), (5, None, (1, 0, 0)), (0, None, None)]


def test_calls_take_their_own_time_and_the_wait_comes_on_top():
    waits_ns = [1000.0] + 98 * [50_000.0] + [800.0]
    each = [
        [("BARRIER", 10, {"within_ns": waits_ns[(k + 50 * r) % 100]}) for k in range(100)] for r in (0, 1)
    ]
    found = first_steps(replayed(made(each)))[0]["busy_ns"]
    assert set(found[:-1]) == {60_000, 11_000, 10_800}  # 50 us are the tenth percentile of nearly all
    quick = [[("BARRIER", 10, {"within_ns": 500.0 + 1e5 * (k % 2 == r)}) for k in range(100)] for r in (0, 1)]
    assert set(first_steps(replayed(made(quick)))[0]["busy_ns"][:-1]) == {10_500}


def test_what_a_call_usually_takes_is_that_of_its_kind_and_size():
    """One call of eight bytes was disturbed; calls of another kind with four take as long as it did."""
    eight = [("ISEND", 0, {"peer": 1, "bytes": 8, "within_ns": time_ns}) for time_ns in (1000, 1000, 9000)]
    four = 5 * [("ISSEND", 0, {"peer": 1, "bytes": 4, "within_ns": 9000})]
    program = replayed(made([[*eight, *four], [("COMPUTE", 1)]]))
    assert first_steps(program)[0]["busy_ns"].sum() == 3 * 1000 + 5 * 9000


def test_what_is_kept_is_repeated_for_all_that_happened_and_start_up_comes_first():
    whole = made([100 * [("ALLREDUCE", 10)]] * 2, windows=4, kept=5)
    program = replayed(whole, start_up_s=0.5)
    assert [part.times for part in program.parts] == [1, *4 * [pytest.approx(5, abs=1)]]
    assert first_steps(program)[0]["busy_ns"] == 500_000_000
    assert [part.times for part in replayed(whole, max_s=1e-5).parts] == 4 * [1]


def test_steps_come_in_blocks_with_numbers_that_go_on():
    program = replayed(made([100 * [("ALLREDUCE", 10)]] * 2, windows=4, kept=5))
    blocks = list(program.blocks(0, 7, first=3))
    assert all(len(block[0]) <= 7 for block in blocks)
    operations = np.concatenate([block[0] for block in blocks])
    codes = operations["code"]
    assert np.count_nonzero((codes == COMPUTE) | (codes == SLEEPING)) == program.count(0)
    assert np.flatnonzero(codes == END).tolist() == [len(codes) - 1]
    assert operations["value"][codes == RECEIVE].tolist() == list(range(np.count_nonzero(codes == RECEIVE)))
    assert set(operations["peer"][(codes == SEND) | (codes == RECEIVE)]) == {3, 4}


EXPERIMENT = """
[[jobs]]
command = ["{{launcher}}", "-n", "2", "true"]
recording = "{file}"
[[schedulers]]
policy = "none"
"""


def test_a_command_is_simulated_by_the_file_that_it_names(tmp_path):
    path = tmp_path / "some.npz"
    recording.write(made([3 * [("ALLREDUCE", 10)]] * 2), path)
    (tmp_path / "a.toml").write_text(EXPERIMENT.format(file=path))
    wanted = load(str(tmp_path / "a.toml"))
    known = recorded_programs.of(wanted, (), Path())
    (job,) = wanted.cells[0].jobs()
    found = simulated_job(job, known)
    assert found.replay is known.replayed(job.program)
    assert found.replay.as_mpi and found.program.processes == 2


def test_the_waiting_rule_says_whether_collective_operations_are_blocking_calls(tmp_path):
    path = tmp_path / "some.npz"
    plain = made([3 * [("ALLREDUCE", 10)]] * 2)
    for rooted in (True, False):
        ranks = tuple(replace(rank, rooted=rooted) for rank in plain.ranks)
        recording.write(replace(plain, ranks=ranks), path)
        assert [rank.rooted for rank in recording.read(path).ranks] == [rooted] * 2
        text = EXPERIMENT.format(file=path).replace("[[sched", 'waits = "two-phase"\n[[sched', 1)
        text += '[[schedulers]]\npolicy = "implicit"\nwaiting = "immediate"\n'
        (tmp_path / "a.toml").write_text(text)
        wanted = load(str(tmp_path / "a.toml"))
        known = recorded_programs.of(wanted, (), Path())
        back_end = Simulated(partial(Host.of_calibration, None), recorded=known)
        tasks = plan(wanted, wanted.cells)
        guesses = {task.scheduler.options.waiting: back_end.guess_s(task) for task in tasks}
        assert (guesses["spin"] > guesses["immediate"]) == rooted  # a root has a step more


def test_what_a_dedicated_run_takes_beside_the_recording_is_slept_but_for_its_processor_time(tmp_path):
    path = tmp_path / "some.npz"
    command = Command(("true",), 2)
    recording.write(made([3 * [("ALLREDUCE", 10)]] * 2), path)
    elapsed_s = recording.read(path).elapsed_ns / 1e9
    plain = RecordedPrograms({command: path}).replayed(command)
    for after_s, beyond_s, *expected_s in (
        (0.0, None, 0.3, 0.0),
        (0.1, None, 0.2, 0.1),
        (0.7, None, 0.0, 0.3),
        (0.1, 0.15, 0.25, 0.1),
        (0.1, 0.6, 0.0, 0.0),
    ):
        alone = DedicatedTime(elapsed_s + 0.5, elapsed_s + 0.2, after_s, beyond_s)
        started = RecordedPrograms({command: path}, {command: alone}).replayed(command)
        first, last = (steps_of(started.parts[end].operations[0])[0] for end in (0, -1))
        asleep_s = [one["sleeps"] * one["busy_ns"] / 1e9 for one in (first, last)]
        assert asleep_s == pytest.approx(expected_s)
        expected_ns = 1e9 * min(0.5, 0.2 if beyond_s is None else beyond_s)
        assert started.busy_ns(0) - plain.busy_ns(0) == pytest.approx(expected_ns)


def test_what_a_killed_rank_did_not_record_of_its_program_is_computed_before(tmp_path):
    command = Command(("mpiexec", "./app"), 2, record=True)
    path = tmp_path / "short.npz"
    whole = made([3 * [("ALLREDUCE", 10)]] * 2)
    recording.write(replace(whole, ranks=tuple(replace(rank, complete=False) for rank in whole.ranks)), path)
    elapsed_s = recording.read(path).elapsed_ns / 1e9
    alone = DedicatedTime(elapsed_s + 0.5, elapsed_s + 0.2, 0.0, 0.1)
    started = RecordedPrograms({command: path}, {command: alone}).replayed(command)
    plain = RecordedPrograms({command: path}).replayed(command)
    assert started.busy_ns(0) - plain.busy_ns(0) == pytest.approx(0.3e9)


def test_a_recording_says_itself_what_its_run_took_beside_it(tmp_path):
    """A program that is shortened begins and ends in a shorter time, too."""
    command = Command(("mpiexec", "./app"), 2, record=True)
    path = tmp_path / "app.npz"
    whole = made([3 * [("ALLREDUCE", 10)]] * 2)
    times = {"init_ns": 300_000_000, "init_cpu_ns": 10**7, "finalize_ns": 10**8, "finalize_cpu_ns": 2 * 10**7}
    recording.write(replace(whole, ranks=tuple(replace(rank, **times) for rank in whole.ranks)), path)
    started = RecordedPrograms({command: path}).replayed(command)
    assert outside(started) == [(1, 270.0, 1), (0, 30.0, 1), (1, 100.0, 1)]
    shorter = replayed(whole, start_up_s=0.03, asleep_s=(0.27, 0.1), max_s=whole_s(whole) / 10)
    assert [one[1] for one in outside(shorter)] == pytest.approx([27, 3, 10], rel=0.01)


def test_a_start_is_cut_where_ranks_slept_and_takes_a_slot_for_each_part(tmp_path):
    """Under a gang a job that sleeps now and then in its start gets on in its own slots only."""
    whole = made([3 * [("ALLREDUCE", 10)]] * 2)
    ranks = [replace(rank, init_switches=count) for rank, count in zip(whole.ranks, (1400, 5), strict=True)]
    recording.write(replace(whole, ranks=tuple(ranks)), tmp_path / "kept.npz")
    kept = recording.read(tmp_path / "kept.npz")
    assert [rank.init_switches for rank in kept.ranks] == [1400, 5]
    programs = [replayed(one, start_up_s=0.1, asleep_s=(0.2, 0.0)) for one in (whole, kept)]
    assert [outside(one)[:2] for one in programs] == [
        [(1, 200.0, 1), (0, 100.0, 1)],
        [(1, 25.0, 8), (0, 12.5, 8)],
    ]
    machine = SimulatedMachine(2, 0.0, latency_us=0.0, local="eevdf", messages_to_self=False)
    gang = policies.create("gang", {"quantum_ms": 50})
    ends_s = [
        simulate([replaying(number, one) for number in range(2)], machine, gang).end_ns / 1e9
        for one in programs
    ]
    assert ends_s[0] == pytest.approx(0.4, abs=0.01) and 0.5 < ends_s[1] < 0.65


def outside(program):
    """Of the steps before and after what is recorded: whether a rank sleeps, milliseconds, how many times."""
    parts = [part for part in program.parts if not part.messages.any()]
    steps = [(part, one) for part in parts for one in steps_of(part.operations[0])]
    return [(int(one["sleeps"]), float(one["busy_ns"]) / 1e6, part.times) for part, one in steps]


def whole_s(recording):
    """What the kept operations of a recording take, the mean of its ranks."""
    rows = [rank.rows for rank in recording.ranks]
    return float(np.mean([one["compute_ns"].sum() + one["within_ns"].sum() for one in rows])) / 1e9


def test_processor_time_beside_the_recording_is_what_was_seen_of_ranks_until_their_ends():
    """Of a rank that was last seen before its end, less is known than between MPI_Init and MPI_Finalize."""
    job = SimpleNamespace(arrival_ns=0, finish_ns=2 * 10**9)

    def alone(*ranks):
        return DedicatedTime.of(SimpleNamespace(jobs=[job], ranks=ranks, conditions=Conditions()))

    unknown = rank_result()
    seen = rank_result(cpu_ns=10**9, running_ns=1_070_000_000)
    early = rank_result(cpu_ns=10**9, running_ns=7 * 10**8)
    assert alone(seen, early) == (2.0, 1.0, None, pytest.approx(0.07))
    assert alone(early, early).outside_s is alone(unknown, unknown).outside_s is None
    assert alone(rank_result(running_ns=1_750_000_000)).busy_s == 1.75, (
        "ranks that wait as their MPI leave no other time"
    )
    assert alone(seen, unknown).busy_s == 2.0
    assert DedicatedTime.median([alone(early), alone(seen), alone(seen)]).outside_s == pytest.approx(0.07)


def test_a_file_that_cannot_be_replayed_is_refused_before_anything_runs(tmp_path, capsys):
    (tmp_path / "junk.npz").write_text("junk")
    recording.write(made([3 * [("ALLREDUCE", 10)]] * 3), tmp_path / "three.npz")
    for name, rule in (
        ("none.npz", "no such file"),
        ("junk.npz", "no recording"),
        ("three.npz", "must have 2 ranks, as the command, and has 3"),
    ):
        (tmp_path / "a.toml").write_text(EXPERIMENT.format(file=tmp_path / name))
        for command in ("run", "simulate"):
            given = [command, str(tmp_path / "a.toml"), "--results", str(tmp_path / "r")]
            assert cli.main(given) == 2
            assert rule in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_a_command_without_a_recording_is_refused_with_the_way_out():
    with pytest.raises(InputError, match="lockstep record"):
        simulated_job(ParallelJob(0, Command(("true",), 2)))


def test_of_a_long_program_only_what_was_kept_is_held():
    hours = made([100 * [("ALLREDUCE", 10)]] * 2, windows=4, kept=5)
    for rank in hours.ranks:
        rank.windows["operations"] = 10_000_000
    program = replayed(hours)
    assert program.count(0) > 30_000_000
    assert sum(each.nbytes for part in program.parts for each in part.operations) < 10_000
    blocks = program.blocks(0, 1000, first=0)
    operations = np.concatenate([next(blocks)[0] for _ in range(20)])
    numbers = operations["value"][operations["code"] == RECEIVE]
    assert numbers.tolist() == list(range(len(numbers)))
