"""Draw the pictures of mechanisms and of figures that the pages show.

    python docs/pictures/make.py [DIRECTORY]

writes them next to this file, or into DIRECTORY. Each is one SVG that fits a narrow screen, follows a light
or dark scheme, and has a title and a description for screen readers. Lengths are pixels on a screen with 390.
Figures come from the tables of the pages, so that a picture and its table agree.
"""

import math
import re
import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

WIDTH = 390
EVIDENCE = Path(__file__).parent.parent / "evidence"
STYLE = """
.ground { fill: #ffffff } text { fill: #1f2328; font: 12px sans-serif } .small { font-size: 11px }
.line { stroke: #57606a; fill: none } .box { fill: #f3f5f7; stroke: #57606a }
.dash { stroke: #57606a; fill: none; stroke-dasharray: 4 3 } .head { fill: #57606a }
.a { fill: #6cb4ee } .b { fill: #f2b35c } .c { fill: #6fcf97 }
.free { fill: #e5e9ed } .owner { fill: #b5bcc4 }
.spin { fill: #d6604d } .switch { fill: #57606a } .on { fill: #1f2328 }
@media (prefers-color-scheme: dark) {
.ground { fill: #16191d } text { fill: #e6e9ec } .line, .dash { stroke: #9aa4ae } .head { fill: #9aa4ae }
.box { fill: #252a30; stroke: #9aa4ae } .free { fill: #30363d } .switch { fill: #9aa4ae }
.on { fill: #1f2328 } }
"""


