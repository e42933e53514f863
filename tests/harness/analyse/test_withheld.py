"""What cannot be right is withheld, and what others have disturbed is set aside."""

import json
from dataclasses import replace

import pytest
from fake_runs import CONSTANTS, TOOLS, Quiet, measure
from rank_results import rank_result

from harness.analyse import bounds, comparison, results_document, summary, verdicts
from harness.analyse.comparison import NO_VERDICT
from harness.analyse.sharing import advice
from harness.measure import disturbance, runner
from harness.measure.measured import Measured
from harness.measure.plan import plan
from harness.measure.session import MeasurementSession
from harness.report import page, rendering, tables, text
from harness.spec.experiment import load
from harness.store.database import Store
from harness.store.rebuild import experiment_of
from harness.store.records import DEDICATED, POLICY

SCHEDULERS = "schedulers=[{policy='none'},{policy='implicit'},{policy='gang'},{policy='partitioned'}]"


@pytest.fixture(scope="module")
def experiment():
    return load("three-jobs", settings=["repeats=3", SCHEDULERS])


@pytest.fixture
def session(tmp_path):
    with Store(tmp_path) as store:
        yield MeasurementSession.begin((0, 1), TOOLS, store)


@pytest.fixture
def records(experiment, session):
    return measure(experiment, session)


def slower(record, factor):
    jobs = [replace(job, finish_ns=round(job.finish_ns * factor)) for job in record.jobs]
    return replace(record, jobs=tuple(jobs))


def losing(record, share):
    """The record of a run that lost that share of its CPU time to other programs."""
    ranks = [replace(one, run_queue_ns=round(share * one.elapsed_ns)) for one in record.ranks]
    wall_s = 100.0
    during = replace(record.conditions, others=share + disturbance.OWN_S / (2 * wall_s), processors=[0, 1])
    return replace(record, conditions=during, ranks=tuple(ranks), wall_s=wall_s)


def one_of(records, kind, policy="none"):
    return next(one for one in records if one.kind == kind and one.scheduler["policy"] == policy)


def bound(records, policy, **changes):
    """The bound of a run, in dedicated times."""
    alone = replace(one_of(records, DEDICATED, "batch"), **changes)
    return bounds.min_ns(one_of(records, POLICY, policy), [alone] * 3) / alone.makespan_ns


def test_jobs_that_spin_take_their_processors_for_their_dedicated_times(records):
    assert bound(records, "gang") == pytest.approx(3)
    apart = replace(one_of(records, POLICY, "gang"))
    jobs = [replace(job, placement=(place,)) for job, place in zip(apart.jobs, (0, 1, 0), strict=True)]
    alone = one_of(records, DEDICATED, "batch")
    min_ns = bounds.min_ns(replace(apart, jobs=tuple(jobs)), [alone] * 3)
    assert min_ns == pytest.approx(2 * alone.makespan_ns), "processor 0 has two of them"


@pytest.mark.parametrize(
    "changes", [{"waiting": "immediate"}, {"fill": "jobs"}, {"migrate": True}, {"synchronised": False}]
)
def test_where_jobs_may_compute_while_others_wait_only_their_computing_counts(records, changes):
    run = one_of(records, POLICY, "gang")
    alone = one_of(records, DEDICATED, "batch")
    computing_ns = sum(rank.computing_ns for rank in alone.ranks)
    min_ns = bounds.min_ns(replace(run, scheduler={**run.scheduler, **changes}), [alone] * 3)
    assert min_ns == bounds.min_ns(one_of(records, POLICY, "implicit"), [alone] * 3)
    assert min_ns == pytest.approx(3 * computing_ns / 2)


def command(record, *, running, ready=0.0, **how):
    """A dedicated run of a command, whose ranks ran and were ready for these shares of their time."""
    whole_ns = record.makespan_ns
    times = {"running_ns": round(running * whole_ns), "ready_ns": round(ready * whole_ns)}
    program = {"argv": ["./a"], "processes": 2, "launcher": "", "waits": "mpi", "dedicated_s": 1.0, **how}
    jobs = tuple(replace(job, program=program) for job in record.jobs)
    ranks = tuple(rank_result(rank=rank, processor=rank, looked_ns=whole_ns, **times) for rank in range(2))
    return replace(record, jobs=jobs, ranks=ranks)


