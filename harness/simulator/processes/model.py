"""The simulated machine as arrays: one record per process, processor and job.

All times are whole nanoseconds since the start of the run. One record holds all that an event
needs of a process, so that the cost of an event depends little on the number of processes.

The sequence of random numbers is part of this interface: a simulation of the same model with the
same numbers is the same run, event for event. Programs and samples of waits have generators of
their own (``workloads.program.Draws``, ``workloads.waiting_rules.new_sample``). The machine draws from
numpy's default generator, seeded with SeedSequence(seed, spawn_key=(repeat, 2**31 + stream)):

1. the phase of each processor's clock tick: integers(tick_ns, size=P) + 1;
2. the phase of each processor's starvation timer: integers(100, size=P) + 1 ticks. The machine
   draws 1 and 2 even if ticks are synchronised;
3. if there are detours, the time of each processor's first: exponential(gap_ns, size=P), cut to whole
   nanoseconds, + 1;
4. whenever jobs are placed, for each processor that gets processes, in ascending order, the order in
   which these queue up: a permutation of their numbers. Before it, the numbers are in the order of
   the decision's placements and, within a job, by rank. Where one queue takes all newcomers
   (``ready_queues``), there is one permutation of all.

Other random numbers come from linear congruential sequences: (1103515245 x + 12345) mod 2**31 follows x. Each
processor has a sequence, which begins with the phase of its tick. A detour draws its length from it, then the
gap to the next detour: -ln((x + 1) / 2**31) times the mean, cut to a whole number. Where ticks can be late,
the last thing that a tick does is to draw how late the next one of its processor is: tick_delay_ns[(x >>
8) mod n] of n values. The first tick is in time. Where switches differ, each dispatch draws in the same way
from switch_deviation_ns what it costs beyond context_switch_ns; so does a dispatch by a yield, though it has
a cost of its own. Where they differ by idle times, a process that waits and has run before first gets one of
two idle times: the longest in idle_times_ns that it has had, or none, and the next longer one. It gets the
longer one if (x >> 8) mod 4096 is below 4096 times the way to it, rounded down. From the last idle time on it
gets that one, and nothing is drawn. The dispatch then draws its cost from the row of the idle time, or
without one from switch_deviation_ns. Where sends differ, each request or arrival gets an idle time in this
way, by the time since the sender's last wait ended, and draws from its row what it costs more; without an
idle time, nothing. The root of a barrier with others does so, too, and a read from oneself does not, unless
it is a message. Where computations overrun, each that begins draws by how much from overrun_ns, before
anything else. One more sequence begins with the phase of processor 0's tick. Every slot of a decision but the
first draws from it how late it ends: switch_delay_ns[(x >> 8) mod n] of n values, but no earlier than it
begins. The first slot ends switch_delay_ns[0] late.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workloads.constants import CONSTANTS

NEVER_NS = 1 << 62
NOBODY = -1

READS, OPENING_BARRIERS, CLOSING_BARRIERS, LOCKS = range(4)
"""Kinds of wait, in the order of the activities below."""
SPUN, BLOCKED_ONCE = range(2)  # outcomes of a wait: completed while spinning, or after blocking

COMPUTING, COMMUNICATING, SYNCHRONIZING, SWITCHING, IDLE = range(5)
CATEGORIES = ("computing", "communicating", "synchronizing", "switching", "idle")
"""The uses of CPU time (Dusseau et al. 1996, section 3.4)."""

DISPATCHES, BEGAN, LEFT = range(5, 8)  # columns of ``State.accounts`` after those of the categories

ABSENT, ENTERING, READY, TAKING_OVER, RUNNING, BLOCKED, FINISHED, UNCLAIMED = range(8)
"""States of a process. ENTERING: just placed. TAKING_OVER: the processor is switching to it. UNCLAIMED:
ready, in the system's queue."""

BOUND, CENTRAL, AFFINITY, STEALING = range(4)
"""Ready queues (``ready_queues``), in the order of ``workloads.machine.QUEUES``."""

STARTING, COMPUTE, GAP, SECTION, RELEASED = range(5)
READING, OPENING, CLOSING, LOCKING, DEFERRED, SLEEPING, SUSPENDED, ANSWERED = range(5, 13)
"""Activities of a process: before READING what takes time, from READING on what it waits for.

GAP: it computes before a read. SECTION: it has a lock. RELEASED: it has left its section while activated.
READING, OPENING, CLOSING: it waits for a message. LOCKING: for a lock; DEFERRED: for a slot, to ask for the
lock then. SLEEPING: for an alarm. SUSPENDED: for more processors. ANSWERED: what it has waited for has come.
"""

