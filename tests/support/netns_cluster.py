"""Hosts that are not there: each is a set of namespaces on this machine, with a clock of its own.

A host has its own network (a veth on a common bridge), host name, processes, shared memory,
runtime directory, control group and CLOCK_MONOTONIC. Its first process takes commands as sshd would, on a
socket in the file system that all hosts share; netns_ssh.py is its ssh. When the first process ends, the
kernel ends everything else of the host.
"""

import functools
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from netns_ssh import HEAD, SOCKETS
from places import ROOT

NETWORK = "10.119.0"
"""Of the addresses, which exist inside the namespaces only."""

PYTHON = (sys.executable, "-S", "-E")
"""Starts in a few milliseconds."""

SSH = (*PYTHON, str(Path(__file__).with_name("netns_ssh.py").resolve()))
"""The way to a host: its address and a command follow."""

NAMESPACES = ("--net", "--uts", "--ipc", "--mount", "--pid", "--time")
UNSHARE = ("unshare", *NAMESPACES, "--fork", "--mount-proc", "--kill-child")


class Host:
    """One emulated host; ``address`` is how the others reach it."""

    def __init__(self, name, number, core, root, ahead_s):
        self.name = name
        self.address = f"{NETWORK}.{number}"
        self.root = root
        runtime = root / "runtime"
        self.group = _control_group(f"{root.name}-{name}")
        group = str(self.group) if self.group else None
        settings = json.dumps({"name": name, "core": core, "runtime": str(runtime), "group": group})
        me = [*PYTHON, str(Path(__file__).resolve()), settings, str(root / self.address)]
        argv = [*UNSHARE, "--monotonic", str(ahead_s), *me]
        self._unshare = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        self._deadline = time.monotonic() + 10

    @functools.cached_property
    def init(self):
        """The pid of its first process, which takes commands by now."""
        while not (self.root / self.address).exists():
            late = time.monotonic() > self._deadline or self._unshare.poll() is not None
            assert not late, f"{self.name} does not start"
            time.sleep(0.005)
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children").read_text()
        return int(children.split()[0])

    def network(self, *commands):
        batch = ["nsenter", "-t", str(self.init), "-n", "ip", "-batch", "-"]
        subprocess.run(batch, input="\n".join(commands), text=True, check=True)

    def enter(self, *words):
        """The command line that runs ``words`` there without its first process."""
        return ["nsenter", "-t", str(self.init), "-a", *words]

    def plug(self, on):
        """Connect it to the others, or cut it off."""
        self.network(f"link set eth0 {'up' if on else 'down'}")

    def command(self, argv):
        """The command line that runs ``argv`` there."""
        return [*SSH, self.address, shlex.join(argv)]

    def processes(self):
        """Pids, as seen from outside, of its processes but for the first."""
        found = []
        try:
            ours = Path(f"/proc/{self.init}/ns/pid").readlink()
        except OSError:  # it has ended
            return found
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                if process.name.isdigit() and (process / "ns/pid").readlink() == ours:
                    found.append(int(process.name))
        return [pid for pid in found if pid != self.init]

    def files(self):
        """What lies in its runtime directory and shared memory, and groups below its own."""
        from runs import everything_in  # noqa: PLC0415 - as ssh this file has no packages

        groups = [str(group) for group in self.group.glob("*/")] if self.group else []
        root = Path(f"/proc/{self.init}/root")
        if not root.exists():
            return groups
        places = (root / str(self.root / "runtime").lstrip("/"), root / "dev/shm")
        return groups + [name for place in places for name in everything_in(place)]

    @property
    def alive(self):
        return self._unshare.poll() is None

    def unplug(self):
        """Pull the plug, without waiting for the end."""
        self._unshare.kill()

    def end(self):
        self.unplug()
        self._unshare.wait()
        if self.group:
            from coordinator.host.mechanisms import remove_cgroups  # noqa: PLC0415 - see above

            remove_cgroups(self.group, 10)
            assert not self.group.exists(), f"something of {self.name} is left in {self.group}"


def _control_group(name):
    """A new group below that of this process; None where it cannot make one, and all hosts share one."""
    from coordinator.host.mechanisms import cgroup_base  # noqa: PLC0415 - as ssh this file has no packages

    base = cgroup_base()
    with suppress(OSError):
        if base:
            (base / name).mkdir()
            return base / name
    return None


