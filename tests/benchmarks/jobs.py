"""How fast jobs are simulated: a million of them, and a plain SimPy model of FCFS beside ours.

    python tests/benchmarks/jobs.py [JOBS]

Prints jobs per second under each policy and the bars that they must pass; exits 1 if one is
missed. Memory is what a run adds beyond the trace and its outcome.
"""

import resource
import sys
import time

import numpy as np

from coordinator import policies
from harness.papers import anastasiadis97 as toronto
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential, in_ns, moldable
from harness.simulator.jobs.model import rigid
from harness.simulator.jobs.simulate import simulate

PROCESSORS = 1024
BARS = {"fcfs": 100_000, "easy": 20_000, "aep": 100_000}
SIMPY_JOBS = 20_000
SIMPY_RATIO = 20


def streams(count, load=0.7):
    """Rigid and moldable jobs from the distributions of the Toronto paper, scaled to the machine."""
    random = np.random.default_rng(1)
    sizes = 2 ** random.integers(0, 10, count)
    work_s = hyperexponential(count, toronto.SHARES, toronto.MEANS_S, random)
    times = np.maximum(in_ns(work_s), 1)
    gap_s = float((work_s * sizes).mean()) / (PROCESSORS * load)
    arrivals_s = np.cumsum(gaps_s("exponential", count, gap_s, random))
    fixed = rigid(in_ns(arrivals_s), sizes, times, 1 + random.exponential(2.0, count))
    mu = np.full(count, np.inf)
    gap_s = float(work_s.mean()) / (PROCESSORS * load)
    flexible = moldable(np.cumsum(gaps_s("exponential", count, gap_s, random)), sizes, work_s, mu)
    return {"fcfs": fixed, "easy": fixed, "aep": flexible}


def simpy_fcfs(jobs):
    """FCFS as one writes it in SimPy: a container of processors and a process for each job."""
    import simpy  # noqa: PLC0415 - needed for this comparison only

    env = simpy.Environment()
    machine = simpy.Container(env, capacity=PROCESSORS, init=PROCESSORS)
    finish = np.zeros(len(jobs), dtype=np.int64)

    def job(number, size, time_ns):
        yield machine.get(size)
        yield env.timeout(time_ns)
        yield machine.put(size)
        finish[number] = env.now

    def source():
        columns = (jobs.submit_ns.tolist(), jobs.most.tolist(), jobs.times_ns(jobs.most).tolist())
        for number, (submit_ns, size, time_ns) in enumerate(zip(*columns, strict=True)):
            yield env.timeout(submit_ns - env.now)
            env.process(job(number, size, time_ns))

    env.process(source())
    env.run()
    return finish


def timed(work):
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    passed = True
    jobs = streams(count)
    rates = {}
    for name, bar in BARS.items():
        policy = policies.create(name, {})
        simulate(jobs[name].first(1000), PROCESSORS, policy)  # compiled, or loaded from the cache
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        _, seconds = timed(lambda name=name, policy=policy: simulate(jobs[name], PROCESSORS, policy))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / count
        rates[name] = count / seconds
        passed &= rates[name] >= bar
        print(
            f"{name:5} {count} jobs in {seconds:6.2f} s: {rates[name]:12,.0f} jobs/s (bar {bar:,}), "
            f"peak memory +{grown:.0f} bytes a job"
        )
    few = jobs["fcfs"].first(SIMPY_JOBS)
    policy = policies.create("fcfs", {})
    ours, ours_s = timed(lambda: simulate(few, PROCESSORS, policy))
    theirs, theirs_s = timed(lambda: simpy_fcfs(few))
    assert np.array_equal(ours.finish_ns, theirs), "SimPy's model gives other results"
    ratio = theirs_s / ours_s
    passed &= ratio >= SIMPY_RATIO
    print(
        f"fcfs, {SIMPY_JOBS} jobs: SimPy {theirs_s:.3f} s, ours {ours_s:.4f} s: {ratio:.0f} x "
        f"(bar {SIMPY_RATIO} x), the same finish of every job"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
