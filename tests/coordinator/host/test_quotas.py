"""CPU quotas of control groups, in both versions, from files; and what the kernel's do to real processes."""

import json
import os
import subprocess
import sys

import pytest

from coordinator.host import quotas
from coordinator.host.mechanisms import base_among, remove_cgroups
from coordinator.host.quotas import Quota, Throttled


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A function that writes files of groups; this process is in the group ``a/b`` of each version."""
    bases = {"": tmp_path / "v2/a/b", "cpu": tmp_path / "v1/a/b"}
    for base in bases.values():
        base.mkdir(parents=True)
    monkeypatch.setattr(quotas, "cgroup_base", bases.get)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_max", ".max").replace("_stat", ".stat")
            path.write_text(text)
        return tmp_path

    return write


def test_without_a_quota_nothing_is_limited(groups):
    groups(v2__a__b__cpu_max="max 100000\n", v2__a__cpu_max="")
    assert quotas.quotas() == []
    assert quotas.throttled() == Throttled(0, 0.0)


def test_the_quotas_of_all_groups_around_count(groups):
    stat = "usage_usec 5\nnr_throttled 3\nthrottled_usec 1500000\n"
    top = groups(v2__a__b__cpu_max="max 100000\n", v2__a__cpu_max="150000 100000\n", v2__a__cpu_stat=stat)
    assert quotas.quotas() == [Quota(top / "v2/a", 1.5)]
    assert quotas.throttled() == Throttled(3, 1.5)


def test_version_1_has_its_own_files_and_units(groups):
    top = groups(v1__a__b__cpu_stat="nr_periods 9\nnr_throttled 2\nthrottled_time 250000000\n")
    (top / "v1/a/b/cpu.cfs_quota_us").write_text("50000\n")
    (top / "v1/a/b/cpu.cfs_period_us").write_text("100000\n")
    (top / "v1/a/cpu.cfs_quota_us").write_text("-1\n")
    (top / "v1/a/cpu.cfs_period_us").write_text("100000\n")
    assert quotas.quotas() == [Quota(top / "v1/a/b", 0.5)]
    assert quotas.throttled() == Throttled(2, 0.25)


@pytest.mark.parametrize(
    ("root", "group", "below"),
    [("/", "/jobs/7", "jobs/7"), ("/docker/1f", "/docker/1f", ""), ("/docker/1f", "/docker/1f/x", "x")],
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


ENTER = "import os, sys; open(sys.argv[1], 'w').write('0'); os.execv(sys.executable, sys.argv[2:])"


@pytest.fixture
def limited():
    """A function that runs Python in a real group with a quota of 0.3 processors."""
    base = quotas.cgroup_base("cpu") or quotas.cgroup_base()
    if base is None or not os.access(base, os.W_OK):
        pytest.skip("no control group can be made here")
    group = base / f"test-quota-{os.getpid()}"
    group.mkdir()
    try:
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text("30000 100000")
        elif (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_quota_us").write_text("30000")
        else:
            pytest.skip("this control group has no CPU controller")

        def run(*words):
            python = [sys.executable, "-c", ENTER, str(group / "cgroup.procs"), sys.executable]
            return subprocess.run([*python, *words], capture_output=True, text=True, timeout=60, check=False)

        yield run
    finally:
        remove_cgroups(group)


SPIN = """
import json, os, time
from harness.store.conditions import Moment, of_run, of_session
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
    done = limited("-c", SPIN)
    during = json.loads(done.stdout)
    assert during["quota_processors"] == 0.3
    assert 1 <= during["throttled_periods"] <= 13
    assert 0.05 < during["throttled"] <= 1  # less where others take much of the time
