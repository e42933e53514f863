"""What keeps ranks from starting, or from being heard of, is named where it is met, with the remedy."""

import sys
from dataclasses import replace

import pytest
from native_programs import LOCKSTEP, hasty_wrapper, launcher, recorded, run, summary, two_phase, wrapper
from rank_results import rank_result

from coordinator.host import causes, launch, memory_limits
from coordinator.host.causes import explained
from workloads import native


def apart(*words, mount="", **extra):
    """Run Lockstep in a mount namespace of its own, after mounting something there."""
    script = f'mount -t tmpfs {mount} || exit 77; exec "$@"'
    result = run(["unshare", "--mount", "sh", "-c", script, "-", *LOCKSTEP, *words], extra=extra)
    if result.returncode in (1, 77) and ("unshare:" in result.stderr or "mount:" in result.stderr):
        pytest.skip("mounting takes privileges")
    return result


@pytest.mark.parametrize(
    "status, said, named",
    [
        (0, "", ""),
        (0, "out\nlockstep: the record of a rank did not arrive: why\n", "did not arrive"),
        (
            1,
            "ld.so: object '/c/preload.so' from LD_PRELOAD cannot be preloaded (failed to map): ignored.",
            "/c/preload.so",
        ),
        (-7, "", "/dev/shm"),
    ],
)
def test_signs_in_the_output_are_explained(status, said, named):
    explanation = explained(status, said)
    assert (named in explanation) if named else explanation == ""


@pytest.mark.parametrize(
    "files",
    [
        {"memory.events": "low 0\noom 3\noom_kill 2\n", "memory.max": "104857600\n"},
        {"memory.oom_control": "under_oom 0\noom_kill 2\n", "memory.limit_in_bytes": "104857600\n"},
    ],
)
def test_a_group_in_which_the_kernel_has_killed_for_memory_is_named(files, tmp_path, monkeypatch):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(memory_limits, "cgroup_base", {"memory": tmp_path / "inner"}.get)
    explanation = explained(-9)
    assert f"killed 2 processes of the control group {tmp_path} (limit: 100 MiB)" in explanation
    assert explained(1, "EXIT CODE: 9\n") == explanation and explained(1) == explained(0) == ""


def test_shared_memory_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(causes, "SHARED_MEMORY", tmp_path / "none")
    assert "cannot be written: mount -t tmpfs" in explained(1) and explained(0) == ""


def test_a_full_directory_of_outputs_is_named_and_long_lines_are_cut(tmp_path, monkeypatch):
    log = tmp_path / "out"
    log.write_text("x" * 100_000)
    assert len(launch.failed(1, log).splitlines()[1]) == launch.LINE_CHARACTERS
    monkeypatch.setattr(causes, "OUTPUT_BYTES", 1 << 60)
    assert f"{tmp_path} has no room" in launch.failed(1, log)


def test_ranks_on_other_hosts_that_are_not_rung_are_explained():
    one = rank_result(processes=2, concurrent=True)
    assert "MPI4PY_RC_THREAD_LEVEL" in explained(0, records=[one])
    for records in ([one, one], [replace(one, concurrent=False)], [replace(one, concurrent=None)]):
        assert explained(0, records=records) == ""


@pytest.mark.slow
@pytest.mark.parametrize("level", ["multiple", "serialized"])
def test_a_record_says_whether_all_threads_may_call(tmp_path, level):
    argv = [*launcher("here"), "-n", "1", sys.executable, "-c", "from mpi4py import MPI"]
    words = [*LOCKSTEP, "exec", "--record", str(tmp_path), "--", *argv]
    result = run(words, extra={"MPI4PY_RC_THREAD_LEVEL": level})
    (record,) = recorded(tmp_path)
    assert record.concurrent == (level == "multiple"), result.stderr


@pytest.mark.slow
def test_a_cache_from_which_nothing_can_be_loaded_is_refused(tmp_path):
    launcher("here")
    where = f"-o noexec none {tmp_path}"
    result = apart("exec", "--", "true", mount=where, XDG_CACHE_HOME=str(tmp_path))
    assert result.returncode == 2 and "noexec" in result.stderr and "XDG_CACHE_HOME" in result.stderr


