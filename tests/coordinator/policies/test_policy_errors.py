"""Errors of policies in files of users: one line with the policy, its file, the line and the error."""

import importlib.util
import sys

import pytest

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.policies import PolicyError, registry
from coordinator.view import Job, Machine
from workloads.validation import LockstepError

FAULTY = """
from coordinator.policies import Policy, register
from coordinator.view import Decision, Slot

@register("faulty")
class Faulty(Policy):
    source = "a test"
    how: str = ""

    def __post_init__(self):
        assert self.how

    def processes(self, job, view):
        return job.requested

    def decide(self, view, reason):
        places = {0: (0, 1)}
        return {
            "raises": lambda: places[3],
            "nothing": lambda: None,
            "no mapping": lambda: Decision([(0, 1)], (Slot(((0,), (0,))),)),
            "no slots": lambda: Decision(places, ()),
            "no slot": lambda: Decision(places, Slot(((0,), (0,)))),
            "no tuples": lambda: Decision(places, (Slot((0, 0)),)),
            "too few": lambda: Decision(places, (Slot(((0,),)),)),
            "no place": lambda: Decision({0: 1}, (Slot(((0,), (0,))),)),
            "no processor": lambda: Decision({0: (0, 99)}, (Slot(((0,), (0,))),)),
            "no job": lambda: Decision({7: (0, 1)}, (Slot(((0,), (0,))),)),
        }[self.how]()
"""
LINES = {text.strip(): number for number, text in enumerate(FAULTY.splitlines(), 1)}
DECIDE = LINES["def decide(self, view, reason):"]


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    """The file of a faulty policy, which is known in this test only."""
    monkeypatch.setattr(registry, "_known", dict(policies.known()))
    file = tmp_path / "faulty.py"
    load(file, FAULTY, monkeypatch)
    return file


def load(file, text, monkeypatch):
    file.write_text(text)
    module_spec = importlib.util.spec_from_file_location("faulty", file)
    monkeypatch.setitem(sys.modules, "faulty", importlib.util.module_from_spec(module_spec))
    module_spec.loader.exec_module(sys.modules["faulty"])


def session(how):
    return Session(policies.create("faulty", {"how": how}), Machine(2), [Job(0, 2)])


@pytest.mark.parametrize(
    "how, line, said",
    [
        ("raises", LINES['"raises": lambda: places[3],'], "in <lambda>: KeyError: 3"),
        ("nothing", DECIDE, "in decide: returns None, and no Decision"),
        ("no mapping", DECIDE, "in decide: has no mapping of jobs to processors as placements: [(0, 1)]"),
        ("no slots", DECIDE, "in decide: has no tuple of slots: ()"),
        ("no slot", DECIDE, "in decide: has no tuple of slots: Slot("),
        ("no tuples", DECIDE, "in decide: has no slot with a tuple of jobs for each processor: Slot("),
        ("too few", DECIDE, "in decide: has a slot that does not name every processor"),
        ("no place", DECIDE, "in decide: TypeError: "),
        ("no processor", DECIDE, "in decide: places job 0 on processors (0, 99)"),
        ("no job", DECIDE, "in decide: KeyError: 7"),
    ],
)
def test_what_goes_wrong_in_a_decision_names_policy_file_and_line(faulty, how, line, said):
    with pytest.raises(PolicyError) as error:
        session(how).arrive(0).decide(0)
    assert str(error.value).startswith(f"the policy 'faulty' failed: {faulty}, line {line}, {said}")
    assert error.value.__cause__ is not None and isinstance(error.value, LockstepError)


def test_so_do_other_methods_of_a_policy(faulty):
    with pytest.raises(PolicyError, match=r"faulty.py, line \d+, in __post_init__: AssertionError$"):
        policies.create("faulty", {})
    with pytest.raises(PolicyError, match="in processes: AttributeError: 'Job' object has no"):
        session("raises").processes(0)


@pytest.mark.parametrize(
    "present, former, rule",
    [
        ('source = "a test"', "needs_mechanism = True", "write stops_processes for needs_mechanism"),
        ("decide(self, view, reason)", "decide(self, view, why)", "write reason for why"),
        ("Decision(places, ())", "Decision(places, (), call_after_ns=5)", "write timer_ns for call_after_ns"),
        ("Decision(places, ())", "Decision(places, (), memory=5)", "write state for memory"),
        ("Decision(places, ())", "view.jobs[0].most", "write max_processes for most"),
    ],
)
def test_a_policy_with_names_of_an_earlier_version_is_told_the_present_ones(
    faulty, monkeypatch, present, former, rule
):
    text = FAULTY.replace(present, former).replace('"faulty"', '"former"')
    with pytest.raises(PolicyError, match=rule):
        load(faulty, text, monkeypatch)
        Session(policies.create("former", {"how": "no slots"}), Machine(2), [Job(0, 2)]).arrive(0).decide(0)
