"""The results of an experiment, as frames of pandas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workloads.validation import former

if TYPE_CHECKING:
    import pandas

    from harness.analyse.results_document import ResultsDocument


@dataclass(frozen=True)
class Results:
    """The results of one experiment.

    Attributes:
        found: rows, warnings and agreement; internal.
    """

    found: ResultsDocument

    def __repr__(self) -> str:
        """The experiment, and how many failures and warnings there are; rows are a frame."""
        counts = f"{len(self.failures)} failures, {len(self.warnings)} warnings"
        return f"<Results of {self.experiment}: rows(), jobs(), {counts}>"

    if not TYPE_CHECKING:  # there, unknown names stay errors

        def __getattr__(self, name: str) -> Any:
            if hint := former(name, vars(Results)):
                raise AttributeError(f"Results has no attribute {name!r}: {hint}")
            return self.__getattribute__(name)  # which raises Python's own error

    @property
    def experiment(self) -> str:
        """The name of the experiment."""
        return self.found.experiment

    @property
    def warnings(self) -> list[str]:
        """Weaknesses of the results, in numbers, with remedies."""
        return list(self.found.warnings)

    @property
    def failures(self) -> list[str]:
        """Failed runs, in words."""
        return list(self.found.failures)

    @property
    def advice(self) -> str:
        """Whether to run the jobs together, by turns, or one after the other; empty without runs."""
        from harness.analyse.sharing import advice  # noqa: PLC0415 - slow to load

        said = advice(self.found.rows)
        return said.sentence if said else ""

    def rows(self) -> pandas.DataFrame:
        """One row for each point of the sweep, scheduler and kind, "measured" or "simulated".

        Columns: the swept keys, ``workload``, ``jobs``, ``scheduler`` (its name), ``policy``, ``waiting``,
        ``kind``, ``slowdown`` (of the workload) with ``low`` and ``high`` (the ends of
        ``interval``: "95 %", of two repeats "least to most") and ``n``,
        ``job_mean`` and ``job_max`` (slowdowns of jobs), ``makespan_s``, ``dedicated_s``, shares of the
        CPU time (``computing``, ...), and ``error`` (simulated over measured slowdown, minus 1).
        Unknown numbers are NaN.
        """
        from harness.analyse.results_document import frame_of_rows  # noqa: PLC0415 - slow to load

        return frame_of_rows(self.found.rows)

    def jobs(self) -> pandas.DataFrame:
        """One row for each job in each row of :meth:`rows`: its number, program, arrival and slowdown."""
        from harness.analyse.results_document import frame_of_jobs  # noqa: PLC0415

        return frame_of_jobs(self.found.rows)

    def to_dict(self) -> dict[str, Any]:
        """The document that ``--json`` prints (docs/reference/results-as-json.md)."""
        return self.found.document()

    def _repr_html_(self) -> str:
        return str(self.rows().round(3).to_html(index=False))
