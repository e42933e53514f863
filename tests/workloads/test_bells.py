"""Two-phase waits in a program that is not ours, whose ranks are on two nodes."""

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from native_programs import LOCKSTEP, recorded, two_phase
from netns_cluster import cluster, unavailable
from runs import eventually, text

from workloads import native

RUNG, TIMED_OUT, LOOPBACK = 0, 1, 9  # of doorbell.h
EXEC = [*LOCKSTEP, "exec", "--waiting"]


def run(hosts, before, ranks, *program):
    """What the program prints and what is said, with its ranks dealt to the hosts in turn."""
    argv = [*before, "mpiexec", "-hosts", ",".join(hosts.hosts), "-ppn", "1", "-n", str(ranks), *program]
    job = hosts.start(argv)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    return out, err


def datagrams(hosts):
    """How many UDP datagrams the two hosts have received."""
    counts, _ = run(hosts, [], 2, "grep", "Udp:", "/proc/net/snmp")
    return sum(map(int, re.findall(r"^Udp: (\d+)", counts, re.MULTILINE)))


def answers(printed):
    """The lines of all ranks. MPI does not say whether a message that was only probed is cancelled."""
    return sorted(re.sub(r"(probe: .*) cancelled \d", r"\1", line) for line in printed[0].splitlines())


def test_a_rank_on_another_node_rings(hosts, compiled, tmp_path):
    """A rank that blocks asks for a ring, and the other one rings: few waits end with a nap instead."""
    before = datagrams(hosts)
    blocked, late, _ = rechecks(hosts, [compiled("here", "bsp.c"), "20000", "1.5", "24"], tmp_path)
    assert blocked >= 20
    assert datagrams(hosts) - before >= 1.5 * blocked
    assert late <= blocked / 4


def said_of_rings(err):
    """What the library says, but that records do not come out of an emulated host."""
    lines = [line for line in err.splitlines() if line.startswith("lockstep:")]
    return [line for line in lines if "the record of a rank" not in line]


LONE = ("link add docker0 type veth peer name inside", "link set docker0 up", "link set inside up")
"""Up and with a carrier, and leads nowhere."""
DEAD = ("link add docker0 type bridge", "link set docker0 up")  # has no carrier
SAME = "addr add 172.17.0.1/16 dev docker0"
OWN = "addr add 172.17.0.{number}/16 dev docker0"
ALONE = (
    "addr add {address}/32 dev eth0",
    "addr del {address}/24 dev eth0",
    "route add 10.119.0.0/24 dev eth0",
)
"""Networks of clouds: no two hosts are in one."""
MANY = [
    command
    for number in range(5)
    for command in (
        f"link add docker{number} type veth peer name inside{number}",
        f"addr add 172.1{number}.0.{{number}}/16 dev docker{number}",
        f"link set docker{number} up",
        f"link set inside{number} up",
    )
]


@pytest.fixture
def again():
    """Hosts whose network may be changed."""
    if reason := unavailable():
        pytest.skip(reason)
    with cluster(2) as hosts:
        yield hosts


def dress(hosts, commands):
    for number, node in enumerate(hosts.nodes, 1):
        node.network(*(command.format(number=number, address=node.address) for command in commands))


def rechecks(hosts, loop, records, ranks=2):
    """How many waits blocked, how many of these ended with a nap, and what was said."""
    _, err = run(hosts, [*EXEC, "immediate", "--record", str(records), "--"], ranks, *loop)
    records_of_ranks = recorded(records)
    blocked = sum(waits.blocked for record in records_of_ranks for waits in record.waits.kinds)
    return blocked, sum(record.rechecks for record in records_of_ranks), err


@pytest.mark.parametrize(
    "commands",
    [[*LONE, SAME, *ALONE], [*LONE, OWN, *ALONE], [*DEAD, OWN, *ALONE], [*MANY, *ALONE]],
    ids=["same", "lone", "dead", "many"],
)
def test_ranks_ring_on_the_network_that_they_share(again, compiled, tmp_path, commands):
    dress(again, commands)
    blocked, late, err = rechecks(again, [compiled("here", "bsp.c"), "10000", "1.5", "30"], tmp_path)
    assert blocked >= 24 and late <= blocked / 5
    assert not said_of_rings(err)