SEND, RECEIVE, LEARN, RESPOND, TASK, END = range(13, 19)
"""Codes of operations in addition to those activities that a program asks for (``operations``)."""

PASSES, OVERRUNS, LEARNS, CONTINUES, POLLS, OBSERVES = (1 << bit for bit in range(6))
"""Marks of operations.

PASSES: the phase before is over. OVERRUNS: chance prolongs the computation. LEARNS: the wait shows the load
imbalance, at a barrier or in a collective operation. CONTINUES: the wait belongs to the one before. POLLS: it
spins under every waiting rule, as only the program knows that it waits. OBSERVES: the process may look from
whom it gets messages often."""

USUAL, NEW_SLOT, YIELDED = range(3)
"""Why a processor switches, as far as costs differ. NEW_SLOT: another slot has begun. YIELDED: its process
has called sched_yield."""

FREE, HANDLING, BROADCASTING, SENDING = range(4)
"""The work of a running process on messages, where that takes time."""

DONE, END_ACTIVITY, TAKE_OVER, NEXT, READ, ASK, START_WAIT, SPIN, END_WAIT, RESUME, LEAVE = range(11)
"""What a process does next (``program.carry_out``). DONE: nothing before the next event."""

GOING, UNTIL, REFILL, DEPARTED, TABLE_END, TIMELINE_FULL, PAUSED, EVOLVED, LOOKS = range(9)
"""Why the kernel returned. GOING: it did not. REFILL: a process needs more operations, but not at once.
EVOLVED: a program can use another number of processes. LOOKS: a process, at the end of a phase, looks from
whom it gets messages often."""

ENDLESS = 1 << 62  # the number of operations of a process that needs no more blocks

CACHE_LINE_BYTES = 64


def aligned(**fields: str) -> np.dtype[np.void]:
    """A type of records with fields of these types, in this order, aligned as in C."""
    return np.dtype([*fields.items()], align=True)


