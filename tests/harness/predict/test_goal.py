"""Schedules in GOAL: read as programs, written of them, and refused where they are none or never end."""

import json
import random
import re
from functools import partial
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_recordings import recorded

from coordinator import policies
from harness import cli
from harness.analyse import advise
from harness.predict import goal, goal_text
from harness.predict.recorded_programs import program_in
from harness.predict.recorded_steps import replayed
from harness.simulator.processes.machine import SimulatedMachine, replaying
from harness.simulator.processes.model import COMPUTE, RECEIVE
from harness.simulator.processes.simulate import simulate
from harness.store import recording
from harness.store.recording import RecordingError

LARGE = goal.MEETS_FROM_BYTES


def read(tmp_path, text):
    path = tmp_path / "app.goal"
    path.write_text(text)
    return goal.read(path)


def tree(ranks):
    """A broadcast along a binomial tree, as LogGOPSim's ``schedgen`` writes it."""
    lines = [f"num_ranks {ranks}"]
    for rank in range(ranks):
        low = 1 << rank.bit_length()
        children = [rank + distance for distance in (low << k for k in range(8)) if rank + distance < ranks]
        children = [1 << k for k in range(8) if 1 << k < ranks] if rank == 0 else children
        serial = count(1)
        lines += ["", f"rank {rank} {{"]
        if rank:
            lines.append(f"l{next(serial)}: recv 1b from {rank - low // 2} tag 0")
        for child in children:
            label = next(serial)
            lines.append(f"l{label}: send 1b to {child} tag 0")
            lines += [f"l{label} requires l1"] if rank else []
        lines.append("}")
    return "\n".join([*lines, ""])


def ends_ns(program, latency_us=10.0, **kind):
    machine = SimulatedMachine(processors=program.processes, context_switch_us=0.0, latency_us=latency_us)
    done = simulate([replaying(0, program)], machine, policies.create("none", {}), **kind)
    return done.end_ns


def test_a_tree_of_messages_takes_a_latency_for_each_level(tmp_path):
    schedule = tree(8)
    assert "l1: recv 1b from 1 tag 0" in schedule
    program = replayed(read(tmp_path, schedule), max_s=5.0)  # as for advise
    assert program.processes == 8
    assert sum(int(part.messages.sum()) for part in program.parts) == 7
    assert 30_000 <= ends_ns(program) <= 31_000
    assert 300_000 <= ends_ns(program, latency_us=100.0) <= 301_000


def test_computing_goes_on_while_a_message_is_under_way(tmp_path):
    waits = "l1: calc 1000\nl2: recv 8b from 1 tag 4\nl3: calc 50000\nl4: calc 7000\nl4 requires l2\n"
    both = f"num_ranks 2\nrank 0 {{\n{waits}}}\nrank 1 {{\nsend 8b to 0 tag 4\n}}\n"
    assert 58_000 <= ends_ns(replayed(read(tmp_path, both))) <= 59_000  # and not the latency of 10 us more
    first = both.replace("l3: calc", "l3: calc 0\nl3 requires l2\nl5: calc").replace(
        "l4 requires", "l5 requires l3\nl4 requires"
    )
    assert 67_000 <= ends_ns(replayed(read(tmp_path, first))) <= 69_000


def test_begin_and_end_of_an_operation_are_two_things(tmp_path):
    text = """num_ranks 2
/* rank 1 sends only after
   it has begun to receive */
rank 0 {
a: send 8b to 1 tag 1 // 8 bytes
b: recv 8b from -1 tag -1 cpu 0 nic 1
}
rank 1 {
first: recv 8b from 0 tag 1 nic 0
then: send 8b to 0
then KIND first
}
"""
    begun = replayed(read(tmp_path, text.replace("KIND", "irequires")))
    ended = replayed(read(tmp_path, text.replace("KIND", "requires")))
    assert 10_000 <= ends_ns(begun) < 11_000 and 20_000 <= ends_ns(ended) < 21_000


def test_tags_decide_which_message_is_which(tmp_path):
    sends = "\n".join(f"send 8b to 1 tag {tag}" for tag in range(600))
    tags = [*range(600)]
    random.Random(1).shuffle(tags)
    receives = "\n".join(f"recv 8b from 0 tag {tag}" for tag in tags)
    held = read(tmp_path, f"num_ranks 2\nrank 0 {{\n{sends}\n}}\nrank 1 {{\n{receives}\n}}\n")
    program = replayed(held)
    (part,) = program.parts
    steps = part.operations[1]
    assert steps["value"][steps["code"] == RECEIVE].tolist() == tags


