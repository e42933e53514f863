"""The back end that runs command lines as their users start them, with the setting of a scheduler.

It changes nothing but variables, and preloads the library of two-phase waits: with an agent and guarded
ranks, the binding of our launcher would be measured instead.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice

from coordinator.host import bindings
from coordinator.host.directories import DirectoryGuardian
from coordinator.host.launch import LaunchError
from coordinator.host.launchers import launched
from coordinator.host.named_hosts import elsewhere
from coordinator.workload import Workload
from harness.measure.execution_times import JobTimes
from harness.measure.guarded_copies import CpuUsage, Started, run_copies
from harness.measure.plan import Task
from harness.measure.registrar import RankListener, Registrar, unheard
from harness.measure.session import MeasurementSession, Watcher
from harness.spec.jobs import described
from harness.spec.settings import TWO_PHASE, Preload, Setting
from harness.store import conditions
from harness.store.records import DEDICATED, JobRecord, RunRecord
from workloads import native
from workloads.constants import MachineConstants
from workloads.validation import InputError
from workloads.waiting_rules import waiting_rule
from workloads.work import Work


@dataclass(frozen=True)
class AsStarted:
    """Runs tasks whose jobs are command lines, and whose schedulers are settings.

    If the experiment has a ``timeout_factor``, a run ends after so many times the sum of the times of its
    unmodified programs alone, where these are known.
    """

    session: MeasurementSession
    watcher: Watcher  # gets sentences on ranks that wait as MPI does
    alone: JobTimes = field(default_factory=JobTimes, repr=False)
    _preloads: dict[tuple[Setting, Work], Preload] = field(default_factory=dict, repr=False)
    _silent: set[Work] = field(default_factory=set, repr=False)  # programs no rank of which was heard of

    def refusal(self, task: Task) -> InputError | None:
        """None: a host can run what its user can start."""
        return None

    def prepare(self, tasks: Iterable[Task]) -> None:
        """Make the libraries that the tasks preload, so that one that cannot be made ends no series midway.

        Raises NativeError for such a library.
        """
        for task in tasks:
            self._ready(task)

    def guess_s(self, task: Task) -> float:
        return sum(job.program.alone_s for job in task.jobs)

    def run(self, task: Task) -> RunRecord:
        """Run a task, and return its record.

        Raises InputError if no rank of a program that is known to use an MPI waits two-phase, or no rank of
        any program of the experiment.
        """
        processors = self.session.processors
        limit_s = self._limit_s(task)
        setting = self._ready(task)
        spent = CpuUsage()
        failure = ""
        warnings = list[str]()
        before = conditions.Moment.now(processors)
        begin_s = time.monotonic()
        try:
            spent = self._spent(setting, task, limit_s, warnings)
        except LaunchError as error:
            failure = str(error)
        wall_s = time.monotonic() - begin_s
        during = conditions.of_run(self.session.conditions, before, conditions.Moment.now(processors))
        exceeded = None if spent.wall_s or failure else task.experiment.timeout_factor
        if exceeded is not None:
            failure = f"stopped after {exceeded:g} times the sum of the times alone"
        return task.record(
            self.session.name,
            processors=processors,
            constants=MachineConstants(),
            launcher=self.session.tools.launcher,
            wall_s=wall_s,
            failure=failure,
            conditions=replace(during, warnings=warnings, exceeded=exceeded),
            jobs=_jobs(task, spent, failure),
        )

    def _limit_s(self, task: Task) -> float | None:
        factor = task.experiment.timeout_factor
        if factor is None or task.kind == DEDICATED:
            return None
        self.alone.read(self.session.store, task.experiment.digest)
        alone_s = self.alone.sum_s([job.program for job in task.jobs])
        return None if alone_s is None else factor * alone_s

    def _ready(self, task: Task) -> Setting:
        """The setting of a task; for two-phase waits it has their library, which is made once."""
        setting = task.scheduler
        assert isinstance(setting, Setting)
        if setting.setting != TWO_PHASE or setting.preloads:
            return setting
        programs = {job.program for job in task.jobs}
        for program in programs:
            if (setting, program) not in self._preloads:
                library = native.of_command(program.argv, None, self.watcher.note, DirectoryGuardian)
                rule = waiting_rule(
                    setting.options.waiting,
                    context_switch_us=Workload.context_switch_us,
                    latency_us=Workload.latency_us,
                    spin_switches=setting.options.spin_switches,
                )
                variables = library.environment(rule)
                self._preloads[setting, program] = Preload(library, variables, named=True, certain=False)
        return replace(setting, preloads={one: self._preloads[setting, one] for one in programs})

    def _spent(self, setting: Setting, task: Task, limit_s: float | None, warnings: list[str]) -> CpuUsage:
        """Run the commands of a task; ``warnings`` gets sentences on bad bindings and unheard programs."""
        programs = [job.program for job in task.jobs]
        if not setting.preloads:
            environment = dict(setting.environment)

            def look(pids: Sequence[int]) -> None:
                warnings.extend(_bound(programs, pids, self.session.processors))

            return run_copies([(one.argv, environment) for one in programs], limit_s, look)
        spent, silent = self._two_phase(setting, programs, limit_s)
        self._silent.update(silent)
        every = {group.program for cell in task.experiment.cells for group in cell.groups}
        for program in silent:
            preload = setting.preloads[program]
            error = unheard(program.argv, preload.library, spent.said, named=preload.named)
            if preload.certain or every <= self._silent:
                raise error
            warnings.append(f"without two-phase waits: {error}")
        return spent

    def _two_phase(
        self, setting: Setting, programs: Sequence[Work], limit_s: float | None
    ) -> tuple[CpuUsage, list[Work]]:
        """What the commands have used, and those that had the library, but no rank of which was heard of."""
        with ExitStack() as stack:
            away = elsewhere([list(one.argv) for one in programs], os.environ)
            registrar = stack.enter_context(Registrar(None, self.watcher.warn, elsewhere=away))
            waiting = [one for one in dict.fromkeys(programs) if one in setting.preloads]
            heard = {one: stack.enter_context(RankListener()) for one in waiting}

            def started(program: Work) -> Started:
                variables = dict(setting.environment)
                if program not in heard:
                    return program.argv, variables
                preload = setting.preloads[program]
                variables |= {**preload.variables, **heard[program].variables, **registrar.variables}
                return launched(program.argv, variables, preload.library.needed)

            spent = run_copies([started(one) for one in programs], limit_s)
        return spent, [one for one, listener in heard.items() if spent.wall_s and not listener.records]


def _bound(programs: Sequence[Work], pids: Sequence[int], processors: Sequence[int]) -> Iterator[str]:
    """A sentence on the first of several bindings that leave processors idle, if there are any."""
    what = "copy" if len(set(programs)) == 1 else "job"
    jobs = [bindings.job(f"{what} {number}", pid) for number, pid in enumerate(pids)]
    for one in islice(bindings.overlaps(jobs, processors), 1):
        yield f"{one.sentence}: {one.remedy}"


def _jobs(task: Task, spent: CpuUsage, failure: str) -> tuple[JobRecord, ...]:
    complete = len(spent.wall_s) == len(task.jobs)
    return tuple(
        JobRecord(
            job=job.number,
            program=described(job.program),
            processes=job.program.processes,
            placement=(),
            arrival_ns=0,
            start_ns=0,
            finish_ns=round(spent.wall_s[place] * 1e9) if complete else None,
            failure=failure,
            cpu_ns=round(spent.cpu_s[place] * 1e9) if complete else None,
        )
        for place, job in enumerate(task.jobs)
    )