@pytest.mark.parametrize("words", [["exec"], ["record", "--no-wait"]])
def test_a_small_shared_memory_is_named(compiled, tmp_path, words):
    argv = [*launcher("here"), "-n", "4", compiled("here", "bsp.c"), "100", ".25", "10"]
    if words[0] == "record":
        words = [*words, "-o", str(tmp_path / "there.npz")]
    result = apart(*words, "--", *argv, mount="-o size=1M none /dev/shm")
    if result.returncode == 0:
        pytest.skip("this MPI does without")
    assert "/dev/shm" in result.stderr and "of 1.0 MiB are free" in result.stderr


def test_ranks_in_another_network_namespace_are_named(compiled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = [*launcher("here"), "-n", "2", "unshare", "-n", compiled("here", "bsp.c"), "100", ".25", "10"]
    if run(["unshare", "-n", "true"]).returncode:
        pytest.skip("namespaces take privileges")
    result = two_phase(argv)
    assert result.returncode == 0 and result.stderr.count("namespace apart") == 1
    waited = run(
        [*LOCKSTEP, "tune", "--no-wait", "--rounds", "1", "--jobs", "1", "--only", "two-phase", "--", *argv]
    )
    assert waited.returncode == 2 and "network namespace" in waited.stderr and "--mpicc" not in waited.stderr


@pytest.mark.slow
def test_a_wrapper_that_was_given_is_not_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = [*launcher("here"), "-n", "1", "true"]
    words = ["tune", "--no-wait", "--rounds", "1", "--jobs", "1", "--only", "two-phase"]
    result = run([*LOCKSTEP, *words, "--mpicc", str(wrapper("here")), "--", *argv])
    assert result.returncode == 2 and "name its MPI's" not in result.stderr


@pytest.fixture
def place(tmp_path):
    """A directory of two MPIs, of which the second has the plain names."""
    for name in ("mpiexec.hydra", "orterun", "mpicc.mpich", "mpicc.openmpi"):
        (tmp_path / name).touch(mode=0o755)
    for name, there in {
        **{"mpiexec.mpich": "mpiexec.hydra", "mpirun.mpich": "mpiexec.hydra", "mpirun.openmpi": "orterun"},
        **{"mpirun": "mpirun.openmpi", "mpicc": "mpicc.openmpi"},
    }.items():
        (tmp_path / name).symlink_to(there)
    return tmp_path


@pytest.mark.parametrize(
    "name, found",
    [
        ("mpiexec.hydra", "mpicc.mpich"),
        ("mpiexec.mpich", "mpicc.mpich"),
        ("mpirun", "mpicc.openmpi"),
        ("orterun", "mpicc.openmpi"),
    ],
)
def test_a_launcher_s_wrapper_is_of_its_mpi(place, tmp_path_factory, name, found):
    assert native.wrapper([str(place / name), "-n", "1"]) == place / found
    link = tmp_path_factory.mktemp("home") / "mpiexec"
    link.symlink_to(place / name)
    assert native.wrapper([str(link)]) == place / found


def test_a_launcher_with_one_wrapper_beside_it_has_that(tmp_path):
    for name in ("mpiexec", "mpiexec.hydra", "mpicc"):
        (tmp_path / name).touch(mode=0o755)
    assert native.wrapper([str(tmp_path / "mpiexec.hydra")]) == tmp_path / "mpicc"


def test_an_mpi_may_have_blanks_in_its_path(compiled, tmp_path):
    library = native.library(wrapper("here"))
    (tmp_path / "my mpi").symlink_to(library.libraries[0].parent)
    place = f'"{tmp_path}/my mpi"'
    mpicc = hasty_wrapper(tmp_path, words=f"-L{place} -Wl,-rpath,{place}")
    argv = [*launcher("here"), "-n", "2", compiled("here", "bsp.c"), "100", ".25", "10"]
    assert summary(two_phase(argv, "--mpicc", str(mpicc)))["ranks"] == 2
    assert (
        "/my mpi/libmpi" in run(["ldd", str(native.library(mpicc).preload.with_name("wrappers.so"))]).stdout
    )
