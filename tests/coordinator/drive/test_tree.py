"""A tree of agents on eight emulated hosts with a fan-out of two, and what is killed in it."""

import json
import os
import random
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults import part, start
from netns_cluster import reused, unavailable
from runs import command, eventually, state, text

pytestmark = pytest.mark.slow

LEADS = {0: (1,), 1: (2, 3), 4: (5,), 5: (6, 7)}
"""Whom each agent leads: four levels below the driver would be one too many."""

JOBS = 16
"""Two for each host, which take turns."""


@pytest.fixture(scope="module")
def clusters_of_eight():
    if why := unavailable():
        pytest.skip(why)
    with reused(8) as give:
        yield give


@pytest.fixture
def hosts(clusters_of_eight):
    """Eight emulated hosts and a head, on which nothing is left of another test."""
    return clusters_of_eight()


def peers(host):
    """The addresses to which connections of a host lead."""
    lines = Path(f"/proc/{host.init}/net/tcp").read_text().splitlines()[1:]
    ends = [line.split()[2].split(":")[0] for line in lines if line.split()[3] == "01"]
    return {".".join(str(byte) for byte in bytes.fromhex(ip)[::-1]) for ip in ends}


def arranged(hosts):
    """Whether every agent reports to the one that leads it."""
    pairs = [(led, leader) for leader, nodes in LEADS.items() for led in nodes]
    return all(hosts.nodes[leader].address in peers(hosts.nodes[led]) for led, leader in pairs)


def held(pid):
    """Whether a process is stopped, or has yet to stop: it does so when a processor is free for it."""
    fields = dict(line.split(":", 1) for line in text(f"/proc/{pid}/status").splitlines())
    pending = int(fields.get("ShdPnd", "0"), 16) >> signal.SIGSTOP - 1 & 1
    return state(pid) == "T" or pending == 1


def holds(host):
    return any(held(pid) for pid in host.processes())


def begun(hosts, reach=True, **options):
    """A run under way: the tree is there if hosts ``reach`` others, and something is held on all at once.

    Hosts that were looked at in turn might have ended their jobs by then, where others are slower.
    """
    chosen = {"policy": "gang", "mechanism": "signals", "phases": 6000, "lease_s": 6.0, **options}
    run = start(hosts, jobs=JOBS, processes=1, fan_out=2, timeout_s=170, **chosen)
    assert not reach or eventually(lambda: arranged(hosts), 60), run.stderr.read()
    assert eventually(lambda: all(map(holds, hosts.nodes)), 60), run.poll()
    return run


def nothing_is_left(hosts):
    assert eventually(lambda: not hosts.processes() and not hosts.files(), 30), (
        [" ".join(command(pid)) for pid in hosts.processes()],
        hosts.files(),
    )


def judged(told, lost=()):
    """All jobs of other hosts have finished, and the driver has heard of each change of slot once."""
    failed = [job for job, failure in enumerate(told["jobs"]) if failure]
    assert failed == sorted(job for job in range(JOBS) if job % 8 in lost), told
    assert [number for number, node in enumerate(told["nodes"]) if node["lost"]] == sorted(lost)
    assert told["switches"] > 100 and not told["told_twice"]


@contextmanager
def unreachable(hosts, how):
    """A context in which no agent reaches its leader: packets find no route, or the answers none."""
    pairs = [(led, leader) for leader, nodes in LEADS.items() for led in nodes]
    rules = [
        (led, f"to {hosts.nodes[leader].address} ipproto tcp prohibit")
        if how == "refused"
        else (leader, f"to {hosts.nodes[led].address} ipproto tcp blackhole")
        for led, leader in pairs
    ]
    for number, rule in rules:
        hosts.nodes[number].network(f"rule add pref 1 {rule}")
    try:
        yield
    finally:
        for number, rule in rules:
            hosts.nodes[number].network(f"rule del pref 1 {rule}")


@pytest.mark.parametrize("how", [pytest.param("refused", marks=pytest.mark.soak), "dropped"])
def test_where_agents_cannot_reach_each_other_all_report_to_the_driver(hosts, how):
    """By a firewall that answers, or that does not."""
    with unreachable(hosts, how):
        run = begun(hosts, reach=False)
        assert not eventually(lambda: arranged(hosts), 2)
        judged(json.loads(run.communicate(timeout=170)[0]))
    nothing_is_left(hosts)


def test_lost_agents_take_their_own_jobs_along_and_no_others(hosts):
    """The driver leads 0, and agents lead 3 and 5; 0 and 5 lead others, whose clocks remain known."""
    run = begun(hosts)
    lost = {0: signal.SIGKILL, 3: signal.SIGKILL, 5: signal.SIGSTOP}
    for number, signum in lost.items():
        os.kill(part(hosts.nodes[number], "coordinator.node.agent"), signum)
    told = json.loads(run.communicate(timeout=170)[0])
    judged(told, lost)
    for number, node in enumerate(told["nodes"]):
        if number not in lost:
            error_ns = abs(node["offset_ns"] + (number + 1) * 1000 * 10**9)
            assert error_ns <= node["uncertainty_ns"] < 50_000_000 and not node["dropped"] + node["steps"]
    nothing_is_left(hosts)


KILLS = int(os.environ.get("LOCKSTEP_KILLS", "100"))
SEED = os.environ.get("LOCKSTEP_KILLS_SEED", str(random.randrange(10**6)))


@pytest.mark.soak
@pytest.mark.parametrize("number", range(KILLS))
def test_nothing_remains_after_a_kill_at_a_random_instant(hosts, number):
    """Of an agent, wherever it is in the tree, or of the driver."""
    choices = random.Random(f"{SEED}-{number}")
    print(f"LOCKSTEP_KILLS_SEED={SEED}, number {number}")
    victim = choices.choice([*range(8), "driver"])
    run = begun(hosts)
    eventually(lambda: False, choices.uniform(0.0, 1.0))
    if isinstance(victim, int):
        os.kill(part(hosts.nodes[victim], "coordinator.node.agent"), signal.SIGKILL)
        judged(json.loads(run.communicate(timeout=170)[0]), {victim})
    else:
        os.kill(part(hosts.head, "runs.py"), signal.SIGKILL)
        run.communicate(timeout=60)
    nothing_is_left(hosts)