@pytest.mark.parametrize(
    "policy, alone, least",
    [
        ("gang", {"running": 0.9, "ready": 0.1}, 3.0),  # it spins, and something took a tenth
        ("gang", {"running": 0.5}, None),  # it may sleep while others have their slots
        ("none", {"running": 1.0}, None),  # it spins for we do not know how long
        ("none", {"running": 0.6, "waits": "two-phase"}, 3 * 0.6),
    ],
)
def test_a_command_has_a_bound_if_it_is_known_to_spin_or_to_block(records, policy, alone, least):
    made = command(one_of(records, DEDICATED, "batch"), **alone)
    found = bounds.min_ns(one_of(records, POLICY, policy), [made] * 3)
    assert found == (least and pytest.approx(least * made.makespan_ns))


def withheld(experiment, records):
    return {row.scheduler["policy"] for row in summary.rows(experiment, records) if row.withheld}


def test_nothing_is_withheld_of_a_quiet_run(experiment, records):
    assert not withheld(experiment, records)
    assert results_document.results(experiment, records).notice == ""


def test_a_row_below_its_bound_says_that_its_dedicated_runs_were_disturbed(experiment, records):
    spoilt = [slower(one, 1.1) if one.kind == DEDICATED else one for one in records]
    assert withheld(experiment, spoilt) == {"gang"}
    found = results_document.results(experiment, spoilt)
    assert found.notice.startswith("Not measurable now (1 of 4 rows): the dedicated runs were disturbed")
    (row,) = (row for row in found.document()["rows"] if row["withheld"])
    assert row["bound"] == pytest.approx(1.0) and row["measured"]["workload_slowdown"]["median"] < 0.95
    assert row["withheld"].startswith("its dedicated runs were disturbed")


@pytest.mark.parametrize("kind, share, hidden", [(POLICY, 0.19, 0), (POLICY, 0.21, 4), (DEDICATED, 0.21, 4)])
def test_rows_whose_runs_lost_too_much_are_withheld(experiment, records, kind, share, hidden):
    spoilt = [losing(one, share) if one.kind == kind and one.repeat < 2 else one for one in records]
    assert len(withheld(experiment, spoilt)) == hidden


def test_rows_none_of_whose_runs_were_left_alone_are_withheld_sooner(experiment, records):
    assert not withheld(experiment, [losing(one, 0.05) for one in records])
    assert len(withheld(experiment, [losing(one, 0.07) for one in records])) == 4


def test_what_is_withheld_has_no_number_no_advice_and_no_verdict(experiment, records):
    spoilt = [losing(one, 0.87) for one in records]
    found = verdicts.judged(results_document.results(experiment, spoilt), spoilt, 0.15)
    assert found.notice == "Not measurable now: other programs took up to 87% of the processors."
    first, *shown = map(str, text.render(found))
    assert first == found.notice and not any("Warning" in line for line in shown)
    assert not any(row.median("measured") for row in found.rows) and advice(found.rows) is None
    assert {row.verdict.verdict for row in found.rows} == {verdicts.NOT_COMPARABLE}
    assert found.notice in tables.markdown(found) and "other programs took" in tables.comma_separated(found)
    kept = json.loads(json.dumps(found.document()))["rows"]
    assert all(row["measured"]["workload_slowdown"]["median"] and row["error"] is None for row in kept)
    compared = comparison.of_two_stores(found.rows, results_document.results(experiment, records).rows)
    assert {one.verdict for one in compared} == {NO_VERDICT}
    assert all(one.reason.startswith("not measurable before: other programs") for one in compared)


def test_disturbed_runs_are_set_aside_if_others_stand(experiment, records):
    def median(changed):
        (row,) = (row for row in summary.rows(experiment, changed) if row.name == "none")
        return row.median("measured"), row.repeats

    def spoilt(record, kind, *repeats):
        hit = record.kind == kind and record.repeat in repeats
        return slower(losing(record, 0.05), 1.3) if hit else record

    usual, _ = median(records)
    assert median([spoilt(one, POLICY, 1) for one in records]) == (pytest.approx(usual, rel=0.02), 2)
    assert median([spoilt(one, DEDICATED, 1) for one in records]) == (pytest.approx(usual, rel=0.02), 3)
    every = median([spoilt(one, POLICY, 0, 1, 2) for one in records])
    assert every == (pytest.approx(1.3 * usual, rel=0.02), 3), "where all are disturbed, all count"
    again = [*records, *(spoilt(one, POLICY, 1) for one in records if one.repeat == 1)]
    assert median(again) == (usual, 3), "of several runs of a repeat the least disturbed counts"


