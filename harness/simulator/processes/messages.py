"""Messages: requests and replies, arrivals at barriers, channels of recorded programs.

A request is a message from the process that waits, and its reply one to it; a process waits for one thing at
a time. A read asks its target, an arrival the root of its job, which replies to all when all have come. On a
channel messages go from a sender to a receiver of one job, in the order in which the sender gives them; each
is the reply that the process gets that waits for it. A message is on its way for the machine's latency. On a
channel with *rendezvous*, for large messages, a message begins its way when both have come to it, and both
can take it. If the receiver comes first, the sender's notice is a request to it: the message goes when the
receiver notices that the sender has come, for which it has to run and to be in MPI.

A running process that listens handles a message as it arrives, others keep it in an inbox. If handling takes
time, it continues when a timer expires (``program.go_on_handling``). Messages of channels take no processor
time: it is in the computations of a recorded program.

Sources: Dusseau et al. 1996, footnote 1 (the barrier) and section 3.1 (reads).
"""

from harness.simulator.compiled import hot, step
from harness.simulator.processes import model as m
from harness.simulator.processes.costs import operation_of
from harness.simulator.processes.events import insert, send, set_activity, way_ns
from harness.simulator.processes.model import Records, State
from harness.simulator.processes.processor import charge
from workloads import waiting_rules
from workloads.waiting_rules import FOREVER_NS, GLOBAL_ADAPTIVE, LOCAL_ADAPTIVE, UNKNOWN_NS, Waiting

barrier_limit = step(waiting_rules.barrier_limit)
read_limit = step(waiting_rules.read_limit)
report = step(waiting_rules.report)
observed = step(waiting_rules.observed)
learn = step(waiting_rules.learn)

NO_NOTICE, NOTICE_SENT, NOTICE_HERE = range(3)
"""The notice of large messages for which a process has asked."""


@hot
def waiting_rule(job: Records) -> Waiting:
    return Waiting(job.rule, job.switch_ns, job.round_trip_ns, job.fixed_ns, job.imbalance_ns, job.estimate)


@hot
def spin_limit(job: Records, process: Records) -> int:
    """Nanoseconds that ``process`` spins in its present wait before it blocks."""
    if process.activity != m.READING:
        return min(barrier_limit(waiting_rule(job), process.estimate_ns), m.NEVER_NS)
    if job.served_by_network:
        return m.NEVER_NS
    return min(read_limit(waiting_rule(job)), m.NEVER_NS)


@hot
def charge_messages(state: State, p: int, q: int) -> None:
    """From now on the running process ``q`` spends processor ``p``'s time on messages, or on a wait."""
    operation = operation_of(state, q)
    collective = operation.code == m.RECEIVE and operation.marks & m.LEARNS
    synchronizes = collective or m.OPENING <= operation.code <= m.LOCKING
    charge(state, p, m.SYNCHRONIZING if synchronizes else m.COMMUNICATING)


@hot
def count_wait(state: State, process: Records, kind: int) -> int:
    """Count the present wait of ``process``, of such a kind, which is over; returns how long it took."""
    waited_ns = state.clock.now_ns - process.wait_began_ns
    waits = state.waits[process.job, kind, process.blocked]
    waits[0] += 1
    waits[1] += waited_ns
    return int(waited_ns)


@hot
def take_reply(state: State, q: int) -> None:
    """Process ``q`` finds the reply it waits for: count the wait and learn from it."""
    process = state.processes[q]
    waited_ns = count_wait(state, process, process.activity - m.READING)
    if process.activity != m.READING:
        job = state.jobs[process.job]
        if operation_of(state, q).marks & m.LEARNS:
            process.previous_wait_ns = waited_ns
            if job.rule == LOCAL_ADAPTIVE:
                process.estimate_ns = learn(state.samples[q], waited_ns)
        if job.rule == GLOBAL_ADAPTIVE:
            process.estimate_ns = job.estimate_ns
    process.activity = m.ANSWERED


