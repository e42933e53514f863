"""Recorded waits against simulated ones: what is compared, and what the log shows of the differences."""

import json

import numpy as np
import pytest

from coordinator import policies
from harness.cli import main
from harness.predict import trace
from harness.predict.recorded_waits import SOON_S, WaitComparison, busiest, compare, of_windows, overtaken
from harness.report.recorded_waits import sentence
from harness.simulator.jobs.model import WHOLE_NS, rigid
from harness.simulator.jobs.simulate import simulate
from harness.spec import experiment
from harness.spec.scheduler import of_jobs
from workloads.validation import InputError

EASY, FCFS = (of_jobs({"policy": policy}) for policy in ("easy", "fcfs"))


def line(
    number, submit_s, wait_s, run_s, size, asked_s=-1, *, user=-1, queue=-1, part=-1, before=-1, status=1
):
    end = f"{user} -1 -1 {queue} {part} {before} -1"
    return f"{number} {submit_s} {wait_s} {run_s} {size} -1 -1 {size} {asked_s} -1 {status} {end}"


def read(folder, lines, processors=8):
    path = folder / "log.swf"
    path.write_text(f"; MaxProcs: {processors}\n" + "\n".join(lines) + "\n")
    return trace.read(path)


def log_of(folder, policy, *, processors=8, of=None, seed=1, jobs=150, **more):
    """A log whose waits are those of this policy on so many processors."""
    random = np.random.default_rng(seed)
    submit_s = np.cumsum(random.integers(1, 40, jobs))
    sizes = 2 ** random.integers(0, 3, jobs)
    run_s = random.integers(1, 120, jobs)
    asked_s = run_s * random.integers(1, 5, jobs)
    alike = rigid(submit_s * WHOLE_NS, sizes, run_s * WHOLE_NS, asked_s / run_s)
    outcome = simulate(alike, processors, policies.create(policy, {}))
    columns = (submit_s, outcome.wait_s.astype(int), run_s, sizes, asked_s)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return read(folder, [line(n, *row, **more) for n, row in enumerate(rows, 1)], of or processors)


@pytest.mark.parametrize("policy", ["easy", "fcfs"])
def test_a_log_that_the_policy_made_has_its_waits(tmp_path, policy):
    compared = compare(log_of(tmp_path, policy), 8, of_jobs({"policy": policy}))
    assert compared.simulated == compared.recorded
    assert (compared.mean_error, compared.p90_error) == (0, 0)
    assert compared.rank_correlation == pytest.approx(1)
    assert compared.differences == ()
    assert compared.recorded.waiting > 0.2


def test_another_policy_is_off(tmp_path):
    compared = compare(log_of(tmp_path, "easy"), 8, FCFS)
    assert compared.mean_error == compared.simulated.mean_s / compared.recorded.mean_s - 1 > 0.1
    assert compared.rank_correlation < 0.99
    assert f"simulated wait {100 * compared.mean_error:.0f} % above recorded" in sentence(compared)


def test_fewer_processors_than_the_log_says_show_in_what_was_busy(tmp_path):
    log = log_of(tmp_path, "easy", processors=8, of=12)
    assert busiest(log) == 8
    compared = compare(log, 12, EASY)
    assert compared.mean_error < -0.3
    assert any("at most 8 of 12 processors" in one for one in compared.differences)
    assert any("though none waited already and enough" in one for one in compared.differences)
    assert any(
        "up to 8 processors at once, more than the 6" in one for one in compare(log, 6, EASY).differences
    )


def test_jobs_of_a_second_have_their_processors_too(tmp_path):
    log = read(tmp_path, [line(n, 10 * n, 5, 1, n % 4 + 1) for n in range(1, 40)])
    assert busiest(log) == 4


def test_the_first_jobs_are_not_compared(tmp_path):
    log = log_of(tmp_path, "fcfs")
    longest_s = float(log.jobs.times_s(log.jobs.max_processes).max())
    early = int((log.jobs.submit_ns / WHOLE_NS <= min(longest_s, 0.1 * log.span_s)).sum())
    for warm_up, expected in ((0, early), (30, 30)):
        compared = compare(log, 8, FCFS, warm_up)
        assert [*compared.left_out.values()] == [expected]
        assert compared.jobs == 150 - expected
        assert compared.recorded.mean_s == pytest.approx(log.recorded.wait_s[expected:].mean())


