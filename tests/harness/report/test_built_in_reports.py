"""The reports of all built-in experiments, and one of commands, in a browser: telephone, window and paper."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import fake_records
import pytest
from browser import BROWSER, cut, overlaps, seen
from runs import needs_two

from harness.spec import experiment, experiment_source, job_level

needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
pytestmark = [needs_two, pytest.mark.slow, needs_browser]
NAMES = ["commands", *experiment_source.built_in()][::-1]
"""From the end of the alphabet: the largest one, ``validation``, comes first."""

COMMANDS = {
    "name": "commands",
    "processors": 2,
    "repeats": 2,
    "jobs": [
        {"command": ["mpiexec.own", "-n", "2", "./a-solver-with-a-long-name", "--grid", "1024x1024", word]}
        for word in ("--tolerance=1e-9", "--tolerance=1e-12")
    ],
    "schedulers": [
        {"policy": "none"},
        {"policy": "implicit"},
        {"policy": "gang", "quantum_ms": 10},
        {"policy": "multilevel-two-queue", "quanta_ms": [20, 60, 100]},
    ],
}


@pytest.fixture(scope="module")
def sights(tmp_path_factory):
    """What there is to see of each page in each width."""
    folder = tmp_path_factory.mktemp("pages")
    trace = folder / "log.swf"
    fake_records.write_trace(trace, jobs=120)
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        return seen(dict(zip(NAMES, pool.map(partial(page, trace=trace), NAMES), strict=True)), folder)


def page(name, trace):
    if name == "commands":
        return fake_records.report(experiment.load(COMMANDS))
    written = experiment_source.read(name)
    if "level" not in written.data:
        return fake_records.report(experiment.load(name))
    return fake_records.job_report(job_level.load(written, trace=str(trace) if name == "trace" else None))


@pytest.mark.parametrize("name", NAMES)
def test_no_text_overlaps_or_is_cut_and_nothing_is_empty(sights, name):
    for width, sight in sights[name].items():
        assert len(sight.lines) > 60, "all texts are looked at"
        assert not overlaps(sight.lines), width
        assert not cut(sight.lines, width), width
        assert not sight.empty, width


def test_a_page_of_commands_names_their_launcher(sights):
    (line,) = {line.text for line in sights["commands"][1300].lines if "commands start" in line.text}
    assert line.endswith("; commands start with mpiexec.own")
