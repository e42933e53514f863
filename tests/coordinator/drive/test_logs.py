"""Output that does not end: it neither fills the disk nor loses its beginning and its end."""

import sys

import pytest
from runs import workload

from coordinator.drive.driver import run_workload
from coordinator.host import launch
from workloads.work import Command

MIB = 1 << 20


def kept_bytes(path):
    return path.stat().st_blocks * 512


def test_a_log_that_is_too_long_loses_its_middle_and_its_writer_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "LOG_BYTES", 2 * MIB)
    log = tmp_path / "log"
    with log.open("wb", buffering=0) as writer:
        writer.write(b"the beginning\n" + b"x" * MIB)
        assert not launch.shorten(log)
        writer.write(b"y" * 3 * MIB + b"\nthe cut\n")
        assert launch.shorten(log) and not launch.shorten(log)
        assert kept_bytes(log) < 2 * MIB and log.stat().st_size == writer.tell()
        assert launch.tail(log, 1) == "the cut"
        writer.write(b"the end\n")
    assert launch.tail(log, 2) == "the cut\nthe end"
    assert launch.head(log).startswith("the beginning\nx")


@pytest.mark.slow
def test_a_job_that_writes_without_end_takes_little_of_the_disk_and_the_others_run(monkeypatch):
    """It writes until it is ended; what it had said at last is in the failure."""
    monkeypatch.setattr(launch, "LOG_BYTES", 8 * MIB)
    seen = []
    shorten = launch.shorten

    def watched(path):
        before = path.stat()
        shortened = shorten(path)
        if shortened:
            seen.append((before.st_size, kept_bytes(path)))
        return shortened

    monkeypatch.setattr(launch, "shorten", watched)
    script = """
import sys, time
end_s = time.time() + 2
while time.time() < end_s:
    sys.stderr.write("x" * 9999 + "\\n")
sys.exit("that was all")
"""
    noisy = Command((sys.executable, "-c", script), 1)
    result = run_workload(workload(processes=1, phases=3000, programs=[noisy, {}]))
    assert "that was all" in result.jobs[0].failure and result.jobs[1].failure == ""
    assert len(seen) > 1 and all(kept < 4 * MIB for _, kept in seen)
    assert any("job-0-err exceeds" in warning for warning in result.warnings), result.warnings