FAULTS = [
    ("num_rank 2\n", "no recording"),
    ("num_ranks 0\n", "line 1: 'num_ranks 0' must be"),
    ("num_ranks 2\nrank 2 {\n}\n", "line 2: 'rank 2 {' must begin a rank from 0 to 1"),
    ("num_ranks 1\nrank 0 {\n}\nrank 0 {\n}\n", "line 4: 'rank 0 {' must begin"),
    ("num_ranks 1\nrank 0 {\ncalc 5\n", "ends too early"),
    ("num_ranks 1\n\n/* a\nb */ rank 0 {\ncalc 5us\n}\n", "line 5: 'calc 5us' must be calc"),
    ("num_ranks 1\nrank 0 {\nl1 requires l2\n}\n", "line 3: no operation of rank 0 has the label 'l1'"),
    ("num_ranks 1\nrank 0 {\nl1: calc 5\nl1: calc 6\n}\n", "line 4: the label 'l1' of rank 0 is there twice"),
    ("num_ranks 1\nrank 0 {\nsend 8b to 1\n}\n", "line 3: the other rank is 1, and must be below 1"),
    ("num_ranks 1\nrank 0 {\nsend 8b to 0 tag -1\n}\n", "line 3: only a recv may have the tag -1"),
    ("num_ranks 1\nrank 0 {\ncalc 5 cpu 1\n}\n", "line 3: a rank is one process"),
    ("num_ranks 1\nrank 0 {\nsend 4294967296b to 0\n}\n", "line 3: 4294967296 is too large"),
    ("num_ranks 1\nrank 0 {\ncalc 99999999999999999\ncalc 99999999999999999\n}\n", "takes"),
    ("num_ranks 1\nrank 0 {\nrecv 8b from 0\n}\n", "line 3: recv of rank 0 has no counterpart"),
    (
        "num_ranks 1\nrank 0 {\nl1: calc 5\nl2: calc 5\nl1 requires l2\nl2 requires l1\n}\n",
        "line 3: calc of rank 0 depends on others for ever",
    ),
    (
        f"num_ranks 2\nrank 0 {{\nl1: send {LARGE}b to 1\nl2: recv {LARGE}b from 1\nl2 requires l1\n}}\n"
        f"rank 1 {{\nl1: send {LARGE}b to 0\nl2: recv {LARGE}b from 0\nl2 requires l1\n}}\n",
        "line 3: send of rank 0 has no counterpart",
    ),
]


@pytest.mark.parametrize("text, words", FAULTS)
def test_a_fault_is_told_with_its_line(tmp_path, text, words):
    path = tmp_path / "app.goal"
    path.write_text(text)
    with pytest.raises(RecordingError) as refused:
        program_in(path)
    assert words in str(refused.value) and str(path) in str(refused.value)


def test_small_messages_do_not_wait_for_their_receives(tmp_path):
    text = FAULTS[-1][0].replace(str(LARGE), str(LARGE - 1))
    assert ends_ns(replayed(read(tmp_path, text))) >= 10_000


@st.composite
def schedules(draw):
    """A schedule that ends: operations depend on earlier ones of a common order of all ranks."""
    ranks = draw(st.integers(1, 4))
    lines = [[] for _ in range(ranks)]
    latest = {}  # sends and receives of one pair and tag begin in order: else they may wait in a circle
    random_ = draw(st.randoms(use_true_random=False))
    for serial in range(draw(st.integers(0, 25))):
        size = random_.choice([0, 8, LARGE, 2 * LARGE])
        tag = random_.randrange(3)
        sender, receiver = random_.randrange(ranks), random_.randrange(ranks)
        new = [(sender, f"send {size}b to {receiver} tag {tag}")]
        new.append((receiver, f"recv {size}b from {sender} tag {tag}"))
        if random_.random() < 0.4:
            new = [(sender, f"calc {random_.randrange(50_000)}")]
        before = [len(one) for one in lines]
        for rank, operation in new:
            lines[rank].append([f"l{serial}x{len(lines[rank])}", operation, []])
        for number, (rank, operation) in enumerate(new):
            if not operation.startswith("calc"):
                line = lines[rank][number - len(new) if sender == receiver else -1]
                line[2] += [f"irequires {other}" for other in latest.get((number, sender, receiver, tag), ())]
                latest[number, sender, receiver, tag] = [line[0]]
            if before[rank]:
                for _ in range(random_.randrange(3)):
                    other = lines[rank][random_.randrange(before[rank])][0]
                    lines[rank][-1][2].append(f"{random_.choice(['requires', 'irequires'])} {other}")
    text = [f"num_ranks {ranks}"]
    for rank, operations in enumerate(lines):
        text += [f"rank {rank} {{", *(f"{label}: {operation}" for label, operation, _ in operations)]
        text += [f"{label} {need}" for label, _, needs in operations for need in needs] + ["}"]
    return "\n".join(text)


