"""What it costs to move a process with the settings of systems that the survey names; its sentences checked.

Numbers as they are cited, the papers are not at hand: Artsy and Finkel 1989 (Charlotte: about 45 ms and
12.2 ms for each 2 KB; 242 ms for a process of 32 KB); Theimer, Lantz and Cheriton 1985 (V: 3 s for a MB; two
copies, then 0.5 to 70 KB, for which programs stopped 5 to 210 ms); Zayas 1987 (Accent: up to a thousand times
faster than copying, 58 % fewer bytes); Douglis and Ousterhout 1991 (Sprite: 76 ms, and 660 ms for a MB of
modified pages).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coordinator.migration import Migration, MoveCost
from harness.papers import Claim, arithmetic, verdict

FAST_ETHERNET_MB_S = 12.5
KB = 1 / 1024


@dataclass(frozen=True)
class PublishedMove:
    """A move in one of the systems; ``published`` is the time for which it stops the process, in words."""

    system: str
    migration: Migration
    published: str = ""

    @property
    def cost(self) -> MoveCost:
        """What the model says."""
        return self.migration.cost()


def _charlotte(size_mb: float) -> Migration:
    return Migration("eager", size_mb, 2 * KB / 0.0122, fixed_ms=45.0)


def _v(size_mb: float, dirty: float) -> Migration:
    """V at a dirty rate that is this share of the bandwidth."""
    return Migration("pre-copy", size_mb, 1 / 3, dirty_mb_s=dirty / 3, rounds=2)


def _accent(size_mb: float) -> Migration:
    return Migration("on-reference", size_mb, 1 / 3, touched=0.42, fixed_ms=150.0)


def _sprite(size_mb: float, modified: float) -> Migration:
    return Migration("flush", size_mb, 1 / 0.66, modified=modified, fixed_ms=76.0)


def _here(technique: str, size_mb: float) -> Migration:
    """Each technique on the same network, with a dirty rate of a tenth of the bandwidth."""
    return Migration(technique, size_mb, FAST_ETHERNET_MB_S, dirty_mb_s=FAST_ETHERNET_MB_S / 10)


MOVES = (
    PublishedMove("Charlotte", _charlotte(32 * KB), "0.242 s"),
    PublishedMove("V, eager copy", Migration("eager", 1.0, 1 / 3), "3 s"),
    PublishedMove("V, little is written", _v(1.0, 0.0221), "0.005 s"),
    PublishedMove("V, much is written", _v(1.0, 0.2615), "0.21 s"),
    PublishedMove("Accent, small", _accent(0.1)),
    PublishedMove("Accent, large", _accent(100.0), "a thousandth of copying"),
    PublishedMove("Sprite", _sprite(2.0, 0.5), "0.74 s"),
    *(
        PublishedMove(f"Fast Ethernet, {technique}", _here(technique, 50.0))
        for technique in ("eager", "pre-copy", "on-reference", "flush")
    ),
)


def rows() -> Iterator[dict[str, Any]]:
    """A row for each move: times in seconds, memory in MB."""
    for move in MOVES:
        settings = {key: getattr(move.migration, key) for key in ("technique", "size_mb", "bandwidth_mb_s")}
        yield {
            "figure": "2",
            "system": move.system,
            **settings,
            **move.cost._asdict(),
            "published": move.published,
        }


def claims() -> list[Claim]:
    """One sentence checked, and what follows from the settings above, which are those of the papers."""
    return [
        _several_seconds(),
        _charlotte_small(),
        _v_stops(),
        _accent_constant(),
        _bytes(),
        _behind(),
    ]


def _several_seconds() -> Claim:
    times_s = [_here("eager", size_mb).cost().stopped_s for size_mb in (30.0, 90.0)]
    return Claim(
        "copying several tens of MB takes several seconds even over a Fast Ethernet",
        " to ".join(f"{time_s:.1f}" for time_s in times_s) + " s for 30 to 90 MB",
        verdict(all(2 <= time_s <= 10 for time_s in times_s)),
    )


def _charlotte_small() -> Claim:
    stopped_s = _charlotte(32 * KB).cost().stopped_s
    return Claim(
        "Charlotte moves a process of 32 KB in 242 ms",
        f"{stopped_s * 1e3:.0f} ms",
        arithmetic(abs(stopped_s / 0.242 - 1) <= 0.05),
    )


def _v_stops() -> Claim:
    """The dirty rates are those that leave 0.5 and 70 KB after two copies."""
    eager_s = Migration("eager", 1.0, 1 / 3).cost().stopped_s
    least, most = (_v(1.0, dirty).cost().stopped_s for dirty in (0.0221, 0.2615))
    near = eager_s == 3.0 and least <= 0.01 and 0.1 <= most <= 0.4
    return Claim(
        "V stops programs for 5 to 210 ms, while a copy of their memory takes 3 s for each MB",
        f"{least * 1e3:.1f} to {most * 1e3:.0f} ms, and {eager_s:.0f} s for 1 MB",
        arithmetic(near),
    )


def _accent_constant() -> Claim:
    sizes_mb = (0.01, 0.1, 1.0, 10.0, 100.0)
    stopped_s = [_accent(size_mb).cost().stopped_s for size_mb in sizes_mb]
    eager_s = [Migration("eager", size_mb, 1 / 3, fixed_ms=150.0).cost().stopped_s for size_mb in sizes_mb]
    faster = max(eager / ours for eager, ours in zip(eager_s, stopped_s, strict=True))
    return Claim(
        "copy on reference takes one time for all sizes, a thousand times less than eager copy (Accent)",
        f"{max(stopped_s):.2f} s (assumed) over four orders of magnitude, up to {faster:.0f} times less",
        arithmetic(min(stopped_s) == max(stopped_s) and faster >= 1000),
    )


def _bytes() -> Claim:
    moved = {name: _here(name, 50.0).cost().moved_mb for name in ("eager", "pre-copy", "on-reference")}
    return Claim(
        "eager copy moves memory that is never used; copy on reference does not, and pre-copy moves more",
        ", ".join(f"{name} {mb:.1f} MB" for name, mb in moved.items())
        + " of a process of 50 MB that uses 40 %",
        arithmetic(moved["on-reference"] < moved["eager"] < moved["pre-copy"]),
    )


def _behind() -> Claim:
    residual = {
        name: _here(name, 50.0).cost().residual_mb for name in ("eager", "pre-copy", "on-reference", "flush")
    }
    return Claim(
        "only copy on reference leaves memory on the old machine; a flush leaves it on the file server",
        ", ".join(f"{name} {mb:.0f} MB" for name, mb in residual.items()),
        arithmetic([name for name, mb in residual.items() if mb] == ["on-reference"]),
    )
