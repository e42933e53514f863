"""Experiment files: defaults, sweeps, overrides, digests, and what bad input is told."""

import dataclasses
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from coordinator import policies
from coordinator.view import Submitter
from harness.spec import experiment, experiment_source
from harness.spec.experiment import load
from harness.spec.naming import scheduler_name
from workloads.validation import InputError, shown

SMALL = """
processors = 2

[[jobs]]
count = 2
program = { pattern = "NEWS", processes = 2, granularity_us = 500, dedicated_s = 1.0 }

[[jobs]]
arrival_s = 0.5
[jobs.program]
pattern = "BARRIER"
phases = 10

[[schedulers]]
policy = "gang"
quantum_ms = 20

[[schedulers]]
policy = "implicit"
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="small.toml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def refused(source, *settings, **options):
    with pytest.raises(InputError) as caught:
        load(source, settings=settings, **options)
    return caught.value


def test_defaults_are_filled_in(write):
    loaded = load(write(SMALL.replace("processors = 2\n", "")))
    assert (loaded.name, loaded.repeats, loaded.seed) == ("small", 8, 1)
    assert loaded.processors == len(os.sched_getaffinity(0))
    gang, implicit = loaded.schedulers
    assert gang.table == {
        **policies.parameters("gang"),
        "policy": "gang",
        "quantum_ms": 20,
        "waiting": "spin",
        "spin_switches": 2,
        "imbalance_estimate": "longest-wait",
        "local": "other",
        "mechanism": "auto",
        "bind": True,
        "remedy": {"kind": "none", "deferrals": 4, "deferral_us": 50.0, "warning_us": 100.0},
        **{"quota_processors": 0.0, "quota_period_ms": 100.0},
    }
    assert implicit.options.waiting == "global-adaptive"


def test_only_a_rule_that_estimates_takes_an_estimate(write):
    error = refused(write(SMALL), "schedulers.0.imbalance_estimate=arrival-spread")
    assert error.key == "schedulers[0].imbalance_estimate"
    assert "spin" in error.rule and "global-adaptive" in error.remedy


def test_a_sweep_is_a_product_in_file_order_whose_last_key_varies_fastest(write):
    sweep = '[sweep]\n"program.imbalance" = [0.25, 1.5]\n"machine.latency_us" = [1, 2, 3]\n'
    loaded = load(write(SMALL + sweep))
    assert [tuple(cell.settings.values()) for cell in loaded.cells] == [
        (v, latency) for v in (0.25, 1.5) for latency in (1, 2, 3)
    ]
    assert all(group.program.imbalance == 1.5 for group in loaded.cells[3].groups)
    assert loaded.cells[1].machine["latency_us"] == 2
    assert [cell.index for cell in loaded.measured_cells] == [0, 3], "the machine is only simulated"


def names(loaded):
    return [scheduler_name(scheduler.table) for scheduler in loaded.schedulers]


def test_a_sweep_of_a_scheduler_makes_schedulers(write):
    tables = SMALL + '[[schedulers]]\npolicy = "implicit"\nwaiting = "fixed"\n'
    loaded = load(write(tables + '[sweep]\n"schedulers.0.quantum_ms" = [10, 50]\nspin_switches = [2, 8]\n'))
    assert [name for name in names(loaded) if name.startswith("gang")] == ["gang 10 ms", "gang 50 ms"]
    assert [name for name in names(loaded) if "fixed" in name] == ["implicit fixed 2", "implicit fixed 8"]
    assert len(loaded.cells) == 1


def test_what_a_sweep_makes_twice_is_one_scheduler(write):
    tables = SMALL + '[[schedulers]]\npolicy = "gang"\nquantum_ms = 50\n'
    scheduler_names = names(load(write(tables + "[sweep]\nquantum_ms = [10, 50]\n")))
    assert [name for name in scheduler_names if "gang" in name] == ["gang 10 ms", "gang 50 ms"]


def test_a_sweep_takes_keys_of_one_job_and_the_processors(write):
    keys = '"jobs.0.count" = [1, 2]\n"jobs[1].program.phases" = [5, 6]\nprocessors = [2, 3]\n'
    loaded = load(write(SMALL + "[sweep]\n" + keys))
    last = loaded.cells[-1]
    assert last.settings == {"jobs.0.count": 2, "jobs[1].program.phases": 6, "processors": 3}
    assert [group.count for group in last.groups] == [2, 1]
    assert [cell.groups[1].program.phases for cell in loaded.cells] == [5, 5, 6, 6] * 2
    assert [cell.processors for cell in loaded.cells] == [2, 3] * 4
    assert loaded.processors == 3
    assert len(loaded.measured_cells) == 8


def test_a_key_for_all_schedulers_reaches_those_that_have_it(write):
    tables = SMALL + '[[schedulers]]\npolicy = "none"\n'
    loaded = load(write(tables), settings=["quantum_ms=7"])
    assert names(loaded)[0] == "gang 7 ms" and "quantum_ms" not in loaded.schedulers[-1].table


@pytest.mark.parametrize("name", ["three-jobs", "coarse", "reads", "mixed"])
def test_built_in_experiments_load_also_quickly(name):
    whole = load(name)
    quick = load(name, quick=True)
    assert whole.name == name
    assert quick.repeats < whole.repeats
    assert quick.cells[0].jobs()[0].program.phase_count() < whole.cells[0].jobs()[0].program.phase_count()


def test_every_built_in_experiment_is_listed_and_no_other():
    page = (ROOT / "docs" / "experiments.md").read_text()
    rows = re.findall(r"^\| (`[^|]+`) \|", page, flags=re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(listed) == sorted(experiment_source.built_in())


@pytest.mark.parametrize("name", ["policies", "policies-alike"])
def test_the_experiments_with_every_policy_leave_none_out(name):
    elsewhere = {"dynamic-coscheduling"}  # it needs realtime scheduling
    assert {scheduler.name for scheduler in load(name).schedulers} == set(policies.known()) - elsewhere


def test_quick_scales_a_file_that_does_not_say_how(write):
    quick = load(write(SMALL), quick=True)
    first, _, last = quick.cells[0].jobs()
    assert quick.repeats == 3
    assert first.program.dedicated_s == pytest.approx(0.25)
    assert last.program.phases == 10


@pytest.mark.parametrize(
    "setting, value",
    [
        ("repeats=3", lambda e: e.repeats == 3),
        ("name=other-name", lambda e: e.name == "other-name"),
        ("program.granularity_us=9", lambda e: {g.program.granularity_us for g in e.cells[0].groups} == {9}),
        ("jobs.1.program.phases=7", lambda e: e.cells[0].jobs()[2].program.phases == 7),
        ("jobs[0].count=4", lambda e: len(e.cells[0].jobs()) == 5),
        ("schedulers.0.quantum_ms=10", lambda e: e.schedulers[0].table["quantum_ms"] == 10),
        ("schedulers[1].waiting=immediate", lambda e: e.schedulers[1].options.waiting == "immediate"),
        ("schedulers[1].waiting=spin-block", lambda e: e.schedulers[1].options.waiting == "fixed"),
        ("machine.latency_us=20", lambda e: e.cells[0].machine["latency_us"] == 20),
        ("sweep.program.granularity_us=[100, 1000]", lambda e: len(e.cells) == 2),
        ('sweep."program.read"=["message","rma"]', lambda e: len(e.cells) == 2),
    ],
)
def test_overrides_reach_any_key(write, setting, value):
    assert value(load(write(SMALL), settings=[setting]))


def test_later_overrides_win_and_the_seed_option_wins_over_all(write):
    loaded = load(write(SMALL), settings=["repeats=3", "repeats=4", "seed=5"], seed=6)
    assert (loaded.repeats, loaded.seed) == (4, 6)


BAD = [
    # (setting, key, value, part of the rule, part of the remedy)
    ("repeats=0", "repeats", 0, "whole number from 1 to 10000", "write 1 or more"),
    ("repeats=2.5", "repeats", 2.5, "whole number", "write 1, say"),
    ("repeats=true", "repeats", True, "whole number", "write 1, say"),
    ("repeats='3'", "repeats", "3", "whole number", "write it without quotes"),
    ("processors=4000", "processors", 4000, "may use", "0 for all"),
    ("repats=3", "repats", 3, "not a key", "'repeats'"),
    ("zzz=3", "zzz", 3, "not a key", "remove it, or write one of name"),
    ('name=""', "name", "", "text", "name ="),
    ("program.granularity_us=fast", "jobs[0].program.granularity_us", "fast", "a number", "write 1, say"),
    ("jobs.0.program.pattern=NEW", "jobs[0].program.pattern", "NEW", "BARRIER, NEWS", "'NEWS'"),
    ("jobs.0.program.read=rna", "jobs[0].program.read", "rna", "message, rma", "'rma'"),
    ("program.imbalance=true", "jobs[0].program.imbalance", True, "a number", "write 1, say"),
    ("jobs.0.program.patern=NEWS", "jobs[0].program.patern", "NEWS", "not a key", "'pattern'"),
    (
        "jobs.0.program.phases=5",
        "jobs[0].program.phases",
        5,
        "cannot be combined with dedicated_s",
        "leave one",
    ),
    ("jobs.0.program=3", "jobs[0].program", 3, "must be a table", "{ key = value }"),
    ("program.processes=3", "jobs[0].program.processes", 3, "at most 2 under gang", "fewer processes"),
    ("jobs.7.count=2", "jobs[7].count", 2, "has 2 entries", "name entry 1 or less"),
    ("jobs.count=2", "jobs.count", 2, "list of 2", "jobs.0.count"),
    ("jobs.program.read=rma", "jobs.program.read", "rma", "list of 2", "program.KEY for all"),
    ("jobs=3", "jobs", 3, "at least one [[jobs]]", "[[jobs]]"),
    ("schedulers=[]", "schedulers", [], "at least one [[schedulers]]", "policy ="),
    ("schedulers.0.policy=gong", "schedulers[0].policy", "gong", " names", "'gang'"),
    (
        "schedulers.1.quantum_ms=1",
        "schedulers[1].quantum_ms",
        1,
        "not a key of the policy 'implicit'",
        "gang",
    ),
    (
        "granularity_us=3",
        "granularity_us",
        3,
        "not a key of the experiment, but of programs",
        "write program.granularity_us",
    ),
    ("service=3", "service", 3, "no [[schedulers]] table", "two-queue"),
    ("spin_switches=3", "spin_switches", 3, "no [[schedulers]] table", "'fixed'"),
    ("schedulers.1.blocking=spin", "schedulers[1].blocking", "spin", "not a key", "called 'waiting' now"),
    ("sweep.blocking=[1]", 'sweep."blocking"', [1], "must be a key of", "called 'waiting' now"),
    (
        "sweep.machine.ring_us=[1]",
        'sweep."machine.ring_us"',
        [1],
        "must be a key of",
        "'machine.wake_us'",
    ),
    ("blocking=spin", "blocking", "spin", "not a key", "called 'waiting' now"),
    ("schedulers.1.waiting=global", "schedulers[1].waiting", "global", "global-adaptive", "say"),
    ("schedulers.1.local=fifo", "schedulers[1].local", "fifo", "other, rr", "say"),
    ("machine.local=linux", "machine.local", "linux", "svr4, round-robin, fifo, eevdf", "say"),
    ("machine.latency=3", "machine.latency", 3, "not a key", "'latency_us'"),
    ("machine=3", "machine", 3, "must be a table", "[NAME]"),
    ("sweep.repeats=[1, 2]", 'sweep."repeats"', [1, 2], "must be a key of", "did you mean|in quotes"),
    ("sweep.program.imbalance=1", 'sweep."program.imbalance"', 1, "list", "[a, b, c]"),
    ("sweep.program.imbalance=[0.5, 3]", 'sweep."program.imbalance"', 3, "from 0 to 2", "write 2 or less"),
    ("sweep.program.imbalance=[1, 1.0]", 'sweep."program.imbalance"[1]', 1.0, "twice", "remove one"),
    (
        "sweep.granularity_us=[1]",
        'sweep."granularity_us"',
        [1],
        "must be a key of",
        "'program.granularity_us'",
    ),
    (
        "schedulers.0.quantum_ms=0.05",
        "schedulers[0].quantum_ms",
        0.05,
        "at least 0.1 ms in real runs",
        "lockstep simulate",
    ),
    (
        "sweep.quantum_ms=[5, 0.05]",
        'sweep."quantum_ms"',
        0.05,
        "at least 0.1 ms in real runs",
        "lockstep simulate",
    ),
    (
        "sweep.schedulers.1.quantum_ms=[5]",
        'sweep."schedulers.1.quantum_ms"',
        5,
        "not a key of the policy",
        "gang",
    ),
    (
        "sweep.schedulers.7.bind=[true]",
        'sweep."schedulers.7.bind"',
        True,
        "has 2 entries",
        "name entry 1 or less",
    ),
    ("repeats", "--set", "repeats", "KEY=VALUE", "--set repeats=3"),
    ("=3", "--set", "=3", "KEY=VALUE", "--set repeats=3"),
    ("repeats=[1,", "repeats", "[1,", "TOML value", "in quotes"),
    ("a key=3", "a key", 3, "not a key", "dots between"),
    ("repeats.deep=3", "repeats.deep", 3, "not a key", "remove it, or write one of min, max"),
    ("repeats.min=9", "repeats.min", 9, "at most max, 8", "write 8 or less"),
    ("repeats.least=9", "repeats.least", 9, "not a key", "it is called 'min' now"),
]


@pytest.mark.parametrize("case", BAD, ids=[case[0] for case in BAD])
def test_bad_input_is_told_with_place_key_value_rule_and_remedy(write, case):
    setting, key, value, rule, remedy = case
    error = refused(write(SMALL), setting, here=True)
    assert (error.key, error.value) == (key, value)
    assert rule in error.rule
    assert any(part in error.remedy for part in remedy.split("|"))
    for part in (key, shown(value), error.rule, error.remedy):
        assert part in str(error)
    if isinstance(error, experiment_source.ExperimentError):
        assert "small.toml with --set " + setting in str(error)


MALLEABLE = SMALL.replace("phases = 10", "phases = 10\nmalleable = true")
LINES = [
    ("repeats = 0\n" + SMALL, "line 1", "repeats"),
    (SMALL.replace("count = 2", "count = 0"), "line 5", "jobs[0].count"),
    (SMALL.replace("granularity_us = 500", "granularity_us = 0"), "line 6", "jobs[0].program.granularity_us"),
    (SMALL.replace("phases = 10", "phases = -1"), "line 12", "jobs[1].program.phases"),
    (SMALL.replace("quantum_ms = 20", "quantum_ms = '20'"), "line 16", "schedulers[0].quantum_ms"),
    (SMALL + "waiting = 'never'\n", "line 20", "schedulers[1].waiting"),
    (SMALL + "\n[[schedulers]]\npolicy = 'implicit'\n", "line 21", "schedulers[2]"),
    (SMALL + "\n[sweep]\n'program.imbalance' = [3]\n", "line 22", 'sweep."program.imbalance"'),
    (SMALL.replace('policy = "implicit"', "waiting = 'spin'"), "line 18", "schedulers[1].policy"),
    (SMALL.replace('"implicit"', "[]") + "\n[sweep]\nquantum_ms = [9]\n", "line 19", "schedulers[1].policy"),
    (MALLEABLE + "bind = 'job'\n", "line 21", "schedulers[1].bind"),
    (
        MALLEABLE + "[sweep]\n'schedulers.0.quantum_ms' = [10, 20]\n'schedulers.1.bind' = [true, 'job']\n",
        "line 23",
        'sweep."schedulers.1.bind"',
    ),
    (SMALL + "x = = 3", "line 20", "TOML"),
    (SMALL + "x = 'unfinished", "line 20", "TOML"),
    ("repeats = 1\nrepeats = 2\n" + SMALL, "line 2", "TOML"),
]


@pytest.mark.parametrize("text, line, key", LINES, ids=[case[2] for case in LINES])
def test_errors_name_the_line(write, text, line, key):
    error = refused(write(text))
    assert isinstance(error, experiment_source.ExperimentError)
    assert error.key == key
    verb = "is missing" if error.value is None else "= "
    assert f"small.toml, {line}: {key} {verb}" in str(error)


def test_an_override_of_a_swept_key_is_refused_rather_than_ignored(write):
    path = write(SMALL + '[sweep]\n"program.imbalance" = [0.25, 1.5]\n')
    for setting in ("program.imbalance=1", "jobs.0.program.imbalance=1"):
        assert "--set sweep.program.imbalance=" in refused(path, setting).remedy


@pytest.mark.parametrize(
    "source, rule",
    [
        ("three-job", "neither a file nor one of the"),
        ("missing.toml", "no such file"),
        ("/", "is a directory"),
    ],
)
def test_files_that_cannot_be_read(source, rule):
    error = refused(source)
    assert (error.key, error.value) == ("EXPERIMENT", source) and rule in error.rule and error.remedy


def test_a_binary_file_is_refused(tmp_path):
    (tmp_path / "binary.toml").write_bytes(b"name = '\xff'")
    assert "UTF-8" in refused(str(tmp_path / "binary.toml")).rule


def test_a_quick_table_is_checked(write):
    error = refused(write(SMALL + "[quick]\nrepeats = 0\n"), quick=True)
    assert "[quick] repeats = 0" in str(error)
    path = write(SMALL + '[quick]\n"a[[b\\nc" = 1\n')
    error = refused(path, quick=True)
    assert path in str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    "text, line, key",
    [
        (f"{SMALL}[quick]\nrepeats = 2.5\n", "with [quick]", "repeats"),
        (f'{SMALL}[quick]\n"program.patern" = "NEWS"\n', "with [quick]", "jobs[0].program.patern"),
        (f'{SMALL}[quick]\n"quantum_ms" = -1\n', "with [quick]", "schedulers[0].quantum_ms"),
        (f'{SMALL}[sweep]\n"quantum_ms" = [20, 30]\n'.replace("= 20", "= 0"), "line 16", "quantum_ms"),
        (f'{SMALL}[sweep]\n"program.granularity_us" = [9]\n'.replace("500", "nan"), "line 6", "granularity"),
        (
            f'{SMALL}[sweep]\n"jobs.1.program.pattern" = ["NEWS"]\n'.replace("BARRIER", "B"),
            "line 11",
            "pattern",
        ),
        (f'{SMALL}[sweep]\n"processors" = [2, 4]\n'.replace("= 2\n", "= -2\n", 1), "line 2", "processors"),
        (
            f'{SMALL}[machine]\nlatency_us = "x"\n[sweep]\n"machine.latency_us" = [1]\n',
            "line 21",
            "latency_us",
        ),
    ],
)
def test_what_is_not_in_effect_is_checked_as_the_rest(write, text, line, key):
    error = refused(write(text))
    assert line in str(error) and key in error.key


def test_values_that_a_sweep_hides_need_not_fit_to_the_rest(write):
    wide = SMALL.replace("processes = 2", "processes = 64")
    assert len(load(write(f'{wide}[sweep]\n"jobs.0.program.processes" = [1, 2]\n')).cells) == 2
    text = f'{SMALL}[sweep]\n"jobs.0.program.read_gap_us" = [1, 2]\n'
    assert len(load(write(text)).cells) == 2


def test_a_key_that_must_be_given_may_be_given_by_the_sweep_alone(write):
    text = SMALL.replace(", dedicated_s = 1.0", "").replace("phases = 10\n", "")
    assert "phases" in refused(write(text)).key
    assert len(load(write(f'{text}[sweep]\n"program.phases" = [10, 20]\n')).cells) == 2


def test_keys_of_jobs_say_who_submits_them(write):
    keys = 'user = "ann"\naccount = "physics"\npartition = "short"\nqos = "high"\nnice = -3\ncount = 2\n'
    loaded = load(write(SMALL.replace("count = 2\n", keys)))
    ann = Submitter("ann", "physics", "short", "high", -3)
    assert [job.submitter for job in loaded.cells[0].jobs()] == [ann, ann, Submitter()]
    assert loaded.digest != load(write(SMALL, "plain.toml")).digest
    assert refused(write(SMALL), "jobs.0.nice=1.5").key == "jobs[0].nice"
    assert refused(write(SMALL), "jobs.0.user=7").key == "jobs[0].user"
    assert "user" in refused(write(SMALL), "jobs.0.usr=ann").remedy


def test_the_digest_is_the_same_whether_a_default_is_written_or_not():
    longest = "schedulers.4.imbalance_estimate=longest-wait"
    settings = ["processors=2", "repeats=5", "program.dedicated_s=1.5", longest]
    digest = load("three-jobs", settings=settings).digest
    assert load("three-jobs", settings=[*settings, "schedulers.0.bind=true"]).digest == digest
    assert load("three-jobs", settings=[*settings, "schedulers.0.bind=false"]).digest != digest
    assert load("three-jobs", settings=settings[:-1]).digest == digest
    spread = "schedulers.4.imbalance_estimate=arrival-spread"
    assert load("three-jobs", settings=[*settings[:-1], spread]).digest != digest
    gangs = [*settings, "schedulers.0.policy=gang", "schedulers.0.quantum_ms=7"]
    plain = load("three-jobs", settings=gangs).digest
    assert load("three-jobs", settings=[*gangs, "schedulers.0.rows=0"]).digest == plain
    assert load("three-jobs", settings=[*gangs, "schedulers.0.rows=2"]).digest != plain


def test_the_digest_ignores_notation_name_and_repeats_and_nothing_else(write):
    digest = load(write(SMALL)).digest
    same = ["repeats=9", "name=other", "jobs.0.program.granularity_us=500.0", "schedulers.0.waiting=spin"]
    assert load(write(SMALL, "renamed.toml"), settings=same).digest == digest
    changes = ["seed=2", "processors=3", "jobs.0.count=1", "jobs.0.arrival_s=1", "schedulers.0.quantum_ms=21"]
    changes += ["program.read_gap_us=9", "machine.latency_us=3", "sweep.program.imbalance=[0,1]"]
    digests = {load(write(SMALL), settings=[change]).digest for change in changes}
    assert len(digests | {digest}) == len(changes) + 1


def test_realtime_ranks_cannot_be_round_robin_as_well(write):
    error = refused(write(SMALL), "schedulers.0.mechanism=realtime", "schedulers.0.local=rr")
    assert error.key == "schedulers[0].local"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    ),
    st.sampled_from(["repeats", "jobs", "schedulers", "sweep", "machine", "name", "quick", "processors"]),
)
def test_whatever_a_key_holds_the_answer_is_an_experiment_or_a_message(value, key):
    data = experiment_source.parse(SMALL, "small.toml").data | {key: value}
    try:
        built = experiment.load(data)
    except InputError as error:
        assert error.key and error.rule and error.remedy
    else:
        assert dataclasses.is_dataclass(built)


def test_values_of_messages_are_one_line_whatever_their_keys():
    table = {"a\nb": 1, "c": {"\x1b[31m": 2}}
    assert shown(table) == "{ 'a\\nb' = 1, c = { '\\x1b[31m' = 2 } }"
    with pytest.raises(InputError) as caught:
        load({"processors": table})
    assert str(caught.value).isprintable()