def messages_of(text):
    """The sends and receives of each rank, in whatever order."""
    return [sorted(re.findall(r"(?:send|recv) .*", rank)) for rank in text.split("rank ")]


def messages(program):
    """How many messages a program has."""
    return sum(int(part.messages.sum()) for part in program.parts)


def to_others(schedule):
    """How many messages of a schedule go to another rank: those to itself are no part of a program."""
    ranks = [re.findall(r"send \d+b to (\d+)", lines) for lines in schedule.split("\nrank ")[1:]]
    return sum(receiver != str(rank) for rank, receivers in enumerate(ranks) for receiver in receivers)


def test_large_messages_may_be_received_in_another_order(tmp_path):
    """Rank 1 takes the second one, and then receives the first one: rank 0 waits for both."""
    sends = f"send {LARGE}b to 1 tag 0\nsend {LARGE}b to 1 tag 1\n"
    receives = f"l1: recv {LARGE}b from 0 tag 1\nl2: recv {LARGE}b from 0 tag 0\nl2 requires l1\n"
    held = read(tmp_path, f"num_ranks 2\nrank 0 {{\n{sends}}}\nrank 1 {{\n{receives}}}\n")
    program = replayed(held)
    assert messages(program) == 2
    assert 62_768 <= ends_ns(program) <= 62_800  # a notice, and twice latency and copy
    again = read(tmp_path, goal_text.text(replayed(held, copies=False)))
    assert messages(replayed(again)) == 2
    assert ends_ns(replayed(again)) == pytest.approx(ends_ns(program), abs=10)


def empty_steps(program):
    """How many steps take the nanosecond that a step takes at least: a schedule has no line for them."""
    steps = np.concatenate([each for part in program.parts for each in part.operations])
    return np.count_nonzero((steps["code"] == COMPUTE) & (steps["value"] <= goal_text.LEAST_NS))


def test_the_last_waits_keep_their_order(tmp_path):
    """Rank 1 waits for the small message first, and copies the large one only when that has come."""
    ranks = [
        f"l1: send {LARGE}b to 1 tag 0\nl2: send 8b to 1 tag 1\nl2 requires l1\n",
        f"l1: recv 8b from 0 tag 1\nl2: recv {LARGE}b from 0 tag 0\n",
    ]
    text = "num_ranks 2\n" + "".join(f"rank {rank} {{\n{one}}}\n" for rank, one in enumerate(ranks))
    held = read(tmp_path, text)
    again = read(tmp_path, goal_text.text(replayed(held, copies=False)))
    assert 36_384 <= ends_ns(replayed(held)) <= 36_400
    assert 36_384 <= ends_ns(replayed(again)) <= 36_400


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(schedule=schedules())
def test_a_schedule_that_ends_is_a_program_that_ends_also_when_it_is_written_and_read_again(
    tmp_path_factory, schedule
):
    folder = tmp_path_factory.mktemp("goal")
    held = read(folder, schedule)
    recording.write(held, folder / "app.npz")  # which refuses, when read, what no program can have done
    assert program_in(folder / "app.npz").processes == held.processes
    program = replayed(held)
    busy_ns = list(map(program.busy_ns, range(program.processes)))
    assert ends_ns(program) >= max(busy_ns)
    text = goal_text.text(replayed(held, copies=False))
    assert messages(program) == to_others(schedule) == text.count("send")
    again = read(folder, text)
    assert messages_of(goal_text.text(replayed(again, copies=False))) == messages_of(text)
    assert list(map(replayed(again).busy_ns, range(program.processes))) == pytest.approx(busy_ns, abs=200)
    allowed_ns = sum(map(empty_steps, (program, replayed(again))))
    assert abs(ends_ns(replayed(again)) - ends_ns(program)) <= allowed_ns