def whole_lines(**fields: str) -> np.dtype[np.void]:
    """A type of records that fill whole cache lines: fields share a line in every record or in none."""
    packed = aligned(**fields)
    places: Any = packed.fields
    whole: Any = {"names": packed.names, "aligned": True}
    whole["formats"], whole["offsets"] = zip(*(places[name] for name in packed.names or ()), strict=True)
    whole["itemsize"] = -(-packed.itemsize // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
    padded: np.dtype[np.void] = np.dtype(whole)
    return padded


PROCESS = whole_lines(
    # The first 64 bytes, a cache line, are all that messages and reads touch.
    state="int8",
    activity="int8",
    handling="int8",
    blocked="int8",  # blocked in the present wait
    kernel="int8",  # has kernel priority for the time being
    allowed="int8",  # the slot in force lets it run
    notice="int8",  # of large messages for which it has asked: messages.py
    job="int32",
    processor="int32",
    source="int32",  # the process in whose ring its operations are
    target="int32",  # the process that its request goes to, or the lock it asks for
    inbox_first="int32",
    reads="int32",  # that remain of its operation
    at="int64",  # operations that it has begun
    wait_began_ns="int64",
    remaining_ns="int64",  # of the activity, or of the spin; kept while not running
    spin_end_ns="int64",  # on the wall clock
    filled="int64",  # operations that it has been given
    estimate_ns="int64",  # of the load imbalance
    previous_wait_ns="int64",
    phase="int32",
    rank="int32",
    priority="int32",
    ticks_left="int32",
    seconds_waiting="int32",
    order="int64",  # among ready processes of one priority; the smallest goes first
    dispatched_ns="int64",
    cpu_ns="int64",
    inbox_last="int32",
    next_message="int32",  # after its own message, in the inbox where that is
    handling_left_ns="int64",
    alarm_ns="int64",
    broadcast="int64",
    virtual_ns="int64",  # the next four: local/eevdf.py
    deadline_ns="int64",
    debt_ns="int64",
    delayed="int64",
    is_activated="int8",  # it runs on in the place of another process of its job: locks.py
    inherits="int8",  # a process spins for the lock that it has: locks.py
    set_bytes="int64",  # the next three: costs.py
    cold_ns="int64",  # what loading its working set will take when it computes next
    warm_on="int32",  # the processor whose cache its working set was in last, or none
    home="int32",  # where the decision in force has it
    ticket="int64",  # the least of those that wait for a lock is next
    observe_at_ns="int64",  # when it looks next from whom it gets messages: coscheduling.py
    wait_ended_ns="int64",  # its last one, where sends differ
)

PROCESSOR = whole_lines(
    # The first 64 bytes, a cache line, are all that most events touch.
    activity_ns="int64",  # when the switch or the current process's activity ends
    since_ns="int64",
    tick_ns="int64",
    alarm_ns="int64",
    first_order="int64",
    last_order="int64",
    current="int32",
    account="int32",  # the process whose time it is
    residents="int32",
    category="int8",
    switching="int8",
    stale="int8",  # its timer in the tournament is no longer right: events.py
    ticks_to_update="int16",
    slot_cost_ns="int64",  # time that it loses by a slot switch
    charged_ns="int64",  # until when the running process's virtual time is counted
    random="int64",  # state of its random numbers
    os_noise_at_ns="int64",  # when the operating system takes it next: processor.py
    slice_end_ns="int64",  # of the process that computes, which notices it: processor.py
    spin_began_ns="int64",  # the next two: of the process that spins and yields: processor.py
    yield_at_ns="int64",
    average_ns="int64",  # of virtual times, when last asked for
    deferral_ns="int64",  # when it looks again whether its slot can change: locks.py
    deferrals_left="int64",
    given_ns="int64",  # when a message last gave it to a process: coscheduling.py
    activation_end_ns="int64",  # when the activated process leaves its section
    activated="int32",
    turns="int64",  # that it has given: costs.py
    ticks_to_balance="int32",  # the next two: ready_queues.py
    failures="int32",
    late_ns="int64",  # how late its next tick is
    share_ns="int64",  # of the budget, at accounted_ns: quota.py
    accounted_ns="int64",
    throttled="int64",  # its share and the budget are used up: it stands still
    stood_ns="int64",  # since when although a process is ready
)

JOB = aligned(
    first="int32",
    processes="int32",
    served_by_network="int8",
    message_costs="int8",  # whether messages take CPU time of its processes
    arrived="int32",
    unfinished="int32",
    min_report_ns="int64",  # of the arrivals at the present barrier
    greatest_report_ns="int64",
    estimate_ns="int64",  # that completions of the present barrier carry
    learned_ns="int64",  # that completions of the next barrier will carry
    rule="int64",
    switch_ns="int64",
    round_trip_ns="int64",
    fixed_ns="int64",
    imbalance_ns="int64",
    yield_interval_ns="int64",  # its processes yield so often while they spin; 0 for never
    estimate="int64",
    finish_ns="int64",
    allotted="int32",  # how many of its processes may run
    usable="int32",  # how many of them can take the last task
    served_ns="int64",  # when a message last gave it a processor: coscheduling.py
    channels_at="int32",  # where its channels begin
    channels="int32",
    locks_at="int32",  # where its locks begin
    bursts_at="int64",  # where the responses to its user begin
)

OPERATION = aligned(
    code="int8",
    marks="int8",
    more_us="uint16",  # a wait spins so much longer than by its rule, if it spins and may block
    peer="int32",
    value="int64",
)

RAW = np.dtype((np.void, OPERATION.itemsize))
"""An operation as bytes: NumPy copies those at once, but a record field by field."""

CHANNEL = aligned(
    sender="int32",
    receiver="int32",
    sent="int64",  # messages that have an arrival
    sender_came="int64",  # to the rendezvous of this number of messages
    receiver_came="int64",
    rendezvous="int8",
)

LOCK = aligned(
    kind="int32",
    owner="int32",
    tickets="int64",  # drawn so far
)

MACHINE = aligned(
    **{one.in_ns: "int64" for one in CONSTANTS if one.kind is float and one.name.endswith("_us")},
    context_switch_ns="int64",
    sends="int8",  # whether it takes time to send a request or an arrival
    wakeup_beyond_switch_ns="int64",  # of a process that a message has just woken
    idle_wakeup_beyond_switch_ns="int64",  # the same on a processor that was idle
    hop_latency_ns="int64",
    reorders="int8",  # whether a message can arrive before one that was sent earlier
    messages_to_self="int8",
    handles_when_waiting="int8",  # only; else also while it computes
    wall_clock_spin="int8",
    ticks_do_more="int8",  # than to end slices and bring updates: processor.py
    boosts_woken="int8",
    network_serves_reads="int8",
    fair="int8",  # local scheduler eevdf
    yields="int8",  # whether processes of some job yield while they spin
    slices_end="int8",  # between clock ticks, too, where a process asks for its CPU time
    message_costs="int8",
    skips="int8",  # steps whose outcome follows from the program: skipping.py
    deferral_ns="int64",
    deferrals="int64",
    warning_ns="int64",  # of the two-minute warning; 0 without
    holder_check_ns="int64",  # how often who spins looks after the holder of its lock; 0 for never
    remedy="int8",  # for processes in critical sections (workloads.options): locks.py
    patience_ns="int64",  # of dynamic coscheduling; 0 without
    min_run_ns="int64",
    observe_ns="int64",  # from one look of a process at its messages to the next; 0 for none
    queue="int8",  # BOUND to STEALING
    cache_bytes="int64",  # of each processor; 0 for no caches
    quota_ns="int64",  # of CPU time in each period; 0 for no quota: quota.py
    period_ns="int64",
)

CLOCK = aligned(
    now_ns="int64",
    head="int64",
    tail="int64",
    shift="int64",
    never_ns="int64",  # later than all that happens
    status="int64",
    subject="int64",
    next_ns="int64",  # the end of the slot, its delay included, until_ns or quota_at_ns if earlier
    slot_end_ns="int64",
    until_ns="int64",  # the caller decides when all is done that happens before it
    late_ns="int64",  # how late the present slot ends
    random="int64",  # state of the random numbers for that
    slot="int64",
    cyclic="int64",
    new_plan="int64",  # a decision has changed slots and jobs since the last call
    resized="int64",  # and the processors of a job with a queue of tasks
    messages="int64",
    timers="int64",
    recording="int64",
    recorded="int64",
    stale="int64",  # processors whose timers are no longer right
    quota_at_ns="int64",  # when the budget is handed out next: quota.py
    period_end_ns="int64",
    budget_ns="int64",  # what no processor has taken
    throttled="int64",  # processors that stand still
    throttled_ns="int64",  # of all processors together
)

Integers = NDArray[np.int64]

Records = Any  # a numpy.recarray of one of the types above


class State(NamedTuple):
    """Everything the kernel reads and changes. P processors, N processes, J jobs."""

    clock: Records
    machine: Records
    processes: Records  # N
    processors: Records  # P
    jobs: Records  # J
    locks: Records
    """Of one job after the other, as ``channels`` of recorded programs and ``bursts_ns`` are."""
    channels: Records
    arrivals: Integers
    """(channels, messages remembered) when message n arrives, in column n mod columns."""
    bursts_ns: Integers
    """Response times of the bursts of interactive jobs."""
    operations: Records
    """(N, operations at hand); operation k of a process is in column k mod columns."""
    partners: NDArray[np.int32]
    """(N, reads) the processes from which each one reads in a phase, by rank, in order."""
    places: NDArray[np.int8]
    """(J, P) whether processes of a job may be on a processor; (1, 1) where they stay on theirs."""
    residents: NDArray[np.int32]
    """(P, R) processes placed on each processor, by number, as many as its record states; R is the most that
    one can have."""
    timers: Integers
    """A tournament tree: the root, entry 1, is the least of the leaves; leaf p is processor p's next timer,
    as time << shift | p."""
    stale: NDArray[np.int32]
    """(P,) processors whose leaves have to be entered again, as many as the clock says."""
    messages: Integers
    """A ring of messages under way by time of arrival, each time << shift | message. Message 2 w is from
    waiting process w (a read request or its arrival at a barrier), 2 w + 1 the reply to it: a process waits
    for one thing at a time, so w identifies the message. If w runs a recorded program, 2 w is the notice of
    large messages for which it has asked, also in addition to a reply."""
    hops: NDArray[np.int16]
    """(P, P) between processors; (1, 1) where they cost nothing."""
    samples: Integers
    """(N + J, ...) waits that the adaptive rules remember: a row for each process, then one for the root of
    each job."""
    waits: Integers
    """(J, kind, outcome, [count, nanoseconds])."""
    accounts: Integers
    """(N, 8) for each process: time by category while it had its processor, number of dispatches, first
    dispatch, and when it last lost the processor."""
    moved: Integers
    """(P, 8) what processes have used of each processor that they have left, less what they had used
    elsewhere before they came."""
    turns: Integers
    """(P, N) when each process last had the processor, in turns of it; (1, 1) without caches."""
    switch_delay_ns: Integers
    """How late slots end, all values equally likely, as in all that follows."""
    tick_delay_ns: Integers
    """How late ticks are; empty if they come in time."""
    switch_deviation_ns: Integers
    """How much more or less than usual dispatches cost; empty if all cost the same."""
    overrun_ns: Integers
    """By how much longer than asked computations take; empty without overruns."""
    idle_times_ns: Integers
    switch_after_idle_ns: Integers
    send_after_idle_ns: Integers
    """(idle times, ...) costs after each of the idle times, or no row."""
    slots: NDArray[np.int8]
    """(slots, N) who may run in each slot; ``slot_ns`` their lengths."""
    slot_ns: Integers
    table: NDArray[np.int32]
    """The local scheduler's dispatch table, one row per priority."""
    timeline: Integers
    """Rows of (time, processor, process, category, other) where recording is on (``Outcome``)."""
