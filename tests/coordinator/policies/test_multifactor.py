"""Slurm's multifactor priority: factors, fair shares and usage by hand, and what bad input is told.

``tests/slurm/test_priorities.py`` has Slurm's own numbers, and ``tests/harness/simulator/test_instants.py``
compares all starts with an independent scheduler.
"""

import math

import pytest

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.policies import fair_share
from coordinator.policies.fair_share import Association
from coordinator.view import Job, Machine, Submitter, View
from harness.spec.experiment import load
from workloads.parameters import Numbers
from workloads.validation import InputError

S = 1_000_000_000
TREE = {
    "priority_weight_fairshare": 1000,
    "account_shares": {"physics": 60, "chemistry": 40},
    "user_shares": {"physics/ann": 3, "physics/bob": 1, "chemistry/eve": 1},
}


def job(number, name="/", processes=1, arrival_s=0, **submitter):
    account, _, user = name.partition("/")
    return Job(number, processes, arrival_s * S, submitter=Submitter(user, account, **submitter))


def priorities(jobs, now_s=0, processors=8, previous=None, **options):
    policy = policies.create("multifactor", options)
    view = View(Machine(processors), now_s * S, tuple(jobs), len(jobs), previous)
    return [*policy.priorities(view, jobs).values()]


def after(events, **options):
    """The decision after jobs have come (a job) and gone (its number), each at a time in seconds."""
    jobs = [what for _, what in events if isinstance(what, Job)]
    session = Session(policies.create("multifactor", options), Machine(8), jobs)
    for at_s, what in events:
        decision = (
            (session.depart(what) if isinstance(what, int) else session.arrive(what.number))
            .decide(at_s * S)
            .decision
        )
    return decision


def factors(algorithm, usage_s, accounts=TREE["account_shares"], users=TREE["user_shares"]):
    used_s = {Association(*name.split("/")): used for name, used in usage_s.items()}
    tree = fair_share.tree(Numbers(accounts.items()), Numbers(users.items()), used_s, ())
    return {"/".join(name): factor for name, factor in algorithm(tree).items()}


def test_a_priority_is_the_sum_of_weighted_factors_less_nice():
    site = {
        "priority_weight_age": 1000,
        "priority_max_age_s": 100,
        "priority_weight_job_size": 80,
        "priority_weight_partition": 60,
        "priority_job_factor": {"short": 30, "long": 10},
        "priority_weight_qos": 500,
        "qos_priority": {"high": 50, "low": 10},
    }
    jobs = [
        job(0, processes=4, partition="short", qos="high"),
        job(1, processes=8, arrival_s=30, partition="long", qos="low", nice=-7),
        job(2, arrival_s=40, nice=5000),
    ]
    assert priorities(jobs, 50, **site) == [500 + 40 + 60 + 500, 200 + 80 + 20 + 100 + 7, 1]
    assert priorities(jobs, 150, **site)[0] == 1000 + 40 + 60 + 500
    assert priorities(jobs, 50, **site, priority_favor_small=True)[1] == 200 + 0 + 20 + 100 + 7
    # Of 2 nodes with 4 processors each, one: (1 / 2 + 1 / 8) / 2, cut off.
    assert priorities([job(0)], priority_weight_job_size=1000, processors_per_node=4) == [312]


def test_fair_tree_compares_accounts_and_then_their_users():
    usage_s = {"physics/ann": 30, "physics/bob": 30, "chemistry/eve": 10}
    ranks = factors(fair_share.fair_tree, usage_s)
    assert ranks == pytest.approx({"chemistry/eve": 1, "physics/ann": 2 / 3, "physics/bob": 1 / 3})
    unused = factors(fair_share.fair_tree, {"physics/bob": 1})
    assert unused == pytest.approx({"chemistry/eve": 1, "physics/ann": 2 / 3, "physics/bob": 1 / 3})


def test_fair_tree_merges_accounts_with_equal_values_and_shares_ranks():
    users = {"a/ann": 1, "a/bob": 1, "b/cyd": 1, "b/dan": 1, "root/root": 1}
    accounts = {"a": 1, "b": 1}
    usage_s = {"a/ann": 5, "a/bob": 10, "b/cyd": 5, "b/dan": 10}
    ranks = factors(fair_share.fair_tree, usage_s, accounts, users)
    assert ranks == {"root/root": 1, "a/ann": 0.8, "b/cyd": 0.8, "a/bob": 0.4, "b/dan": 0.4}
    nobody = factors(fair_share.fair_tree, {}, accounts, users)
    assert set(nobody.values()) == {1.0}
    none = factors(fair_share.fair_tree, {"b/dan": 1}, {"a": 1, "b": 0}, users)
    assert [name for name, rank in none.items() if rank < 0.6] == ["b/cyd", "b/dan"]


