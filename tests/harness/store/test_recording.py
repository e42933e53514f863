"""Recordings: known programs leave what they did, to the byte; files are whole and bounded."""

import json
import os
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from made_recordings import rank_file
from native_programs import launcher, run, wrapper
from step_lists import steps_of

from coordinator.host.launcher_choice import launcher_at
from harness.predict.recorded_steps import replayed
from harness.store import recording
from harness.store.recording import (
    COPIED_BYTES,
    KIND,
    OPERATION,
    SLOTS,
    WINDOW,
    RankRecording,
    Recording,
    RecordingError,
)
from workloads import native
from workloads.native.recorded import KINDS
from workloads.waiting_rules import waiting_rule

NOBODY = recording.NOBODY
ANYONE = recording.ANYONE


def expected(rank):
    """Kind, bytes, peer, tag class and communicator of each operation of tests/support/native/operations.c.

    A WAIT of one byte is one for which it polls.
    """
    other = 1 - rank
    world = 0
    first = {
        0: [("SEND", 100, 1, 7), ("RECV", 1600, 1, 8)],
        1: [("PROBE", 0, 0, 7), ("RECV", 100, 0, 7), ("SSEND", 16, 0, 8)],
    }[rank]
    started = [("ISEND", 16, other, 1), ("IRECV", 16, other, 1), ("WAIT", 0, other, 1), ("WAIT", 0, other, 1)]
    exchange = [
        (kind, {"IRECV": 9, "ISEND": 8, "WAIT": 0}[kind], 2) for kind in ("IRECV", "ISEND", *2 * ["WAIT"])
    ]
    messages = [
        *first,
        *(("IRECV", 40, ANYONE, 255), ("ISEND", 24, other, 300 % 255)),
        *(("WAIT", 0, other, 300 % 255), ("WAIT", 0, other, 300 % 255)),
        *(2 * started),
        *((kind, bytes_, peer, tag) for peer in (other, NOBODY) for kind, bytes_, tag in exchange),
        *(("ISEND", 5, other, 3), ("WAIT", 0, other, 3), ("RECV", 5, other, 3)),
        *(("IRECV", 6, other, 4), ("SEND", 6, other, 4), ("WAIT", 1, other, 4)),
        *(("ISEND", 12, other, 5), ("PROBE", 0, other, 5), ("RECV", 12, other, 5), ("WAIT", 1, other, 5)),
    ]
    copy = 2
    half = 3
    collectives = [
        ("COMMUNICATOR", 0, NOBODY, world),
        ("ALLREDUCE", 32, NOBODY, copy),
        *(("COMMUNICATOR", 0, NOBODY, copy), ("BARRIER", 0, NOBODY, half), ("OTHER", 0, NOBODY, 65535)),
        *(("BCAST", 50, 1, copy), ("OTHER", 0, NOBODY, 65535)),
        *(("ALLTOALL", 6, NOBODY, world), ("ALLTOALLV", 16, NOBODY, world), ("ALLGATHERV", 2, NOBODY, world)),
        *(("SCATTER", 7, 0, world), ("REDUCE_SCATTER_BLOCK", 8, NOBODY, world)),
        *(("IBARRIER", 0, NOBODY, world), ("WAIT", 0, NOBODY, world), ("REDUCE", 4, 0, world)),
    ]
    return [(*message, world) for message in messages] + [(k, b, p, 0, comm) for k, b, p, comm in collectives]


def shown(rank):
    operations = recording.operations(rank.rows)
    names = [KINDS[kind] for kind in operations["kind"]]
    return list(
        zip(names, *(operations[name].tolist() for name in ("bytes", "peer", "tag", "comm")), strict=True)
    )


def variables(folder, mpi="here", rule="spin"):
    """What to set so that ranks leave recordings in a directory."""
    library = native.library(wrapper(mpi))
    return library.environment(waiting_rule(rule, context_switch_us=10, latency_us=2), folder)


def recorded(argv, folder, mpi="here", *, rule="spin", max_bytes=150_000_000):
    """Run a command with the library; ``max_bytes``: that the operations of all ranks may take."""
    folder.mkdir()
    extra = variables(folder, mpi, rule) | {"LOCKSTEP_OPERATIONS_BYTES": str(max_bytes)}
    return run(argv, extra=extra), recording.gather(folder, argv)


