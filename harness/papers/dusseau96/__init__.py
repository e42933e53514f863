"""Dusseau, Arpaci, Culler 1996: implicit scheduling against coscheduling, Figures 2 to 13."""

from harness.papers.dusseau96 import claims  # noqa: F401 - each registers itself with the paper
from harness.papers.dusseau96.model import PAPER

__all__ = ["PAPER"]
