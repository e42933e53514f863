"""What another user does in tests: functions for ``runs.as_nobody``, whose arguments are words."""

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import attack

from coordinator.host import cleanup
from coordinator.host.processes import environment_of, find
from coordinator.host.rundir import RunDirectory


def hang_up_on(path):
    """Connect to a socket and say hello there; it must hang up."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(10)
        line.connect(path)
        with suppress(ConnectionError):
            line.sendall(b'{"type":"hello","version":1,"job":0,"rank":0}\n')
            assert line.recv(100) == b""


def be_forbidden(path):
    """Find that the kernel allows no connection to a socket."""
    try:
        hang_up_on(path)
    except PermissionError:
        return
    raise AssertionError(f"{path} can be connected to")


def send(name, text):
    """Send a datagram to an abstract socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.sendto(text.encode(), f"\0{name}")


def listen(name):
    """Listen at an abstract socket, and let nobody in, until somebody ends us."""
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(f"\0{name}")
        own.listen()
        signal.pause()


def connect(name):
    """Connect to an abstract socket, and say nothing, until somebody ends us."""
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(f"\0{name}")
        signal.pause()


def hammer(port, count):
    """Keep connections open to a port of this host that say nothing, or garbage."""
    attack.main("127.0.0.1", int(port), int(count))


def rename(place, name):
    Path(place).rename(Path(place).with_name(name))


def remove_old_files(temporary):
    """Find no old files in a directory."""
    cleanup.TEMPORARY = Path(temporary)
    assert cleanup.remove_files(time.time()) == []


def remove_what_is_closed():
    """Remove a run directory of which a program has closed parts to itself."""
    directory = RunDirectory.create()
    closed = directory.temporary / "closed"
    (closed / "below").mkdir(parents=True)
    (closed / "below" / "file").touch()
    (closed / "link").symlink_to(directory.path)
    (closed / "below").chmod(0)
    closed.chmod(0o500)
    assert directory.remove()


def execute_only(runtime):
    """Release, by its journal, a program that may only be executed."""
    os.environ["XDG_RUNTIME_DIR"] = runtime
    directory = RunDirectory.create()
    program = directory.temporary / "program"
    shutil.copy(shutil.which("sleep") or "", program)
    program.chmod(0o111)
    process = subprocess.Popen([program, "60"], env=directory.marks)
    try:
        directory.note_process(process.pid, 0)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert environment_of(process.pid) == {} and find(directory.run) == []
        directory.unlock()
        assert f"run {directory.run}: ended 1 process" in cleanup.clean()
        assert process.wait(5) == -signal.SIGTERM
    finally:
        process.kill()
