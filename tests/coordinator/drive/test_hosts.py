"""Runs across hosts that are emulated by namespaces, and what becomes of them in trouble."""

import json
import os
import signal
import statistics
import sys
import time
from pathlib import Path

import pytest
from faults import FAULTS, fill_disk, inject, part, start
from places import SUPPORT
from runs import AMONG_OTHERS, eventually, needs_two, state, usable

from coordinator.host.processes import GRACE_S

pytestmark = pytest.mark.slow

MS = 1_000_000


@pytest.mark.parametrize(
    "options",
    [
        {"policy": "gang", "options": {"quantum_ms": 10}, "mechanism": "freezer"},
        {"policy": "implicit", "waiting": "global-adaptive", "imbalance_estimate": "arrival-spread"},
    ],
    ids=lambda options: options["policy"],
)
def test_three_jobs_run_across_two_hosts(hosts, options):
    usable(options.get("mechanism", "signals"))
    run = start(hosts, jobs=3, phases=300, **options)
    for line in run.stderr:
        if "has finished" in line:
            finished_s = time.monotonic()
    assert time.monotonic() - finished_s < GRACE_S, "nobody waits for what ends by itself"
    document = json.loads(run.communicate(timeout=60)[0])
    assert document["failure"] == "", document
    assert document["hosts"] == ["node1", "node2"]
    for number, node in enumerate(document["nodes"], start=1):
        # The clocks of the hosts were set ahead by whole thousands of seconds.
        error_ns = abs(node["offset_ns"] + number * 1000 * 10**9)
        assert error_ns <= node["uncertainty_ns"] < 20 * MS
        assert not node["dropped"] and not node["steps"] and not node["lost"]
    if options["policy"] == "gang":
        assert len(document["between_nodes_ns"]) > 3
    if "imbalance_estimate" in options:
        assert all(0 < estimate_ns < 500 * MS for estimate_ns in document["estimates_ns"]), document[
            "estimates_ns"
        ]
    assert not hosts.processes() and not hosts.files()


def calibrate(hosts):
    """Measure messages between the hosts; samples by quantity are printed."""
    script = (
        "import json, sys; from coordinator.host.launcher_choice import find_launcher; "
        "from harness.measure import calibrate; "
        "hosts = json.loads(sys.argv[1]); launcher = find_launcher(hosts=hosts); "
        "print(json.dumps(calibrate.mpi_probe_between(launcher, hosts)()))"
    )
    return hosts.start([sys.executable, "-c", script, json.dumps(hosts.hosts)])


@needs_two
def test_messages_are_calibrated_between_the_hosts(hosts):
    """A message over TCP takes longer than one through memory, and a wake-up longer than nothing."""
    out, err = calibrate(hosts).communicate(timeout=60)
    assert out, err
    medians = {quantity: statistics.median(samples) for quantity, samples in json.loads(out).items()}
    assert medians.keys() == {"latency_ns", "idle_wakeup_ns"}
    assert 3_000 < medians["latency_ns"] < 5 * MS
    assert medians["idle_wakeup_ns"] > 0
    assert not hosts.processes() and not hosts.files()


def topologies():
    """Files in which proxies describe their host to the ranks; the emulated hosts share them."""
    return list(Path("/tmp").glob("hydra_hwloc_xmlfile_*"))


@pytest.mark.parametrize("victim", ["hydra_pmi_proxy", "mpiexec", "-m mpi4py -m workloads.probe"])
def test_whatever_is_killed_while_messages_are_calibrated_nothing_remains(hosts, victim):
    before = topologies()
    probing = calibrate(hosts)
    assert eventually(lambda: any("mpich_sh" in name for name in hosts.nodes[1].files()))
    host = hosts.head if victim == "mpiexec" else hosts.nodes[1]
    os.kill(part(host, victim), signal.SIGKILL)  # the last: not what has started the others
    probing.communicate(timeout=60)
    assert eventually(lambda: not hosts.processes() and not hosts.files(), 10), hosts.files()
    assert not {*topologies()} - {*before}


