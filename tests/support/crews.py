"""A crew that only writes down what a conductor orders."""

from collections.abc import Sequence
from typing import Any

from coordinator.decide.session import Plan


class Crew:
    """Keeps orders in turn, plans, and by job where it is, where it was launched, when and where it began."""

    def __init__(self) -> None:
        self.orders: list[tuple[Any, ...]] = []
        self.published: list[tuple[int, Plan]] = []
        self.places: dict[int, Sequence[int]] = {}
        self.launched: dict[int, Sequence[int]] = {}
        self.begun: dict[int, tuple[int, Sequence[int]]] = {}

    def publish(self, plan: Plan, from_ns: int) -> None:
        self.published.append((from_ns, plan))

    def launch(self, job: int, placement: Sequence[int]) -> None:
        self.orders.append(("launch", job, placement))
        self.places[job] = self.launched[job] = placement

    def begin(self, job: int, at_ns: int, placement: Sequence[int]) -> None:
        self.orders.append(("begin", job, at_ns, placement))
        self.places[job] = placement
        self.begun[job] = at_ns, placement

    def resize(self, job: int, placement: Sequence[int]) -> None:
        self.orders.append(("resize", job, placement))

    def move(self, job: int, placement: Sequence[int]) -> None:
        self.orders.append(("move", job, placement))

    def vacate(self, job: int) -> None:
        self.orders.append(("vacate", job))