class Picture:
    """Shapes and texts, from the left upper corner."""

    def __init__(self, title: str, description: str, height: int) -> None:
        self.title, self.description, self.height = title, description, height
        self._shapes: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box", text: str = "") -> None:
        """A rectangle, with a text in its middle."""
        self._shapes.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'
        )
        if text:
            on = " on" if kind in ("a", "b", "c", "spin", "owner") else ""
            self.text(x + width / 2, y + height / 2 + 4, text, f"small{on}", "middle")

    def text(self, x: float, y: float, text: str, kind: str = "small", anchor: str = "start") -> None:
        """A text whose base line is at ``y``."""
        self._shapes.append(
            f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def line(self, x: float, y: float, to_x: float, to_y: float, kind: str = "line") -> None:
        """A straight line."""
        self._shapes.append(f'<path class="{kind}" d="M{x:g} {y:g}L{to_x:g} {to_y:g}"/>')

    def arrow(self, x: float, y: float, to_x: float, to_y: float, kind: str = "line") -> None:
        """A line that ends in a head, drawn straight down, up, to the right or to the left."""
        self.line(x, y, to_x, to_y, kind)
        across = abs(to_x - x) > abs(to_y - y)
        back = -6 if (to_x > x if across else to_y > y) else 6
        one, other = ((back, -4), (back, 4)) if across else ((-4, back), (4, back))
        points = (
            f"{to_x:g},{to_y:g} {to_x + one[0]:g},{to_y + one[1]:g} {to_x + other[0]:g},{to_y + other[1]:g}"
        )
        self._shapes.append(f'<polygon class="head" points="{points}"/>')

    def dot(self, x: float, y: float, kind: str) -> None:
        """A row of a table, through which others can be seen."""
        self._shapes.append(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4" fill-opacity=".6" stroke="#57606a"/>'
        )

    def lane(self, x: float, y: float, height: float, parts: Sequence[tuple[str, float, str]]) -> None:
        """Boxes from left to right: the kind of each, its width and its text."""
        for kind, width, text in parts:
            self.box(x, y, width, height, kind, text)
            x += width

    def key(self, y: float, entries: Sequence[tuple[str, str, float]]) -> None:
        """What colours mean: the kind of each, its name, and where it begins."""
        for kind, name, x in entries:
            self.box(x, y, 12, 12, kind)
            self.text(x + 16, y + 10, name)

    def svg(self) -> str:
        """The text of the file."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg"'
            f' viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH * 1.5:g}"'
            f' height="{self.height * 1.5:g}" role="img" aria-labelledby="title desc">\n'
            f'<title id="title">{escape(self.title)}</title>\n'
            f'<desc id="desc">{escape(self.description)}</desc>\n'
            f"<style>{STYLE}</style>\n"
            f'<rect class="ground" width="{WIDTH}" height="{self.height}"/>\n'
            + "\n".join(self._shapes)
            + "\n</svg>\n"
        )


def lanes() -> Picture:
    """Three jobs of two processes on two processors, without coordination and in slots."""
    picture = Picture(
        "Three jobs on two processors, without coordination and in time slots",
        "Under none, the two processors mostly run processes of different jobs, so each job"
        " waits for its other half."
        " Under gang, both processors run the same job in each slot, and all change at the same time.",
        212,
    )
    uneven = (("abcacbabcbac", (28, 20, 24, 26, 22, 28, 24, 26, 22, 30, 20, 32)),)
    uneven += (("bcabacbcacbb", (22, 28, 20, 30, 24, 22, 30, 24, 28, 22, 26, 26)),)
    picture.text(8, 18, "none: each processor decides by itself", "")
    for row, (jobs, widths) in enumerate(uneven):
        picture.text(8, 41 + 30 * row, f"processor {row}")
        picture.lane(
            76,
            26 + 30 * row,
            24,
            [(job, width, job.upper()) for job, width in zip(jobs, widths, strict=True)],
        )
    picture.text(8, 112, "gang: all processes of a job at the same time", "")
    for row in range(2):
        picture.text(8, 135 + 30 * row, f"processor {row}")
        picture.lane(76, 120 + 30 * row, 24, [(job, 302 / 6, job.upper()) for job in "abcabc"])
    picture.arrow(76, 188, 378, 188)
    picture.text(378, 204, "time", anchor="end")
    return picture


def wait() -> Picture:
    """One wait under a two-phase rule, by when its message comes."""
    picture = Picture(
        "One wait on a time axis",
        "If the message comes while the process spins, the process continues at once. If it"
        " comes later, the process"
        " blocks when the limit is over, another process runs, and a second switch brings the first one back."
        " A process that only spins keeps its processor until the message comes, however long that takes.",
        278,
    )
    rows = (
        ("The message comes soon", 142, [("a", 80, ""), ("spin", 62, ""), ("a", 232, "")]),
        (
            "The message comes late: spin, block, wake up",
            262,
            [
                ("a", 80, ""),
                ("spin", 80, ""),
                ("switch", 10, ""),
                ("b", 92, "another process"),
                ("switch", 10, ""),
                ("a", 102, ""),
            ],
        ),
        (
            "Its partner has no processor: the same, for longer",
            318,
            [
                ("a", 80, ""),
                ("spin", 80, ""),
                ("switch", 10, ""),
                ("b", 148, "another process"),
                ("switch", 10, ""),
                ("a", 46, ""),
            ],
        ),
        (
            "Without a limit: the spin lasts as long as the wait",
            318,
            [("a", 80, ""), ("spin", 238, "useless"), ("a", 56, "")],
        ),
    )
    for row, (title, message, parts) in enumerate(rows):
        y = 14 + 60 * row
        picture.text(8, y, title, "")
        picture.lane(8, y + 18, 22, parts)
        picture.arrow(8 + message, y + 4, 8 + message, y + 17)
    picture.text(8, 250, "arrow: the message comes; the limit is two switches long")
    picture.key(
        258,
        [("a", "computes", 8), ("spin", "spins", 92), ("switch", "switch", 156), ("b", "other process", 226)],
    )
    return picture


def phases() -> Picture:
    """Two phases of a bulk-synchronous program, with g and v."""
    picture = Picture(
        "Two phases of a bulk-synchronous program",
        "Four processes compute for different times and then wait until the last one"
        " arrives. The mean of these times"
        " is the granularity g, and the width of their range is the imbalance v.",
        238,
    )
    times = ((70, 110, 90, 130), (118, 76, 132, 98))
    for row in range(4):
        y = 44 + 36 * row
        picture.text(8, y + 16, f"process {row}")
        first, second = times[0][row], times[1][row]
        picture.lane(
            76,
            y,
            24,
            [("a", first, ""), ("spin", 150 - first, ""), ("a", second, ""), ("spin", 150 - second, "")],
        )
    for x, name in ((226, "barrier"), (376, "barrier")):
        picture.line(x, 38, x, 186)
        picture.text(x, 34, name, anchor="end" if x > 300 else "middle")
    picture.arrow(76, 22, 176, 22)
    picture.arrow(176, 22, 76, 22)
    picture.text(126, 16, "g: the mean", anchor="middle")
    picture.line(146, 78, 146, 204, "dash")
    picture.line(206, 150, 206, 204, "dash")
    picture.line(146, 44, 146, 78, "dash")
    picture.arrow(146, 200, 206, 200)
    picture.arrow(206, 200, 146, 200)
    picture.text(214, 204, "v: shortest to longest")
    picture.key(216, [("a", "computes", 8), ("spin", "waits for the last process", 92)])
    return picture


def slot() -> Picture:
    """A change of slots on three processors, with switch delay and skew."""
    picture = Picture(
        "A change of slots, with switch delay and skew",
        "Three processors change from job A to job B a little after the planned time."
        " The switch delay is the time from the plan to"
        " the last change. Skew is the time from the first change to the last.",
        186,
    )
    for row, change in enumerate((178, 196, 186)):
        y = 40 + 34 * row
        picture.text(8, y + 16, f"processor {row}")
        picture.lane(
            76, y, 24, [("a", change - 76, "job A"), ("switch", 4, ""), ("b", 372 - change, "job B")]
        )
    picture.line(160, 24, 160, 170, "dash")
    picture.text(160, 18, "planned", anchor="middle")
    picture.line(178, 30, 178, 170, "dash")
    picture.line(196, 30, 196, 170, "dash")
    picture.line(160, 152, 196, 152)
    picture.text(202, 156, "switch delay: to the last processor")
    picture.line(178, 168, 196, 168)
    picture.text(202, 172, "skew: from the first to the last")
    return picture


def events() -> Picture:
    """Run queues of simulated processors, and what happens at an event."""
    picture = Picture(
        "Run queues and events of the simulator",
        "Two simulated processors each run one process and have a run queue of ready"
        " processes. Time moves from event"
        " to event: a computation ends, a message arrives, a time slice is over, a slot changes.",
        238,
    )
    for row, (runs, ready) in enumerate((("A0", ("B0", "C0")), ("B1", ("A1",)))):
        y = 26 + 40 * row
        picture.text(8, y + 18, f"processor {row}")
        picture.box(76, y, 70, 28, runs[0].lower(), f"{runs} runs")
        for place, name in enumerate(ready):
            picture.box(180 + 60 * place, y, 50, 28, name[0].lower(), name)
        picture.arrow(176, y + 14, 150, y + 14)
    picture.text(180, 18, "run queue: ready processes")
    picture.text(310, 44, "C1 sleeps:")
    picture.text(310, 60, "it is blocked")
    marks = ((60, "1"), (150, "2"), (240, "3"), (330, "4"))
    picture.arrow(8, 132, 382, 132)
    for x, number in marks:
        picture.line(x, 124, x, 140)
        picture.text(x, 118, number, "", "middle")
    lines = (
        "1  a computation ends: its process sends, then waits",
        "2  a message arrives: its receiver runs on, or wakes up",
        "3  a time slice is over: the next ready process runs",
        "4  a slot changes: the processes of another job run",
    )
    for number, text in enumerate(lines):
        picture.text(8, 164 + 20 * number, text, "")
    return picture


def hosts() -> Picture:
    """The processes of a run on two nodes."""
    picture = Picture(
        "The processes of a run on two nodes",
        "The driver sends each node's agent a table of slots ahead of time. The launcher"
        " starts the ranks on both nodes."
        " Each agent stops and continues the ranks of its node by its own clock. Each node's"
        " guardian continues what"
        " its agent has stopped, and cleans up, if the agent is lost.",
        262,
    )
    for x, name in ((6, "node 1, the driver's"), (202, "node 2")):
        picture.line(x, 26, x + 182, 26)
        picture.line(x, 256, x + 182, 256)
        picture.line(x, 26, x, 256)
        picture.line(x + 182, 26, x + 182, 256)
        picture.text(x + 4, 18, name, "")
    picture.box(14, 36, 78, 30, text="driver")
    picture.box(104, 36, 78, 30, text="launcher")
    picture.box(298, 36, 80, 30, text="its proxy")
    picture.arrow(182, 44, 298, 44, "dash")
    picture.text(212, 38, "starts", "small")
    picture.arrow(53, 66, 53, 112)
    picture.text(58, 96, "table of slots")
    picture.line(80, 66, 80, 74)
    picture.line(80, 74, 250, 74)
    picture.arrow(250, 74, 250, 112)
    picture.text(255, 96, "table of slots")
    for x in (14, 210):
        picture.box(x, 112, 78, 30, text="agent")
        picture.box(x + 90, 112, 78, 30, text="guardian")
        picture.arrow(x + 90, 127, x + 80, 127, "dash")
        picture.arrow(x + 39, 142, x + 39, 200)
        picture.text(x + 44, 164, "stops and continues")
        picture.text(x + 44, 180, "by its own clock")
    for number, x in enumerate((14, 72, 130, 210, 268, 326)):
        picture.box(x, 202, 50, 30, "abc"[number % 3], "rank")
    picture.text(14, 249, "dashed: starts, or watches")
    return picture


def preload() -> Picture:
    """A blocking call of an unmodified program, from the program to MPI, and how a sleeper is woken."""
    picture = Picture(
        "How a call of an unmodified program becomes a two-phase wait",
        "The program calls MPI_Recv. Profiling tools, if there are any, see that call."
        " Lockstep's library starts MPI's"
        " nonblocking form, tests and spins briefly, and then sleeps. A rank of the same"
        " node wakes it by a futex on"
        " shared memory, a rank of another node by a datagram.",
        262,
    )
    layers = (
        ("the program: MPI_Recv", "a"),
        ("tools, if any: they see MPI_Recv", "box"),
        ("Lockstep's library: spin, then sleep", "b"),
        ("MPI: MPI_Irecv, MPI_Test", "box"),
    )
    for number, (text, kind) in enumerate(layers):
        picture.box(8, 10 + 50 * number, 226, 32, kind, text)
        if number:
            picture.arrow(121, 10 + 50 * number - 18, 121, 10 + 50 * number)
    picture.text(250, 60, "another rank sends:")
    picture.box(262, 74, 112, 30, "c", "on this node")
    picture.arrow(262, 118, 236, 118)
    picture.line(300, 104, 300, 118)
    picture.line(262, 118, 300, 118)
    picture.text(308, 120, "futex")
    picture.box(262, 164, 112, 30, "c", "on another node")
    picture.line(300, 164, 300, 134)
    picture.arrow(300, 134, 236, 134)
    picture.text(308, 146, "datagram")
    picture.text(8, 224, "A wake-up ends the sleep; then MPI_Test finds the message.")
    picture.text(8, 244, "Without a wake-up the library tests again after naps.")
    return picture


def ranks() -> Picture:
    """How ``lockstep exec`` knows where the ranks of a program are, on its own host and on another one."""
    picture = Picture(
        "How lockstep exec knows where the ranks are",
        "Each rank writes the call that it is in, and counts what it gets done, to memory."
        " lockstep exec reads the memory of ranks on its host twice a second."
        " A thread of each rank on another host answers its questions over TCP once a second."
        " If a rank waits for too long, and no rank for which it waits gets anything done, exec prints a"
        " line for each state, and a verdict.",
        272,
    )
    for number, (place, way) in enumerate((("this host", "reads"), ("another host", "asks by TCP"))):
        x = 8 + 188 * number
        picture.text(x, 20, place, "name")
        for rank in range(2):
            left = x + 90 * rank
            picture.box(left, 30, 78, 32, "a", f"rank {2 * number + rank}")
            picture.arrow(left + 39, 62, left + 39, 82)
            picture.box(left, 82, 78, 32, "free", "its notes")
            picture.line(left + 39, 136, left + 39, 114)
        picture.line(x + 39, 136, x + 129, 136)
        picture.arrow(x + 84, 136, x + 84, 164)
        picture.text(x + 92, 154, way)
    picture.box(8, 164, 356, 32, "b", "lockstep exec: for how long has each got nothing done?")
    picture.text(8, 222, "a note: MPI_Recv from rank 0, tag 7; 41 calls done, 42 begun")
    picture.text(8, 242, "a report: ranks with the same state on one line, then the verdict")
    picture.text(8, 262, "No rank reads a clock for it.")
    return picture


def families() -> Picture:
    """The seven families of policies, each by what runs where and when."""
    picture = Picture(
        "The families of policies",
        "Seven small tables of processors over time. Local: every processor mixes jobs."
        " Slots: all processors change jobs"
        " together. Queues: jobs keep the processors that they ask for. Adaptive partitions:"
        " the size is chosen at the"
        " start. Repartitioning: sizes change while jobs run. Places: a job gets connected"
        " processors of a mesh."
        " Owners: jobs leave a workstation while its owner is there.",
        430,
    )
    tables = (
        ("local scheduler", "each processor mixes jobs", "abca bcab cabc"),
        ("time slots", "all change jobs together", "aaaa bbbb cccc"),
        ("queues of rigid jobs", "a job keeps what it asks for", "aabb aabb cccc"),
        ("adaptive partitions", "sizes chosen at the start", "aaaa bccc bccc"),
        ("repartitioning", "sizes change while jobs run", "aaaa aabb abbc"),
        ("places (a mesh)", "connected processors", "aabb aabb ccc."),
        ("owners (O)", "a job leaves while one is there", "aabb aaob aaob"),
    )
    for number, (name, text, rows) in enumerate(tables):
        x, y = 8 + 194 * (number % 2), 8 + 106 * (number // 2)
        picture.text(x, y + 10, name, "")
        picture.text(x, y + 26, text)
        for row, cells in enumerate(rows.split()):
            for column, cell in enumerate(cells):
                kind = {".": "free", "o": "owner"}.get(cell, cell)
                letter = "" if cell == "." else cell.upper()
                picture.box(x + 34 * column, y + 34 + 20 * row, 32, 18, kind, letter)
    picture.text(204, 340, "across: processors")
    picture.text(204, 358, "down: time (but places: a mesh)")
    picture.text(204, 376, "A, B, C: jobs")
    return picture


def agreement() -> Picture:
    """Simulated over measured slowdowns of all rows that two pages of evidence list."""
    picture = Picture(
        "Simulated over measured workload slowdowns",
        "A dot for each of 132 rows. Across, its measured workload slowdown from 0.6 to 3, and one of 46."
        " Upwards, by how much the simulated one differs. Almost all rows of synthetic programs are within"
        " 6 percent. Rows of third-party programs differ more, HPC Challenge by up to 40 percent.",
        322,
    )
    left, right, top, per_percent = 46, 376, 34, 3.2

    def across(slowdown: float) -> float:
        return left + (right - left) * min(1, math.log(slowdown / 0.6) / math.log(3 / 0.6))

    def down(error_percent: float) -> float:
        return top + (30 - error_percent) * per_percent

    picture.text(8, 18, "simulated over measured slowdown, minus 1", "")
    picture.box(left, down(15), right - left, 30 * per_percent, "free")
    picture.text(left + 4, down(15) - 5, "gray: the tolerance of compare, 15 %")
    for error in (30, 15, 0, -15, -30, -45):
        picture.line(left, down(error), right, down(error), "dash" if error else "line")
        picture.text(left - 4, down(error) + 4, f"{error:+d} %" if error else "0 %", anchor="end")
    for slowdown in (0.6, 1, 1.5, 2, 3):
        picture.line(across(slowdown), down(-45), across(slowdown), down(-45) + 5)
        picture.text(across(slowdown), down(-45) + 18, f"{slowdown:g}", anchor="middle")
    for kind, rows in slowdowns().items():
        for measured, simulated in rows:
            picture.dot(across(measured), down(100 * (simulated / measured - 1)), kind)
    picture.text(right, down(0) + 18, "rr-job: 46", anchor="end")
    picture.text(right, 306, "measured workload slowdown", "", "end")
    picture.key(296, [("a", "synthetic", 8), ("b", "third-party", 92)])
    return picture


def slowdowns() -> dict[str, list[tuple[float, float]]]:
    """Measured and simulated workload slowdowns: synthetic programs (a), and third-party programs (b)."""
    columns = {
        "a": ("every-policy.md", r"([\d.]+) \([\d.]+-[\d.]+\) \| ([\d.]+)"),
        "b": ("recorded-programs.md", r"([\d.]+) / ([\d.]+)"),
    }
    return {
        kind: [
            (float(measured), float(simulated))
            for measured, simulated in re.findall(pattern, (EVIDENCE / page).read_text())
        ]
        for kind, (page, pattern) in columns.items()
    }


PICTURES: tuple[Callable[[], Picture], ...] = (
    *(lanes, wait, phases, slot, events, hosts, preload, ranks, families),
    agreement,
)


def main(folder: Path) -> None:
    """Write all pictures."""
    for picture in PICTURES:
        (folder / f"{picture.__name__}.svg").write_text(picture().svg())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