ENDS_WITH_A_LEASE = {"agent stopped", "network cut", "node lost", "driver killed", "driver stopped"}
"""Faults that others notice by silence only."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_no_more_than_it_must(hosts, name):
    fault = FAULTS[name]
    lease = {"lease_s": 1.0} if name in ENDS_WITH_A_LEASE else {}
    outcome = inject(hosts, fault, seed=1, phases=8000 if name == "node lost" else 3000, **lease)
    if name == "node lost":
        assert not any(hosts.nodes[0].files())
    else:
        assert outcome.remains == ()
    if outcome.told is not None:
        finished = [job for job, failure in enumerate(outcome.told["jobs"]) if not failure]
        assert set(fault.survivors) <= set(finished), outcome.told
        assert bool(outcome.told["failure"]) == (len(fault.survivors) < 4)
    else:
        assert name == "driver killed"
    assert outcome.released_s < 15


def test_a_node_without_room_is_told_of_and_nothing_remains(hosts):
    fill_disk(hosts)
    run = start(hosts, policy="gang", phases=500, lease_s=1.0)
    document = json.loads(run.communicate(timeout=60)[0])
    assert "node2: no place for the run" in document["failure"]
    assert [path for path in hosts.files() if not path.endswith("filler")] == []
    assert not hosts.processes()


def test_an_agent_that_comes_late_takes_part(hosts):
    run = start(hosts, policy="gang", phases=500, lease_s=1.0)
    late = part(hosts.nodes[1], "coordinator.node.agent")
    os.kill(late, signal.SIGSTOP)
    time.sleep(1.2)  # longer than a node that has joined may be silent
    os.kill(late, signal.SIGCONT)
    document = json.loads(run.communicate(timeout=60)[0])
    assert document["failure"] == "" and document["hosts"] == ["node1", "node2"]


def test_a_job_that_comes_after_the_loss_of_its_node_runs_on_another(hosts):
    """Jobs 1 and 3 belong on the second node; 3 arrives a second after 1, when that is lost."""
    run = start(hosts, policy="gang", jobs=4, processes=1, phases=3000, arrival_s=0.3, lease_s=1.0)
    assert any("job 1 starts" in line for line in run.stderr)
    os.kill(part(hosts.nodes[1], "coordinator.node.agent"), signal.SIGKILL)
    document = json.loads(run.communicate(timeout=60)[0])
    assert [bool(failure) for failure in document["jobs"]] == [False, True, False, False], document["jobs"]
    assert document["placements"] == [[0], [1], [0], [0]]
    assert not hosts.processes() and not hosts.files()


def contents(path):
    """What a file holds, whatever that is; nothing if it is none or gone."""
    try:
        return Path(path).read_bytes().decode(errors="replace") if Path(path).is_file() else ""
    except OSError:
        return ""


TELLING_KEYS = f"""
import runpy, sys
sys.path.insert(0, {str(SUPPORT)!r})
from coordinator.wire.zmq_transport import Keys
made = Keys.__init__

def telling(self, public, secret):
    made(self, public, secret)
    print("key", public, secret, file=sys.stderr, flush=True)

Keys.__init__ = telling
runpy.run_path({str(SUPPORT / "runs.py")!r}, run_name="__main__")
"""
"""Program text: a driver that prints all key pairs that it makes."""


def test_no_key_of_a_run_is_in_an_environment_a_command_line_or_a_file(hosts):
    """Those of launchers and steps travel unencrypted, and everybody may look at what runs."""
    options = {"hosts": hosts.hosts, "policy": "gang", "phases": 2000, "lease_s": 30.0}
    run = hosts.start([sys.executable, "-c", TELLING_KEYS, json.dumps(options)])
    keys = set()
    for line in run.stderr:
        if line.startswith("key "):
            keys |= {*line.split()[1:]}
        elif line.startswith("job ") and "starts" in line:
            break
    assert len(keys) == 8, "of the driver, both nodes, and the one from which theirs follow"
    seen = ""
    for pid in hosts.processes():
        text = "".join(contents(f"/proc/{pid}/{name}") for name in ("cmdline", "environ"))
        assert not any(key in text for key in keys), text
        seen += text
    for part_ in (
        *("mpiexec", "hydra_pmi_proxy", "coordinator.node.agent", "coordinator.host.guardian"),
        "workloads.rank",
    ):
        assert part_ in seen
    files = hosts.files()
    assert any(path.endswith("/journal") for path in files)
    assert not [path for path in files if any(key in contents(path) for key in keys)]
    assert json.loads(run.communicate(timeout=60)[0])["failure"] == ""


EXPERIMENT = """
name = "killed"
repeats = 1

[[jobs]]
count = 2
program = { processes = 2, granularity_us = 10000, phases = 30 }

[[schedulers]]
policy = "gang"
quantum_ms = 50
mechanism = "signals"
"""


def test_resume_repeats_the_run_of_an_invocation_that_was_killed(hosts, tmp_path):
    file = tmp_path / "killed.toml"
    results = tmp_path / "results"
    file.write_text(EXPERIMENT)
    words = [*AMONG_OTHERS, "run", str(file), "--hosts", ",".join(hosts.hosts)]
    words += ["--no-simulate", "--json", "--results", str(results)]
    killed = hosts.start(words)
    assert eventually(lambda: any(state(pid) == "T" for pid in hosts.nodes[1].processes()), 120)
    os.kill(part(hosts.head, str(file)), signal.SIGKILL)
    killed.communicate(timeout=40)
    assert eventually(lambda: not hosts.processes() and not hosts.files())
    out, err = hosts.start([*words, "--resume"]).communicate(timeout=120)
    (row,) = json.loads(out)["rows"]
    assert row["measured"]["workload_slowdown"]["n"] == 1, err
    assert not hosts.processes() and not hosts.files()
