"""What follows from the states of ranks: for whom they wait, and what is said of it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyse.lookout import MOST_WAIT_S, Lookout, Patience
from harness.analyse.missing_rank import Stuck, examined
from harness.analyse.rank_report import MOST, NO_CONCLUSION, with_stacks
from harness.measure.rank_notes import (
    ANY,
    BEGINNING,
    FINALIZED,
    FINALIZING,
    RUNNING,
    CallNote,
    Communicator,
    RankNote,
    ThreadNote,
)
from harness.measure.rank_sight import ASLEEP, ENDED, SILENT, STOPPED
from harness.measure.rank_watch import JobState, RankState
from harness.measure.stacks import Frame, Stack, Stacks
from workloads.native.calls import kinds
from workloads.validation import InputError

SIZE = 4


def world(collectives):
    return Communicator(7, SIZE, tuple(range(SIZE)), collectives, "", "MPI_COMM_WORLD", False)


def call(name, collectives=0, to=None, source=None, tag=0):
    return CallNote(name, kinds()[name], world(collectives), to, source, tag, 1, 1)


def rank(
    number,
    inside=None,
    *,
    collectives=0,
    pending=(),
    idle_s=9.0,
    stage=RUNNING,
    state=ASLEEP,
    begun=1,
    wait_s=None,
    whole=False,
    host="a",
):
    """A rank that is in a call of MPI, or without one outside of MPI."""
    last = inside or call("Send", collectives, to=0)
    threads = (ThreadNote(100 + number, inside is not None, 5, last, tuple(pending), whole),)
    note = RankNote(100 + number, number, SIZE, stage, threads, {7: world(collectives)})
    waits_s = idle_s if wait_s is None else wait_s
    return RankState(note, host, note.pid, idle_s, state, 0.0, "read(0)", begun, waits_s)


def in_barrier(number, collectives=3, **more):
    return rank(number, call("Barrier", collectives), collectives=collectives, **more)


def receiving(number, source, collectives=3):
    return rank(number, call("Recv", collectives, source=source), collectives=collectives)


def verdict(*ranks):
    return Stuck(JobState(ranks)).verdict()


def test_the_rank_that_has_not_come_to_a_collective_call_is_missing():
    others = [in_barrier(number) for number in range(3)]
    said = "rank 3 is missing: ranks 0-2 wait for it in MPI_Barrier on MPI_COMM_WORLD"
    assert verdict(*others, rank(3, collectives=2)) == said


def test_a_rank_that_has_been_in_the_collective_call_already_is_not_missing():
    others = [in_barrier(number) for number in range(3)]
    assert verdict(*others, rank(3, collectives=3)) == NO_CONCLUSION


def test_a_broadcast_waits_for_its_root_and_not_for_all():
    waits = rank(1, call("Bcast", 3, source=0), collectives=3)
    assert verdict(waits, rank(0), rank(2)).startswith("rank 0 is missing: rank 1 waits for it in MPI_Bcast")
    waits = rank(1, call("Bcast", 3, source=0), collectives=3)
    came = rank(0, collectives=3)
    assert verdict(waits, came, rank(2), rank(3)) == NO_CONCLUSION
    assert verdict(waits, came, rank(2), rank(3, collectives=3)).startswith("rank 2 is missing")


def test_the_root_of_a_reduction_waits_for_all():
    root = rank(0, call("Reduce", 3, source=0), collectives=3)
    assert verdict(root, rank(1), rank(2), rank(3, collectives=3)).startswith("rank 1 is missing")
    other = rank(3, call("Reduce", 3, source=0), collectives=3)
    assert verdict(other, rank(1), rank(2), rank(0, collectives=3)) == NO_CONCLUSION


def test_a_rank_that_is_not_asked_is_not_accused():
    assert verdict(*(in_barrier(number) for number in range(3))) == NO_CONCLUSION


def test_receives_from_each_other_are_a_circle_however_many_ranks_take_part():
    circle = [receiving(number, (number + 1) % SIZE) for number in range(SIZE)]
    assert verdict(*circle).startswith("ranks 0-3 wait for each other: rank 0 for rank 1 in MPI_Recv, ")


def test_a_receive_from_any_rank_waits_as_long_as_one_of_them_works():
    ranks = [in_barrier(0), in_barrier(1), receiving(3, ANY, collectives=2)]
    assert verdict(*ranks, rank(2, collectives=3)) == NO_CONCLUSION
    assert verdict(*ranks, in_barrier(2)).startswith("ranks 0, 3 wait for each other")


def test_a_sender_that_has_ended_is_named():
    ended = rank(1, stage=FINALIZED, state=ENDED)
    assert verdict(receiving(0, 1), ended) == "rank 1 has ended: rank 0 waits for it in MPI_Recv"


def test_a_rank_in_finalize_is_told_from_one_that_waits_for_it():
    ends = [rank(number, call("Finalize"), stage=FINALIZING) for number in (0, 2, 3)]
    assert verdict(receiving(1, 0), *ends) == "rank 0 is in MPI_Finalize, and rank 1 waits for it in MPI_Recv"


def test_collective_calls_that_differ_in_one_place_of_the_order_are_named():
    other = rank(3, call("Allreduce", 3), collectives=3)
    said = verdict(*(in_barrier(number) for number in range(3)), other)
    assert (
        said == "collective calls differ on MPI_COMM_WORLD: ranks 0-2 in MPI_Barrier, rank 3 in MPI_Allreduce"
    )


def test_requests_wait_for_the_ranks_that_they_are_with():
    waits = call("Waitall")
    pending = [call("Irecv", source=2), call("Isend", to=3)]
    ranks = [rank(0, waits, pending=pending), rank(2), rank(3)]
    assert verdict(*ranks).startswith(
        "rank 2 is missing: rank 0 waits for it in MPI_Waitall; rank 3 is missing"
    )
    assert verdict(rank(0, waits), rank(2), rank(3)) == NO_CONCLUSION


@pytest.mark.parametrize(
    "ranks, stuck",
    [
        ([in_barrier(0), *(rank(number) for number in (2, 3)), rank(1, idle_s=0.0)], False),
        ([in_barrier(0, wait_s=1.0), *(rank(number) for number in (1, 2, 3))], False),  # it has just come
        ([in_barrier(0), rank(1)], True),
        ([receiving(0, 1), rank(1), rank(2, idle_s=0.0)], True),  # progress elsewhere
        ([rank(0), rank(1)], False),  # nobody waits
        ([rank(0, call("Waitall")), rank(1, idle_s=0.0)], False),  # it may wait for that rank
        ([rank(0, stage=BEGINNING)], True),
    ],
)
def test_a_job_is_stuck_when_a_rank_waits_and_nobody_works_for_it(ranks, stuck):
    assert Stuck(JobState(tuple(ranks))).since(5) is stuck


def spanning(members, *, inter=False):
    return Communicator(0 if inter else 9, len(members), members, 3, "", "", inter)


@pytest.mark.parametrize("comm", [spanning((0, 1), inter=True), spanning((0, 1, -1))])
def test_a_rank_that_waits_for_another_world_is_stuck_only_if_nothing_moves_there(comm):
    waits = CallNote("Recv", "waiting", comm, None, 0, 0, 1, 1)
    job = JobState((rank(0, waits), rank(1)))
    assert not Stuck(job, others_idle_s=1.0).since(5)
    assert Stuck(job, others_idle_s=9.0).since(5)
    assert Stuck(job).verdict() == NO_CONCLUSION


def test_a_rank_that_waits_for_one_on_another_host_is_not_stuck_while_others_work():
    waits = receiving(0, 3)  # which is not here
    assert not Stuck(JobState((waits, rank(1, idle_s=0.0)))).since(5)
    assert Stuck(JobState((waits, rank(1)))).since(5)


@given(st.data())
def test_no_verdict_names_a_rank_that_has_just_made_progress(data):
    ranks = []
    for number in range(SIZE):
        source = data.draw(st.sampled_from([*range(SIZE), ANY]))
        collectives = data.draw(st.integers(2, 4))
        idle_s = data.draw(st.sampled_from([0.0, 9.0]))
        inside = data.draw(
            st.sampled_from([None, call("Barrier", collectives), call("Recv", collectives, source=source)])
        )
        ranks.append(rank(number, inside, collectives=collectives, idle_s=idle_s))
    report = Stuck(JobState(tuple(ranks))).report()
    assert len(report.document["ranks"]) == SIZE
    for one in ranks:
        if not one.idle_s:
            assert f"rank {one.note.rank} is missing" not in report.verdict
            assert f"rank {one.note.rank} for" not in report.verdict


def test_a_master_that_waits_for_any_worker_is_in_no_circle_with_those_that_are_listed():
    waits = call("Waitany")
    pending = [call("Irecv", source=1), call("Irecv", source=2)]
    workers = [receiving(1, 0), receiving(2, 0), rank(3, idle_s=0.0)]
    assert verdict(rank(0, waits, pending=pending), *workers) == NO_CONCLUSION
    assert not Stuck(JobState((rank(0, waits, pending=pending), *workers))).since(5)
    whole = rank(0, waits, pending=pending, whole=True)
    assert verdict(whole, *workers).startswith("ranks 0-1 wait for each other")


@pytest.mark.parametrize("members", [(-1, -1), (0,)])
def test_a_receive_from_any_rank_of_which_none_is_known_has_no_verdict(members):
    comm = Communicator(0, len(members), members, 0, "", "", inter=members[0] < 0)
    waits = CallNote("Recv", "waiting", comm, None, ANY, 0, 1, 1)
    assert verdict(rank(0, waits), rank(1)) == NO_CONCLUSION


def test_a_rank_that_computes_while_its_other_thread_receives_does_not_wait():
    helper = receiving(0, 1)
    threads = (*helper.note.threads, ThreadNote(7, False, 3, call("Send", to=1), ()))
    busy = replace(helper, note=replace(helper.note, threads=threads), cpu_share=0.9)
    assert not Stuck(JobState((busy, rank(1)))).since(5)


def with_threads(one, *calls):
    """A rank whose further threads are in these calls; None: in none."""
    more = [ThreadNote(7 + at, call is not None, 3, call, ()) for at, call in enumerate(calls)]
    return replace(one, note=replace(one.note, threads=(*one.note.threads, *more)))


def test_a_rank_is_held_if_each_of_its_threads_waits_for_ranks_that_are_held():
    receives = receiving(3, 0, collectives=2)
    others = [in_barrier(0), in_barrier(1), in_barrier(2)]
    said = verdict(*others, with_threads(receives, call("Recv", source=1)))
    assert said.startswith("ranks 0, 3 wait for each other")
    assert verdict(*others, with_threads(receives, None)) == NO_CONCLUSION
    free = rank(1, collectives=3, idle_s=0.0)
    assert (
        verdict(others[0], free, others[2], with_threads(receives, call("Recv", source=1))) == NO_CONCLUSION
    )
    shared = replace(receives, note=replace(receives.note, shared=True))  # more threads than are noted
    assert verdict(*others, shared) == NO_CONCLUSION


def test_a_thread_that_reads_a_file_may_work_for_others():
    reads = with_threads(receiving(3, 0, collectives=2), call("File_read_at"))
    assert verdict(in_barrier(0), in_barrier(1), in_barrier(2), reads) == NO_CONCLUSION


def spawning(number, collectives=3):
    return rank(number, call("Comm_spawn", collectives, source=0), collectives=collectives)


def test_processes_that_do_not_come_to_mpi_are_named_if_all_ranks_wait_for_them():
    job = JobState(tuple(spawning(number) for number in range(SIZE)))
    said = (
        "ranks 0-3 wait in MPI_Comm_spawn on MPI_COMM_WORLD,"
        " and no process that they started has come to MPI_Init on this host"
    )
    assert examined([job])[0].verdict() == said
    child = JobState((rank(0, stage=BEGINNING),))
    assert examined([job, child])[0].verdict() == NO_CONCLUSION
    assert verdict(*(spawning(number) for number in range(3)), rank(3, collectives=2)) == NO_CONCLUSION


def test_a_finalize_to_which_all_have_come_is_told_from_one_where_a_rank_is_missing():
    ends = [rank(number, call("Finalize"), stage=FINALIZING) for number in range(SIZE)]
    assert verdict(*ends) == "ranks 0-3 are in MPI_Finalize, and no rank has yet to come there"
    assert verdict(*ends[:3], rank(3, stage=FINALIZED, state=ENDED)).startswith(
        "ranks 0-2 are in MPI_Finalize"
    )
    assert verdict(*ends[:3], rank(3)).startswith("rank 3 is missing: ranks 0-2 wait for it in MPI_Finalize")
    assert verdict(*ends[:3]) == NO_CONCLUSION  # the other one is not here


def late(number, state):
    """A rank on host b that does not answer, so that only its last call is known."""
    one = rank(number, state=state, host="b")
    return replace(one, pid_here=0, note=replace(one.note, communicators=None))


def test_ranks_of_a_host_that_does_not_answer_are_named_and_their_job_goes_on():
    job = Stuck(JobState((in_barrier(0), in_barrier(1), late(2, SILENT), late(3, SILENT))))
    assert job.since(5) and not job.whole
    report = job.report()
    assert report.lines == (
        "ranks 0-1: in MPI_Barrier on MPI_COMM_WORLD, for 9 s",
        "ranks 2-3: does not answer for 9 s",
        "hosts: ranks 0-1 on a; ranks 2-3 on b",
    )
    waits = "ranks 0-1 wait for ranks 2-3 in MPI_Barrier on MPI_COMM_WORLD"
    assert report.verdict == f"host b does not answer: {waits}"
    assert [one["host"] for one in report.document["ranks"]] == ["a", "a", "b", "b"]
    assert sorted(report.threads) == [0, 1]  # what has their numbers here are other processes


def test_a_rank_that_does_not_answer_while_its_host_does_is_named_itself():
    others = [in_barrier(0), in_barrier(1), in_barrier(2, host="b")]
    waits = "ranks 0-2 wait for rank 3 in MPI_Barrier on MPI_COMM_WORLD"
    assert verdict(*others, late(3, SILENT)) == f"rank 3 on b does not answer: {waits}"


def test_a_stopped_rank_on_another_host_is_missing_whatever_it_has_begun():
    job = Stuck(JobState((*(in_barrier(number) for number in range(3)), late(3, STOPPED))))
    assert job.since(5) and job.whole
    report = job.report()
    assert "rank 3: stopped for 9 s" in report.lines
    assert report.verdict.startswith("rank 3 is missing: ranks 0-2 wait for it in MPI_Barrier")


def test_a_report_waits_for_answers_and_not_for_ever():
    watch = OneJob(in_barrier(0), rank(1))
    told = []
    answered = [False]
    watch.have_answered = lambda: answered[0]
    lookout = Lookout(watch, told.append, 0.0)
    lookout.ask("where the ranks are:", 10.0)
    assert [lookout.look(10.0 + step) for step in (0.1, 0.3, 1.0)] == [False] * 3 and not told
    answered[0] = True
    lookout.look(11.1)
    assert len(told) == 1
    lookout.ask("again:", 20.0)
    lookout.finish()
    assert len(told) == 2


def test_a_report_waits_for_those_who_do_not_answer_only_until_its_deadline():
    watch = OneJob(in_barrier(0), rank(1))
    told = []
    watch.have_answered = lambda: False
    lookout = Lookout(watch, told.append, 0.0)
    lookout.ask("where the ranks are:", 10.0)
    lookout.look(10.0 + 0.9 * MOST_WAIT_S)
    assert not told
    lookout.ask("again:", 10.0 + 0.9 * MOST_WAIT_S)
    lookout.look(10.0 + MOST_WAIT_S)
    assert len(told) == 2


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), InputError("--stuck-report", "a", "is", "b")]
)
def test_reports_that_cannot_be_saved_are_told_once_and_stuck_jobs_are_ended(error):
    def fails(reports):
        raise error

    told = []
    job = [in_barrier(0), *(rank(number) for number in range(1, SIZE))]
    watch = OneJob(*job)
    lookout = Lookout(watch, told.append, 0.0, Patience(5), save=fails)
    assert lookout.look(10)
    watch.ranks = (receiving(0, 1), *job[1:])
    assert lookout.look(20)
    assert [text for text in told if text == str(error)] == [str(error)]
    assert len(lookout.reports) == 2


def test_no_stack_is_read_once_the_command_has_ended():
    told = []
    lookout = Lookout(OneJob(in_barrier(0), rank(1)), told.append, 0.0, read_stacks=pytest.fail)
    lookout.ask("where the ranks are:", 10.0)
    lookout.finish()
    assert len(told) == 1 and "is not shown" not in told[0]


class OneJob:
    """A watch whose job changes by hand."""

    def __init__(self, *ranks):
        self.ranks = ranks

    def sample(self, now_s):
        pass

    def ask(self):
        pass

    def have_answered(self):
        return True

    def longest_idle_s(self):
        return max(one.idle_s for one in self.ranks)

    def jobs(self):
        return [JobState(self.ranks)]


def test_a_state_that_lasts_is_reported_once():
    watch = OneJob(in_barrier(0), rank(1))
    told = []
    lookout = Lookout(watch, told.append, 0.0, Patience(5, only_report=True))
    assert [lookout.look(now_s) for now_s in (10, 11)] == [False, False]
    assert len(told) == len(lookout.reports) == 1
    watch.ranks = (in_barrier(0, idle_s=60.0), rank(1, idle_s=60.0))
    lookout.look(70)
    assert len(told) == 1
    watch.ranks = (in_barrier(0), in_barrier(1, 4))
    lookout.look(90)
    assert len(told) == 2


def test_a_stuck_job_ends_the_command():
    saved = []
    job = [in_barrier(0), *(rank(number) for number in range(1, SIZE))]
    assert Lookout(OneJob(*job), lambda text: None, 0.0, Patience(5), save=saved.append).look(10)
    assert len(saved) == 1


def test_a_job_of_which_some_ranks_are_not_here_is_reported_and_not_ended():
    told = []
    assert not Lookout(OneJob(in_barrier(0), rank(1)), told.append, 0.0, Patience(5)).look(10)
    assert len(told) == 1


def test_what_ranks_note_can_not_harm_the_command():
    broken = replace(rank(0), note=replace(rank(0).note, threads=(None,)))
    told = []
    assert not Lookout(OneJob(broken, rank(1)), told.append, 0.0, Patience(5)).look(10)
    assert "cannot be looked after" in told[0]


@pytest.mark.parametrize("text", ["0", "-3", "", "sixty", "60:end", "inf", "nan"])
def test_a_patience_that_cannot_be_is_refused(text):
    with pytest.raises(InputError, match="write 60, or 60:report"):
        Patience.parsed(text)


def test_a_patience_may_only_report():
    assert Patience.parsed("60") == Patience(60.0)
    assert Patience.parsed("0.5:report") == Patience(0.5, only_report=True)


def asked(*ranks):
    """Of which processes stacks are read for a report, and the report with stacks of them all."""
    threads = []

    def read(asked_for):
        threads.extend(asked_for)
        stack = Stack((Frame("f", "/home/user/a.c", 7),))
        return Stacks(dict.fromkeys(asked_for, stack))

    (report,) = with_stacks([Stuck(JobState(ranks)).report()], read)
    return [one.pid - 100 for one in threads], report


def test_stacks_are_read_of_ranks_that_the_verdict_names_and_of_one_on_each_line():
    others = [in_barrier(number) for number in range(2)]
    numbers, report = asked(*others, rank(2, collectives=2), rank(3, collectives=2))
    assert numbers == [2, 3, 0]
    assert report.verdict.startswith("rank 2 is missing")
    assert [line for line in report.lines if line.startswith("  ")] == [
        *("  rank 0: at a.c:7 in f", "  rank 2: at a.c:7 in f", "  rank 3: at a.c:7 in f")
    ]
    assert report.lines[1] == "  rank 0: at a.c:7 in f"  # below the line of its state
    stacks = {one["rank"]: one["stacks"] for one in report.document["ranks"]}
    assert stacks[0] == [[{"function": "f", "file": "/home/user/a.c", "line": 7}]]
    assert (stacks[1], report.document["stack_failure"]) == (None, None)


def test_a_rank_that_has_ended_has_no_stack():
    assert asked(receiving(0, 1), rank(1, stage=FINALIZED, state=ENDED))[0] == [0]


def test_a_rank_that_has_not_come_has_no_stack():
    assert asked(rank(0, stage=BEGINNING), rank(2, stage=BEGINNING))[0] == [0]


def test_only_so_many_stacks_are_read_for_all_jobs_together():
    jobs = [JobState(tuple(receiving(number, (number + 1) % SIZE) for number in range(SIZE)))] * 3
    jobs = [
        replace(job, ranks=tuple(moved(one, 1000 * place) for one in job.ranks))
        for place, job in enumerate(jobs)
    ]
    counts = []
    with_stacks(
        [Stuck(job).report() for job in jobs], lambda threads: counts.append(len(threads)) or Stacks()
    )
    assert counts == [MOST]


def moved(one, pids):
    return replace(one, pid_here=one.pid_here + pids)


def test_the_first_of_several_reports_says_why_there_are_no_stacks():
    job = JobState((in_barrier(0), rank(1)))
    reports = [Stuck(job).report()] * 2
    before = [list(one.lines) for one in reports]
    first, second = with_stacks(reports, lambda threads: Stacks(reason="gdb: no"))
    assert [*first.lines] == [*before[0], "where in their program ranks are is not shown: gdb: no"]
    assert [*second.lines] == before[1]
    assert (first.document["stack_failure"], second.document["stack_failure"]) == ("gdb: no", None)


def test_what_happens_to_tools_costs_no_report():
    def read(threads):
        raise RuntimeError("can't start new thread")

    told = []
    Lookout(OneJob(in_barrier(0), rank(1)), told.append, 0.0, Patience(5), read_stacks=read).look(10)
    assert "rank 1 is missing" in told[0]
    assert "is not shown: RuntimeError: can't start new thread" in told[0]


def test_a_lookout_knows_why_the_command_was_ended():
    job = [in_barrier(0), *(rank(number, collectives=2) for number in range(1, SIZE))]
    lookout = Lookout(OneJob(*job), lambda text: None, 0.0, Patience(5))
    assert lookout.fault is None
    lookout.look(10)
    assert lookout.fault.verdict.startswith("rank 1 is missing: rank 0 waits for it")
    assert lookout.fault.text.startswith("no progress for 5 s; the command is ended:\n  ranks 1-3: ")
    lookout = Lookout(OneJob(rank(0)), lambda text: None, 0.0, timeout_s=3)
    assert not lookout.look(5)
    assert lookout.look(6)
    assert lookout.fault.verdict == "the command has not ended within 3 s, and is ended"


def test_a_report_that_was_asked_for_is_no_fault():
    lookout = Lookout(OneJob(in_barrier(0), rank(1)), lambda text: None, 0.0)
    lookout.ask("where the ranks are:", 1.0)
    lookout.look(2.0)
    assert (lookout.fault, len(lookout.reports)) == (None, 1)