@pytest.mark.parametrize("mpi, rule", [("here", "spin"), ("here", "immediate"), ("openmpi", "spin")])
def test_known_operations_and_bytes_come_out_exactly(compiled, tmp_path, mpi, rule):
    argv = [*launcher(mpi), "-n", "2", compiled(mpi, "operations.c")]
    done, (program,) = recorded(argv, tmp_path / "files", mpi, rule=rule)
    assert (done.returncode, done.stdout) == (0, "sum 1\n"), done.stderr
    assert [rank.complete for rank in program.ranks] == [True, True]
    assert {rank.rooted for rank in program.ranks} == {launcher_at(argv[0]).kind == "mpich"}
    for rank in program.ranks:
        assert shown(rank) == [*expected(rank.rank), ("COMPUTE", 0, NOBODY, 0, 65535)]
        assert rank.windows["operations"].sum() == len(rank.rows)
        assert rank.communicators[0] == rank.communicators[2] == (0, 1)
        assert rank.communicators[3] == (rank.rank,)
        columns = recording.operations(rank.rows)
        started = np.isin(columns["kind"], [KIND["ISEND"], KIND["IRECV"], KIND["IBARRIER"]])
        waits = columns["kind"] == KIND["WAIT"]
        assert sorted(columns["request"][started]) == sorted(columns["request"][waits])
        assert 0 not in columns["request"][waits] and not columns["request"][~(started | waits)].any()
        # A millisecond of computing lies between the receive and the send that it names.
        (place,) = np.flatnonzero((columns["kind"] == KIND["SEND"]) & (columns["bytes"] == 6))
        assert 1e6 <= columns["compute_ns"][place] < 1.2e6


@pytest.mark.parametrize(
    "mpi, meets_from_bytes", [("here", {4096, 8192, 16384, 32768, 65536}), ("openmpi", {4096})]
)
def test_a_program_s_own_mpi_says_what_large_messages_cost(compiled, tmp_path, mpi, meets_from_bytes):
    """Several times at most: other programs may keep the two ranks from running at the same time."""
    argv = [*launcher(mpi), "-n", "2", compiled(mpi, "operations.c")]
    for time in range(6):
        done, (program,) = recorded(argv, tmp_path / f"files-{time}", mpi)
        assert done.returncode == 0, done.stderr
        known = {(rank.meets_from_bytes, rank.copy_ns) for rank in program.ranks}
        assert len(known) == 1, "all ranks of a node know the same"
        ((meets, copy_ns),) = known
        if copy_ns:
            break
    assert meets in meets_from_bytes and program.lacks == ""
    assert len(copy_ns) == len(COPIED_BYTES) and copy_ns[-1] > 10 * copy_ns[0] > 0
    recording.write(program, tmp_path / "kept.npz")
    kept = recording.read(tmp_path / "kept.npz").ranks[1]
    assert kept.copy_ns == copy_ns
    # MPICH gives the processor away between the polls of a wait, Open MPI does not.
    assert (100 < kept.yield_interval_ns < 100_000) if mpi == "here" else kept.yield_interval_ns == 0
    assert 0 < kept.init_cpu_ns < 2e9 and 1e6 < kept.init_ns < 20e9 and 0 < kept.init_switches < 10_000
    assert 0 < kept.finalize_cpu_ns < 2e9 and 1e4 < kept.finalize_ns < 20e9


@pytest.mark.parametrize("mpi", ["here", "openmpi"])
def test_a_busy_host_makes_it_take_longer_but_not_find_less(compiled, tmp_path, mpi):
    """Others want each processor that the two ranks may use."""
    argv = [*launcher(mpi), "-n", "2", compiled(mpi, "operations.c")]
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        done, (program,) = recorded(argv, tmp_path / "files", mpi)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert done.returncode == 0, done.stderr
    rank = program.ranks[0]
    assert rank.meets_from_bytes in {
        0,
        4096,
        8192,
        16384,
        32768,
        65536,
    }  # at worst unknown, never a wrong one
    assert rank.yield_interval_ns is not None
    assert (rank.yield_interval_ns > 0) == (mpi == "here")


