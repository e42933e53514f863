"""CPU quotas of control groups, in both versions, from files; and what the kernel's do to real processes."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from runs import workload

from coordinator.drive.driver import run_workload
from coordinator.host import cleanup, mechanisms, quotas
from coordinator.host.mechanisms import base_among, remove_cgroups
from coordinator.host.processes import Process
from coordinator.host.quotas import QuotaGroup, Throttled
from coordinator.host.rundir import RunDirectory
from harness.spec.experiment import load
from workloads.options import Options
from workloads.validation import InputError


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """The directory of the groups; this process is in the group ``a/b`` of each version."""
    bases = {"": tmp_path / "v2/a/b", "cpu": tmp_path / "v1/a/b"}
    for base in bases.values():
        base.mkdir(parents=True)
    monkeypatch.setattr(quotas, "cgroup_base", bases.get)
    return tmp_path


STAT = "nr_periods 9\nnr_throttled 3\nthrottled_usec 1500000\n"


@pytest.mark.parametrize(
    ("files", "found", "throttled"),
    [
        ({"v2/a/b/cpu.max": "max 100000\n", "v2/a/cpu.max": ""}, {}, Throttled(0, 0.0)),
        (
            {"v2/a/b/cpu.max": "max 100000\n", "v2/a/cpu.max": "150000 100000\n", "v2/a/cpu.stat": STAT},
            {"v2/a": 1.5},
            Throttled(3, 1.5),
        ),
        (
            {
                **{"v1/a/b/cpu.cfs_quota_us": "50000\n", "v1/a/b/cpu.cfs_period_us": "100000\n"},
                **{"v1/a/cpu.cfs_quota_us": "-1\n", "v1/a/cpu.cfs_period_us": "100000\n"},
                "v1/a/b/cpu.stat": "nr_throttled 2\nthrottled_time 250000000\n",
            },
            {"v1/a/b": 0.5},
            Throttled(2, 0.25),
        ),
    ],
    ids=["none", "a group around", "version 1"],
)
def test_the_quotas_of_all_groups_around_count(groups, files, found, throttled):
    for name, text in files.items():
        (groups / name).write_text(text)
    assert quotas.quotas() == {groups / name: processors for name, processors in found.items()}
    assert quotas.throttled() == throttled


@pytest.mark.parametrize(
    ("root", "group", "below"),
    [
        ("/", "/jobs/7", "jobs/7"),
        ("/docker/1f", "/docker/1f", ""),
        ("/docker/1f", "/docker/1f/x", "x"),
        ("/docker/1f", "/docker/1f2", "docker/1f2"),
    ],
)
def test_the_group_of_a_controller_is_found_also_in_a_container(tmp_path, root, group, below):
    (tmp_path / below).mkdir(parents=True, exist_ok=True)
    mounts = (
        "30 28 0:27 / /other rw - cgroup cgroup rw,cpuset\n"
        f"31 28 0:28 {root} {tmp_path} rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    )
    groups = f"5:cpuset:/elsewhere\n4:cpu,cpuacct:{group}\n0::/\n"
    assert base_among(mounts.encode(), groups.encode(), b"cpu") == tmp_path / below
    assert base_among(mounts.encode(), groups.encode()) is None


def test_a_group_with_a_quota_is_made_where_groups_have_the_controller(groups, monkeypatch, runtime):
    top = groups
    monkeypatch.setattr(mechanisms, "cgroup_base", lambda of="": top / ("v1/a/b" if of else "v2/a/b"))
    (top / "v2/a/cgroup.subtree_control").write_text("cpuset cpu memory\n")
    (top / "v2/a/b/cgroup.subtree_control").write_text("memory\n")
    assert mechanisms.quota_base() == top / "v2/a"
    made = []

    def make(group):
        group.mkdir()
        (group / "cpu.max").write_text("max 100000\n")
        made.append(group)

    monkeypatch.setattr(quotas, "make_in_use", make)
    directory = RunDirectory.create()
    options = Options(quota_processors=1.5, quota_period_ms=20)
    QuotaGroup(directory, options)
    assert made == [top / "v2/a" / f"lockstep-{directory.run}"] == mechanisms.cgroups_of_runs()
    assert (made[0] / "cpu.max").read_text() == "30000 20000"
    assert {"cgroup": str(made[0])} in directory.notes()
    (top / "v2/a/cgroup.subtree_control").write_text("\n")
    assert mechanisms.quota_base() == top / "v1/a/b"


@pytest.mark.parametrize(
    ("base", "reason"), [(None, "gives its groups the CPU"), ("/dev/null", "in /dev/null")]
)
def test_where_no_group_can_be_made_a_run_is_refused_and_a_simulation_is_not(monkeypatch, base, reason):
    monkeypatch.setattr(quotas, "quota_base", lambda: base and Path(base))
    with pytest.raises(InputError) as caught:
        load("quota", here=True)
    assert "quota_processors" in caught.value.key and reason in caught.value.rule
    assert "simulate" in caught.value.remedy
    assert len(load("quota").schedulers) == 9


def test_a_run_gets_no_more_than_this_process_has(groups):
    (groups / "v2/a/cpu.max").write_text("100000 100000\n")
    assert (
        quotas.unavailable(Options(quota_processors=1.5))
        == "this process has a quota itself, of 1 processors"
    )


@pytest.mark.parametrize("setting", ["local=rr", "mechanism=freezer", "schedulers.0.remedy.kind=activations"])
def test_what_would_leave_the_group_or_the_class_of_the_quota_is_refused(setting):
    key = setting.partition("=")[0].removeprefix("schedulers.0.")
    with pytest.raises(InputError) as caught:
        load("quota", settings=["schedulers.0.policy=gang", setting])
    assert caught.value.key.endswith(key) or "quota_processors" in caught.value.key
    assert "SCHED_OTHER" in caught.value.rule


def test_a_quota_is_of_one_host():
    with pytest.raises(InputError, match="of one host"):
        load("quota", settings=["hosts=['a','b']"])


@pytest.fixture
def limited():
    """The file by which a process enters a real group with a quota of 0.1 processors."""
    base = quotas.cgroup_base("cpu") or quotas.cgroup_base()
    if base is None or not os.access(base, os.W_OK):
        pytest.skip("no control group can be made here")
    group = base / f"test-quota-{os.getpid()}"
    group.mkdir()
    try:
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text("10000 100000")
        elif (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_quota_us").write_text("10000")
        else:
            pytest.skip("this control group has no CPU controller")
        yield str(group / "cgroup.procs")
    finally:
        remove_cgroups(group)


SPIN = """
import json, os, sys, time
from harness.store.conditions import Moment, of_run, of_session
with open(sys.argv[1], "w") as procs:
    procs.write("0")
