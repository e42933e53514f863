"""The agent: messages, slots on a clock, and a real agent with ranks that are not MPI's."""

import itertools
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from hosts import Host
from hypothesis import given
from hypothesis import strategies as st
from runs import eventually, running, state
from slots_of_jobs import Holder, gang, switching

from coordinator.decide.cycle import Cycle
from coordinator.decide.session import Plan
from coordinator.host.clock import Clock
from coordinator.host.loop import Loop
from coordinator.host.processes import Process
from coordinator.node.contact import BEAT_S, JOIN_S, QUIET_NS, Contact
from coordinator.node.roster import Channel
from coordinator.node.switcher import HOLD
from coordinator.view import Decision, Slot
from coordinator.wire import protocol
from coordinator.wire.line_format import LineError
from coordinator.wire.protocol import TO_AGENT, Table

MS = 1_000_000


@given(
    from_ns=st.integers(0, (1 << 63) - 1),
    lengths=st.lists(st.none() | st.integers(1, (1 << 63) - 1), min_size=1, max_size=4).map(tuple),
    cyclic=st.booleans(),
)
def test_tables_survive_the_wire(from_ns, lengths, cyclic):
    runs = tuple(((0, 1), ()) for _ in lengths)
    only = tuple(((0, 3),) for _ in lengths)
    table = Table(from_ns, -5, cyclic, lengths, runs, ((0, 0, 0), (0, 3, 1), (1, 2, 0)), only)
    assert TO_AGENT.decode(TO_AGENT.encode(table)) == table


@pytest.mark.parametrize(
    "line, complaint",
    [
        (b"{", "not a line of JSON"),
        (b"[]", "not an object"),
        (b"\xff", "not a line of JSON"),
        (b'{"type":"leave"}', "version None, required 7"),
        (b'{"type":"leave","version":1}', "version 1, required 7"),
        (
            b'{"type":"fly","version":7}',
            "unknown type 'fly'; known are start, resize",
        ),
        (b'{"type":["a"],"version":7}', "unknown type"),
        (b'{"type":"leave","version":7,"x":1}', "x"),
        (b'{"type":"start","version":7,"job":1,"at_ns":2}', "cores"),
        (b'{"type":"start","version":7,"job":true,"at_ns":2,"ranks":[],"cores":[]}', "start.job is True"),
        (b'{"type":"start","version":7,"job":1,"at_ns":2,"ranks":[],"cores":[["0",0]]}', "cores is '0'"),
        (b'{"type":"start","version":7,"job":1,"at_ns":2,"ranks":[],"cores":3}', "start.cores is 3"),
    ],
)
def test_what_is_not_a_message_is_refused(line, complaint):
    with pytest.raises(LineError, match=complaint.replace("[", r"\[")):
        TO_AGENT.decode(line)


def test_a_channel_cuts_lines_wherever_they_are_broken_and_tells_the_end():
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    theirs.send(b"one\ntw")
    assert channel.receive() == [b"one"]
    theirs.send(b"o\nthree\nrest")
    assert channel.receive() == [b"two", b"three"]
    theirs.close()
    assert channel.receive() == [] and channel.closed
    channel.send(b"nobody hears\n")
    assert not channel.unsent
    channel.close()


def test_a_channel_keeps_what_the_peer_is_too_slow_to_take():
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    other = Channel(theirs)
    sent = [b"x" * 10_000 for _ in range(100)]
    for line in sent:
        channel.send(line + b"\n")
    assert channel.unsent
    received = []
    while len(received) < len(sent):
        received += other.receive()
        channel.flush()
    assert received == sent and not channel.unsent
    channel.close()
    other.close()


def switcher(*tables):
    """A switcher with two jobs on two processors and a clock that moves when told, in its first slot."""
    holder = Holder()
    switcher, clock = switching(holder)
    for table in tables:
        switcher.publish(table)
        switcher.switch(0)
        holder.said.clear()
    return switcher, holder, clock


def test_at_a_boundary_what_leaves_is_held_before_what_comes_runs():
    agent, holder, clock = switcher()
    agent.publish(gang(0, 0, 0, 1))
    agent.switch(0)
    assert set(holder.said) == {("run", "0.0"), ("run", "0.1"), ("hold", "1.0"), ("hold", "1.1")}
    holder.said.clear()
    assert agent.due_ns() == 10
    clock[0] = 13
    switch = agent.switch(12)
    assert holder.said == [("hold", "0.0"), ("run", "1.0"), ("hold", "0.1"), ("run", "1.1")]
    assert (switch.slot, switch.due_ns, switch.switch_delay_ns, switch.skew_ns) == (1, 10, 3, 0)
    assert agent.due_ns() == 20


