"""Ranks that answer over TCP: what is seen of them, and that nothing that they do hinders who asks."""

import errno
import os
import selectors
import socket
import subprocess
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress

import pytest
from asked_rank import FakeRank, reset
from native_programs import LOCKSTEP, wrapper
from runs import eventually

from harness.analyse.lookout import Lookout, Patience
from harness.measure import rank_notes
from harness.measure.rank_notes import FINALIZED, RUNNING, Counters
from harness.measure.rank_sight import ANSWER_S, ASLEEP, ENDED, SILENT, STOPPED, Sight
from harness.measure.rank_watch import RankWatch
from harness.measure.registrar import Registrar
from harness.measure.remote_rank import COUNTERS, HEADER, LOOK_BYTES, NOTES, REFUSED, RemoteRank


@pytest.fixture
def both():
    """A rank as it is watched, and its other end."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        rank = FakeRank(stack.enter_context(socket.create_connection(listener.getsockname())))
        watched = RemoteRank(listener.accept()[0], "b", "there")
        yield watched, rank
        watched.close()


def news(watched, now_s):
    """What is seen next, once it has come through the network."""
    seen = []
    assert eventually(lambda: seen.append(watched.look(now_s)) or seen[-1])
    return seen[-1]


def test_a_rank_is_asked_for_all_at_once_and_then_for_its_counters(both):
    watched, rank = both
    assert rank.question() == NOTES
    rank.answer(NOTES)
    assert news(watched, 0.0) == Sight(Counters(RUNNING, 0, 0, 4), ASLEEP, 42)
    assert (watched.process, watched.job) == (("there", 7), 5)
    assert list(watched.note().communicators) == [9]
    assert watched.look(0.5) is None
    rank.page.places[0].entered = 1
    watched.look(1.5)
    assert rank.question() == COUNTERS
    rank.answer(COUNTERS)
    assert news(watched, 1.6).counters.entered == 1
    assert watched.note().communicators is None  # it has gone on
    assert watched.note().threads[0].call.name == "Recv"
    watched.ask()
    assert not watched.has_answered()
    watched.look(1.7)
    assert rank.question() == NOTES
    rank.answer(NOTES)
    assert eventually(lambda: watched.look(1.8) is not None and watched.has_answered())
    assert list(watched.note().communicators) == [9]
    assert watched.withstands(10) and not watched.withstands(12)


def test_a_rank_that_does_not_answer_is_stopped_if_its_host_does(both):
    watched, rank = both
    rank.question()
    rank.answer(NOTES)
    news(watched, 0.0)
    watched.ask()
    watched.look(2.0)
    assert not watched.has_answered()
    watched.look(2.0 + ANSWER_S)
    assert watched.has_answered()
    assert eventually(lambda: watched.look(2.0 + ANSWER_S).state == STOPPED)
    assert watched.note().communicators is None  # it may have gone on before
    assert rank.question() == COUNTERS
    rank.answer(COUNTERS)
    assert eventually(lambda: watched.look(5.0).state == ASLEEP)


def test_a_rank_has_ended_when_its_line_ends_or_it_has_left_mpi(both):
    watched, rank = both
    rank.answer(NOTES)
    news(watched, 0.0)
    rank.page.stage = FINALIZED
    rank.answer(COUNTERS)  # unasked
    assert eventually(lambda: (watched.look(0.1) or news(watched, 0.1)).state == ENDED)
    assert watched.note().stage == FINALIZED
    assert rank.question() == NOTES and rank.question() == b""  # its thread may end


def test_an_answer_without_names_is_an_answer(both):
    watched, rank = both
    assert rank.question() == NOTES
    rank.answer(COUNTERS)
    news(watched, 0.0)
    assert watched.has_answered()


def test_a_rank_that_has_ended_keeps_its_notes_though_it_was_asked(both):
    watched, rank = both
    assert rank.question() == NOTES
    rank.answer(NOTES)
    news(watched, 0.0)
    watched.look(1.5)
    assert rank.question() == COUNTERS
    watched.ask()
    rank.line.close()
    assert eventually(lambda: watched.look(1.6) or watched._line is None)
    assert not watched.has_answered()
    assert watched.look(1.6 + ANSWER_S).state == ENDED
    watched.look(1.6 + 2 * ANSWER_S)
    assert list(watched.note().communicators) == [9]


def test_a_job_is_not_believed_to_have_more_ranks_than_a_job_can_have(both):
    watched, rank = both
    rank.page.ranks = (1 << 31) - 1
    rank.answer(NOTES)
    news(watched, 0.0)
    assert watched.note().ranks == -1


class StreamingLine:
    """A line whose other end never stops sending answers."""

    def __init__(self):
        here, there = socket.socketpair()
        with here, there:
            FakeRank(there).answer(COUNTERS)
            self.answer = here.recv(1 << 16)
        self.sent = 0

    def fileno(self):
        return 0

    def setblocking(self, blocks):
        pass

    def send(self, question):
        return len(question)

    def recv(self, size):
        self.sent += len(self.answer)
        assert self.sent <= 2 * LOOK_BYTES
        return self.answer

    def close(self):
        pass


def test_a_rank_that_never_stops_sending_does_not_hold_who_asks():
    watched = RemoteRank(StreamingLine(), "b", "there")
    assert watched.look(0.0).state == ASLEEP


def test_the_name_of_a_host_can_be_shown():
    assert RemoteRank(StreamingLine(), "b\x1b[31m\n", "there").host == "b?[31m?"


@pytest.mark.parametrize("end", [reset, socket.socket.close])
def test_a_rank_that_ends_before_it_has_answered_is_forgotten(both, end):
    watched, rank = both
    watch = RankWatch()
    watch.add(watched)
    watch.sample(0.0)
    assert rank.question() == NOTES  # or its kernel would send a reset in any case
    end(rank.line)
    assert eventually(lambda: watch.sample(1.0) or watched._line is None)
    watch.sample(1.0 + ANSWER_S)
    assert watch.jobs() == [] and not watch._watched


def test_a_rank_whose_line_was_reset_does_not_answer_and_has_not_ended(both):
    watched, rank = both
    assert rank.question() == NOTES
    rank.answer(NOTES)
    news(watched, 0.0)
    reset(rank.line)
    assert news(watched, 0.1).state == SILENT
    assert watched.has_answered()
    assert watched.look(0.1 + 2 * ANSWER_S).state == SILENT
    assert watched.note().communicators is None  # it may go on


@pytest.mark.parametrize("sizes", [(8, 0, 0, 0), (1 << 30, 0, 0, 0), (900, 1 << 20, 0, 0), (900, 0, 5000, 0)])
def test_answers_that_no_rank_gives_end_the_line(both, sizes):
    watched, rank = both
    rank.answer(NOTES)
    news(watched, 0.0)
    rank.line.sendall(HEADER.pack(*sizes, 0))
    assert eventually(lambda: (watched.look(0.1) or news(watched, 0.1)).state == SILENT)
    assert watched.has_answered()


def test_time_counts_from_answer_to_answer_and_not_for_ranks_that_come_again(both):
    watched, rank = both
    watch = RankWatch()
    watch.add(watched)
    rank.answer(NOTES)
    assert eventually(lambda: watch.sample(10.0) or watch.jobs())
    rank.question()
    for now_s in (10.5, 11.0, 11.5):
        watch.sample(now_s)
    assert watch.longest_idle_s() == 0.0
    assert rank.question() == COUNTERS
    rank.answer(COUNTERS)
    assert eventually(lambda: watch.sample(12.0) or watch.longest_idle_s())
    assert watch.longest_idle_s() == 2.0
    ((state,),) = [job.ranks for job in watch.jobs()]
    assert (state.host, state.idle_s) == ("b", 2.0)
    watch.close()


def test_the_time_until_a_rank_is_late_is_not_its_own(both):
    """Its whole job may be suspended, and continue later."""
    watched, rank = both
    watch = RankWatch()
    watch.add(watched)
    rank.answer(NOTES)
    assert eventually(lambda: watch.sample(10.0) or watch.jobs())
    for step in range(1, 10):
        watch.sample(10.0 + step / 2)
    ((state,),) = [job.ranks for job in watch.jobs()]
    assert state.state in (STOPPED, SILENT)
    assert state.idle_s == 0.0
    watch.close()


@contextmanager
def registered(tmp_path, watch):
    """A registrar, and what ranks get that reach it by TCP only."""
    with Registrar(tmp_path, print, watch=watch) as registrar:
        key, _, *rest = registrar.variables["LOCKSTEP_REGISTRAR"].split(",")
        yield key, ",".join([key, "/nowhere", *rest])


@pytest.mark.parametrize("key, watched, told", [(1, 1, NOTES), (1, 0, REFUSED), (0, 1, b"")])
def test_only_ranks_with_the_key_are_asked_and_only_by_a_watch(tmp_path, key, watched, told):
    watch = RankWatch()
    with registered(tmp_path, watch if watched else None) as (right, where):
        port = int(where.split(",")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            line.sendall(f"{right if key else 'wrong'} job host there\n".encode())
            assert line.recv(1) == told
    watch.close()


def test_without_a_descriptor_left_a_rank_is_refused_and_the_next_one_is_asked(tmp_path, monkeypatch):
    def fails(line):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    watch = RankWatch()
    with registered(tmp_path, watch) as (key, where):
        for told in (REFUSED, NOTES):
            with monkeypatch.context() as patch:
                if told == REFUSED:
                    patch.setattr(socket.socket, "dup", fails)
                with socket.create_connection(("127.0.0.1", int(where.split(",")[2])), timeout=20) as line:
                    line.sendall(f"{key} job host there\n".encode())
                    assert line.recv(1) == told
    watch.close()


def connected(where, place="there", address="127.0.0.1"):
    """A rank that has come to a registrar from an address, and has told what it notes."""
    key, _, port, *_ = where.split(",")
    rank = FakeRank(socket.create_connection(("127.0.0.1", int(port)), source_address=(address, 0)))
    rank.line.sendall(f"{key} job b {place}\n".encode())
    rank.answer(rank.question())
    return rank


@pytest.mark.parametrize("end", [reset, socket.socket.close])
def test_a_rank_that_comes_again_is_the_same_one(tmp_path, end):
    watch = RankWatch()
    with registered(tmp_path, watch) as (_, where):
        first = connected(where)
        assert eventually(lambda: watch.sample(0.0) or watch.jobs())
        end(first.line)
        assert eventually(lambda: watch.sample(0.1) or watch._watched[0].rank._line is None)
        again = connected(where)
        assert eventually(lambda: watch.sample(0.2) or watch._watched[0].rank._line is not None)
        again.page.places[0].entered = 4
        watch.sample(2.0)
        assert again.question() == COUNTERS
        again.answer(COUNTERS)
        assert eventually(lambda: watch.sample(2.0 + ANSWER_S) or watch._watched[0].sight.counters.entered)
        ((state,),) = [job.ranks for job in watch.jobs()]
        assert state.state == ASLEEP
    watch.close()


def test_equal_processes_in_several_namespaces_are_several_ranks(tmp_path):
    watch = RankWatch()
    with registered(tmp_path, watch) as (_, where):
        ranks = [connected(where, place) for place in ("boot:1", "boot:2", "boot:2")]
        assert eventually(lambda: watch.sample(0.0) or len(watch.jobs()[:1] and watch.jobs()[0].ranks) == 2)
        watch.sample(0.1)
        assert [len(job.ranks) for job in watch.jobs()] == [2]
        for one in ranks:
            one.line.close()
    watch.close()


def test_a_rank_that_does_nothing_is_asked_for_all_that_it_notes_once(both):
    watched, rank = both
    assert rank.question() == NOTES
    rank.answer(NOTES)
    news(watched, 0.0)
    for entered, questions in ((0, [COUNTERS]), (1, [COUNTERS, NOTES]), (1, [COUNTERS])):
        rank.page.places[0].entered = entered
        watched.ask()
        for question in questions:
            assert not watched.has_answered()
            watched.look(0.1)
            assert rank.question() == question
            rank.answer(question)
            news(watched, 0.1)
        assert watched.has_answered()
        assert list(watched.note().communicators) == [9]


def cut_when_told(listener, port, told):
    """A network in front of a port: whenever it is told to, it cuts all lines; without a listener it ends."""
    others = {}
    with selectors.DefaultSelector() as ready, suppress(OSError):
        ready.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select(0.05):
                if key.fileobj is listener:
                    ends = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
                    others |= {ends[0]: ends[1], ends[1]: ends[0]}
                    for one in ends:
                        ready.register(one, selectors.EVENT_READ)
                    continue
                data = b""
                with suppress(OSError):  # the other end may have gone
                    data = key.fileobj.recv(1 << 16)
                    others[key.fileobj].sendall(data)
                if not data:
                    ready.unregister(key.fileobj)
                    with suppress(OSError):
                        others[key.fileobj].shutdown(socket.SHUT_WR)
            if told.is_set():
                for one in others:
                    with suppress(KeyError):
                        ready.unregister(one)
                    reset(one)
                others.clear()
                told.clear()


def test_a_real_rank_comes_again_when_its_line_is_reset(tmp_path, compiled):
    told = threading.Event()
    with ExitStack() as stack:

        def through(where):
            key, path, port, *rest = where.split(",")
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            network = threading.Thread(target=cut_when_told, args=(listener, int(port), told), daemon=True)
            network.start()
            return ",".join([key, path, str(listener.getsockname()[1]), *rest])

        process, watch = stack.enter_context(asked(tmp_path, compiled, "waits", through))
        assert seen(watch, lambda one: one.note.stage == RUNNING and one.asleep_in == "read(0)")
        (first,) = watch._watched
        told.set()
        assert eventually(lambda: watch.sample(time.monotonic()) or watch._watched[0].rank is not first.rank)
        assert seen(watch, lambda one: one.note.stage == RUNNING and one.state == ASLEEP)
        assert len(watch._watched) == 1 and watch._watched[0].rank.process == first.rank.process
        process.stdin.close()
        assert process.wait(60) == 0


@contextmanager
def asked(tmp_path, compiled, kind, through=lambda where: where):
    """A rank that answers over TCP, and the watch that asks it; ``through`` gets and says where it comes."""
    watch = RankWatch()
    with registered(tmp_path, watch) as (_, where), ExitStack() as stack:
        program = compiled("here", "asked.c")  # without a launcher, to which a descriptor leads
        words = [
            "--mpicc",
            str(wrapper("here")),
            "--",
            "env",
            f"LOCKSTEP_REGISTRAR={through(where)}",
            program,
            kind,
        ]
        process = subprocess.Popen(
            [*LOCKSTEP, "exec", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        stack.enter_context(process)
        stack.callback(process.terminate)
        assert process.stdout.readline() == "asked by 1\n"
        yield process, watch
        watch.close()


def seen(watch, wanted):
    """Whether a sample of the watch soon shows what is wanted of its only rank."""

    def shows():
        watch.sample(time.monotonic())
        jobs = watch.jobs()
        return bool(jobs) and wanted(jobs[0].ranks[0])

    return eventually(shows)


@pytest.mark.parametrize("kind", ["waits", "closes"])
def test_a_rank_answers_whatever_descriptors_its_program_closes(tmp_path, compiled, kind):
    with asked(tmp_path, compiled, kind) as (process, watch):
        assert seen(watch, lambda one: one.note.stage == RUNNING and one.asleep_in == "read(0)")
        process.stdin.close()
        assert process.wait(60) == 0
        if kind == "waits":
            assert process.stdout.read() == "asked by 0\n"


def test_of_a_rank_that_has_ended_no_forked_child_answers(tmp_path, compiled):
    with asked(tmp_path, compiled, "forks") as (process, watch):
        assert eventually(lambda: watch.sample(time.monotonic()) or not watch.jobs())
        process.stdin.close()


def test_a_program_that_a_rank_executes_does_not_answer(tmp_path, compiled):
    with asked(tmp_path, compiled, "executes") as (process, watch):
        assert eventually(lambda: watch.sample(time.monotonic()) or not watch.jobs())
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(60) == 0


def test_a_process_ends_with_its_own_threads(tmp_path, compiled):
    with asked(tmp_path, compiled, "leaves") as (process, _):
        assert process.wait(60) == 0


def test_names_from_a_rank_cannot_move_the_cursor_of_a_terminal():
    data = b"".join(name.ljust(rank_notes.NAME_BYTES, b"\0") for name in (b"Recv", b"\x1b[2JSend\n"))
    assert rank_notes.names(data) == ["Recv", "?[2JSend?"]


def test_three_hundred_ranks_are_asked_for_their_notes_once_while_one_of_them_waits(tmp_path):
    """On as many addresses; all others wait for less than the time, and go on."""
    asked_for, watch = Counter(), RankWatch()
    with (
        registered(tmp_path, watch) as (_, where),
        ExitStack() as stack,
        selectors.DefaultSelector() as ready,
    ):
        for number in range(300):
            rank = connected(where, f"boot:{number}", f"127.0.{1 + number // 250}.{1 + number % 250}")
            stack.callback(rank.line.close)
            ready.register(rank.line, selectors.EVENT_READ, rank)
        lookout = Lookout(watch, print, 0.0, Patience(5.0, only_report=True))
        assert eventually(lambda: lookout.look(0.0) or len(watch.jobs()[:1] and watch.jobs()[0].ranks) == 300)
        for look in range(40):
            lookout.look(look / 2)
            for key, _ in ready.select(0.0):
                question = key.data.question()
                asked_for[question] += 1
                key.data.answer(question)
    assert asked_for[COUNTERS] >= 300 and asked_for[NOTES] == 0
    watch.close()