def test_a_log_without_waits_says_so(tmp_path):
    compared = compare(read(tmp_path, [line(n, n, -1, 5, 1) for n in range(1, 9)]), 8, EASY)
    assert (compared.jobs, compared.recorded, compared.mean_error) == (0, None, None)
    assert "not compared, since the log has no recorded waits" in sentence(compared)


def test_waits_of_some_jobs_are_compared_alone(tmp_path):
    lines = [line(n, 10 * n, -1 if n % 2 else 3, 5, 1, 5) for n in range(1, 41)]
    compared = compare(read(tmp_path, lines), 8, EASY)
    assert compared.left_out["without a recorded wait"] + compared.jobs + 1 == 40
    assert compared.recorded.mean_s == 3
    assert compared.mean_error == -1
    assert compared.rank_correlation is None


def test_no_share_of_no_wait(tmp_path):
    compared = compare(read(tmp_path, [line(n, n, 0, 5, 8, 5) for n in range(1, 41)], 8), 8, EASY)
    assert compared.mean_error is None
    assert compared.simulated.mean_s > 0
    assert any("all recorded waits are 0" in one for one in compared.differences)
    assert "0 s recorded" in sentence(compared)


def test_what_sites_do_otherwise_is_told(tmp_path):
    lines = [line(n, 10 * n, 0, 5, 1, 9, queue=n % 3, part=n % 2) for n in range(1, 31)]
    lines += [line(31, 310, 0, 5, 1, 9, before=30), line(32, 320, 4, -1, 1, 9, status=5)]
    told = " ".join(compare(read(tmp_path, lines), 8, EASY).differences)
    for text in ("3 queues", "2 partitions", "1 jobs wait for another job", "1 jobs never ran"):
        assert text in told


def test_held_jobs_of_slurm_arrive_when_they_are_eligible(tmp_path):
    path = tmp_path / "jobs.txt"
    rows = [
        f"{n}|2024-01-01T00:{n:02}:00|2024-01-01T00:{n + 1:02}:00|2024-01-01T00:{n + 1:02}:07"
        for n in range(9)
    ]
    path.write_text(
        "JobID|Submit|Eligible|Start|ElapsedRaw|NCPUS\n" + "".join(f"{row}|5|1\n" for row in rows)
    )
    log = trace.read(path)
    assert log.recorded.held_s.tolist() == [60.0] * 9
    assert log.recorded.wait_s.tolist() == [7.0] * 9
    assert "9 jobs were held" in " ".join(compare(log, 4, EASY).differences)


def naive_overtaken(start_s, size, asked_s):
    return sum(
        any(
            start_s[one] > start_s[job] + SOON_S and size[one] <= size[job] and asked_s[one] <= asked_s[job]
            for one in range(job)
        )
        for job in range(len(start_s))
    )


def test_overtaken_jobs_are_those_of_a_plain_count():
    random = np.random.default_rng(7)
    for jobs in (1, 2, 30, 60, 300):
        start_s = np.arange(jobs) * 3.0 + random.integers(0, 40, jobs)
        columns = start_s, random.integers(1, 5, jobs), random.integers(1, 50, jobs).astype(float)
        assert overtaken(*columns) == naive_overtaken(*columns)


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
def test_nothing_is_overtaken_in_order_of_arrival(tmp_path, policy):
    for seed in range(5):
        log = log_of(tmp_path, policy, seed=seed)
        start_s = log.jobs.submit_ns / WHOLE_NS + log.recorded.wait_s
        assert overtaken(start_s, log.jobs.max_processes, log.recorded.asked_s) == 0


def test_priorities_show_as_overtaken_jobs(tmp_path):
    log = read(
        tmp_path, [line(1, 0, 0, 100, 8, 100), line(2, 1, 199, 50, 8, 50), line(3, 2, 98, 100, 8, 100)]
    )
    assert any(one.startswith("1 jobs started before") for one in compare(log, 8, EASY, 1).differences)