class Host:
    """A host on which others disturb some runs; it counts the runs."""

    def __init__(self, session, shares):
        self._measured = Measured(session, lambda task: CONSTANTS, lambda text: None)
        self._shares = shares
        self.made = []
        self.refusal = self._measured.refusal
        self.guess_s = self._measured.guess_s

    def run(self, task):
        record = self._measured.run(task)
        share = self._shares(len(self.made))
        self.made.append(share)
        return losing(record, share)


@pytest.mark.parametrize(
    "shares, more",
    [
        (lambda n: 0.0, 0),
        (lambda n: 0.3 if n == 4 else 0.0, 1),  # until one is not disturbed
        (lambda n: 0.3 if 4 <= n < 9 else 0.0, 4),  # at most twice each: runs 4 to 6, and 7 to 9
        (lambda n: 0.3, runner.USELESS),  # it does not help
    ],
)
def test_disturbed_runs_are_repeated_as_long_as_that_helps(experiment, session, monkeypatch, shares, more):
    monkeypatch.setattr(runner, "AGAIN", 2)
    host = Host(session, shares)
    made = list(runner.run(plan(experiment), host, session.store, Quiet()))
    assert len(made) == len(host.made) == len(plan(experiment)) + more
    assert len(session.store.runs(experiment.digest)) == len(made)


def test_dedicated_runs_stand_amidst_the_runs_that_are_compared_with_them(experiment):
    kinds = [task.kind for task in plan(experiment)]
    assert kinds == 3 * [POLICY, POLICY, DEDICATED, POLICY, POLICY]


def test_what_a_run_has_lost_is_unknown_on_other_hosts(records):
    record = losing(one_of(records, POLICY), 0.4)
    assert disturbance.lost(record) == pytest.approx(0.4)
    assert disturbance.lost(replace(record, kind="simulated")) == 0
    assert disturbance.lost(replace(record, conditions=replace(record.conditions, nodes=["a:2", "b:2"]))) == 0
    assert disturbance.lost(losing(one_of(records, DEDICATED, "batch"), 0.1)) == pytest.approx(0.1)


@pytest.fixture
def of_log(tmp_path):
    lines = [f"{n} {60 * n} 0 600 {1 + n % 2} " + "-1 " * 13 for n in range(1, 6)]
    (tmp_path / "log.swf").write_text("; MaxProcs: 2\n" + "\n".join(lines))
    log = {"file": str(tmp_path / "log.swf"), "jobs": 5, "minutes": 0.1}
    return load({"processors": 2, "log": log, "schedulers": [{"policy": "fcfs"}, {"policy": "gang"}]})


def test_a_log_whose_runs_lost_too_much_has_its_rows_without_simulations_too(of_log, session):
    spoilt = [losing(one, 0.87) for one in measure(of_log, session) if one.kind == POLICY]
    found = results_document.results(of_log, spoilt)
    document = json.loads(json.dumps(found.document()))
    assert [row["count"] for row in document["rows"]] == [5, 5]
    assert all("other programs took" in row["withheld"] for row in document["rows"])
    assert document["log"]["numbers"] == [1, 2, 3, 4, 5]
    assert not any(row.median("measured") for row in found.rows)
    assert "".join(map(str, text.render(found))).startswith("Not measurable now")
    whole = rendering.html(page.page_of(page.Content(found, spoilt)))
    assert "Not measurable now" in whole


@pytest.mark.parametrize("failed", [1, 2])
def test_a_log_of_which_the_last_runs_have_failed_is_still_one(of_log, session, failed):
    """Only runs that have ended know when which job ran."""
    made = [one for one in measure(of_log, session) if one.kind == POLICY]
    made[-failed:] = [replace(one, failure="rank 1 has gone", schedule=None) for one in made[-failed:]]
    again = experiment_of(made)
    found = results_document.results(again, made, session=made[0].session)
    assert again.of_log == (failed < len(made))
    assert len(found.failures) == failed
    assert {row.scheduler["policy"] for row in found.rows} == {"fcfs", "gang"}
    assert [bool(row.schedule) for row in found.rows] == [True] * (2 - failed) + [False] * failed
    assert json.loads(json.dumps(found.document()))["rows"][-1]["measured"]["failures"] == 1
    assert rendering.html(page.page_of(page.Content(found, made))) and [*map(str, text.render(found))]
