"""When which job ran, as a record keeps it: what was kept comes back, and nothing else is believed."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest

from coordinator import policies
from coordinator.view import Submitter
from harness.simulator.jobs.event_by_event import simulate
from harness.simulator.jobs.kept_outcome import EVERY, TIMES, kept, known
from harness.simulator.jobs.model import Jobs

PROCESSORS = 4
NUMBERS = np.array([7, 8, 12])


@pytest.fixture(scope="module")
def outcome():
    """Three jobs, of which the last two share the processors after the first one."""
    size, nothing = np.array([4, 3, 1]), np.zeros(3)
    jobs = Jobs(np.array([0, 10, 20]), size, size, np.array([4.0, 3.0, 2.0]), nothing, nothing, np.ones(3))
    return simulate(jobs, PROCESSORS, policies.create("fcfs", {}))[0]


def changed(outcome, **columns):
    """A kept outcome in which some columns are others; None leaves one out."""
    with np.load(io.BytesIO(base64.b64decode(kept(outcome, NUMBERS)))) as stored:
        every = {name: columns.get(name, stored[name]) for name in stored}
    file = io.BytesIO()
    np.savez_compressed(file, **{name: column for name, column in every.items() if column is not None})
    return base64.b64encode(file.getvalue()).decode()


def test_what_is_kept_comes_back(outcome):
    again, numbers = known(kept(outcome, NUMBERS), PROCESSORS)
    assert numbers.tolist() == NUMBERS.tolist()
    assert all(np.array_equal(getattr(again, name), getattr(outcome, name)) for name in TIMES)
    assert all(map(np.array_equal, again.jobs.columns, outcome.jobs.columns))
    assert again.places == {job: list(place) for job, place in outcome.places.items()}


OURS = (Submitter("anna", partition="batch"), Submitter("bert", "physics", "batch", "0"))


@pytest.fixture
def submitted(outcome):
    return replace(outcome, jobs=replace(outcome.jobs, submitters=(OURS[1], OURS[0], OURS[1])))


def test_who_submitted_the_jobs_comes_back(outcome, submitted):
    assert known(kept(submitted, NUMBERS), PROCESSORS)[0].jobs.submitters == submitted.jobs.submitters
    assert known(kept(outcome, NUMBERS), PROCESSORS)[0].jobs.submitters == ()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"submitters": np.zeros((2, 4))}, "no lines of names"),
        ({"submitters": np.array([["a", "b"]])}, "no lines of names"),
        ({"submitter": None}, "no submitter of each job"),
        ({"submitter": np.zeros(2, dtype=np.int64)}, "no submitter of each job"),
        ({"submitter": np.array([0, 2, 1])}, "without a name"),
        ({"submitter": np.array([0, -1, 1])}, "without a name"),
    ],
)
def test_submitters_that_cannot_be_are_refused(submitted, columns, said):
    with pytest.raises(ValueError, match=said):
        known(changed(submitted, **columns), PROCESSORS)


@pytest.mark.parametrize("name", EVERY)
def test_a_column_that_lacks_or_has_no_number_for_each_job_is_refused(outcome, name):
    for column in (None, np.zeros(2, dtype=np.int64), np.array(["a", "b", "c"]), np.zeros((3, 1), np.int64)):
        with pytest.raises(ValueError, match=f"{name}|numbers|entries"):
            known(changed(outcome, **{name: column}), PROCESSORS)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"size": np.array([1, -1, 1])}, "a size"),
        ({"size": np.array([1, np.nan, 1])}, "a size"),
        ({"places": np.array([[0, 0, 4], [1, 0, 0], [2, 0, 0]])}, "outside of 4 processors"),
        ({"places": np.array([[0, 2, 1], [1, 0, 0], [2, 0, 0]])}, "outside of 4 processors"),
        ({"places": np.array([[0, 0, 3]])}, "without its processors"),
        ({"places": np.array([0, 0, 3])}, "no rows of job"),
    ],
)
def test_what_no_schedule_can_be_is_refused(outcome, columns, said):
    with pytest.raises(ValueError, match=said):
        known(changed(outcome, **columns), PROCESSORS)


@pytest.mark.parametrize("text", ["", "x", "bm8gemlw", base64.b64encode(b"PK\5\6" + bytes(18)).decode()])
def test_a_text_without_columns_is_refused(text):
    with pytest.raises(ValueError, match="outcome"):
        known(text, PROCESSORS)
