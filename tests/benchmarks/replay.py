"""How fast recordings of long programs are replayed, and in how much memory; in some three minutes.

    python -P tests/benchmarks/replay.py
    python -P tests/benchmarks/replay.py --quick

Two loops of two ranks run for 4096 s: all windows of their recordings are full. They compute for 100 us, then
call ``MPI_Allreduce`` (allreduce), or exchange a message (exchange: IRECV, ISEND and two WAIT). A table for
each has the operations and steps that are replayed in a second of CPU time, alone and in three copies
on two processors: medians of three, when all is compiled. Every kept operation is replayed at least once. A
step is CPU time up to a message that is given or taken. Each loop has a process of its own, whose
resident memory is printed. --quick takes one time of each, and leaves out to replay all 4096 s.
"""

import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import parsed
from long_recordings import KEPT, PHASES, long_recording

from coordinator import policies
from harness.predict.recorded_steps import replayed
from harness.simulator.processes.machine import SimulatedMachine, replaying
from harness.simulator.processes.simulate import simulate
from harness.store import recording
from harness.store.recording import OPERATION
from workloads.options import Options

MACHINE = SimulatedMachine(
    *(2, 6.0),
    remote_wakeup_us=16.0,
    latency_us=1.5,
    local="eevdf",
    timers="synchronised",
    messages_to_self=False,
    handles_when_waiting=True,
    spin_clock="wall",
    os_noise_interval_us=100_000.0,
    os_noise_length_us=50.0,
)
"""Like a small Linux host."""

CASES = (
    ("alone", 1, "none", {}, "spin"),
    ("none", 3, "none", {}, "spin"),
    ("gang 100 ms", 3, "gang", {"quantum_ms": 100}, "spin"),
    ("implicit fixed", 3, "implicit", {}, "fixed"),
    ("implicit global-adaptive", 3, "implicit", {}, "global-adaptive"),
)
MOST_S = 1.0
"""So that every stretch is replayed once."""


def peak_mib():
    """Most resident memory since the last call; the kernel forgets the peaks of before."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    Path("/proc/self/clear_refs").write_text("5")
    return found


def replay(program, case):
    """CPU time and simulated time of a case, in seconds."""
    _, copies, policy, parameters, waiting = case
    jobs = [replaying(number, program) for number in range(copies)]
    begin = time.process_time()
    outcome = simulate(jobs, MACHINE, policies.create(policy, parameters), options=Options(waiting=waiting))
    if outcome.failure:
        raise SystemExit(outcome.failure)
    return time.process_time() - begin, outcome.end_ns / 1e9


def prepare(folder):
    """Write the recordings, and compile: neither is in the memory of the processes that replay."""
    for phase in PHASES:
        path, made = folder / f"{phase}.npz", long_recording(phase)
        recording.write(made, path)
        kept, size = sum(len(rank.rows) for rank in made.ranks), path.stat().st_size
        print(
            f"{phase}: {size / 1e6:.1f} MB for {made.elapsed_ns / 1e9:.0f} s, {kept} operations of "
            f"{OPERATION.itemsize} bytes, {size / kept:.1f} in the file",
            flush=True,
        )
    short = replayed(long_recording("allreduce", kept=64), max_s=MOST_S)
    for case in CASES:
        replay(short, case)


def measure(folder, phase, quick):
    begin = time.process_time()
    held = recording.read(folder / f"{phase}.npz")
    # Only two-phase waits make nonblocking calls, which have no root.
    made = {calls: replayed(held, blocking_calls=calls, max_s=MOST_S) for calls in (True, False)}
    print(f"\n{phase}: read and made ready in {time.process_time() - begin:.1f} s")
    replay(made[True], CASES[0])
    max_mib, ready_mib = peak_mib(), peak_mib()
    print(f"{'':26} {'simulated':>9} {'took':>7} {'M operations/s':>14} {'M steps/s':>9}")
    for case in CASES:
        program, copies = made[case[-1] == "spin"], case[1]
        times = [replay(program, case) for _ in range(1 if quick else 3)]
        took_s = statistics.median(seconds for seconds, _ in times)
        operations = sum(part.times for part in program.parts) * 2 * KEPT
        steps = sum(map(program.count, range(program.processes)))
        print(
            f"{case[0]:26} {times[0][1]:7.0f} s {took_s:5.2f} s {copies * operations / took_s / 1e6:14.1f} "
            f"{copies * steps / took_s / 1e6:9.1f}",
            flush=True,
        )
    print(
        f"resident: {ready_mib:.0f} MiB when ready (before, at most {max_mib:.0f}), and at most "
        f"{peak_mib() - ready_mib:.1f} more for the table"
    )
    if not quick:
        whole = replayed(held)
        peak_mib()
        ready_mib = peak_mib()
        took_s, simulated_s = replay(whole, CASES[0])
        print(
            f"all of it alone: {simulated_s:.0f} s simulated in {took_s:.1f} s, with at most "
            f"{peak_mib() - ready_mib:.1f} MiB more",
            flush=True,
        )


def main():
    options = parsed(__doc__, quick=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for task in (prepare, *(partial(measure, phase=phase, quick=options.quick) for phase in PHASES)):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                process.submit(task, folder).result()


if __name__ == "__main__":
    main()