session, before = of_session([0, 1], ""), Moment.now([0, 1])
end = time.monotonic() + 1
child = os.fork()
while time.monotonic() < end:
    pass
if not child:
    os._exit(0)
os.wait()
during = of_run(session, before, Moment.now([0, 1]))
print(json.dumps(during.recorded()))
"""


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two must spin at once")
def test_the_kernel_stops_two_that_spin_and_the_conditions_tell_how_long(limited):
    during = json.loads(subprocess.check_output([sys.executable, "-c", SPIN, limited], timeout=60))
    assert during["quota_processors"] == 0.1
    assert 1 <= during["throttled_periods"] <= 13
    assert 0 < during["throttled"] <= 1


def needs_a_quota(options):
    if reason := quotas.unavailable(options):
        pytest.skip(reason)


@pytest.mark.slow
@pytest.mark.usefixtures("runtime")
def test_a_real_run_gets_its_quota_and_its_group_is_gone_afterwards():
    """Two ranks that spin use 0.2 of a processor, so that most of the time they are stopped."""
    options = Options(quota_processors=0.2)
    needs_a_quota(options)
    before = mechanisms.cgroups_of_runs()
    result = run_workload(replace(workload(jobs=1, phases=800), options=options))
    assert result.failure == ""
    periods, lost_s = result.throttled
    run_s, used_s = result.jobs[0].finish_ns / 1e9, sum(rank.cpu_ns for rank in result.ranks) / 1e9
    assert used_s >= 0.15
    assert used_s / run_s < 0.3
    assert periods >= 1
    assert lost_s > 0
    assert mechanisms.cgroups_of_runs() == before


@pytest.mark.slow
def test_a_killed_run_leaves_a_group_that_clean_finds_and_removes(directory):
    options = Options(quota_processors=0.1)
    needs_a_quota(options)
    quota = QuotaGroup(directory, options)
    (group,) = [one for one in mechanisms.cgroups_of_runs() if one.name == f"lockstep-{directory.run}"]
    assert mechanisms.in_use(group)
    assert not mechanisms.populated(group)
    with subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) as spinner:
        quota.adopt(Process(spinner.pid))  # without a mark: the group alone tells that it is of the run
        assert mechanisms.populated(group)
        actions = cleanup.release(directory)
        assert spinner.wait(10) < 0
    assert any("ended 1 process" in line for line in actions)
    assert not group.exists()
