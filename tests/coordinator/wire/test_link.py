"""The line between driver and agents: what the library does to it, and what others try."""

import socket
import subprocess
import sys

import pytest
from places import SUPPORT

from coordinator.host.environment import forwarded
from coordinator.wire.zmq_transport import TcpListener

pytestmark = pytest.mark.slow

KILLED = """
import os, sys, tempfile, time
from coordinator.wire.zmq_transport import Hub, Keys, Line
place, longest_s = tempfile.mkdtemp(), 0
for number in range(100):
    ours, its = Keys.make(), Keys.make()
    hub = Hub(f"ipc://{place}/{number}", ours, {its.public: 0})
    child = os.fork()
    if not child:
        line = Line(f"ipc://{place}/{number}", ours.public, its)
        line.send(b"hello")
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


def test_hanging_up_takes_no_longer_than_it_may_when_a_peer_was_killed():
    words = [sys.executable, "-c", KILLED]
    result = subprocess.run(words, env=forwarded({}), capture_output=True, text=True, check=True, timeout=120)
    assert float(result.stdout) < 5


LEFT = """
import sys
from coordinator.wire.zmq_transport import Keys, Line
line = Line(f"ipc://{sys.argv[1]}/nobody", Keys.make().public, Keys.make())
line.send(b"hello")
del line
"""


def test_an_end_that_an_error_leaves_open_does_not_hold_its_process_back(tmp_path):
    words = [sys.executable, "-c", LEFT, str(tmp_path)]
    subprocess.run(words, env=forwarded({}), check=True, timeout=120)


def reached(endpoint, patience_s):
    address, port = endpoint.removeprefix("tcp://").split(":")
    try:
        return socket.create_connection((address, int(port)), patience_s)
    except TimeoutError:
        return None


def test_nobody_comes_through_a_door_that_is_shut_and_who_is_in_stays():
    listener = TcpListener("127.0.0.1")
    assert listener.endpoint.startswith("tcp://127.0.0.1:")
    assert reached(listener.endpoint, 0.2) is None
    listener.open()
    guest = reached(listener.endpoint, 10)
    assert guest is not None
    with socket.socket(fileno=listener.descriptor()) as listening:
        host, _ = listening.accept()
    listener.shut()
    assert reached(listener.endpoint, 0.2) is None
    guest.send(b"still here")
    assert host.recv(10) == b"still here"
    for one in (guest, host):
        one.close()
    listener.close()


NODE = """
import sys, time
from coordinator.wire.zmq_transport import Keys, Line
sys.stdin.readline()
endpoint, key, public, secret = sys.argv[1:]
line = Line(endpoint, key, Keys(public, secret))
line.send(b"hello")
while line.receive() != [b"welcome"]:
    time.sleep(0.01)
"""

CROWDED = """
import os, resource, select, subprocess, sys, time
from coordinator.wire.zmq_transport import Hub, Keys
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
ours, its = Keys.make(), Keys.make()
hub = Hub("tcp://127.0.0.1:0", ours, {its.public: 0})
words = [sys.executable, "-c", sys.argv[1], hub.endpoints[0], ours.public, its.public, its.secret]
node = subprocess.Popen(words, stdin=subprocess.PIPE)
poll = select.poll()
for descriptor in hub.filenos():
    poll.register(descriptor, select.POLLIN)

def wait(condition, max_s=30):
    end_s = time.monotonic() + max_s
    while not condition(hub.receive()):
        assert time.monotonic() < end_s
        poll.poll(10)

def taken():
    return len([number for number in range(1024) if os.path.lexists(f"/proc/self/fd/{number}")])

before = taken()
hub.listen(True)
sys.stdout.write(hub.endpoints[0] + "\\n")
sys.stdout.flush()
sys.stdin.readline()  # the attack has begun
wait(lambda heard: taken() > 900)
node.stdin.close()
wait(lambda heard: heard == [(0, b"hello")])
hub.listen(False)
mine = [open(os.devnull) for _ in range(60)]
wait(lambda heard: taken() < before + 80)
hub.send(0, b"welcome")
wait(lambda heard: node.poll() == 0)
sys.stdout.write("as if nothing had been\\n")
"""


def test_a_crowd_at_the_door_takes_no_place_from_who_has_a_key():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    words = [sys.executable, "-c", CROWDED, NODE]
    with subprocess.Popen(words, env=forwarded({}), **pipes) as driver:
        address, port = driver.stdout.readline().strip().removeprefix("tcp://").split(":")
        attack = [sys.executable, str(SUPPORT / "attack.py"), address, port, "1100"]
        with subprocess.Popen(attack, **pipes) as attacker:
            assert attacker.stdout.readline() == "attacking\n"
            out, _ = driver.communicate("go on\n", timeout=100)
            attacker.kill()
    assert out == "as if nothing had been\n"


LIMITS = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 1000))
from coordinator.host import launch
from coordinator.host import processes
processes.raise_descriptor_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
place = Path(sys.argv[1])
launch.start(["sh", "-c", "sleep 0.1; ulimit -Sn; ulimit -Hn"], {}, place / "out", place / "err").wait()
print(*(place / "out").read_text().split())
processes.raise_descriptor_limit(processes.RESERVED_DESCRIPTORS)
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_we_have_all_descriptors_that_we_may_and_what_we_start_as_many_as_before(tmp_path):
    words = [sys.executable, "-c", LIMITS, str(tmp_path)]
    result = subprocess.run(words, env=forwarded({}), capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["(1000, 1000)", "100 1000", "(936, 1000)"]
