"""Kill a part of a command at a random instant of its life, and check what remains.

The kill chooses its victim by its role among the processes that exist at that instant: the driver alone in
the beginning, later its agents, guardians, launchers, proxies and ranks as well.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from lives import TURNS_ELSEWHERE, parent, started
from places import ROOT
from runs import catches, command, state

from coordinator.host.mechanisms import cgroups_of_runs, in_use
from coordinator.host.processes import JOB, RUN, environment_of
from harness.spec.colocate import LEASE_S

BEFORE = frozenset(cgroups_of_runs())
"""Groups that others have left."""

PATIENCE_S = 10.0
"""How long parts of a run may remain after the end of its driver."""

TURNS = ("turns", TURNS_ELSEWHERE)
EXECS = ("exec", "exec stuck", "exec reports")

LIFE_S = 180.0
"""How long a driver may take to end by itself when another part was killed."""

PROGRAMS = {
    **dict.fromkeys(("mpiexec", "mpiexec.hydra", "mpirun", "prterun", "orterun"), "launcher"),
    **dict.fromkeys(("hydra_pmi_proxy", "prted", "orted"), "proxy"),
}
MODULES = {
    "coordinator.node.agent": "agent",
    "coordinator.host.guardian": "guardian",
    "coordinator.host.guarded_program": "wrapper",
    "harness": "wrapper",  # of a rank, if it is not the driver
    "workloads.rank": "rank",
    "workloads.probe": "rank",
    "mpi4py.futures": "rank",
}


def role(pid):
    words = command(pid)
    if not words:
        return ""
    if (name := Path(words[0]).name) in PROGRAMS:
        return PROGRAMS[name]
    if "coordinator.host.release" in words:  # or the shell that becomes it when the driver ends
        return "guardian"
    # A way to another host, or a keeper of a status.
    if "netns_ssh.py" in " ".join(words[:5]) or name == "sh":
        return "launcher"
    if name == "native-rank":
        return "rank"
    return next((MODULES[word] for word in words[:8] if word in MODULES), "other")


@dataclass
class Outcome:
    """What a kill did, and what it left.

    Attributes:
        told: what the kill did, in words.
        role: role of the victim; empty if the command had ended before.
        lived_s: seconds from the start of the command until then.
        clean_s: seconds from the end of the driver until nothing remained.
        faults: violations, in words.
    """

    told: str
    role: str = ""
    lived_s: float = 0.0
    clean_s: float = 0.0
    faults: list[str] = field(default_factory=list)

    def __str__(self):
        return "\n  ".join([self.told, *self.faults])


@dataclass(frozen=True)
class Kill:
    """A signal to a part of a command: SIGKILL to any part, other signals to the driver."""

    what: str
    number: int
    seed: str
    signum: signal.Signals = signal.SIGKILL

    def do(self, life_s):
        """Start the command, and send the signal at a random instant of ``life_s`` seconds."""
        choices = random.Random(f"{self.seed}-{self.number}")
        instant_s = choices.uniform(0.0, life_s)
        with started(self.what, self.number) as life:
            begin_s = time.monotonic()
            if self.what == "exec" and self.number % 2:  # most of its life is its start
                instant_s = self._first_rank_s(life) - begin_s + choices.uniform(0.0, 1.0)
            self._wait(life, begin_s + instant_s, choices)
            while not (life.driver() or life.status() is not None):
                time.sleep(0.002)
            outcome = self._strike(life, choices)
            outcome.lived_s = time.monotonic() - begin_s
            outcome.told += f" {outcome.lived_s:.3f} s after the start, of {life_s:.1f} s"
            outcome.told += f" (LOCKSTEP_KILLS_SEED={self.seed}, number {self.number})"
            follow(life, outcome, PATIENCE_S + (LEASE_S if self.what == TURNS_ELSEWHERE else 0))
            return self._judged(life, outcome)

    def _wait(self, life, until_s, choices):
        """Wait until the instant of the kill, or until the command has ended."""
        while time.monotonic() < until_s and life.status() is None:
            time.sleep(0.002)

    def _first_rank_s(self, life):
        """Wait for a rank; returns the time in seconds of ``time.monotonic``."""
        while life.status() is None and not any(role(pid) == "rank" for pid in life.processes()):
            time.sleep(0.01)
        return time.monotonic()

    def _strike(self, life, choices):
        while life.status() is None:
            driver = life.driver()
            if driver is None:  # between its shell and itself, or between its end and its status
                continue
            parts = {"driver": [driver]}
            if self.signum == signal.SIGKILL:
                for pid in life.processes():
                    if pid != driver and (found := role(pid)):
                        parts.setdefault(found, []).append(pid)
            chosen = choices.choice(sorted(parts))
            victim = choices.choice(parts[chosen])
            told = f"{self.what}: {self.signum.name} to {chosen} {victim} ({' '.join(command(victim))[:200]})"
            with suppress(ProcessLookupError):
                os.kill(victim, self.signum)
                if self.what == "exec" and chosen not in ("driver", "launcher", "rank"):
                    # It goes on without a guardian, and Hydra may wait for ever for its proxy.
                    os.kill(driver, signal.SIGKILL if chosen == "proxy" else signal.SIGTERM)
                return Outcome(told, chosen)
        return Outcome(f"{self.what}: had ended")

    def _judged(self, life, outcome):
        """Check how the driver ended, too; returns ``outcome``."""
        status = life.status()
        said = life.said()
        if status is not None and status not in self._expected(outcome.role):
            outcome.faults.append(f"the driver ended with status {status}")
        if "Traceback" in said and str(ROOT) in said:
            outcome.faults.append("the driver printed a traceback")
        if outcome.faults:
            outcome.faults += [f"| {line}" for line in said.splitlines()[-12:]]
        return outcome

    def _expected(self, role):
        if not role:
            return (124 if self.what == "exec stuck" else 0,)
        others_say = self.what in ("simulate", *EXECS) and self.signum != signal.SIGKILL
        if others_say or (self.what in ("simulate", *EXECS, *TURNS) and role != "driver"):
            return range(-64, 256)  # as the launcher, or the program, says
        if self.signum == signal.SIGKILL:
            return (-signal.SIGKILL,) if role == "driver" else (0, 1)
        # It may have been as good as over, or Python not yet far enough to do anything about it.
        return (130, 0, -self.signum)


@dataclass(frozen=True)
class Keys(Kill):
    """What a user presses: Ctrl-C, Ctrl-\\ or Ctrl-Z send ``signum`` to the command and all of its group.

    Ctrl-C comes twice, quickly. Some time after Ctrl-Z, ``fg`` continues the group.
    """

    def _strike(self, life, choices):
        # Before it handles signals, Python itself is starting.
        while (driver := life.driver()) is None or not catches(driver, signal.SIGTERM):
            if life.status() is not None:
                return Outcome(f"{self.what}: had ended")
            time.sleep(0.002)
        pressed = [self.signum]
        if self.signum == signal.SIGINT:
            pressed.append(signal.SIGINT)
        if self.signum == signal.SIGTSTP:
            pressed.append(signal.SIGCONT)
        told = f"{self.what}: {' and '.join(signum.name for signum in pressed)} to the group"
        for signum in pressed:
            with suppress(ProcessLookupError):  # it may end after the first
                os.killpg(driver, signum)
            if signum == signal.SIGTSTP:
                self._stopped(life, driver)
            time.sleep(choices.choice([0.0, 0.01, choices.uniform(0.0, 1.0)]))
        return Outcome(told, "driver")

    def _stopped(self, life, driver):
        """Wait until Ctrl-Z has stopped the driver, which may first end a run."""
        begin_s = time.monotonic()
        while life.status() is None and state(driver) != "T" and time.monotonic() < begin_s + PATIENCE_S:
            time.sleep(0.01)

    def _expected(self, role):
        if self.signum == signal.SIGTSTP:  # it goes on; a run that it ended counts as failed
            return (0, 1)
        return super()._expected(role)


@dataclass(frozen=True)
class NearReport(Kill):
    """A signal to ``exec``, its launcher or a rank while ``exec`` reports on ranks that hang, or afterwards.

    Some time after SIGSTOP comes SIGCONT.
    """

    def _wait(self, life, until_s, choices):
        super()._wait(life, self._first_rank_s(life) + choices.uniform(0.8, 2.0), choices)
        if self.what == "exec reports" or choices.random() < 0.5:
            while "no progress for" not in life.said() and life.status() is None:
                time.sleep(0.002)
            time.sleep(choices.choice([0.0, choices.uniform(0.0, 0.02), choices.uniform(0.0, 0.5)]))

    def _strike(self, life, choices):
        while life.status() is None:
            driver = life.driver()
            if driver is None:
                continue
            parts = {"driver": [driver]}
            for pid in life.processes():
                if role(pid) in ("launcher", "rank"):
                    parts.setdefault(role(pid), []).append(pid)
            chosen = choices.choice(sorted(parts))
            victim = choices.choice(parts[chosen])
            told = f"{self.what}: {self.signum.name} to {chosen} {victim}"
            with suppress(ProcessLookupError):
                os.kill(victim, self.signum)
                if self.signum == signal.SIGSTOP:
                    time.sleep(choices.uniform(0.0, 3.0))
                    os.kill(victim, signal.SIGCONT)
            return Outcome(told, chosen)
        return Outcome(f"{self.what}: had ended")

    def _expected(self, role):
        if self.signum == signal.SIGKILL and role == "driver":
            return (-signal.SIGKILL,)
        return range(-64, 256)  # as the launcher says, or exec


def follow(life, outcome, patience_s=PATIENCE_S):
    """Wait at most LIFE_S for the end of the driver, and then so many seconds until nothing remains."""
    begin_s = time.monotonic()
    while life.status() is None:
        if time.monotonic() > begin_s + LIFE_S:
            outcome.faults.append(f"the driver did not end within {LIFE_S:g} s")
            break
        time.sleep(0.01)
    begin_s = time.monotonic()
    while remains(life):
        if time.monotonic() > begin_s + patience_s:
            outcome.faults += remains(life)
            break
        time.sleep(0.02)
    outcome.clean_s = time.monotonic() - begin_s


def remains(life):
    """The processes, files and cgroups of a command at this moment.

    Cgroups that other processes use are those of tests at the same time.
    """
    left = []
    for pid in life.processes():
        marks = {name: value for name, value in environment_of(pid).items() if name in (RUN, JOB)}
        words = " ".join(command(pid))[:200]
        left.append(f"process {pid} in state {state(pid)}, child of {parent(pid)}, {marks}: {words}")
    groups = [group for group in cgroups_of_runs() if group not in BEFORE and not in_use(group)]
    return left + life.files() + [str(group) for group in groups]


def undisturbed(what):
    """The life of an undisturbed command in seconds, and its outcome."""
    with started(what, 0) as life:
        begin_s = time.monotonic()
        outcome = Outcome(f"{what}: undisturbed")
        while life.status() is None and time.monotonic() < begin_s + LIFE_S:
            time.sleep(0.01)
        life_s = time.monotonic() - begin_s
        follow(life, outcome)
        if life.status() != (124 if what == "exec stuck" else 0):
            outcome.faults.append(f"it ended with status {life.status()}: {life.said()}")
        return life_s, outcome
