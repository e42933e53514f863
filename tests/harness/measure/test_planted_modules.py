"""Modules that somebody has planted in the current directory are not executed by what a run starts."""

import pytest
from runs import running, two_processors

from coordinator.host.launcher_choice import find_launcher
from harness.measure import calibrate

pytestmark = pytest.mark.slow

PLANTED = ("socket", "json", "signal", "struct", "zmq", "numpy", "mpi4py", "coordinator", "workloads")


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """The current directory: whoever imports a module from it leaves a trace there."""
    monkeypatch.chdir(tmp_path)
    for name in PLANTED:
        text = f"open({str(tmp_path / 'executed')!r}, 'a').write({name!r}); raise SystemExit({name!r})\n"
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    "options", [{"policy": "gang"}, {"command": ["/bin/true"]}], ids=["programs", "commands"]
)
def test_a_run_executes_none_of_them(planted, options):
    with running(phases=20, jobs=1, **options) as run:
        assert run.result()["failure"] == ""
    assert not (planted / "executed").exists()


def test_the_calibration_executes_none_of_them(planted, monkeypatch):
    probed = calibrate.probed  # which takes seconds for all of its samples
    few = lambda launcher, options, hosts: probed(launcher, [*options, "--samples", "8"], hosts)  # noqa: E731
    monkeypatch.setattr(calibrate, "probed", few)
    assert calibrate.mpi_probe(find_launcher())(two_processors(), 0)
    assert not (planted / "executed").exists()