def test_a_slot_may_run_single_ranks_of_a_job():
    """Both ranks of job 0 are on processor 0, one in each slot; job 1, whom no slot names, runs whole."""
    agent, holder, _ = switcher()
    places = ((0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1))
    runs = ((0,), (1,))
    agent.publish(Table(0, 0, True, (10, 10), (runs, runs), places, (((0, 0),), ((0, 1),))))
    agent.switch(0)
    assert set(holder.said) == {("run", "0.0"), ("hold", "0.1"), ("run", "1.0"), ("run", "1.1")}
    holder.said.clear()
    agent.switch(10)
    assert holder.said == [("hold", "0.0"), ("run", "0.1")]


def test_the_share_of_a_node_names_single_ranks_as_they_were_launched():
    """Two launched ranks, 5 and 3, are the job's first and second, on one node each."""
    slots = tuple(Slot(((0,), ()), 10, ((0, rank),)) for rank in range(2))
    plan = Plan(Decision({0: (0, 1)}, slots), 0)
    nodes = (range(1), range(1, 2))
    for share, placed in zip(Table.shares(plan, 0, 0, nodes, {0: (5, 3)}), (5, 3), strict=True):
        assert share.placements == ((0, placed, 0),)
        assert share.allowed_ranks == (((0, 5),), ((0, 3),)), "a node must know that it is others' turn"
    whole = Plan(Decision({0: (0, 1)}, (Slot(((0,), (0,))),)), 0)
    assert next(Table.shares(whole, 0, 0, [range(2)], {0: (0, 1)})).allowed_ranks == ()


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    turn=st.integers(0, 3),
    start_ns=st.integers(0, 100),
    now_ns=st.integers(100, 200),
)
def test_slots_at_the_same_times_are_the_same_table_wherever_their_list_begins(
    lengths, turn, start_ns, now_ns
):
    slots = tuple(Slot(((number,),), length) for number, length in enumerate(lengths))
    turn %= len(slots)
    turned = slots[turn:] + slots[:turn]
    plans = Plan(Decision({}, slots), start_ns), Plan(Decision({}, turned), start_ns + sum(lengths[:turn]))
    (one,), (other,) = (Table.shares(plan, 0, 0, [range(1)], {}) for plan in plans)
    assert one == other
    slot, end_ns = plans[0].cycle.slot_at(now_ns)
    ours, our_end_ns = Cycle(one.start_ns, one.lengths_ns, one.cyclic).slot_at(now_ns)
    assert (one.runs[ours], our_end_ns) == (slots[slot].runs, end_ns)


def test_a_switcher_that_was_kept_away_goes_to_the_slot_of_the_moment():
    agent, holder, _ = switcher(gang(0, 0, 0, 1))
    assert agent.switch(45) is None
    assert agent.due_ns() == 50 and holder.said == []


def test_tables_wait_for_their_time_and_later_ones_override():
    agent, holder, _ = switcher()
    agent.publish(gang(100, 100, 0))
    agent.publish(gang(100, 95, 0, 1))
    assert agent.due_ns() == 100
    assert agent.switch(50) is None and holder.said == []
    agent.switch(100)
    assert ("hold", "1.0") in holder.said
    assert agent.due_ns() == 105


def test_jobs_without_a_place_are_freed_and_all_at_the_end():
    agent, holder, _ = switcher(gang(0, 0, 0, 1))
    agent.publish(gang(5, 5, 0))
    agent.switch(5)
    assert set(holder.said) == {("free", "1.0"), ("free", "1.1")}
    holder.said.clear()
    agent.release()
    assert set(holder.said) == {("free", "0.0"), ("free", "0.1")}


def test_jobs_of_others_wait_without_a_place_and_are_left_alone_if_they_run_at_the_end():
    agent, holder, _ = switcher()
    for job in (1, 2, 3):
        agent.adopt(job, 0, f"other {job}", HOLD)
    agent.publish(gang(0, 0, 0, 1))
    agent.switch(0)
    assert {("hold", "other 1"), ("hold", "other 2"), ("hold", "other 3")} <= set(holder.said)
    agent.switch(10)
    holder.said.clear()
    agent.release()
    others = [said for said in holder.said if said[1].startswith("other")]
    assert others == [("free", "other 2"), ("free", "other 3")]


