"""The line between driver and agents: what the library does to it, and what others try."""

from __future__ import annotations

import subprocess
import sys

import pytest

from coordinator.environment import passed_on

KILLED = """
import os, sys, tempfile, time
from coordinator.link import Hub, Keys, Line
place, longest_s = tempfile.mkdtemp(), 0
for number in range(100):
    ours, its = Keys.make(), Keys.make()
    hub = Hub(f"ipc://{place}/{number}", ours, {its.public: 0})
    child = os.fork()
    if not child:
        Line(f"ipc://{place}/{number}", ours.public, its).send(b"hello")
        time.sleep(60)
        os._exit(0)
    while not hub.receive():
        time.sleep(0.001)
    os.kill(child, 9)
    os.waitpid(child, 0)
    hub.send(0, b"are you there?")
    begin_s = time.monotonic()
    hub.close(0)
    longest_s = max(longest_s, time.monotonic() - begin_s)
print(longest_s)
"""


@pytest.mark.slow
def test_hanging_up_takes_no_longer_than_it_may_when_a_peer_was_killed() -> None:
    words = [sys.executable, "-c", KILLED]
    done = subprocess.run(words, env=passed_on({}), capture_output=True, text=True, check=True, timeout=120)
    assert float(done.stdout) < 5