def test_it_is_said_once_that_datagrams_do_not_pass(again, compiled, tmp_path):
    again.nodes[1].network("rule add blackhole ipproto udp")
    _, late, err = rechecks(again, [compiled("here", "bsp.c"), "1000", "1", "50"], tmp_path, 4)
    assert late == 0
    (line,) = said_of_rings(err)
    assert re.search(r"UDP datagrams of rank \d do not reach rank \d.*let UDP pass", line)


RIGHTS = "-sys_ptrace,-dac_override,-dac_read_search"
APART = {
    "unreadable": ["setpriv", "--bounding-set", RIGHTS, "--inh-caps", RIGHTS, "env"],
    "users": ["unshare", "--user", "--map-root-user"],
    "processes": ["unshare", "--user", "--map-root-user", "--pid", "--fork"],
}
"""Ranks that may not look into each other."""


@pytest.mark.parametrize("how", APART)
def test_ranks_that_may_not_look_into_each_other_ring(compiled, tmp_path, how):
    """Of 5 ms a rank that can be rung sleeps 1, 2 and 4 ms, one that cannot 50 us to 0.4 ms."""
    if subprocess.run([*APART[how], "true"], capture_output=True, check=False).returncode:
        pytest.skip(f"no {' '.join(APART[how])} here")
    program = shutil.copy(compiled("here", "bsp.c"), tmp_path / "program")
    Path(program).chmod(0o111 if how == "unreadable" else 0o755)
    loop = ["mpiexec", "-n", "2", *APART[how], program, "10000", "1.5", "40"]
    result = two_phase(loop, "--waiting", "immediate", "--record", str(tmp_path / "rec"))
    assert result.returncode == 0, result.stderr
    assert not said_of_rings(result.stderr)
    waits = [kind for record in recorded(tmp_path / "rec") for kind in record.waits.kinds]
    blocked = sum(kind.blocked for kind in waits)
    blocks = sum(kind.blocks for kind in waits)
    assert blocked >= 27 and blocks <= 4.5 * blocked


NO_PAGE = """#include <errno.h>
int memfd_create(const char *name, unsigned flags) { (void)name; (void)flags; errno = EPERM; return -1; }"""
NO_NETWORK = ["unshare", "--user", "--map-root-user", "--net"]


