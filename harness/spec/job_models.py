"""The models of random jobs that ``[model]`` of an experiment without processes may name as its ``kind``.

Their parameters are here; ``harness.predict.drawn_jobs`` draws the jobs.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from workloads.bounds import SIMULATED_PROCESSORS, fits
from workloads.machine import ARRIVALS, JOB_CLASSES
from workloads.parameters import Bounds, Checked, OneOf, OrInfinite
from workloads.validation import InputError


@dataclass(frozen=True)
class JobModel(Checked):
    """The common base of all models.

    Attributes:
        kind: the name by which experiment files choose it.
    """

    kind: ClassVar[str]
    count: Annotated[int, Bounds(2, 10_000_000)] = 20_000  # jobs of a replication

    def check(self, processors: int, lost: int) -> None:
        """Refuse a model whose jobs may not fit the machine without its ``lost`` processors."""

    @property
    def table(self) -> dict[str, Any]:
        """Its keys and values, as records have them; the kind is not among them if it is the usual one."""
        kind = {} if self.kind == USUAL else {"kind": self.kind}
        return kind | dataclasses.asdict(self)


@dataclass(frozen=True)
class SevcikModel(JobModel):
    """Random jobs with Sevcik's execution time function."""

    kind: ClassVar[str] = "sevcik"
    # "exponential", "hyperexponential" or "geometric" times between arrivals.
    arrivals: Annotated[str, OneOf(ARRIVALS)] = "exponential"
    # Mean demand over the CPU time between two arrivals.
    load: Annotated[float, Bounds(1e-6, 1000)] = 0.7
    cv: Annotated[float, Bounds(1.000001, 1000)] = 2.0  # coefficient of variation of hyperexponential times
    # Probability of each exponential stage of the work.
    shares: tuple[Annotated[float, Bounds(1e-9, 1)], ...] = (0.125, 0.875)
    means_s: tuple[Annotated[float, Bounds(1e-9, 1e9)], ...] = (101.0, 1.3)  # mean work of each stage
    # Values of the maximum parallelism, equally likely.
    maxima: tuple[Annotated[int, Bounds(1, SIMULATED_PROCESSORS)], ...] = (4, 16, 64)
    # Values of mu in alpha = W most^(-2 mu), equally likely; inf for alpha = 0.
    mu: tuple[Annotated[float, OrInfinite()], ...] = (float("inf"),)
    rigid: bool = False  # whether jobs need exactly their maximum

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.shares) != len(self.means_s) or abs(sum(self.shares) - 1) > 1e-6:
            raise InputError(
                "shares",
                list(self.shares),
                "must have an entry for each of means_s and add up to 1",
                "write [0.125, 0.875]",
            )

    def check(self, processors: int, lost: int) -> None:
        """Refuse rigid jobs that are larger than what is left of the machine."""
        for index, most in enumerate(self.maxima if self.rigid else ()):
            fits(f"model.maxima[{index}]", min(most, processors), processors, lost=lost)


@dataclass(frozen=True)
class LublinModel(JobModel):
    """Rigid jobs with the sizes, run times and arrivals of Lublin and Feitelson 2003; they have no users."""

    kind: ClassVar[str] = "lublin"
    # Work of all jobs over what the processors can do until the last one arrives; None leaves arrivals as
    # they are.
    load: Annotated[float, Bounds(1e-6, 1000)] | None = None
    # Which jobs arrive, each class in its own stream; "all": both as one class.
    classes: tuple[Annotated[str, OneOf(JOB_CLASSES)], ...] = ("batch", "interactive")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.classes)) < len(self.classes):
            raise InputError(
                "classes", list(self.classes), "cannot have a class twice", 'write ["batch", "interactive"]'
            )


KINDS: Mapping[str, type[JobModel]] = {model.kind: model for model in (SevcikModel, LublinModel)}
USUAL = SevcikModel.kind
"""The models by kind, and the kind of a table without one."""