def test_drawn_estimates_say_nothing_of_the_recorded_order(tmp_path):
    log = log_of(tmp_path, "easy").estimated("times 1 to 5", 1)
    (told,) = compare(log, 8, EASY).differences
    assert told == "150 of 150 jobs have estimates drawn: times 1 to 5 of the run time"


def of_window(folder, **keys):
    """The comparison for a part of the log in ``folder`` whose jobs have processes, on one processor."""
    table = {"file": str(folder / "log.swf"), "scheduler": {"policy": "fcfs"}, "minutes": 1, **keys}
    data = {"processors": 1, "schedulers": [{"policy": "easy"}], "log": table}
    (cell,) = of_windows(experiment.load(data)).cells
    return WaitComparison.of(cell.log.recorded_waits)


def test_a_part_is_compared_as_a_log_of_its_own(tmp_path):
    whole = log_of(tmp_path, "fcfs", jobs=200)
    assert of_window(tmp_path, jobs=200) == compare(whole, 8, FCFS)
    lines = (tmp_path / "log.swf").read_text().splitlines()
    first_h = float(lines[101].split()[1]) - float(lines[1].split()[1])
    ours = of_window(tmp_path, jobs=60, **{"from": first_h / 3600})
    (excerpt := tmp_path / "excerpt").mkdir()
    assert ours == compare(read(excerpt, lines[101:161]), 8, FCFS)
    assert ours.jobs + sum(ours.left_out.values()) == 60


def test_a_part_has_the_estimates_that_the_experiment_draws(tmp_path):
    whole = log_of(tmp_path, "easy")
    easy = {"jobs": 150, "scheduler": {"policy": "easy"}, "estimates": "times 1 to 9"}
    assert of_window(tmp_path, **easy) == compare(whole.estimated("times 1 to 9", 1), 8, EASY)


def test_a_part_without_waits_says_so(tmp_path):
    read(tmp_path, [line(n, n, -1, 5, 1) for n in range(1, 9)])
    assert "the log has no recorded waits" in sentence(of_window(tmp_path, jobs=8))


@pytest.mark.parametrize(
    "keys, place",
    [({"machine": 2}, "log.machine"), ({"scheduler": {"policy": "none"}}, "log.scheduler.policy")],
)
def test_what_a_part_cannot_be_compared_with_is_refused_by_its_key(tmp_path, keys, place):
    log_of(tmp_path, "fcfs")
    with pytest.raises(InputError) as caught:
        of_window(tmp_path, jobs=150, **keys)
    assert caught.value.key == place


def test_drawn_estimates(tmp_path):
    log = log_of(tmp_path, "easy", jobs=2000)
    one, again, other = (log.estimated("times 1.5 to 4", seed) for seed in (1, 1, 2))
    assert one.content == again.content != other.content
    assert one.jobs.factor.min() >= 1.5
    assert one.jobs.factor.max() <= 4
    assert one.jobs.factor.mean() == pytest.approx(2.75, rel=0.05)
    assert log.estimated(None, 1) is log


@pytest.mark.parametrize(
    "text", ["users", "times 0.5 to 2", "times 3 to 2", "times 1 to 5000", 3, "times nan to 5"]
)
def test_other_estimates_are_refused_with_the_forms(tmp_path, capsys, text):
    log_of(tmp_path, "easy")
    setting = f"log.estimates={json.dumps(text)}"
    assert main(["simulate", "log", "--log", str(tmp_path / "log.swf"), "--set", setting]) == 2
    assert 'must be "times A to B" with 1 <= A <= B <= 1000' in capsys.readouterr().err


def test_the_log_command_compares(tmp_path, capsys):
    log_of(tmp_path, "easy")
    command = ["log", str(tmp_path / "log.swf"), "--policy", "fcfs"]
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["recorded_waits"]
    assert document["mean_error"] > 0.1
    assert document["scheduler"] == {"policy": "fcfs"}
    assert main(command) == 0
    assert "Your queue as it was, fcfs on 8 processors: simulated wait" in capsys.readouterr().out


