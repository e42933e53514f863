"""Results of ranks that nobody has run."""

from workloads.record import RankResult

PLACED = {
    **{"job": 0, "rank": 0, "processes": 2, "processor": 0, "host": "a", "pid": 1},
    **{"start_ns": 1000, "finish_ns": 2000},
}


def rank_result(**known):
    """The result of a rank that ran for 1 us, of which only that is known unless ``known`` says more."""
    return RankResult(**(PLACED | known))