def test_a_rank_that_comes_late_is_held_at_once():
    agent, holder, _ = switcher(gang(0, 0, 0, 1))
    agent.drop(1, 0)
    holder.said.clear()
    agent.adopt(1, 0, "new")
    assert holder.said == [("hold", "new")]


def test_ranks_that_come_and_go_between_two_boundaries_are_in_the_next_change():
    """The switcher works the next change out ahead of time."""
    agent, holder, _ = switcher(gang(0, 0, 0, 1))
    agent.drop(1, 0)
    agent.adopt(1, 0, "new")
    agent.drop(0, 1)
    holder.said.clear()
    agent.switch(10)
    assert holder.said == [("hold", "0.0"), ("run", "new"), ("run", "1.1")]


def test_an_exact_wait_is_never_early_and_other_events_end_it():
    loop, (ours, theirs) = Loop(), socket.socketpair()
    for _ in range(20):
        until_ns = time.monotonic_ns() + 100_000
        loop.wait_exactly(until_ns)
        assert time.monotonic_ns() >= until_ns
    heard = []
    loop.watch(ours, lambda: heard.append(ours.recv(1)))
    theirs.send(b"x")
    loop.wait_exactly(time.monotonic_ns() + 10**12)
    assert heard == [b"x"]
    loop.close()
    ours.close()
    theirs.close()


def test_past_the_end_of_a_table_nothing_is_due():
    agent, _, _ = switcher(gang(0, 0, 0, 1, cyclic=False))
    agent.switch(10)
    assert agent.due_ns() == 20
    agent.switch(20)
    assert agent.due_ns() is None


def table(length_ns):
    now_ns = time.monotonic_ns()
    return Table(now_ns, now_ns, True, (length_ns,) * 2, (((0,),), ((1,),)), ((0, 0, 0), (1, 0, 0)))


def test_an_agent_stops_and_continues_its_ranks_and_reports(host):
    ranks = [host.rank(job, 0) for job in range(2)]
    assert {ready.job for ready in host.hear(protocol.RankReady, 2)} == {0, 1}
    host.say(table(1000 * MS))
    assert host.eventually(lambda: state(ranks[1].pid) == "T") and state(ranks[0].pid) != "T"
    host.say(table(20 * MS))
    assert host.eventually(lambda: state(ranks[0].pid) == "T")
    assert host.eventually(lambda: state(ranks[1].pid) == "T")
    for job in range(2):
        host.say(protocol.Start(job, time.monotonic_ns(), ((0, 0),)))
    assert {one.said.record["rank"] for one in host.hear(protocol.RankRecord, 2)} == {0}
    host.say(protocol.Leave())
    assert host.eventually(lambda: all(rank.poll() == 0 for rank in ranks))
    host.hear(protocol.RankGone, 2)
    host.say(protocol.End())
    switches = [switch for message in host.hear(protocol.SwitchReport) for switch in message.switches]
    assert len(switches) > 2 and all(delay >= skew >= 0 for _, _, delay, skew in switches)


def test_the_driver_hears_what_a_rank_says_of_its_peers(host):
    host.rank(0, 2, PEERS="[[0], [0, 1], [1]]")
    host.hear(protocol.RankReady)
    host.say(protocol.Start(0, time.monotonic_ns(), ((2, 0),)))
    host.hear(protocol.RankRecord)
    messages = [protocol.OfRank(0, 2, protocol.RankTraffic(peers)) for peers in ((0,), (0, 1), (1,))]
    assert host.hear(protocol.RankTraffic) == messages
    host.say(protocol.Leave())
    host.hear(protocol.RankGone)


def test_strangers_and_liars_are_refused(host):
    assert host.rank(0, 0, LOCKSTEP_RUN="another").wait(10) == 1
    assert "not of this run" in host.hear(protocol.Failure)[0].text
    assert host.rank(0, 0, LOCKSTEP_JOB="7").wait(10) == 1
    assert "not rank 0 of job 0" in host.hear(protocol.Failure, 2)[1].text
    # The test itself carries no mark either.
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(host.directory.socket))
        stranger.settimeout(5)
        assert stranger.recv(1) == b""