def test_the_log_command_needs_the_size_of_the_machine(tmp_path, capsys):
    log_of(tmp_path, "easy")
    path = tmp_path / "log.swf"
    path.write_text(path.read_text().partition("\n")[2])
    assert main(["log", str(path), "--policy", "easy"]) == 2
    assert "--processors is missing: needed for easy" in capsys.readouterr().err
    assert main(["log", str(path), "--policy", "easy", "--processors", "2"]) == 2
    assert "--processors = 2: must be enough for all jobs" in capsys.readouterr().err
    assert main(["log", str(path), "--policy", "eazy", "--processors", "8"]) == 2
    assert "eazy" in capsys.readouterr().err


FILE = """
level = "jobs"
log = { file = "log.swf", estimates = "times 1 to 5", scheduler = { policy = "easy" } }
[[schedulers]]
policy = "fcfs"
"""


@pytest.mark.slow
def test_simulate_compares_first_and_keeps_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log_of(tmp_path, "easy")
    (tmp_path / "day.toml").write_text(FILE)
    assert main(["simulate", "day.toml", "-o", "out"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Your queue as it was, easy on 8 processors")
    assert "assumed: 150 estimates drawn: times 1 to 5 of the run time" in text
    assert main(["simulate", "day.toml", "-o", "out", "--resume", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["recorded_waits"]["jobs"] > 100
    assert main(["report", "out", "--format", "text"]) == 0
    for page in (capsys.readouterr().out, (tmp_path / "out" / "report.html").read_text()):
        assert "Your queue as it was, easy on 8 processors" in page
        assert "150 of 150 jobs have estimates drawn" in " ".join(page.split())


@pytest.mark.parametrize(
    "setting, error",
    [
        ("log.scheduler=easy", "log.scheduler = 'easy': must be a table"),
        ("log.scheduler.policy=eazy", "eazy"),
        ("log.scheduler.policy=none", "log.scheduler.policy = 'none'"),
        ("log.scheduler={}", "log.scheduler.policy"),
    ],
)
def test_schedulers_of_the_site_that_are_none(tmp_path, capsys, setting, error):
    log_of(tmp_path, "easy")
    assert main(["simulate", "log", "--log", str(tmp_path / "log.swf"), "--set", setting]) == 2
    assert error in capsys.readouterr().err


def test_a_machine_that_is_too_small_is_refused(tmp_path):
    with pytest.raises(InputError, match="must be enough for all jobs"):
        compare(log_of(tmp_path, "easy"), 3, EASY)


@pytest.mark.parametrize(
    "policy, machines",
    [
        ("easy", ("lost = []", "lost = [0, 1, 2, 3]")),
        ("mesh", ('topology = "mesh"\nsides = [2, 4]', 'topology = "mesh"\nsides = [1, 8]')),
    ],
)
def test_waits_are_simulated_on_the_machine_of_the_experiment(
    tmp_path, capsys, monkeypatch, policy, machines
):
    """Waits depend on how many processors are lost, and on how they are connected."""
    monkeypatch.chdir(tmp_path)
    log_of(tmp_path, "fcfs")
    text = FILE.replace('estimates = "times 1 to 5", ', "").replace('policy = "easy"', f'policy = "{policy}"')
    means = []
    for machine in machines:
        (tmp_path / "day.toml").write_text(f"{text}[machine]\n{machine}\n")
        assert main(["simulate", "day.toml", "--json"]) == 0
        means.append(json.loads(capsys.readouterr().out)["recorded_waits"]["simulated"]["mean_s"])
    assert means[1] != pytest.approx(means[0], rel=0.1)


@pytest.mark.parametrize("where", ["schedulers", "site", "log"])
def test_tiers_of_partitions_without_jobs_are_refused(tmp_path, capsys, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    log_of(tmp_path, "fcfs", part=3)
    tiers = "tiers = { 3 = 1, 4 = 2 }"
    text = FILE.replace('policy = "fcfs"', f'policy = "preempt"\n{tiers}')
    if where == "site":
        text = FILE.replace('policy = "easy"', f'policy = "preempt", {tiers}')
    (tmp_path / "day.toml").write_text(text)
    words = (
        ["log", "log.swf", "--policy", "preempt tiers={4=2}"] if where == "log" else ["simulate", "day.toml"]
    )
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "cannot have '4', since no job is in that partition, but in '3'" in said
    assert {"schedulers": "schedulers[0].tiers", "site": "log.scheduler.tiers", "log": "--policy"}[
        where
    ] in said
