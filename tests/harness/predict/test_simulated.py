"""Simulated counterparts of measured runs, by the real simulator."""

import base64
import json
from itertools import pairwise

import pytest
from fake_runs import TOOLS, Quiet, measure

from harness.analyse import results_document, summary
from harness.analyse.timelines import BLOCKED, COMMUNICATING, RUNNING, SWITCHING, occupancy, spans
from harness.cli import main
from harness.measure import calibrate
from harness.measure.calibrate import Constants
from harness.measure.session import MeasurementSession
from harness.predict import missing
from harness.report import plain, text
from harness.spec.experiment import load
from harness.store import records
from harness.store.conditions import Conditions
from harness.store.database import Store
from harness.store.records import SIMULATED_DEDICATED, Calibration

pytestmark = pytest.mark.slow  # compiles the simulator where that has not been done

SETTINGS = ["repeats=1", "program.dedicated_s=0.05", "jobs.0.count=2", "program.pattern=NEWS"]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A made-up measured experiment, and its simulated counterparts with timelines."""
    experiment = load("three-jobs", settings=SETTINGS)
    with Store(tmp_path_factory.mktemp("results")) as opened:
        session = MeasurementSession.begin((0, 1), TOOLS, opened)
        measured = measure(
            experiment, session, Constants(remote_wakeup_us=20.0, local_switch_us=3.0, latency_us=2.0)
        )
        simulated = missing.complete(experiment, measured, "session", opened, Quiet(), timeline=True)
        assert len(opened.runs(experiment.digest)) == len(measured) + len(simulated)
    return experiment, measured, simulated


def test_every_measured_run_has_one_counterpart(both):
    experiment, measured, simulated = both
    assert len(simulated) == len(measured) == 9
    assert missing.missing(experiment, [*measured, *simulated]) == []
    for one in measured:
        assert sum(missing.imitates(other, one) for other in simulated) == 1


def test_a_rank_record_accounts_for_its_time(both):
    _, _, simulated = both
    for record in simulated:
        for rank in record.ranks:
            assert rank.cpu_ns == rank.computing_ns + rank.communicating_ns + rank.synchronizing_ns
            assert rank.cpu_ns + rank.switching_ns <= rank.elapsed_ns
        finishes = [rank.finish_ns for rank in record.ranks]
        assert max(finishes) == max(job.finish_ns for job in record.jobs)


def test_rows_have_both_sides_and_the_error(both):
    experiment, measured, simulated = both
    for row in summary.rows(experiment, [*measured, *simulated]):
        assert sum(vars(row.simulated.breakdown).values()) == 1.0
        assert row.simulated.responses is None, "no job is interactive"
        assert row.error == row.median("simulated") / row.median("measured") - 1


def test_a_processor_runs_one_process_at_a_time(both):
    _, _, simulated = both
    record = next(record for record in simulated if record.kind == "simulated")
    all_spans = [s for rank in record.ranks for s in spans(rank, base64.b64decode(rank.timeline))]
    lanes = occupancy(all_spans)
    assert sorted(lanes) == [0, 1]
    spent_ns = sum(span.end_ns - span.begin_ns for span in all_spans if span.state in RUNNING)
    assert sum(s.end_ns - s.begin_ns for lane in lanes.values() for s in lane) == spent_ns
    assert spent_ns == sum(rank.cpu_ns + rank.switching_ns for rank in record.ranks)


def test_a_process_that_blocks_sleeps_until_it_is_switched_to_and_a_read_names_its_rank(both):
    _, _, simulated = both
    ours = [one for one in simulated if one.kind == "simulated"]
    slept = {one.scheduler["waiting"]: 0 for one in ours}
    peers = set()
    for record in ours:
        spans_of_ranks = [[*spans(rank, base64.b64decode(rank.timeline))] for rank in record.ranks]
        for one, after in (pair for mine in spans_of_ranks for pair in pairwise(mine)):
            assert one.end_ns <= after.begin_ns
            assert one.state != BLOCKED or (after.state, after.begin_ns) == (SWITCHING, one.end_ns)
        every = [one for mine in spans_of_ranks for one in mine]
        peers |= {(one.state, one.rank, one.peer) for one in every if one.peer >= 0}
        blocks = sum(one.state == BLOCKED for one in every)
        counted = sum(wait.blocks for rank in record.ranks for wait in rank.waits.kinds)
        assert blocks >= counted, "a process that other messages wake blocks again in the same wait"
        assert bool(blocks) == bool(counted)
        slept[record.scheduler["waiting"]] += blocks
    assert peers == {(state, rank, 1 - rank) for state in (COMMUNICATING, BLOCKED) for rank in (0, 1)}
    assert slept["spin"] == 0 < slept["immediate"]


def test_a_long_timeline_keeps_its_end_as_that_of_a_real_rank_does(both, tmp_path, monkeypatch):
    experiment, measured, simulated = both
    monkeypatch.setattr("workloads.timeline.ROWS", 50)
    with Store(tmp_path) as another:
        short = missing.complete(experiment, measured, "another", another, Quiet(), timeline=True)
    for whole, cut in zip(simulated[0].ranks, short[0].ranks, strict=True):
        every, kept = (list(spans(rank, base64.b64decode(rank.timeline))) for rank in (whole, cut))
        assert kept == every[-50:]
        assert cut.timeline_lost == len(every) - 50 > 0


OTHERS = """
processors = 2
repeats = 1
[[jobs]]
kind = "sequential"
work_s = 0.05
[[jobs]]
kind = "interactive"
burst_ms = 2
think_ms = 3
bursts = 7
[[schedulers]]
policy = "none"
"""


def test_sequential_and_interactive_jobs_have_counterparts_with_response_times(tmp_path):
    (tmp_path / "others.toml").write_text(OTHERS)
    experiment = load(str(tmp_path / "others.toml"))
    with Store(tmp_path / "results") as opened:
        session = MeasurementSession.begin((0, 1), TOOLS, opened)
        measured = measure(
            experiment, session, Constants(remote_wakeup_us=20.0, local_switch_us=3.0, latency_us=2.0)
        )
        missing.complete(experiment, measured, "session", opened, Quiet())
        records = opened.runs(experiment.digest)
    alone = {record.jobs[0].job: record for record in records if record.kind == SIMULATED_DEDICATED}
    assert alone[0].makespan_ns == pytest.approx(50e6, rel=0.01)
    assert alone[1].makespan_ns == pytest.approx(7 * 5e6, rel=0.01)
    (user,) = alone[1].ranks
    assert user.phases == 7
    assert user.computing_ns == 7 * 2_000_000
    (row,) = summary.rows(experiment, records)
    simulated = row.simulated
    assert simulated.responses.n == 7
    assert 2.0 <= simulated.responses.mean_ms <= simulated.responses.p99_ms < 50.0
    assert simulated.workload_slowdown.median > 0
    document = results_document.ResultsDocument("others", "", "", {}, [row], None, [], [])
    shown = "".join(map(plain.shown, text.render(document)))
    assert f"{simulated.responses.mean_ms:.1f}" in shown.split("none", 1)[1]


DIFFERENT = """
processors = 2
repeats = 2
[[jobs]]
count = 2
program = { granularity_us = 500, imbalance = 0.5, phases = 60 }
[[schedulers]]
policy = "gang"
quantum_ms = 10
mechanism = "freezer"
[[schedulers]]
policy = "gang"
quantum_ms = 10
[[schedulers]]
policy = "implicit"
local = "rr"
[[schedulers]]
policy = "implicit"
[sweep]
"program.pattern" = ["BARRIER", "NEWS"]
"""

SAMPLES_NS = {
    **{
        "remote_wakeup_ns": 9e3,
        "local_switch_ns": 3e3,
        "latency_ns": 2e3,
        "idle_wakeup_ns": 3e4,
        "poll_ns": 400.0,
    },
    **{
        "tick_ns": 4e6,
        "slice_ns": 3e6,
        "rr_interval_ns": 2e7,
        "os_noise_length_ns": 1e4,
        "os_noise_interval_ns": 2e7,
    },
    **{"slot_cost_ns signals": 5e4, "slot_cost_ns freezer": 4e5, "switch_delay_ns signals": 6e4},
}


def calibrated(store):
    """Stores SAMPLES_NS as what a calibration has measured."""
    now = records.now()
    for quantity, sample in SAMPLES_NS.items():
        calibration = Calibration("c", now, quantity, [sample], (0, 1), 0, TOOLS.launcher, Conditions())
        store.add_calibrations([calibration])
    return calibrate.constants(next(store.calibrations()))


def test_simulate_gives_what_run_simulates_number_by_number(tmp_path, capsys):
    """Also for schedulers with local schedulers and mechanisms of their own."""
    (tmp_path / "different.toml").write_text(DIFFERENT)
    experiment = load(str(tmp_path / "different.toml"))
    with Store(tmp_path / "results") as store:
        measure(experiment, MeasurementSession.begin((0, 1), TOOLS, store), calibrated(store))
    where = str(tmp_path / "results")
    assert main(["compare", where, "--json"]) in (0, 1)
    (beside,) = json.loads(capsys.readouterr().out)["experiments"]
    assert main(["simulate", str(tmp_path / "different.toml"), "--results", where, "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)

    def predictions(document):
        return {
            (row["settings"]["program.pattern"], json.dumps(row["scheduler"])): row["simulated"]
            for row in document["rows"]
        }

    assert predictions(alone) == predictions(beside)
    slowdowns = [row["simulated"]["workload_slowdown"]["median"] for row in alone["rows"]]
    assert len(set(slowdowns)) == 8


@pytest.mark.slow
def test_the_command_simulates_the_calibrated_host_unless_the_file_asks_for_another(tmp_path, capsys):
    with Store(tmp_path) as store:
        MeasurementSession.begin((0, 1), TOOLS, store).calibrate([0], ["signals"], Quiet())
    words = ["simulate", "three-jobs", "--quick", "--json", "--set", "repeats=1", "--results", str(tmp_path)]
    machines = []
    for more in ([], ["--set", "machine.local=svr4"], ["--set", "machine.latency_us=7"]):
        assert main([*words, *more]) == 0
        machines.append(json.loads(capsys.readouterr().out)["machine"])
    host, paper, changed = machines
    assert (host["local"], host["context_switch_us"], host["remote_wakeup_us"]) == ("eevdf", 3.0, 5.0)
    assert host["os_noise_interval_us"] == 25_000
    assert host["slot_cost_us"] == [], "the first scheduler holds nothing"
    assert (paper["local"], paper["context_switch_us"], paper["os_noise_interval_us"]) == ("svr4", 3.0, 0.0)
    assert changed == host | {"latency_us": 7}