@pytest.mark.parametrize("host", [1.0], indirect=True)
@pytest.mark.parametrize("how", ["driver", "agent", "stopped agent", "guardian"])
def test_whoever_is_lost_stopped_ranks_do_not_remain(host, how):
    ranks = [host.rank(job, 0) for job in range(2)]
    host.hear(protocol.RankReady, 2)
    host.say(table(1000 * MS))
    assert host.eventually(lambda: state(ranks[1].pid) == "T")
    if how == "agent":
        host.agent.send_signal(signal.SIGKILL)
    if how == "stopped agent":
        host.agent.send_signal(signal.SIGSTOP)
    if how == "guardian":
        Process(host.hear(protocol.Join)[0].guardian).send(signal.SIGKILL)
        assert host.hear(protocol.Failure)[0].fatal
        host.say(protocol.End())
    begin_s = time.monotonic()
    # Nobody listens from here on: the lease of the agent, or of its guardian, ends.
    assert all(rank.wait(10) is not None for rank in ranks)
    if how == "driver":
        assert 0.25 < time.monotonic() - begin_s < 1.0 + 9


@pytest.mark.slow
def test_an_agent_whose_driver_ended_while_it_was_starting_ends_at_once_and_says_so(tmp_path, directory):
    driver = subprocess.Popen(["true"])
    handle = os.pidfd_open(driver.pid)
    driver.wait()
    with (tmp_path / "said").open("w+") as stream:
        host = Host(directory, "signals", stderr=stream, driver=handle)
        os.close(handle)
        host.agent.wait(30)
        host.hub.close(0)
        assert "its driver has ended" in Path(stream.name).read_text()
    directory.unlock()
    assert eventually(lambda: not directory.path.exists())


@pytest.mark.slow
def test_the_reason_of_an_agent_that_gives_its_run_up_is_that_of_the_run():
    with running(policy="gang", phases=100_000, lease_s=1.0) as run:
        while "job 0 starts" not in run.driver.stderr.readline():
            assert run.driver.poll() is None
        run.driver.send_signal(signal.SIGSTOP)
        assert eventually(lambda: not run.part("agent"))
        run.driver.send_signal(signal.SIGCONT)
        failure = run.result()["failure"]
        assert "its agent has ended\nrun" in failure and "its driver has said nothing for 1 s" in failure


def beats(lease_s, slot_ns, until_ns):
    """When signs of life are given beside slots of this length, by a clock that is exact."""
    now_ns = 0
    given = []
    contact = Contact(Clock(lambda: now_ns), lease_s, same_clock=True)
    while now_ns < until_ns:
        boundary_ns = (now_ns // slot_ns + 1) * slot_ns
        if contact.wants_beat(boundary_ns):
            contact.beat(0)
            given.append(now_ns)
            contact.learn(protocol.Echo(now_ns, now_ns, now_ns))
        assert not contact.silence()
        now_ns = max(now_ns + 1, min(boundary_ns, contact.due_ns()))
    return given


@pytest.mark.parametrize("slot_ms", [0.1, 1, 2, 3, 100, 499])
@pytest.mark.parametrize("lease_s", [0.5, 2, 60])
def test_signs_of_life_never_wait_longer_than_a_quarter_of_the_lease(slot_ms, lease_s):
    length_ns = round(lease_s * 1e9)
    given = beats(lease_s, round(slot_ms * MS), 5_000 * MS)
    every_ns = min(round(BEAT_S * 1e9), length_ns // 4)
    gaps = [after - before for before, after in itertools.pairwise(given)]
    assert len(gaps) > 5 and max(gaps) <= every_ns + length_ns // 4


def test_a_driver_is_awaited_from_the_first_sign_of_life_on():
    """Before it, the agent may be held for long by the programs that start with it."""
    now_ns = 0
    contact = Contact(Clock(lambda: now_ns), 2.0, same_clock=True)
    now_ns = round(3 * JOIN_S * 1e9)
    assert not contact.silence()
    assert contact.wants_beat(None)
    contact.beat(0)
    now_ns += round(0.99 * JOIN_S * 1e9)
    assert not contact.silence()
    now_ns += round(0.02 * JOIN_S * 1e9)
    assert contact.silence() == f"its driver has not answered for {JOIN_S:g} s"


def test_a_sign_of_life_that_would_delay_a_switch_is_given_right_after_it():
    now_ns = 0
    contact = Contact(Clock(lambda: now_ns), 2.0, same_clock=True)
    assert not contact.wants_beat(1 * MS) and contact.due_ns() == 1 * MS + 1
    now_ns = contact.due_ns()
    assert contact.wants_beat(2 * MS)
    contact.beat(0)
    now_ns = contact.due_ns()
    assert contact.wants_beat(now_ns + QUIET_NS)