def test_a_recording_says_what_it_lacks_and_which_rows_that_concerns():
    known = {"meets_from_bytes": 8192, "copy_ns": (1.0,) * len(COPIED_BYTES), "yield_interval_ns": 0.0}
    rows = np.zeros(1, OPERATION)
    rows["kind"], rows["bytes"] = KIND["ISEND"], 4096

    def lacks(*names, hosts=("host", "host"), **changed):
        of_rank = (
            {"rows": rows} | {name: value for name, value in known.items() if name not in names} | changed
        )
        ranks = [replace(rank, host=host, **of_rank) for rank, host in zip(made().ranks, hosts, strict=False)]
        return replace(made(), ranks=tuple(ranks)).lacks

    assert lacks() == ""
    assert "gives its processor away (rows of none that spin): they" in lacks("yield_interval_ns")
    assert "not say what messages from 4 KiB on take (all rows): they" in lacks("copy_ns", "meets_from_bytes")
    both = lacks("copy_ns", "yield_interval_ns")
    assert "(rows of none that spin) and what" in both and "(all rows)" in both and "\n" not in both
    assert lacks("copy_ns", rows=rows[:0]) == "", "no message of the program is large"
    assert lacks("copy_ns", "yield_interval_ns", hosts=("host", "another")) == "", "there it is not asked for"
    assert lacks("copy_ns", "yield_interval_ns", hosts=("host",)) == "", "one rank sends to none"


def rewritten(folder, change):
    """A recording to whose description of each rank something was done."""
    recording.write(made(), folder / "new.npz")
    with np.load(folder / "new.npz") as held:
        columns = dict(held)
    about = json.loads(bytes(columns["about"]))
    for rank in about["ranks"]:
        change(rank)
    columns["about"] = np.frombuffer(json.dumps(about).encode(), "u1")
    np.savez(folder / "changed.npz", **columns)
    return folder / "changed.npz"


def test_a_recording_without_a_field_of_its_ranks_is_refused(tmp_path):
    for name in ("rooted", "meets_from_bytes", "copy_ns", "yield_interval_ns"):
        lacking = rewritten(tmp_path, lambda rank, name=name: rank.pop(name))
        with pytest.raises(RecordingError, match="no recording"):
            recording.read(lacking)


@pytest.mark.parametrize("value", [-1, 10**30, "many", None, [1], True, 0.5])
def test_absurd_numbers_of_a_program_s_mpi_are_unknown(tmp_path, value):
    absurd = dict.fromkeys(("meets_from_bytes", "yield_interval_ns", *recording.OUTSIDE), value)
    absurd["copy_ns"] = [value] * 9
    odd = rewritten(tmp_path, lambda rank: rank.update(absurd))
    try:
        rank = recording.read(odd).ranks[0]
    except RecordingError:
        return
    assert (rank.meets_from_bytes, rank.init_ns, rank.finalize_cpu_ns) == (0, 0, 0)
    assert rank.yield_interval_ns in (None, value)


def test_it_is_known_for_what_a_program_polls(compiled, tmp_path):
    argv = [*launcher("here"), "-n", "2", compiled("here", "poll.c"), "20", "0"]
    _, (program,) = recorded(argv, tmp_path / "files")
    columns = [recording.operations(rank.rows) for rank in program.ranks]
    assert [np.count_nonzero(recording.polled(each)) for each in columns] == [20, 20]
    steps = list(map(steps_of, replayed(program).parts[0].operations))
    assert [each["polls"].sum() for each in steps] == [20, 20]
    assert all(each["incoming"][each["polls"] > 0].min() >= 0 for each in steps)


def test_a_file_that_the_program_has_in_the_place_of_the_recorder_s_is_left_alone(compiled, tmp_path):
    argv = [*launcher("here"), "-n", "2", compiled("here", "operations.c"), "take", str(tmp_path / "own")]
    done, (program,) = recorded(argv, tmp_path / "files")
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"own-{rank}").read_text() for rank in (0, 1)] == ["mine alone"] * 2
    assert [(rank.complete, rank.full) for rank in program.ranks] == [(True, True)] * 2
    assert "cannot record any more operations" in done.stderr


@pytest.mark.parametrize("mode", ["abort", "kill", "exit", "exec", "many"])
def test_however_a_program_ends_its_operations_are_there(compiled, tmp_path, mode):
    start = launcher("here")
    if mode in ("exit", "exec") and launcher_at(start[0]).kind == "mpich":
        # Otherwise it kills the other rank when one ends without MPI_Finalize, and yet exits with 0.
        start = [*start, "-disable-auto-cleanup"]
    argv = [*start, "-n", "2", compiled("here", "operations.c"), mode]
    done, (program,) = recorded(argv, tmp_path / "files")
    if mode not in ("exit", "exec"):  # other launchers end the other rank then, too
        assert (done.returncode == 0) == (mode == "many"), done.stderr
    for rank in program.ranks:
        there = [one[:4] for one in shown(rank) if one[0] != "COMPUTE"]
        wanted = [one[:4] for one in expected(rank.rank)]
        if mode == "many":
            assert (rank.complete, len(there)) == (True, 20 + len(wanted))
            assert len(rank.communicators) == 4, "a freed communicator's number is used again"
            there = there[20:]
        elif done.returncode and (mode != "kill" or rank.rank == 0):  # another has ended this rank
            wanted = wanted[: len(there)]
        assert there == wanted
        assert rank.complete == (mode == "many") or mode == "kill"