def test_classic_shares_are_halved_for_each_time_that_a_share_is_used():
    ours = factors(fair_share.classic, {"physics/ann": 30, "physics/bob": 30, "chemistry/eve": 40})
    physics = 0.6
    ann = 0.3 + (physics - 0.3) * 3 / 4
    assert ours["chemistry/eve"] == pytest.approx(2 ** -(0.4 / 0.4))
    assert ours["physics/ann"] == pytest.approx(2 ** -(ann / (0.6 * 3 / 4)))
    assert factors(fair_share.classic, {})["physics/bob"] == 1


@pytest.mark.parametrize("half_life_s", [0, 10])
def test_usage_is_what_jobs_have_had_in_this_run_also_of_those_that_run(half_life_s):
    events = [(0, job(0, "physics/ann", 2)), (10, job(1, "chemistry/eve", 3)), (20, 0)]
    decision = after(events, **TREE, priority_decay_half_life_s=half_life_s)
    used_s = decision.state.until(30 * S, half_life_s).used_s
    if half_life_s:
        each = half_life_s / math.log(2)
        right = {"ann": 2 * each * (2**-1 - 2**-3), "eve": 3 * each * (1 - 2**-2)}
    else:
        right = {"ann": 2 * 20, "eve": 3 * 20}
    assert {name.user: used for name, used in used_s.items()} == pytest.approx(right)


def test_whose_account_has_used_less_comes_first():
    events = [(0, job(0, "physics/ann", 6)), (10, job(1, "physics/bob", 8)), (10, job(2, "chemistry/eve", 8))]
    assert {*after([*events, (20, 0)], **TREE).placements} == {2}
    assert {*after([*events, (20, 0)]).placements} == {1}  # without weights in order of arrival


def test_jobs_may_name_their_accounts_from_the_root_on():
    """Ann has used the machine, under whatever name of her account, so that Eve comes first."""
    shares = {"physics": 9, "physics/optics": 2, "chemistry": 1}
    late = Job(2, 8, 5 * S, submitter=Submitter("ann", "physics/optics"))
    events = [(0, job(0, "optics/ann", 8)), (5, late), (10, job(1, "chemistry/eve", 8, 10)), (20, 0)]
    assert {*after(events, priority_weight_fairshare=1000, account_shares=shares).placements} == {1}


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"account_shares": {"root": 1}}, "account_shares"),
        ({"account_shares": {"a/b": 1, "b": 1}}, "account_shares"),
        ({"account_shares": {"/".join(map(str, range(2000))): 1}}, "account_shares"),
        ({"account_shares": {"a": -1}}, "account_shares.a"),
        ({"user_shares": {"ann": 1}}, "user_shares"),
        ({"qos_priority": {"high": 1.5}}, "qos_priority.high"),
        ({"qos_priority": [1, 2]}, "qos_priority"),
        ({"priority_weight_age": 2**32}, "priority_weight_age"),
    ],
)
def test_bad_options_are_refused_by_name(options, key):
    with pytest.raises(InputError) as caught:
        policies.create("multifactor", options)
    assert caught.value.key == key and caught.value.rule and caught.value.remedy


def test_its_tables_survive_records_and_its_name_is_short():
    text = "schedulers=[{policy='multifactor', qos_priority={low=1, high=9}, priority_weight_qos=10}]"
    (scheduler,) = load("three-jobs", settings=[text]).schedulers
    assert scheduler.table["qos_priority"] == {"high": 9, "low": 1}
    again = policies.create("multifactor", {"qos_priority": {"high": 9, "low": 1}, "priority_weight_qos": 10})
    assert scheduler.policy == again and hash(scheduler.policy) == hash(again)


@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
def test_no_reservation_keeps_a_job_of_higher_priority_waiting(backfill):
    events = [
        (0, job(0, processes=8)),
        (1, job(1, processes=8)),
        (2, job(2, processes=8, qos="high")),
        (9, 0),
    ]
    weights = {"priority_weight_qos": 1000, "qos_priority": {"high": 1}}
    assert {*after(events, backfill=backfill, **weights).placements} == {2}


def test_shares_of_users_without_a_name_are_refused():
    for name in ("/ann", "optics/"):
        with pytest.raises(InputError, match="a slash and the name of a user"):
            policies.create("multifactor", {"user_shares": {name: 2}})