def app(tmp_path, repeats=1):
    """A file with the recording of two ranks that exchange messages, meet in a sum, and repeat that."""
    each = [("ISEND", 5.0), ("IRECV", 1.0), ("WAIT", 90.0), ("WAIT", 0.0), ("ALLREDUCE", 3.0)]
    made = recorded([each * 4] * 2, windows=4, kept=5)
    for rank in made.ranks:
        rank.communicators[0] = (0, 1)
        kinds = rank.rows["kind"]
        rank.rows["peer"] = np.where(kinds == recording.KIND["ALLREDUCE"], -1, 1 - rank.rank)
        rank.rows["request"] = np.tile([1, 2, 2, 1, 0], 4)
        rank.rows["bytes"] = np.tile([100_000, 100_000, 0, 0, 24], 4)
        rank.windows["operations"] *= repeats
    recording.write(made, tmp_path / "app.npz")
    return tmp_path / "app.npz"


@pytest.fixture
def trace(tmp_path, capsys):
    def trace(*words):
        return cli.main(["trace", *map(str, words)]), capsys.readouterr()

    return partial(trace)


def test_a_recording_is_written_with_its_messages(tmp_path, trace):
    status, said = trace(app(tmp_path), "--format", "goal", "-o", tmp_path / "app.goal", "--json")
    document = json.loads(said.out)
    assert status == 0 and document["repeats"] == [1] and document["processes"] == 2
    text = (tmp_path / "app.goal").read_text()
    assert text.count("send 100000b to 1 tag") == text.count("recv 100000b from 0 tag") == 4
    assert text.count("send 24b to 1 tag") == text.count("recv 24b from 0 tag") == 4
    assert document["messages"] == 16 and text.count("irequires") > 0
    before = ends_ns(replayed(program_in(tmp_path / "app.npz")))
    assert ends_ns(replayed(program_in(tmp_path / "app.goal"))) == pytest.approx(before, rel=0.25)


def test_a_long_recording_is_written_once_and_says_so(tmp_path, trace):
    status, said = trace(app(tmp_path, repeats=10), "--format", "goal", "-o", tmp_path / "app.goal")
    assert status == 0 and "written once each" in said.out


@pytest.mark.parametrize(
    "words, said",
    [
        (["app.npz", "--format", "goal", "--run", "1"], "--run = 1: cannot be combined with --format goal"),
        (["app.npz", "--format", "goal", "--window", "0", "1"], "--window = 0 1: cannot be combined"),
        ([".", "--format", "goal"], "RESULTS = '.': must be the file of a recording"),
        (["none", "--format", "goal"], "RESULTS = 'none': must be the file of a recording"),
        (["log.swf", "--format", "goal"], "log.swf: no recording"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path, trace, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    app(tmp_path)
    (tmp_path / "log.swf").write_text("; MaxProcs: 4\n")
    status, printed = trace(*words)
    assert status == 2 and said in printed.err and printed.err.count("\n") == 1


EXPERIMENT = """name = "tree"
processors = 2

[[jobs]]
count = 2
command = ["mpiexec", "-n", "2", "tree"]
recording = "FILE"

[[schedulers]]
policy = "gang"
quantum_ms = 10
"""


@pytest.mark.slow
def test_an_experiment_takes_a_schedule_for_a_recording(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ring = "l1: calc 400000000\nl2: send 8b to {}\nl2 requires l1\nl3: recv 8b from {}\n"
    ranks = "\n".join(f"rank {rank} {{\n{ring.format(1 - rank, 1 - rank)}}}" for rank in (0, 1))
    (tmp_path / "ring.goal").write_text(f"num_ranks 2\n{ranks}\n")
    (tmp_path / "tree.toml").write_text(EXPERIMENT.replace("FILE", "ring.goal"))
    assert cli.main(["simulate", "tree.toml", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["simulated"]["workload_slowdown"]["median"] == pytest.approx(1, abs=0.05)
    assert row["simulated"]["makespan_s"] == pytest.approx(0.8, rel=0.05)
    advised = advise.of_recording(tmp_path / "ring.goal", 2, 2)
    assert {job.program.processes for job in advised.cells[0].jobs()} == {2}
    (tmp_path / "tree.toml").write_text(EXPERIMENT.replace("FILE", "tree.goal"))
    (tmp_path / "tree.goal").write_text(tree(3))
    assert cli.main(["simulate", "tree.toml", "--json"]) == 2
    assert "must have 2 ranks, as the command, and has 3" in capsys.readouterr().err
