"""``lockstep show``: every policy in words and values, scenes of papers, and events that cannot be."""

import dataclasses
import errno
import json
import os
from pathlib import Path

import pytest

from coordinator import policies
from coordinator.policies import registry
from coordinator.view import Decision, Slot
from harness import cli
from harness.predict.scenes import Show
from harness.report import plain, scenes, terminal
from harness.spec import events

EVENTFUL = """
0 arrive A 1 300      # ends by itself
10 arrive B 8 200
20 arrive C 4 500
40 lose 7             # B ends with it
70 arrive D 1 100
90 owner 0 1
95 owner 0 0

900 end C
"""


@pytest.fixture
def show(capsys, tmp_path):
    """The document of ``lockstep show``; ``events`` are the lines of a file."""

    def made(*words, events=None):
        if events is not None:
            mark = "\N{ZERO WIDTH NO-BREAK SPACE}"  # as some editors write it
            (tmp_path / "events.txt").write_text(mark + events)
            words = (*words, "--events", str(tmp_path / "events.txt"))
        assert cli.main(["show", *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)["scenes"]

    return made


def test_a_page_for_which_there_is_no_room_is_not_there_half(tmp_path, monkeypatch, capsys):
    def full(path, content):
        path.write_text("<html>")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    assert cli.main(["show", "gang", "-o", str(tmp_path / "a.html")]) == 2
    assert "a.html': cannot be written: no space left" in capsys.readouterr().err
    assert not (tmp_path / "a.html").exists()


def table(scene):
    """The slots of a scene: a word for each, of the jobs on each processor."""
    return ["".join("+".join(jobs) or "." for jobs in slot["runs"]) for slot in scene["slots"]]


def rows(scene):
    """The rows of the family's picture, by label: for each cell its jobs or its note, idle ones as a dot."""
    (found,) = scene["pictures"]
    return {
        label: [",".join(cell["jobs"]) or cell["note"] or "." for cell in row] for label, row in found["rows"]
    }


def notes(scene, label):
    """What is beside the jobs in a row of the family's picture."""
    (found,) = scene["pictures"]
    return [cell["note"] for cell in dict(found["rows"])[label]]


def service(scene):
    """Zhou's service queue, in the order of the pointer."""
    office = zip(rows(scene)["job"], notes(scene, "place in the service queue"), strict=True)
    return [job for place, job in sorted((int(place), job) for job, place in office if place)]


@pytest.mark.parametrize("name", policies.known())
@pytest.mark.parametrize("events", [None, EVENTFUL], ids=["usual", "eventful"])
def test_every_policy_is_shown(name, events, show, capsys, tmp_path):
    here = set()
    for scene in (scenes := show(name, events=events)):
        here |= {word for word in ("A", "B", "C", "D") if f"{word} arrives" in scene["cause"]}
        here -= {word for word in ("A", "B", "C", "D") if f"{word} ends" in scene["cause"]}
        here -= {word for word in ("A", "B", "C", "D") if f"and {word} with it" in scene["cause"]}
        running = {job for slot in scene["slots"] for jobs in slot["runs"] for job in jobs}
        assert here == running | {*scene["waiting"]}
        assert running <= {*scene["placements"]}
        assert all(len(slot["runs"]) == 8 for slot in scene["slots"])
        assert not [p for slot in scene["slots"] for p in scene["lost"] if slot["runs"][p]]
    assert not running and here <= {"B"}, "B is too large for what is left, unless its size is the policy's"
    causes = [cause for scene in scenes for cause in scene["cause"].split("; ")]
    assert len(causes) > 7, "four jobs come and go"
    words = ["--events", str(tmp_path / "events.txt")] if events else []
    assert cli.main(["show", name, *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line.endswith(" ")] == []
    assert sum(f": {scene['cause']}" in "\n".join(lines) for scene in scenes) == len(scenes)


# Papers and the survey. A job in an event without work runs until it is told to end.


def test_the_matrices_of_the_survey(show):
    """The survey, Matrix Algorithm: three applications, one leaves, another takes a second one's place."""
    three = "0 arrive A1 4\n1 arrive A2 4\n2 arrive A3 8\n"
    *_, before, after, then, last = show("gang", events=three + "3 end A2\n5 end A3\n6 arrive A4 5")
    assert table(before) == ["A1A1A1A1A2A2A2A2", "A3" * 8]
    assert table(after) == ["A1A1A1A1....", "A3" * 8]
    assert table(then) == ["A1A1A1A1...."]
    assert table(last) == ["A1A1A1A1....", "A4A4A4A4A4..."]
    unused = sum(not jobs for slot in last["slots"] for jobs in slot["runs"])
    assert unused == 7, "of 16 slots, 44 %"


def test_the_linear_array_of_the_survey(show):
    """The survey, Continuous Algorithm: the window begins at the leftmost that has not been coscheduled."""
    *_, scene = show("gang", "--set", "packing=continuous", events="0 arrive A 5\n1 arrive B 5\n2 arrive C 4")
    seats, *windows = ("".join(row) for row in rows(scene).values())
    assert seats == "AAAAABBBBBCCCC.."
    assert windows == ["AAAAA...        ", "     BBBBB...   ", "          CCCC.."]


def arrivals(jobs):
    return "".join(f"0 arrive {name} {size}\n" for name, size in jobs)


def test_a_queue_tree_of_hori_et_al(show):
    """Figure 2: the machine twice, then halves, then a half that is halved again; all in six time slots."""
    halves = [("Q1(0)", 2), ("Q2(0)", 2), ("Q1(1)", 2)]
    quarters = [(name, 1) for name in "abcdefgh"]
    (scene,) = show(
        "dqt", "--processors", "4", events=arrivals([("Q0(0)", 4), ("Q0(1)", 4), *halves, *quarters])
    )
    found = [slot["runs"] for slot in scene["slots"]]
    assert found[0] == [["Q0(0)"]] * 4 and found[1] == [["Q0(1)"]] * 4
    assert found[2] == [["Q1(0)"]] * 2 + [["Q2(0)"]] * 2
    assert found[3][:2] == [["Q1(1)"]] * 2 and found[3][2] != found[3][3]
    assert len(found) == 6
    assert {job for slot in found for jobs in slot for job in jobs} == {*scene["placements"]}


@pytest.mark.parametrize("name, last", [("dqt", ["N1", "N2"]), ("fair-dqt", ["N1", ""])])
def test_the_front_of_hori_et_al_goes_back_up_unless_it_is_fair(name, last, show):
    """Figure 3: a part that hits the bottom goes on where the imbalance is, or waits for the others."""
    jobs = [("A", 4), ("B", 2), ("C", 2), ("D", 2), ("E", 1), ("F", 1), ("G", 2)]
    (scene,) = show(name, "--processors", "4", events=arrivals(jobs))
    fronts = [notes(scene, f"{at} ms") for at in (0, 100, 200, 300)]
    assert fronts == [["N0"], ["N1", "N2"], ["N1", "N5", "N6"], last]
    served = [job for slot in scene["slots"] for job in {job for jobs in slot["runs"] for job in jobs}]
    assert sorted(served) == sorted([*"ABCDEFG", *("C" if name == "dqt" else "")])


def test_a_task_of_hori_et_al_goes_down_the_lighter_branches(show):
    """Figure 4: a branch with three processes of size two, and one and two of size one, has the load 9."""
    jobs = [*((name, 2) for name in "ABCDE"), *((name, 1) for name in "FGHIJKL")]
    *_, scene, new = show("dqt", "--processors", "4", events=arrivals(jobs) + "1 arrive new 1\n2 end L")[:-1]
    assert len(rows(scene)["2 wide"][0].split(",")) == 3
    assert notes(scene, "2 wide") == ["(9)", "(8)"] and notes(scene, "1 wide") == ["(2)", "(1)", "(2)", "(2)"]
    assert notes(new, "2 wide") == ["(9)", "(9)"] and notes(new, "1 wide") == ["(2)", "(1)", "(3)", "(2)"]


def test_a_new_process_of_zhou_et_al_displaces_the_one_with_least_service(show):
    """Figure 4: after f_0 slots a process is at level 1; the longest served stay beside a newcomer."""
    events = "0 arrive A 1\n300 arrive B 1\n700 arrive new 1\n950 end A"
    words = ("--processors", "1", "--set", "service=2", "--set", "long_quantum_ms=100")
    scenes = {scene["at_ms"]: scene for scene in show("modified-two-queue", *words, events=events)}
    before = scenes[500]
    came = scenes[700]
    after = scenes[900]
    assert {*service(before)} == {"A", "B"} and service(came) == ["new", "A"] and came["waiting"] == ["B"]
    assert rows(came)["level, slots there"][-1] == "0,0"
    assert dict(zip(rows(after)["job"], rows(after)["level, slots there"], strict=True))["new"] == "1,0"


def test_long_processes_of_zhou_et_al_have_few_long_slots(show):
    """Figure 5, with the lengths of section 4: five minutes are preempted fifteen times."""
    levels = ("--set", "quanta_ms=[5000,15000,25000]", "--set", "slots=[1,8,7]")
    scenes = show("multilevel-two-queue", "--processors", "1", *levels, events="0 arrive long 1 300000")
    lengths = [scene["slots"][0]["length_ms"] for scene in scenes[:-1]]
    assert lengths == [5000, *[15000] * 8, *[25000] * 7]
    assert [scene["reason"] for scene in scenes].count("slot end") == 15


def test_the_pointer_of_zhou_et_al_moves_as_in_figure_6(show):
    """N = 4, f_1 = 3, f_2 = 5: four rounds; a process comes in the second one and ends in the third."""
    old = "0 arrive A 1\n300 arrive B 1\n1100 arrive C 1\n1700 arrive D 1\n2100 arrive E 1\n"
    new = "3000 arrive new 1\n3400 end new\n4300 end E"
    settings = "service=4", "slots=[1,3,5,0]", "quanta_ms=[100]"
    words = ("--processors", "1", *(word for one in settings for word in ("--set", one)))
    found = {scene["at_ms"]: scene for scene in show("multilevel-two-queue", *words, events=old + new)}
    nodes = {at: rows(found[at])["level, slots there"] for at in (2500, 2900)}
    assert nodes == {2500: ["3,1", "2,4", "2,0", "1,1", "1,0"], 2900: ["3,1", "3,0", "2,1", "1,2", "1,1"]}
    assert rows(found[2500])["job"] == [*"ABCDE"]
    assert service(found[2500]) == [*"DEBC"] and service(found[2900]) == [*"DECA"]
    assert "new" in found[3000]["waiting"] and service(found[3300])[0] == "new"
    assert {*service(found[3800])} == {*service(found[2900])}, "the same are served in the second and fourth"


def test_subcubes_and_blocks(show):
    """The survey, Figure 2: free blocks are nodes of the buddy tree; cells side by side are neighbours."""
    events = "0 arrive A 4\n1 arrive B 2\n2 arrive C 2\n3 end A\n4 end C\n5 arrive D 2"
    last = show("scan-up", events=events)[-1]
    assert rows(last)["8 wide"] == ["."] and rows(last)["4 wide"] == ["free", "."]
    assert rows(last)["2 wide"] == [".", ".", "B", "D"]
    last = show("hypercube", events=events)[-1]
    assert rows(last) == {"0": ["D", "D", ".", "."], "1": ["B", "B", ".", "."]}
    assert last["pictures"][0]["columns"] == ["00", "01", "11", "10"]
    mesh = show("mesh", events="0 arrive A 3")[-1]
    assert rows(mesh) == {"0": ["A", "A", ".", "."], "1": ["A", "A", ".", "."]}
    assert notes(mesh, "1") == ["", "unused", "", ""]


@pytest.mark.parametrize(
    "words, message",
    [
        ("--jobs 9", "size of A = 9: must be at most 8, one process per processor"),
        ("--jobs=", "--jobs = '': must be sizes with commas between; write 4,2,2,1, say"),
        ("--jobs 4,,2", "--jobs = '4,,2': must be sizes with commas between; write 4,2,2,1, say"),
        ("--jobs 4,0", "--jobs 4,0, line 2 = '0': SIZE must be a whole number from 1 to 4096"),
        ("--processors 257", "--processors = 257: must be a whole number from 1 to 256; write 256 or less"),
        ("--set quantum=3", "did you mean 'quantum_ms'?"),
        ("--set quantum_ms=x", "quantum_ms = 'x': must be a number"),
        ("-o /nowhere/page.html", "--output = '/nowhere/page.html': cannot be written"),
        ("--events /dev/zero", "--events = '/dev/zero': must be at most 4 MiB of text; give a smaller file"),
        ("--events /nowhere", "--events = '/nowhere': must be a readable file"),
        (
            "--events {} --jobs 4",
            "--jobs = '4': cannot be combined with --events, which has the jobs; leave one of the two out",
        ),
        *(
            (f"--events {{}}|{line}", f"line 2 = {message}")
            for line, message in [
                ("x arrive B 1", "'x': TIME must be a number; correct the number"),
                ("-1 arrive B 1", "'-1': TIME must be a number from 0 to 1e9"),
                ("1 arive B 1", "'arive': must be one of arrive, end, lose, owner; did you mean 'arrive'?"),
                ("1", "'': must be one of arrive, end, lose, owner; write arrive, say"),
                (
                    "1 arrive B",
                    "'1 arrive B': must have 4 or 5 words, and has 3; write TIME arrive JOB SIZE [WORK]",
                ),
                ("1 arrive B 1.5", "'1.5': SIZE must be a whole number"),
                ("1 arrive B 1 0", "'0': WORK must be a number from 0.001 to 1e9"),
                ("1 arrive A 1", "'A': JOB must be a new name"),
                ("1 arrive B!? 1", "'B!?': JOB must be a new name"),
                ("1 end B", "'B': must be a job that has arrived before; correct the name, or the time"),
                ("0 end A", "'A': must be a job that has arrived before"),
                ("1 lose 8", "'8': PROCESSOR must be a whole number from 0 to 7"),
                ("1 owner 1 -2", "'-2': LOAD must be a number from 0 to 1000"),
            ]
        ),
        (
            "--events {}|" + "\n".join(f"1 lose {p}" for p in range(8)),
            "= 8: must leave one of 8 processors",
        ),
        (
            "--events {}|" + arrivals((f"J{n}", 1) for n in range(100)),
            "= 101: must make 1 to 100 jobs",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words, message, tmp_path, capsys):
    words, _, lines = words.partition("|")
    (tmp_path / "events.txt").write_text(f"0 arrive A 4\n{lines}\n")
    assert cli.main(["show", "gang", *words.format(tmp_path / "events.txt").split()]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_jobs_on_one_processor_have_equal_parts_of_it_and_a_folded_one_a_part_for_each_process(show):
    words = ("none", "--processors", "1")
    ends = [scene["at_ms"] for scene in show(*words, "--jobs", "1,1") if scene["reason"] == "departure"]
    assert ends == [550, 600]
    events = "0 arrive A 2 300\n0 arrive B 1 300"
    scenes = show(*words, events=events)
    assert [scene["cause"] for scene in scenes[1:]] == ["A ends; B ends"]
    assert [scene["at_ms"] for scene in scenes[1:]] == pytest.approx([900])


def test_a_policy_of_another_package_has_the_matrix(show, monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Newest(policies.Policy):
        source = "a toy"

        def decide(self, view, reason):
            placements = {job.number: tuple(range(job.processes)) for job in view.jobs}
            newest = max(placements, default=None)
            runs = [(newest,) if p in placements.get(newest, ()) else () for p in range(8)]
            return Decision(placements, (Slot(tuple(runs)),))

    monkeypatch.setitem(registry._known, "newest", Newest)
    first, second, third, *_ = show("newest", "--jobs", "8,4")
    assert [table(one) for one in (first, second, third)] == [["A" * 8], ["BBBB...."], ["A" * 8]]
    assert second["waiting"] == ["A"] and second["pictures"] == []


def test_jobs_have_colours_on_a_terminal_and_the_same_text_without():
    made = Show(policies.create("dqt", {}), 8, events.read(["0 arrive A 4", "1 arrive B 8"], "here", 8))
    parts = [*scenes.text([*made.scenes()], made.names)]
    texts = [terminal.drawn(part) for part in parts]
    assert [text.plain for text in texts] == [line for part in parts for line in plain.lines(part)]
    row, *_ = (text for text in texts if text.plain == "0 ms A A A A . . . .")
    assert [(row.plain[span.start : span.end].strip(), span.style) for span in row.spans if span.style] == [
        ("A", "bold cyan")
    ] * 4


def test_slots_of_days_are_shown(show):
    assert show("condor", "--set", "grace_s=10000000")[0]["cause"] == "A arrives (size 4)"
    assert show("gang", "--set", "quantum_ms=1e8")[1]["slots"][0]["length_ms"] is None


def test_a_long_show_is_cut(capsys, tmp_path):
    (tmp_path / "events.txt").write_text("0 arrive A 1 100")
    words = ["--set", "quantum_ms=0.01", "--events", str(tmp_path / "events.txt")]
    assert cli.main(["show", "two-queue", *words, "--json"]) == 0
    output = capsys.readouterr()
    assert len(json.loads(output.out)["scenes"]) == 200
    assert output.err == "these are the first 200 scenes: give jobs less work to see the end\n"


@pytest.mark.parametrize("name", policies.known())
def test_forty_jobs_on_three_processors_fit_into_a_terminal(name, show, capsys):
    words = (name, "--processors", "3", "--jobs", ",".join(["1", "2"] * 20))
    waiting = [scene["waiting"] for scene in show(*words)]
    assert cli.main(["show", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and not [line for line in lines if line.endswith(" ")]
    assert all(", ".join(jobs) in " ".join(lines) for jobs in waiting)
