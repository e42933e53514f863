"""Ranks that find out among themselves whether all have the library, where no lockstep answers."""

import os
import signal
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import unprivileged_actions
from native_programs import PROGRAMS, launcher, losing, recorded, run, wrapper
from places import ROOT
from runs import eventually, nobody_at

from workloads import native
from workloads.waiting_rules import waiting_rule


@pytest.fixture(scope="module")
def rank(tmp_path_factory):
    """Starts a rank that has come to a meeting."""
    made = tmp_path_factory.mktemp("meeting") / "meets"
    words = ["-Wall", "-Werror", "-O1", f"-I{ROOT / 'workloads/native'}", str(PROGRAMS / "meets.c")]
    subprocess.run(["cc", "-o", made, *words], check=True)

    @contextmanager
    def come(name, ranks):
        words = [str(made), name, str(ranks)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(words, text=True, **pipes) as process:
            try:
                assert process.stdout.readline() == "here\n"
                yield process
            finally:
                process.kill()

    return come


def answers(ranks):
    for process in ranks:
        process.stdin.write("\n")
        process.stdin.flush()
    return [process.stdout.readline().strip() for process in ranks]


def name_of_meeting():
    sockets = Path("/proc/net/unix").read_text().splitlines()
    (name,) = {line.rpartition("@")[2] for line in sockets if "@lockstep-meeting-" in line}
    return name


def own(name):
    return f"{name}-{os.getpid()}"


@pytest.mark.parametrize("came", [1, 2, 7])
def test_all_get_a_yes_if_all_have_come(rank, came):
    with ExitStack() as stack:
        ranks = [stack.enter_context(rank(own("all"), came)) for _ in range(came)]
        assert answers(ranks[::-1]) == ["yes"] * came


@pytest.mark.parametrize("lacking", [1, 3])
def test_all_get_a_no_if_one_is_missing(rank, lacking):
    with ExitStack() as stack:
        ranks = [stack.enter_context(rank(own("missing"), 4)) for _ in range(4 - lacking)]
        assert answers(ranks) == ["no"] * (4 - lacking)
        said = ranks[0].communicate()[1]
    assert f"{4 - lacking} of the 4 ranks" in said


def test_all_get_a_no_if_there_are_more_than_the_job_has(rank):
    with ExitStack() as stack:
        ranks = [stack.enter_context(rank(own("more"), 2)) for _ in range(3)]
        assert answers(ranks) == ["no"] * 3


def test_jobs_of_other_names_and_one_after_another_do_not_mix(rank):
    for _ in range(2):
        with ExitStack() as stack:
            ranks = [stack.enter_context(rank(own(name), 2)) for name in "abab"]
            assert answers(ranks) == ["yes"] * 4


@pytest.mark.parametrize("killed", [0, 1])
def test_a_rank_that_is_killed_holds_nobody_up_and_leaves_no_name(rank, killed):
    """Be it the host or a guest."""
    with ExitStack() as stack:
        ranks = [stack.enter_context(rank(own("killed"), 3)) for _ in range(3)]
        name = name_of_meeting()
        ranks[killed].send_signal(signal.SIGKILL)
        ranks[killed].wait()
        assert answers([one for one in ranks if one is not ranks[killed]]) == ["no"] * 2
    assert name not in Path("/proc/net/unix").read_text()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as a second user")
def test_another_user_who_has_the_name_is_no_host(rank):
    with rank(own("taken"), 2):
        name = name_of_meeting()
    with nobody_at(unprivileged_actions.listen, name), ExitStack() as stack:
        assert eventually(lambda: name in Path("/proc/net/unix").read_text())
        ranks = [stack.enter_context(rank(own("taken"), 2)) for _ in range(2)]
        assert answers(ranks) == ["no"] * 2


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as a second user")
def test_another_user_who_connects_is_no_guest(rank):
    with rank(own("stranger"), 2) as host:
        name = name_of_meeting()
        with nobody_at(unprivileged_actions.connect, name), rank(own("stranger"), 2) as guest:
            assert eventually(lambda: Path("/proc/net/unix").read_text().count(name) >= 3)
            assert answers([host, guest]) == ["yes", "yes"]


def met(words, folder, mpi):
    """A run of ranks with the library whom nobody answers; their records are in ``folder``."""
    made = native.library(Path(wrapper(mpi)))
    variables = made.environment(waiting_rule("immediate", context_switch_us=10, latency_us=2))
    return run(words, extra={**variables, "LOCKSTEP_MEETING": "1", "LOCKSTEP_RECORD": str(folder)})


@pytest.mark.parametrize("mpi", ["here", "openmpi"])
def test_ranks_of_a_program_wait_two_phase_or_none_does(mpi, compiled, tmp_path):
    loop = [compiled(mpi, "bsp.c"), "100", ".25", "50"]
    result = met([*launcher(mpi), "-n", "4", *loop], tmp_path, mpi)
    assert result.returncode == 0, result.stderr
    ranks = recorded(tmp_path)
    assert len(ranks) == 4 and all(sum(kind.spun + kind.blocked for kind in one.waits.kinds) for one in ranks)
    (tmp_path / "partly").mkdir()
    result = met([*launcher(mpi), "-n", "4", *losing({2}, loop)], tmp_path / "partly", mpi)
    assert result.returncode == 0, result.stderr
    assert "3 of the 4 ranks of this job" in result.stderr
    assert not [*(tmp_path / "partly").iterdir()]
