"""Runs on the same processors notice each other, and nothing of that stays behind."""

import os
import secrets
import signal
import socket
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from runs import eventually, running, workload

from coordinator.drive.driver import run_workload
from coordinator.host.processor_claims import HIGHEST, RUN, ProcessorClaim, holders, rivals

A, B, C = (secrets.token_hex(4) for _ in range(3))
"""Runs; there may be others on this host, also in the place of tests."""


def told_of(run, claim):
    return [line for line in claim.others() if line.startswith(f"run {run} ")]


def test_who_uses_the_same_processors_is_told_until_they_are_let_go():
    ours = ProcessorClaim(A, [0, 1, 2])
    theirs = ProcessorClaim(B, [2, 3, 1])
    elsewhere = ProcessorClaim(C, [7])
    (claim,) = told_of(B, ours)
    assert f"of user {os.getuid()} also uses processors 1-2" in claim
    assert told_of(A, theirs) and not told_of(A, elsewhere) and not told_of(A, ours)
    theirs.close()
    assert not told_of(B, ours)
    ours.close()
    elsewhere.close()


@pytest.mark.slow
def test_a_claim_ends_with_its_process_however_that_ends():
    make = f"from coordinator.host.processor_claims import ProcessorClaim; claim = ProcessorClaim('{B}', [0])"
    script = f"{make}; print(flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    child.stdout.readline()
    ours = ProcessorClaim(A, [0])
    assert len(told_of(B, ours)) == 1
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not told_of(B, ours)
    ours.close()


@given(st.sets(st.integers(0, HIGHEST - 1), max_size=300))
def test_whatever_the_processors_all_are_in_names_that_fit(processors):
    claim = ProcessorClaim(A, processors)
    names = holders(RUN, processors)
    claim.close()
    assert names.get((os.getuid(), A), set()) == processors


RANGES = [b"9-1", b"-", b",,,", b"0-99999999999", b"1-2-3", b"\n", b"\xff", b"a"]
SERIES = [b"x/77.ab/5", b"0/.ab/5", b"0/77.ab/9-1", b"0//5", b"0/\xff/5", b"0/77/,,"]


@pytest.mark.parametrize(
    "name", [*(b"processors/0/ff/" + text for text in RANGES), *(b"series/" + text for text in SERIES)]
)
def test_a_name_that_somebody_made_up_harms_nobody(name):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as liar:
        with suppress(OSError):  # these tests run elsewhere on this host, too
            liar.bind(b"\0lockstep-" + name)
        ours = ProcessorClaim(A, [5])
        names = [*ours.others(), *(rival.name for rival in rivals([5]))]
        assert all(line.isprintable() and len(line) < 200 for line in names)
        ours.close()


@pytest.mark.slow
def test_two_runs_on_the_same_processors_both_say_so(runtime):
    gate = runtime / "gate"
    waiting = ["sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done"]
    with running(jobs=1, command=waiting) as first:
        assert eventually(lambda: first.note() or first.ids)
        (run,) = first.ids
        mine = ProcessorClaim(A, workload().processors)
        assert eventually(lambda: told_of(run, mine))
        mine.close()
        second = run_workload(workload(jobs=1, phases=100))
        gate.touch()
        notes = first.result()
    assert any(f"run {run} " in warning for warning in second.warnings), second.warnings
    assert any("also uses" in warning for warning in notes["warnings"]), notes["warnings"]
    later = ProcessorClaim(A, workload().processors)
    assert not told_of(run, later)
    later.close()
