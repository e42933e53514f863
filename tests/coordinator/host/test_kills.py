"""Whatever part of a command is killed at whatever instant of its life, nothing of it remains.

``LOCKSTEP_KILLS`` says how many SIGKILLs the long form does (300; 8 in ``.ci/run``), a
sixth as many of ``lockstep exec``, a fifth as many signals about its reports on ranks that hang, a third as
many of ``turns`` and ``colocate``, and half as many again signals of users to every command that lasts;
``LOCKSTEP_KILLS_SEED`` repeats a series.
"""

import functools
import os
import random
import signal

import pytest
from kills import Keys, Kill, NearReport, undisturbed
from lives import ELSEWHERE, ON_HOSTS, TURNS_ELSEWHERE
from netns_cluster import unavailable
from runs import eventually, running, usable

SEED = os.environ.get("LOCKSTEP_KILLS_SEED", str(random.randrange(10**6)))
COUNT = int(os.environ.get("LOCKSTEP_KILLS", "300"))
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

LIVES_S = {
    **{"run": 5.0, ELSEWHERE: 5.0, "calibrate": 5.0, "simulate": 2.0, "submit": 0.6, "exec": 1.0},
    "exec stuck": 2.5,
    **{"colocate": 5.0, "turns": 2.0, "turns of others": 3.0, "run a sweep": 6.0, "simulate a sweep": 3.0},
    **{"tune": 4.0, "record": 2.0, "reproduce": 8.0, "explore": 3.0, "compare": 1.2, "report": 2.0},
    **{"advise": 3.0, "doctor": 20.0, "submit and wait": 2.0, TURNS_ELSEWHERE: 7.0},
}
"""Most of each command's life. The short form kills within these times; the long one measures whole lives."""


def series(runs, elsewhere, interrupts, others):
    """So many kills of runs here, of runs on two hosts, interrupts, and kills of the other commands."""
    whats = ["run"] * runs + [ELSEWHERE] * elsewhere
    kinds = ("calibrate", "simulate", "submit", "calibrate again")
    whats += [kinds[number % len(kinds)] for number in range(others)]
    kills = [Kill(what, number, SEED) for number, what in enumerate(whats)]
    for number in range(interrupts):
        what = ("run", ELSEWHERE, "run", "calibrate")[number % 4]
        kills.append(Kill(what, len(whats) + number, SEED, ENDING[number % 3]))
    return kills


RUNS = COUNT * 9 // 20
MANY = series(RUNS, COUNT - COUNT // 10 - RUNS, COUNT // 5, COUNT // 10)


def shown(kill):
    return f"{kill.number}-{kill.what}-{kill.signum.name}".replace(" ", "-")


@functools.cache
def measured_s(what):
    """How long a command lives here, in seconds; nothing remains of it."""
    time_s, outcome = undisturbed(what)
    assert not outcome.faults, outcome
    return time_s


def execs(count):
    """So many kills of parts of ``lockstep exec``."""
    whats = ("exec", "exec stuck")
    return [Kill(whats[(number - 1) % 2], number, SEED) for number in range(1, count + 1)]


def near_reports(count):
    """So many signals to ``lockstep exec`` and its ranks about the time when it reports that they hang."""
    signums = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
    kills = []
    for number in range(count):
        signum = signums[number % 3]
        # What only reports does not end by itself after SIGSTOP.
        what = "exec reports" if number % 2 and signum != signal.SIGSTOP else "exec stuck"
        kills.append(NearReport(what, number, SEED, signum))
    return kills


def sharing(count):
    """So many kills of commands whose programs are no experiment, some of them others'."""
    whats = ("turns of others", "turns", "turns of others", "colocate", TURNS_ELSEWHERE)
    return [Kill(whats[number % 5], number, SEED) for number in range(count)]


LASTING = [what for what in LIVES_S if what not in ON_HOSTS]
SIGNALS = (signal.SIGTSTP, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)


def of_users(count):
    """So many signals of users: another signal to another command each time, until each command had each.

    After SIGTSTP a command goes on to its end, which takes long: the first ones get it that end soon.
    """
    kills = []
    for number in range(count):
        again, place = divmod(number, len(LASTING))
        what = LASTING[place]
        signum = SIGNALS[(again + place - 1) % len(SIGNALS)]
        kind = Kill if signum in (signal.SIGHUP, signal.SIGTERM) else Keys
        kills.append(kind(what, number, SEED, signum))
    return kills


def nothing_remains(kill, life_s):
    reason = unavailable() if kill.what in ON_HOSTS else ""
    if reason:
        pytest.skip(reason)
    outcome = kill.do(life_s(kill.what))
    if not outcome.role and not outcome.faults:  # it has lived no longer
        outcome = kill.do(outcome.lived_s)
    print(f"{outcome}: gone after {outcome.clean_s:.1f} s")
    assert not outcome.faults, outcome


@pytest.mark.slow
@pytest.mark.parametrize("kill", [*series(1, 1, 1, 1), *execs(1), *sharing(1)], ids=shown)
def test_nothing_remains_after_a_kill(kill):
    nothing_remains(kill, LIVES_S.__getitem__)


@pytest.mark.soak
@pytest.mark.parametrize("kill", [*MANY, *execs(COUNT // 6), *sharing(COUNT // 3)], ids=shown)
def test_nothing_remains_after_many_kills(kill):
    nothing_remains(kill, measured_s)


@pytest.mark.slow
@pytest.mark.parametrize("kill", near_reports(2), ids=shown)
def test_nothing_remains_after_a_signal_about_a_report(kill):
    nothing_remains(kill, lambda what: LIVES_S["exec stuck"])


@pytest.mark.soak
@pytest.mark.parametrize("kill", near_reports(COUNT // 5), ids=shown)
def test_nothing_remains_after_many_signals_about_a_report(kill):
    nothing_remains(kill, lambda what: LIVES_S["exec stuck"])


def test_each_command_gets_each_signal_of_users_before_any_repeats():
    whole = len(LASTING) * len(SIGNALS)
    assert len({(kill.what, kill.signum) for kill in of_users(whole)}) == whole
    assert {kill.signum for kill in of_users(12)} == set(SIGNALS)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [Keys("turns", 0, SEED, signum) for signum in SIGNALS[:3]], ids=shown)
def test_nothing_remains_after_what_a_user_presses(kill):
    nothing_remains(kill, LIVES_S.__getitem__)


@pytest.mark.soak
@pytest.mark.parametrize("kill", of_users(COUNT + COUNT // 2), ids=shown)
def test_nothing_remains_after_many_signals_of_users(kill):
    nothing_remains(kill, LIVES_S.__getitem__)


@pytest.mark.slow
@pytest.mark.parametrize(
    "signum, status, mechanism", [(signal.SIGTERM, 143, "freezer"), (signal.SIGINT, 130, "realtime")]
)
def test_an_interrupt_takes_effect_when_all_is_released(signum, status, mechanism):
    usable(mechanism)
    with running(policy="gang", mechanism=mechanism, phases=20000) as run:
        assert eventually(run.holds)
        run.driver.send_signal(signum)
        run.driver.send_signal(signum)
        run.driver.communicate(timeout=60)
        # Python ends by SIGINT itself after an uncaught KeyboardInterrupt.
        assert run.driver.returncode in (status, -signum)
        assert run.remains() == []