class Cluster:
    """A head host, where drivers run, and nodes of one core each.

    Attributes:
        environment: for commands that are run on the head: there, ``ssh`` is ours.
    """

    def __init__(self, nodes, root):
        cores = sorted(os.sched_getaffinity(0))
        (root / "runtime").mkdir()
        self.root = root
        self.head = Host("head", HEAD, None, root, 0)
        self.nodes = []
        try:
            for number in range(1, nodes + 1):  # all start at once
                core = cores[(number - 1) % len(cores)]
                self.nodes.append(Host(f"node{number}", number, core, root, 1000 * number))
            self._connect()
        except BaseException:
            self.end()
            raise
        script = root / "ssh"
        script.write_text(f'#!/bin/sh\nexport {SOCKETS}={root}\nexec {shlex.join(SSH)} "$@"\n')
        script.chmod(0o700)
        self.environment = {
            **os.environ,
            SOCKETS: str(root),
            "PYTHONPATH": str(ROOT),
            "XDG_RUNTIME_DIR": str(root / "runtime"),
            "HYDRA_LAUNCHER": "ssh",
            "HYDRA_LAUNCHER_EXEC": str(script),
            "HYDRA_IFACE": "bridge",
            # Left to themselves the libraries see one machine, and try shared memory.
            "MPICH_CH4_NETMOD": "ofi",
            "FI_PROVIDER": "tcp",
        }

    def _connect(self):
        for node in self.nodes:
            node.network(
                f"link add eth0 type veth peer name {node.name} netns {self.head.init}",
                f"addr add {node.address}/24 dev eth0",
                "link set eth0 up",
                "link set lo up",
            )
        self.head.network(
            # A bridge without an address takes that of a port, and loses it when the port's host ends.
            "link add bridge address 02:00:00:00:00:01 type bridge",
            f"addr add {self.head.address}/24 dev bridge",
            "link set bridge up",
            "link set lo up",
            *(f"link set {node.name} master bridge up" for node in self.nodes),
        )

    @property
    def hosts(self):
        return [node.address for node in self.nodes]

    def start(self, argv, **options):
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            self.head.command(argv),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def processes(self):
        return [pid for host in (self.head, *self.nodes) for pid in host.processes()]

    def files(self):
        """What lies in all runtime directories and shared memories."""
        return [path for host in (self.head, *self.nodes) for path in host.files()]

    @property
    def as_new(self):
        """Whether all hosts live, and nothing that somebody has started or made is left on them."""
        alive = all(host.alive for host in (self.head, *self.nodes))
        return alive and not self.processes() and not self.files()

    def end(self):
        for host in (*self.nodes, self.head):
            host.unplug()
        for host in (*self.nodes, self.head):
            host.end()


def unavailable():
    """Why hosts cannot be emulated here; empty if they can."""
    try:
        trial = [*UNSHARE, "ip", "link", "add", "v0", "type", "bridge"]
        done = subprocess.run(trial, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"hosts cannot be emulated here: {error}"
    return f"hosts cannot be emulated here: {done.stderr.strip()}" if done.returncode else ""


@contextmanager
def cluster(nodes):
    """So many nodes and a head; afterwards nothing of them is left."""
    with TemporaryDirectory(prefix="ls-hosts-") as root:
        made = Cluster(nodes, Path(root))
        try:
            yield made
        finally:
            made.end()


@contextmanager
def reused(nodes):
    """A function that gives a cluster: the one that it gave before if that is as new, else another."""
    with ExitStack() as stack:
        given = []

        def give():
            if not (given and given[0].as_new):
                stack.close()
                given[:] = [stack.enter_context(cluster(nodes))]
            return given[0]

        yield give


def init(settings, path):
    """Be the first process of a host: take commands and descriptors, run them, tell their status."""
    options = json.loads(settings)
    socket.sethostname(options["name"])
    for place in (options["runtime"], "/dev/shm"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", place], check=True)
    if options["group"] is not None:  # and all that descends from here
        Path(options["group"], "cgroup.procs").write_text("0")
    if options["core"] is not None:
        os.sched_setaffinity(0, {options["core"]})
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    clients = {}
    wake = socket.socketpair()
    for end in wake:
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake[0].fileno())
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(wake[1], select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == listener.fileno():
                client, _ = listener.accept()
                if pid := serve(client, options):
                    clients[pid] = client
                else:
                    client.close()
            else:
                wake[1].recv(4096)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                client = clients.pop(ended[0], None)
                if client:
                    with suppress(OSError):
                        client.sendall(bytes([os.waitstatus_to_exitcode(ended[1]) & 0xFF]))
                    client.close()


def serve(client, options):
    """Fork and execute what a client wants; returns the pid, or 0 if it was killed before it said so."""
    message, descriptors, _, _ = socket.recv_fds(client, 1 << 18, 3)
    if not message:
        return 0
    request = json.loads(message)
    pid = os.fork()
    if pid:
        for descriptor in descriptors:
            os.close(descriptor)
        return pid
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, 256)
    with suppress(OSError):
        os.chdir(request["directory"])
    os.execve("/bin/bash", ["bash", "-c", request["command"]], request["environment"])


if __name__ == "__main__":
    init(*sys.argv[1:])