@hot
def take_arrival(state: State, q: int) -> bool:
    """The root counts process ``q``'s arrival at its barrier; True if it was the last one.

    The message carries the sender's previous wait at the barrier that completes the compute
    phase, or its time of sending. The completion carries the estimate from the barriers before this
    one. Then the root learns from the reports of this barrier, like ``workloads.messaging``.
    """
    sender = state.processes[q]
    job = state.jobs[sender.job]
    said_ns = report(waiting_rule(job), sender.previous_wait_ns, sender.wait_began_ns)
    job.min_report_ns = min(job.min_report_ns, said_ns)
    job.greatest_report_ns = max(job.greatest_report_ns, said_ns)
    job.arrived += 1
    if job.arrived < job.processes:
        return False
    job.arrived = 0
    job.estimate_ns = job.learned_ns
    seen_ns = observed(waiting_rule(job), job.min_report_ns, job.greatest_report_ns)
    job.min_report_ns = FOREVER_NS
    job.greatest_report_ns = UNKNOWN_NS
    if job.rule == GLOBAL_ADAPTIVE and seen_ns >= 0 and operation_of(state, q).marks & m.LEARNS:
        job.learned_ns = learn(state.samples[len(state.processes) + sender.job], seen_ns)
    return True


@step
def complete_barrier(state: State, q: int) -> None:
    """All have arrived: root process ``q`` releases every process of its job, itself included."""
    process = state.processes[q]
    job = state.jobs[process.job]
    first = 0
    if not state.machine.messages_to_self:
        take_reply(state, q)
        first = 1
    if state.machine.send_ns > 0 and first < job.processes:
        process.handling = m.BROADCASTING
        process.broadcast = first
    else:
        for other in range(job.first + first, job.first + job.processes):
            send(state, other << 1 | 1)


@hot
def handle(state: State, q: int, message: int) -> None:
    """Do what ``message`` asks of process ``q``."""
    state.clock.messages += 1
    if message & 1:
        take_reply(state, q)
        return
    if state.processes[message >> 1].activity == m.READING:
        send(state, message | 1)
    elif take_arrival(state, message >> 1):
        complete_barrier(state, q)


@step
def handling_ns(state: State, process: Records) -> int:
    """Time that ``process`` takes to handle its oldest message, up to sending the response."""
    time_ns: int = state.machine.receive_ns
    if process.activity >= m.READING:
        time_ns += state.machine.poll_ns
    message = process.inbox_first
    if not message & 1 and state.processes[message >> 1].activity == m.READING:
        time_ns += state.machine.serve_ns + state.machine.send_ns
    return time_ns


@hot
def handle_inbox(state: State, p: int, q: int) -> bool:
    """Handle the messages in the inbox; False if that takes time and continues when a timer expires."""
    process = state.processes[q]
    while process.inbox_first != m.NOBODY:
        if state.jobs[process.job].message_costs:
            charge_messages(state, p, q)
            process.handling = m.HANDLING
            set_activity(state, p, handling_ns(state, process))
            return False
        handle(state, q, first_in_inbox(state, process))
    return True


@hot
def put_in_inbox(state: State, q: int, message: int) -> None:
    """Keep ``message`` until process ``q`` runs and handles it."""
    process = state.processes[q]
    state.processes[message >> 1].next_message = m.NOBODY
    if process.inbox_first == m.NOBODY:
        process.inbox_first = message
    else:
        state.processes[process.inbox_last >> 1].next_message = message
    process.inbox_last = message


@hot
def first_in_inbox(state: State, process: Records) -> int:
    """Take the oldest message out of the inbox, which is not empty."""
    message: int = process.inbox_first
    process.inbox_first = state.processes[message >> 1].next_message
    return message


@step
def give(state: State, q: int, number: int) -> None:
    """Send the next message of channel ``number``; at a rendezvous, come to it as one of two."""
    channel = state.channels[number]
    if not channel.rendezvous:
        depart(state, number)
    elif q != channel.sender:
        channel.receiver_came += 1
        if channel.sender_came > channel.sent:
            depart(state, number)
    else:
        channel.sender_came += 1
        receiver = state.processes[channel.receiver]
        if channel.receiver_came > channel.sent and receiver.notice == NO_NOTICE:
            receiver.notice = NOTICE_SENT
            insert(state, channel.receiver << 1, state.clock.now_ns + way_ns(state, q, channel.receiver))