@pytest.mark.parametrize("reason", ["page", "network"])
def test_it_is_said_once_that_ranks_cannot_ring(compiled, tmp_path, monkeypatch, reason):
    if reason == "page":
        (tmp_path / "no_page.c").write_text(NO_PAGE)
        library = str(tmp_path / "no_page.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "no_page.c"], check=True)
        monkeypatch.setenv("LD_PRELOAD", library)
        before = []
        expected = "cannot all share memory (rank 0: Operation not permitted)"
    else:
        if subprocess.run([*NO_NETWORK, "true"], capture_output=True, check=False).returncode:
            pytest.skip("no namespaces of users here")
        before = NO_NETWORK
        expected = "has no network"
    loop = [*before, compiled("here", "bsp.c"), "1000", "1", "20"]
    result = two_phase(["mpiexec", "-n", "3", *loop], "--waiting", "immediate")
    assert result.returncode == 0 and result.stdout.split()[-1] == "60", result.stderr
    (line,) = said_of_rings(result.stderr)
    assert expected in line


def test_killed_ranks_of_other_nodes_leave_no_shared_memory(hosts, compiled):
    def begun():
        pids = [pid for node in hosts.nodes for pid in node.processes()]
        return [pid for pid in pids if "memfd:lockstep" in text(f"/proc/{pid}/maps")]

    where = ["mpiexec", "-hosts", ",".join(hosts.hosts), "-ppn", "2", "-n", "4"]
    job = hosts.start([*EXEC, "immediate", "--", *where, compiled("here", "bsp.c"), "100", ".5", "10000000"])
    assert eventually(lambda: len(begun()) == 4)
    assert eventually(lambda: not left(hosts))
    for pid in begun():
        with suppress(ProcessLookupError):  # the launcher may end it, too, once another is dead
            os.kill(pid, signal.SIGKILL)
    job.communicate(timeout=60)
    assert job.returncode != 0 and not left(hosts)


def left(hosts):
    """MPICH's segments in the nodes' shared memory."""
    return [name for node in hosts.nodes for name in node.files() if "mpich" in name]


CARD_BYTES = 64  # more than it has


def sockets():
    return {int(path.name) for path in Path("/proc/self/fd").iterdir() if path.is_socket()}


@pytest.fixture(scope="module")
def bell_alone(tmp_path_factory):
    """The part of the library that makes bells."""
    library = tmp_path_factory.mktemp("bell") / "bell.so"
    source = Path(native.__file__).parent / "doorbell.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture
def bell(bell_alone):
    """The bell of the only rank of a job, and its descriptor."""
    library = bell_alone
    before = sockets()
    card = ctypes.create_string_buffer(CARD_BYTES)
    if library.doorbell_open(card):
        pytest.skip("this host has no network")
    (descriptor,) = sockets() - before
    assert library.doorbell_join(0, 1, ctypes.c_uint64(1)) == 0
    library.doorbell_introduce(0, card, LOOPBACK)
    yield library, descriptor
    library.doorbell_close()


def test_a_bell_rings_for_who_has_asked(bell):
    library, _ = bell
    assert library.doorbell_heed() == 0
    library.doorbell_ask(0)
    assert library.doorbell_heed() == 1
    library.doorbell_ring(0)
    assert library.doorbell_heed() == 0
    assert library.doorbell_sleep(ctypes.c_int64(10**9)) == RUNG


def test_an_empty_datagram_of_a_stranger_hides_nothing(bell):
    library, descriptor = bell
    with socket.socket(fileno=os.dup(descriptor)) as mine, socket.socket(type=socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"", ("127.0.0.1", mine.getsockname()[1]))
    library.doorbell_ask(0)
    assert library.doorbell_heed() == 1
    assert library.doorbell_sleep(ctypes.c_int64(1000)) == TIMED_OUT
    library.doorbell_ring(0)  # the library would remember who has asked


def test_a_file_of_the_program_with_the_number_of_the_bell_is_left_alone(bell):
    library, descriptor = bell
    mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with mine, other:
        os.dup2(mine.fileno(), descriptor)
        other.send(b"for the program")
        assert library.doorbell_heed() == 0
        assert library.doorbell_sleep(ctypes.c_int64(1000)) == TIMED_OUT
        assert mine.recv(100, socket.MSG_DONTWAIT) == b"for the program"
        os.close(descriptor)


def test_nothing_is_written_to_a_file_of_the_program(bell):
    library, descriptor = bell
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as mine:
        mine.connect(server.getsockname())
        accepted, _ = server.accept()
        with accepted:
            os.dup2(mine.fileno(), descriptor)
            library.doorbell_ask(0)
            accepted.setblocking(False)
            with pytest.raises(BlockingIOError):
                accepted.recv(100)
            os.close(descriptor)


FLOOD = """
import os, random, socket, sys, time
out, sent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0
while not os.path.exists(sys.argv[1]):
    ports = [int(line.split()[1].split(":")[1], 16) for line in open("/proc/net/udp").readlines()[1:]]
    for port in ports:
        for length in (0, 1, 24, 24, 25, 4000):
            noise = bytes(24) if random.random() < .3 else os.urandom(length)
            out.sendto(noise, ("127.0.0.1", port))
            sent += 1
    time.sleep(.001)
print(sent)
"""


def test_datagrams_of_strangers_change_nothing(hosts, compiled, tmp_path):
    flood = ["-hosts", ",".join(hosts.hosts), "-ppn", "1", "-n", "2", sys.executable, "-P", "-c", FLOOD]
    stranger = hosts.start(["mpiexec", *flood, str(tmp_path / "over")])
    try:
        printed, _ = run(
            hosts, [*EXEC, "immediate", "--"], 2, compiled("here", "bsp.c"), "1000", "0.5", "1000"
        )
    finally:
        (tmp_path / "over").touch()
    assert printed.split()[1] == "2000"
    sent, err = stranger.communicate(timeout=60)
    assert sum(map(int, sent.split())) > 100, err


def test_rare_and_wrong_uses_give_across_nodes_what_they_give_without(hosts, compiled):
    program = compiled("here", "rare.c")
    plain = answers(run(hosts, [], 3, program))
    assert len(plain) > 20
    assert answers(run(hosts, [*EXEC, "immediate", "--"], 3, program)) == plain
