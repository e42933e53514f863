"""``mesh``: space sharing of a mesh of two dimensions by submeshes, pages or blocks.

Processor p is in column p mod ``columns`` and row p div ``columns``. ``free`` is a set of processors
(``region_policy``). Each allocator returns the processors that it takes for a job, in the order of the
job's ranks, or nothing.
"""

from collections.abc import Callable
from functools import cache
from typing import Annotated, NamedTuple

from coordinator.policies.regions.region_policy import NONE, Region, RegionPolicy, first, mask, members
from coordinator.policies.registry import register
from coordinator.view import Machine
from workloads.parameters import Bounds, OneOf
from workloads.patterns import grid
from workloads.validation import InputError


class Grid(NamedTuple):
    """The sides of a mesh."""

    columns: int
    rows: int


class Submesh(NamedTuple):
    """The sides of a submesh."""

    width: int
    height: int


@cache
def shape(processes: int, grid: Grid) -> Submesh | None:
    """The submesh that a job with this size asks for; None if it is larger than the mesh.

    Of all that hold the job, fit, are at most twice as long as wide, and no longer than the block of a
    buddy would be, the one of least area, of equals the most nearly square; if none is, the one of least
    area that fits.
    """
    longest = block_side(processes)
    submeshes = (Submesh(width, -(-processes // width)) for width in range(1, grid.columns + 1))
    fitting = [one for one in submeshes if one.height <= grid.rows]
    return min(
        fitting,
        key=lambda one: (max(one) > min(longest, 2 * min(one)), one.width * one.height, max(one), -one.width),
        default=None,
    )


def block_side(processes: int) -> int:
    """The side of the smallest square that holds so many processes, and is a power of two."""
    return 1 << ((processes - 1).bit_length() + 1) // 2


def corners(free: int, submesh: Submesh, grid: Grid) -> int:
    """The corners with the lowest column and row of all free submeshes of these sides."""
    if submesh.width > grid.columns or submesh.height > grid.rows:
        return 0
    wide = free & _cells(range(grid.rows), range(grid.columns - submesh.width + 1), grid.columns)
    for column in range(1, submesh.width):
        wide &= free >> column
    free_corners = wide
    for row in range(1, submesh.height):
        free_corners &= wide >> row * grid.columns
    return free_corners


@cache
def _cells(rows: range, columns: range, width: int) -> int:
    return mask(row * width + column for row in rows for column in columns)


def _ranks(corner: int, submesh: Submesh, grid: Grid, *, turned: bool = False) -> Region:
    """The processors of a submesh, row by row, a ``turned`` one column by column; none without a corner."""
    along, across = (grid.columns, 1) if turned else (1, grid.columns)
    return tuple(
        corner + row * across + column * along
        for row in range(submesh.height if corner != NONE else 0)
        for column in range(submesh.width)
    )


def _both(free: int, processes: int, grid: Grid) -> tuple[Region, Region]:
    """The lowest free submesh that is upright, and the lowest that lies on its side."""
    area = shape(processes, grid)
    if area is None:
        return (), ()
    upright, turned = (corners(free, sides, grid) for sides in (area, Submesh(*reversed(area))))
    return _ranks(first(upright), area, grid), _ranks(first(turned), area, grid, turned=True)


def frame_sliding(free: int, processes: int, grid: Grid) -> Region:
    """The first free frame of those that lie side by side from the lowest free processor on.

    The frame has the sides that the job asks for; it slides by its own width along a row, and by its own
    height to the next row of frames. It misses free submeshes that lie between two frames.
    Source: Chuang and Tzeng 1991, "An efficient submesh allocation strategy for mesh computer systems".
    """
    frame = shape(processes, grid)
    if frame is None or not free:
        return ()
    candidates = corners(free, frame, grid)
    begin, left = divmod(first(free), grid.columns)
    for row in range(begin, grid.rows, frame.height):
        for column in range(left % frame.width, grid.columns, frame.width):
            corner = row * grid.columns + column
            if candidates >> corner & 1:
                return _ranks(corner, frame, grid)
    return ()


def adaptive_scan(free: int, processes: int, grid: Grid) -> Region:
    """The lowest free submesh of the sides that the job asks for; if there is none, the lowest on its side.

    Source: Ding and Bhuyan 1993, "An adaptive submesh allocation strategy for two-dimensional mesh connected
    systems". Its strides only skip corners that cannot be free, so they do not matter here.
    """
    upright, turned = _both(free, processes, grid)
    return upright or turned


def first_fit(free: int, processes: int, grid: Grid) -> Region:
    """The free submesh with the lowest corner, upright or on its side, of two there the upright one.

    The allocator "interval-sets" finds the same: Morgenstern 1994, "Methods for precise submesh allocation"
    (the survey gives the name only), intersects the intervals of columns at which a submesh can begin.
    """
    return min(filter(None, _both(free, processes, grid)), key=lambda region: region[0], default=())


def buddy(free: int, processes: int, grid: Grid) -> Region:
    """A square block whose side is a power of two, out of the smallest free buddy that holds one.

    Source: Li and Cheng 1991, "A two-dimensional buddy system for dynamic resource allocation in a
    partitionable mesh connected system".
    """
    return _block(free, block_side(processes), grid)


def multiple_buddy(free: int, processes: int, grid: Grid) -> Region:
    """As many square blocks as needed, the largest first; always found if enough processors are free.

    A job of p processes asks for blocks by the digits of p to the base 4. A block that is not there is
    replaced by four of half the side.
    Source: Lo, Windisch, Liu and Nitzberg 1997, "Noncontiguous processor allocation algorithms for
    mesh-connected multicomputers".
    """
    if free.bit_count() < processes:
        return ()
    region: list[int] = []
    side = 1 << (processes.bit_length() - 1) // 2
    while len(region) < processes:
        block = _block(free, side, grid) if side * side <= processes - len(region) else ()
        if not block:
            side //= 2
            continue
        region += block
        free &= ~mask(block)
    return tuple(region)


def paging(free: int, processes: int, grid: Grid, page: int = 1) -> Region:
    """Square pages of side ``page``, row by row; those at the upper edges may be cut off.

    With pages of one processor it fails only if too few processors are free.
    Source: Lo, Windisch, Liu and Nitzberg 1997, Paging with row-major order.
    """
    region: list[int] = []
    for row in range(0, grid.rows, page):
        for column in range(0, grid.columns, page):
            sides = Submesh(min(page, grid.columns - column), min(page, grid.rows - row))
            place = _ranks(row * grid.columns + column, sides, grid)
            pages = mask(place)
            if free & pages == pages:
                region += place
            if len(region) >= processes:
                return tuple(region)
    return ()


def _block(free: int, side: int, grid: Grid) -> Region:
    """A free aligned square, in the smallest wholly free buddy that has one; of equals the lowest."""
    sides = Submesh(side, side)
    blocks = _blocks(free, side, grid)
    while blocks:
        larger = _blocks(free, 2 * side, grid)
        for corner in members(blocks):
            row, column = divmod(corner, grid.columns)
            parent = row // (2 * side) * 2 * side * grid.columns + column // (2 * side) * 2 * side
            if not larger >> parent & 1:
                return _ranks(corner, sides, grid)
        blocks, side = larger, 2 * side
    return ()


def _blocks(free: int, side: int, grid: Grid) -> int:
    """The corners of all free squares whose column and row are multiples of their side."""
    aligned = _cells(range(0, grid.rows, side), range(0, grid.columns, side), grid.columns)
    return corners(free, Submesh(side, side), grid) & aligned


ALLOCATORS: dict[str, Callable[[int, int, Grid], Region]] = {
    "buddy": buddy,
    "frame-sliding": frame_sliding,
    "adaptive-scan": adaptive_scan,
    "first-fit": first_fit,
    "interval-sets": first_fit,
    "paging": paging,
    "multiple-buddy": multiple_buddy,
}
"""Each gets the free processors, the number of processes and the mesh."""


@register("mesh")
class MeshAllocation(RegionPolicy):
    """First come, first served on submeshes, or on any processors with a non-contiguous allocator.

    The mesh is the machine's, if that is a mesh or a torus (whose joined edges no submesh crosses); else
    the most nearly square one of all processors.

    Attributes:
        allocator: which processors it finds, and in which order (``ALLOCATORS``).
        page: side of a page of "paging".
    """

    allocator: Annotated[str, OneOf(ALLOCATORS)] = "first-fit"
    page: Annotated[int, Bounds(1, 4096)] = 1
    source = (
        "Li and Cheng 1991; Chuang and Tzeng 1991; Ding and Bhuyan 1993; Zhu 1992; Morgenstern 1994; "
        "Lo et al. 1997; the survey"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.page > 1 and self.allocator != "paging":
            rule = f"the allocator {self.allocator!r} has no pages"
            raise InputError("page", self.page, rule, 'write allocator = "paging", or leave page out')

    def region(self, free: int, processes: int, machine: Machine) -> Region:
        """Processors for that many processes, in rank order; empty if there are none."""
        rows, columns = grid(machine.processors)
        mesh = Grid(*machine.topology.sides or (columns, rows))
        if self.allocator == "paging":
            return paging(free, processes, mesh, self.page)
        return ALLOCATORS[self.allocator](free, processes, mesh)