@pytest.mark.parametrize("mpi, ranks, rule", [("here", 3, "immediate"), ("openmpi", 3, "spin")])
def test_rare_and_wrong_uses_give_what_they_give_without(compiled, tmp_path, mpi, ranks, rule):
    argv = [*launcher(mpi), "-n", str(ranks), compiled(mpi, "rare.c")]
    plain = run(argv)
    ours, (program,) = recorded(argv, tmp_path / "files", mpi, rule=rule)
    assert (plain.returncode, ours.returncode) == (0, 0), ours.stderr
    assert ours.stdout.splitlines() == plain.stdout.splitlines()
    assert [rank.complete for rank in program.ranks] == [True] * ranks


def test_threads_are_counted_and_none_of_their_operations_is_lost(compiled, tmp_path):
    argv = [*launcher("here"), "-n", "2", compiled("here", "operations.c", "-pthread"), "threads"]
    done, (program,) = recorded(argv, tmp_path / "files")
    assert done.returncode == 0, done.stderr
    for rank in program.ranks:
        assert rank.threads == 3
        assert np.count_nonzero(rank.rows["kind"] == KIND["ALLREDUCE"]) == 1 + 2 * 100


def test_where_nothing_can_be_written_the_program_goes_on(compiled, tmp_path):
    argv = [*launcher("here"), "-n", "2", compiled("here", "operations.c")]
    (tmp_path / "file").touch()
    result = run(argv, extra=variables(tmp_path / "file" / "below"))
    assert (result.returncode, result.stdout) == (0, "sum 1\n")
    assert "cannot record the operations of a rank" in result.stderr


def test_a_long_program_keeps_evenly_spread_windows(compiled, tmp_path):
    argv = [*launcher("here"), "-n", "2", compiled("here", "operations.c"), "loop", "1500", "800"]
    most_kept = 64
    done, (program,) = recorded(argv, tmp_path / "files", max_bytes=2 * SLOTS * 24 * most_kept)
    assert done.returncode == 0, done.stderr
    for rank in program.ranks:
        assert rank.windows["operations"].sum() == 1501
        assert SLOTS // 2 <= len(rank.windows) <= SLOTS
        assert rank.windows["kept"].max() == most_kept
        assert set(np.diff(rank.windows["begin_ns"])) == {rank.slot_ns} and rank.slot_ns >= 2 * 62_500_000
        # The first operation of a window follows those that were before it.
        assert rank.windows["collectives"][1:].tolist() == rank.windows["operations"].cumsum()[:-1].tolist()
    assert len({rank.slot_ns for rank in program.ranks}) == 1


def made(ranks=2, kept=5):
    """A recording that nobody has made."""
    rows = np.zeros(kept, OPERATION)
    rows["kind"], rows["compute_ns"] = KIND["ALLREDUCE"], np.arange(kept)
    windows = np.zeros(1, WINDOW)
    windows["operations"] = windows["kept"] = kept
    one = RankRecording(0, "host", 10, 20, True, False, 1, 100, windows, rows, {0: tuple(range(ranks))})
    return Recording(("mpiexec", "a b"), ranks, tuple(replace(one, rank=rank) for rank in range(ranks)))


def test_a_recording_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "with space" / "a.npz"
    recording.write(made(), path)
    content = recording.read(path)
    assert (content.command, content.processes, content.elapsed_ns) == (("mpiexec", "a b"), 2, 10)
    for rank, wanted in zip(content.ranks, made().ranks, strict=True):
        assert np.array_equal(rank.rows, wanted.rows) and np.array_equal(rank.windows, wanted.windows)
        assert rank.communicators == wanted.communicators
    assert [file.name for file in path.parent.iterdir()] == ["a.npz"]