@step
def read_notices(state: State, q: int) -> None:
    """The large messages for which process ``q`` has asked, and whose senders have come, begin their ways."""
    process = state.processes[q]
    process.notice = NO_NOTICE
    job = state.jobs[process.job]
    for number in range(job.channels_at, job.channels_at + job.channels):
        channel = state.channels[number]
        if channel.rendezvous and channel.receiver == q:
            while min(channel.sender_came, channel.receiver_came) > channel.sent:
                depart(state, number)


@step
def depart(state: State, number: int) -> None:
    """The next message of channel ``number`` begins its way."""
    channel = state.channels[number]
    arrivals = state.arrivals[number]
    mask = len(arrivals) - 1
    arrival_ns = state.clock.now_ns + way_ns(state, channel.sender, channel.receiver)
    if channel.sent > 0:
        arrival_ns = max(arrival_ns, arrivals[(channel.sent - 1) & mask])
    arrivals[channel.sent & mask] = arrival_ns
    channel.sent += 1
    tell(state, channel.receiver, number, arrival_ns)
    if channel.rendezvous:
        tell(state, channel.sender, number, arrival_ns)


@step
def tell(state: State, q: int, number: int, arrival_ns: int) -> None:
    """The last message of channel ``number`` has an arrival: it is a reply if process ``q`` waits for it."""
    awaited = (m.RECEIVE, number, state.channels[number].sent - 1)
    operation = operation_of(state, q)
    if (operation.code, operation.peer, operation.value) == awaited:
        insert(state, q << 1 | 1, arrival_ns)


@step
def take(state: State, p: int, q: int, operation: Records) -> bool:
    """Process ``q`` takes a message of a channel; False if it has to wait for it.

    A process that takes a message that has arrived continues at once. Otherwise it waits by the rule of its
    job: for a collective operation as at a barrier, else as for a read.
    """
    process = state.processes[q]
    job = state.jobs[process.job]
    now_ns = state.clock.now_ns
    channel = state.channels[operation.peer]
    process.activity = m.CLOSING if operation.marks & m.LEARNS else m.READING
    process.target = channel.sender if channel.receiver == q else channel.receiver
    if not operation.marks & m.CONTINUES:
        if job.rule == GLOBAL_ADAPTIVE:
            process.estimate_ns = job.estimate_ns
        process.wait_began_ns = now_ns
        process.remaining_ns = m.NEVER_NS if operation.marks & m.POLLS else spin_limit(job, process)
        if 0 < process.remaining_ns < m.NEVER_NS:
            process.remaining_ns += 1000 * operation.more_us
        process.spin_end_ns = now_ns + process.remaining_ns
    process.remaining_ns = process.spin_end_ns - now_ns
    if channel.sent > operation.value:
        arrivals = state.arrivals[operation.peer]
        arrival_ns = arrivals[operation.value & (len(arrivals) - 1)]
        # A message so old that its time is forgotten has arrived.
        if channel.sent - operation.value > len(arrivals) or arrival_ns <= now_ns:
            take_reply(state, q)
            return True
        insert(state, q << 1 | 1, arrival_ns)
    charge_messages(state, p, q)
    return False


@step
def learn_longest(state: State, q: int) -> None:
    """Process ``q`` has waited in a collective operation: the job may learn from it.

    By the global-adaptive rule rank 0 learns, at the end of each of its waits in collective operations, the
    longest wait of any rank since it last learned; all ranks use its estimate (``workloads/native/wait.c``).
    """
    process = state.processes[q]
    job = state.jobs[process.job]
    if job.rule != GLOBAL_ADAPTIVE:
        return
    job.greatest_report_ns = max(job.greatest_report_ns, process.previous_wait_ns)
    if process.rank == 0:
        job.estimate_ns = learn(state.samples[len(state.processes) + process.job], job.greatest_report_ns)
        job.greatest_report_ns = UNKNOWN_NS