def test_a_rank_that_ended_as_it_began_is_read(tmp_path):
    """So it is with one that was killed before its first operation."""
    program = made()
    ranks = (program.ranks[0], replace(program.ranks[1], finish_ns=program.ranks[1].start_ns))
    recording.write(replace(program, ranks=ranks), tmp_path / "a.npz")
    assert recording.read(tmp_path / "a.npz").ranks[1].elapsed_ns == 0


def test_more_than_four_gigabytes_come_out_exactly():
    rows = np.zeros(3, OPERATION)
    rows["kind"] = [KIND["SEND"], KIND["MORE"], KIND["SEND"]]
    rows["bytes"] = [7, 3, 5]
    assert recording.operations(rows)["bytes"].tolist() == [7, 3 * 2**32 + 5]
    assert OPERATION.itemsize == 24


def test_every_damaged_recording_is_refused_by_its_name(tmp_path):
    path = tmp_path / "a.npz"
    recording.write(made(), path)
    whole = path.read_bytes()
    for number, damaged in enumerate([b"", b"garbage", whole[:100], whole[: len(whole) // 2], whole[:-10]]):
        path = tmp_path / f"damaged-{number}.npz"
        path.write_bytes(damaged)
        with pytest.raises(RecordingError, match=rf"damaged-{number}\.npz: "):
            recording.read(path)
    with pytest.raises(RecordingError, match=r"missing\.npz: cannot be read: no such file"):
        recording.read(tmp_path / "missing.npz")
    (tmp_path / "array.npz").write_bytes(b"")
    np.savez(tmp_path / "array.npz", about=np.zeros(3))
    with pytest.raises(RecordingError, match=r"array\.npz: no recording"):
        recording.read(tmp_path / "array.npz")


@pytest.mark.parametrize(
    "header, slots_ns",
    [
        ({"magic": b"", "slot_ns": 0, "slots": 0}, [62_500_000]),  # killed while it began
        ({"slot_ns": 0, "rank": 1}, [62_500_000, 0]),  # keeps nobody busy for ever
    ],
)
def test_a_rank_without_windows_is_in_no_recording_or_has_none(tmp_path, header, slots_ns):
    (tmp_path / "rank-0-1.operations").write_bytes(rank_file())
    (tmp_path / "rank-1-2.operations").write_bytes(rank_file(**header))
    (found,) = recording.gather(tmp_path, ["true"])
    assert [rank.slot_ns for rank in found.ranks] == slots_ns


def windows_with(kept):
    windows = np.zeros(SLOTS, WINDOW)
    windows["kept"][0] = kept
    return windows


@pytest.mark.parametrize(
    "content",
    [
        *(b"LOCKSTEP", b"x" * 2000, b"LOCKSTEP" + b"\1" * 5000),
        *(
            rank_file(**fields)
            for fields in ({"slots": 0}, {"slots": -1}, {"most_kept": -1}, {"most_kept": 2**31 - 1})
        ),
        *(rank_file(**fields) for fields in ({"members_bytes": -4}, {"members_bytes": 2**62})),
        *(rank_file(windows=windows_with(kept)) for kept in (-1, 65, 2**62)),
    ],
    ids=range(12),
)
def test_a_damaged_file_of_a_rank_is_refused_by_its_name(tmp_path, content):
    (tmp_path / "rank-0-1.operations").write_bytes(content)
    with pytest.raises(RecordingError, match=r"rank-0-1\.operations: "):
        recording.gather(tmp_path, ["true"])


def test_operations_of_unknown_kinds_are_refused(tmp_path):
    made_up = made()
    rows = made_up.ranks[0].rows.copy()
    rows["kind"] = len(KINDS)
    recording.write(replace(made_up, ranks=(replace(made_up.ranks[0], rows=rows),)), tmp_path / "a.npz")
    with pytest.raises(RecordingError, match=r"a\.npz: a file of another kind"):
        recording.read(tmp_path / "a.npz")


def kept_with(folder, change):
    """The file of a recording whose columns and description were changed."""
    recording.write(made(), folder / "new.npz")
    with np.load(folder / "new.npz") as held:
        columns = dict(held)
    about = json.loads(bytes(columns.pop("about")))
    change(columns, about)
    text = np.frombuffer(json.dumps(about).encode(), "u1")
    np.savez(folder / "changed.npz", about=text, **columns)
    return folder / "changed.npz"


TIMES = ("compute_ns", "within_ns", *(f"window_{name}" for name in WINDOW.names if name.endswith("_ns")))
FLOATS = [name for name in TIMES if "begin" not in name and "end" not in name]
IMPOSSIBLE = [
    *((name, value) for name in FLOATS for value in (np.nan, np.inf, -np.inf, -1e30, 1e30)),
    *(("peer", value) for value in (2, 2**31 - 1, -3, -(2**31))),
    *((f"window_{name}", -1) for name in ("begin_ns", "kept_end_ns", "operations", "kept", "collectives")),
    *(("window_kept", value) for value in (0, 4, 6)),
    ("window_operations", 4),
]


@pytest.mark.parametrize("name, value", IMPOSSIBLE)
def test_figures_that_no_program_can_have_had_are_refused_by_name(tmp_path, name, value):
    def change(columns, about):
        columns[name][-1] = value

    with pytest.raises(
        RecordingError, match=r"changed\.npz: entry 1 of ranks: .*record the program again"
    ) as error:
        recording.read(kept_with(tmp_path, change))
    assert name.removeprefix("window_") in str(error.value) or "its windows keep" in str(error.value)


@pytest.mark.parametrize(
    "odd", [{"processes": 0}, {"processes": 10**30}, {"processes": None}, {"command": [1]}, {"ranks": []}]
)
def test_descriptions_that_no_program_can_have_had_are_refused(tmp_path, odd):
    with pytest.raises(RecordingError, match=r"changed\.npz: no recording"):
        recording.read(kept_with(tmp_path, lambda columns, about: about.update(odd)))


def test_another_version_is_shown_in_a_short_line(tmp_path):
    changed = kept_with(tmp_path, lambda columns, about: about.update(version="\n" * 1000))
    with pytest.raises(
        RecordingError, match=r"changed\.npz: has version .*, and must have 1; name a file"
    ) as error:
        recording.read(changed)
    assert len(str(error.value)) < 1000


WHOLE = ("rank", "start_ns", "finish_ns", "threads", "slot_ns")
NEVER = [
    *((name, value) for name in WHOLE for value in (None, -1, 10**30, np.nan, 0.5, "x", [], True)),
    *(("rank", 0), ("rank", 2), ("finish_ns", 9), ("host", 1), ("host", [])),
    *(("communicators", value) for value in (None, [[]], [[0, 2]], [[0, "x"]], [[-1, 0]], [[0, -2]])),
]


@pytest.mark.parametrize("name, value", NEVER)
def test_descriptions_of_a_rank_that_cannot_be_are_refused(tmp_path, name, value):
    changed = kept_with(tmp_path, lambda columns, about: about["ranks"][1].update({name: value}))
    with pytest.raises(RecordingError, match=r"changed\.npz: "):
        recording.read(changed)


@pytest.mark.slow
@pytest.mark.parametrize("compressed", [True, False])
def test_whatever_bytes_of_a_recording_change_it_is_read_or_refused(tmp_path, compressed):
    path = tmp_path / "new.npz"
    recording.write(made(), path)
    if not compressed:
        path = kept_with(tmp_path, lambda columns, about: None)
    whole = path.read_bytes()
    ends = set()
    for seed in range(150):
        chance = random.Random(seed)
        copy = bytearray(whole)
        for _ in range(chance.choice([1, 1, 2, 10])):
            copy[chance.randrange(len(copy))] = chance.randrange(256)
        path.write_bytes(copy)
        try:
            replayed(recording.read(path))
            ends.add("read")
        except RecordingError as error:
            assert str(path) in str(error)
            ends.add("refused")
    assert ends == {"read", "refused"}


def test_an_interrupt_leaves_no_part_of_a_recording(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recording.write(made(), tmp_path / "a.npz")
    assert not list(tmp_path.iterdir())


def test_ranks_that_ended_early_get_windows_as_long_as_the_others():
    windows = np.zeros(3, WINDOW)
    windows["begin_ns"], windows["operations"], windows["kept"] = [0, 100, 200], [2, 3, 1], [2, 2, 1]
    rows = np.zeros(5, OPERATION)
    rows["bytes"] = range(5)
    short = RankRecording(0, "host", 0, 250, False, False, 1, 100, windows, rows, {})
    long = RankRecording(1, "host", 0, 900, True, False, 1, 400, windows[:2].copy(), rows[:4], {})
    (first, second) = recording.windows_alike([short, long])
    assert first.slot_ns == second.slot_ns == 400
    # Of the second window an operation is missing, so what comes after it does not follow.
    assert first.rows["bytes"].tolist() == [0, 1, 2, 3]
    assert (first.windows["operations"].tolist(), first.windows["kept"].tolist()) == ([6], [4])
