/* The two-phase wait, which all waits use.
 *
 * It calls MPI's test until the wait is over or the rule's spin has passed. Then it announces in the segment
 * that it will sleep, or asks ranks of other nodes to ring (doorbell.c), tests once more, and sleeps until
 * another rank rings. A sender rings a sleeping receiver; a rank that has advanced a collective operation
 * rings the ranks that take part.
 *
 * MPI also advances messages when nobody rings: a large message takes several steps, and so does a
 * collective operation. So a sleeper first rings the ranks for which it may have done a step, a bounded
 * number of times, and never sleeps longer than a nap. Naps that ended a wait are counted (rechecks).
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "wrappers.h"
#include "doorbell.h"
#include "node_segment.h"
#include "whereabouts.h"

#define NAP_NS 1000000 /* the first; each is twice as long as the one before, up to GROWTH times the first */
#define BRIEF_NAP_NS 50000 /* the first if some rank cannot ring, or may hear too late that it should */
#define SLACK_NS 1000 /* by which the kernel may end a brief nap too late */
#define GROWTH 8
#define OVERTAKEN_NS 100000 /* by which a ring from another node may come before its message */
#define NEITHER (-1)
#define BYTES_PER_NS 4 /* which a processor copies */
#define CARRIED_NS 2000000 /* of a longer time, sleeping costs too small a share to be avoided */
#define CARRIED_BYTES (INT64_C(1) << 40) /* of one operation, at most */
#define LONGER 4 /* times the shortest test takes one that has moved a part of a message, */
#define AWAY_NS 1000000 /* but not so long, for which this rank had no processor */
#define PASSES_NS 4000000 /* from one part to the next, at most: longer than others have the processor */
#define COLD_NS 5000 /* which a test on one node takes after a sleep, at most; passing a part on takes longer */
#define INTERRUPTED 2 /* of such tests in one wait */
#define FADES 1024 /* tests in which the shortest becomes longer */
#define PART_GAP_NS 100000 /* between two rings for such parts */
#define YIELDS 8 /* in one wait, at most */
#define LATELY_NS 20000000 /* since another process took the processor */
#define BUSY_NS 2000 /* between two polls: the program computes meanwhile */
#define RING_GAP_NS 10000 /* between two rings of a program that polls in vain; each is twice as long as the one before */
#define LASTING_NS INT64_C(500000000) /* of sleep, after which a wait is described again for those who look for this rank */
#define LOOKS 16      /* polls before a sleep, and two for each request, but these only for as long as the nap */
#define UNRUNG 8      /* or an eighth of it, if nobody has rung, */
#define LOOK_NS 50000 /* and at least for so long */
#define STEPS 16      /* how often, at most, a sleeper rings others in one wait */
#define ASKS 4        /* and how often it asks ranks on other nodes to ring */

struct counts counts;

static struct waiting waiting = {SPIN, 0, 0, 0, 0};
static int64_t sample[SAMPLE_LENGTH], estimate_ns = UNKNOWN_NS;
int concurrent;                 /* whether several threads may call MPI at the same time */
static _Thread_local char self;
static _Atomic(char *) inside;  /* the `self` of the thread that waits */
static atomic_int crowded;      /* several threads have waited at the same time */
static int has_segment, learns, brief;
static set_yielding own_yielding; /* NULL: this MPI has none */
static bool yields_itself;
static int64_t carried_bytes; /* that left since the last wait */
static int64_t started;       /* collective operations, since the last wait */
static int64_t shortest_ns[33]; /* test, by the bits of the number of requests */
static int64_t parts_rung_ns;   /* when this rank rang for parts */
static int64_t moved_ns;        /* when it moved the last part in this wait */
static int parts, unrung;       /* that it has moved in this wait; and since it rang */

int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void say(const char *what)
{
    dprintf(2, "lockstep: %s\n", what);
}

void wait_begin(int threads, set_yielding yielding)
{
    const char *rule = getenv("LOCKSTEP_WAITING");
    long long read[4] = {SPIN, 0, 0, 0};

    if (rule != NULL && sscanf(rule, "%lld,%lld,%lld,%lld", read, read + 1, read + 2, read + 3) == 4)
        waiting = (struct waiting){read[0], read[1], read[2], read[3], 0};
    concurrent = threads;
    if (waiting.rule != SPIN && yielding != NULL) {
        own_yielding = yielding;
        yields_itself = yielding(true);
    }
}

void wait_segment(int rank)
{
    has_segment = 1;
    learns = rank == 0;
}

/* MPICH 5.0 yields in polls, after so many in vain, if these variables of its own say so. */
#define VAIN "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT"
#define THROTTLE "MPIR_CVAR_CH4_PROGRESS_THROTTLE"
#define MOST_VAIN 64
static MPI_T_cvar_handle throttle;

static bool set_throttle(bool yield)
{
    int set = yield;

    PMPI_T_cvar_write(throttle, &set);
    return yield;
}

static int set_variable(const char *name, MPI_T_cvar_handle *variable, int value)
{
    int index, count;

    return PMPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
           PMPI_T_cvar_handle_alloc(index, NULL, variable, &count) == MPI_SUCCESS &&
           PMPI_T_cvar_write(*variable, &value) == MPI_SUCCESS;
}

void nap_briefly(void)
{
    MPI_T_cvar_handle vain;
    int level;

    if (!brief && own_yielding == NULL && waiting.rule != SPIN &&
        PMPI_T_init_thread(concurrent ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level) == MPI_SUCCESS &&
        set_variable(VAIN, &vain, MOST_VAIN) && set_variable(THROTTLE, &throttle, 1))
        own_yielding = set_throttle;
    brief = 1;
}

static void note(enum kind kind, int64_t waited_ns, int64_t blocks)
{
    struct waits *waits = &counts.waits[kind];
    int bin = waited_ns > 0 ? 64 - __builtin_clzll((unsigned long long)waited_ns) : 0;

    if (blocks) {
        waits->blocked++;
        waits->blocks += blocks;
        waits->blocked_ns += waited_ns;
        waits->blocked_histogram[bin]++;
    } else {
        waits->spun++;
        waits->spun_ns += waited_ns;
        waits->spun_histogram[bin]++;
    }
}

void wait_timed(enum kind kind, int64_t begin_ns)
{
    note(kind, now_ns() - begin_ns, 0);
}

int wait_as_mpi(void)
{
    return waiting.rule == SPIN;
}

/* The local rule learns from each wait in a collective operation. By the global one, the first rank of
   the node learns from the longest wait of any rank since it last learned; all use its estimate. */
static void learn_from(int64_t waited_ns)
{
    if (waiting.rule == LOCAL_ADAPTIVE || (waiting.rule == GLOBAL_ADAPTIVE && !has_segment)) {
        estimate_ns = learn(sample, waited_ns);
    } else if (waiting.rule == GLOBAL_ADAPTIVE) {
        segment_report(waited_ns);
        if (learns)
            segment_set_estimate(learn(sample, segment_take_longest()));
    }
}

static int64_t limit_of(enum kind kind)
{
    if (kind == MESSAGE)
        return read_limit(&waiting);
    if (waiting.rule == GLOBAL_ADAPTIVE && has_segment)
        return barrier_limit(&waiting, segment_estimate());
    return barrier_limit(&waiting, estimate_ns);
}

void wait_carries(MPI_Count count, MPI_Datatype datatype)
{
    int size = 0;

    if (!concurrent && count > 0 && PMPI_Type_size(datatype, &size) == MPI_SUCCESS && size > 0)
        carried_bytes += count < CARRIED_BYTES / size ? count * size : CARRIED_BYTES;
}

void collective_started(MPI_Comm comm)
{
    started += !concurrent;
    ring_members(comm);
}

/* The communicator whose ranks can end a wait, and which of its ranks. */
static const struct peers *peers_for(const struct wait *wait)
{
    return peers_of(wait->comm == MPI_COMM_NULL ? MPI_COMM_WORLD : wait->comm);
}

static int rank_for(const struct wait *wait)
{
    return wait->comm == MPI_COMM_NULL || wait->kind == COLLECTIVE ? MPI_ANY_SOURCE : wait->rank;
}

/* Until when a wait spins: a sleep while a message is being copied would only delay it, and to spin in the place
   of the rank that should end the wait delays it for as long. */
static int64_t end_of_spin(const struct wait *wait, int64_t begin_ns)
{
    int64_t limit_ns = limit_of(wait->kind), carried_ns = carried_bytes / BYTES_PER_NS;

    if (limit_ns == FOREVER_NS || limit_ns == 0)
        return limit_ns == 0 ? begin_ns : FOREVER_NS;
    if (has_segment && sum_of(peers_for(wait), rank_for(wait), segment_beside))
        return begin_ns;
    return begin_ns + limit_ns + (carried_ns < CARRIED_NS ? carried_ns : CARRIED_NS);
}

static void ring_for(const struct wait *wait)
{
    if (wait->comm == MPI_COMM_NULL)
        ring_all();
    else if (wait->kind == COLLECTIVE || wait->rank == MPI_ANY_SOURCE)
        ring_members(wait->comm);
    else
        ring_receiver(wait->comm, wait->rank);
}

/* A test that leaves `done` unset has failed, and MPICH has called the program's own error handler: it then
   returns success. */
static int test(struct wait *wait, int *done)
{
    int error;

    *done = NEITHER;
    error = wait->test(wait->what, done);
    if (*done == NEITHER)
        *done = 1;
    return error;
}

static void ring_parts(int64_t now)
{
    unrung = 0;
    parts_rung_ns = now;
    ring_all();
}

/* Whether a test that took so long has moved a part of a message, of which MPI tells nothing. The first ones in a wait
   may have been interrupted. A test that polls several times takes as long as it has requests. */
static int moves(const struct wait *wait, int64_t took_ns)
{
    int64_t *shortest = &shortest_ns[wait->requests > 0 ? 32 - __builtin_clz((unsigned)wait->requests) : 0];

    if (took_ns >= AWAY_NS || wait->more)
        return 0;
    if (*shortest == 0 || took_ns < *shortest)
        *shortest = took_ns;
    *shortest += (took_ns - *shortest) / FADES;
    return took_ns > LONGER * *shortest && parts++ >= INTERRUPTED;
}

/* Test at the time `*now`, which becomes the time after it, and ring for parts that move. Returns the error. */
static int step(struct wait *wait, int *done, int64_t *now, int *moved)
{
    int64_t begin_ns = *now;
    int error = test(wait, done);

    *now = now_ns();
    *moved = !error && !*done && moves(wait, *now - begin_ns);
    unrung |= *moved;
    if (*moved && *now - begin_ns > COLD_NS && !peers_for(wait)->away)
        moved_ns = *now;
    if (*moved && *now - parts_rung_ns > PART_GAP_NS)
        ring_parts(*now);
    return error;
}

/* Test until done, or until all messages that are here have been taken: in a poll MPI takes one, and not from every
   rank. A ring tells of several. Many requests may take long, and then at most so long. */
static int look(struct wait *wait, int *done, int64_t most_ns)
{
    int64_t now = now_ns(), until_ns = now + (most_ns > LOOK_NS ? most_ns : LOOK_NS);
    int moved, error = step(wait, done, &now, &moved), polls = 0;

    while (!error && !*done && polls < LOOKS + 2 * wait->requests && (polls < LOOKS || now < until_ns)) {
        error = step(wait, done, &now, &moved);
        polls += moved ? 0 : 1 + wait->more;
    }
    return error;
}

/* Whether another rank of the job is awake on this processor. */
static int shares_processor(void)
{
    return has_segment && waiting.rule != SPIN && sum_of(peers_of(MPI_COMM_WORLD), MPI_ANY_SOURCE, segment_beside);
}

/* Test until done, or the time is over. A rank of the job that is on this processor gets it between the tests, also
   some times after the end of the time: a yield costs it a switch, a sleep and a doorbell tens of microseconds. So does
   anybody while parts of a message move on this node: each sleep would hold up the parts behind it. Between nodes the
   time begins again with each part: there tests are system calls, whose lengths tell less. */
static int spin(struct wait *wait, int *done, int64_t until_ns)
{
    int64_t now = now_ns();
    int moved, error = step(wait, done, &now, &moved), yields = 0;

    while (!error && !*done) {
        int shares = shares_processor();

        if (moved && !shares && until_ns < now + limit_of(wait->kind))
            until_ns = now + limit_of(wait->kind);
        if (now >= until_ns && !moved && now - moved_ns > PASSES_NS && !(shares && yields < YIELDS))
            break;
        if (shares || now >= until_ns) {
            yields++;
            sched_yield();
            segment_here();
            now = now_ns();
        }
        error = step(wait, done, &now, &moved);
    }
    return error;
}

/* How a rank sleeps. */
struct sleep {
    const struct peers *peers; /* of the communicator of the wait */
    enum reach reach;          /* how its ranks ring this one */
    int rank;                  /* the rank that should, or MPI_ANY_SOURCE */
    int64_t nap_ns, look_ns;   /* for how long it sleeps, and for how long it may look before */
};

/* Sleep until woken, but not longer than this. */
static enum ending nap(const struct sleep *sleep)
{
    struct timespec most = {0, sleep->nap_ns};
    int exact = !has_segment || sleep->reach == BY_DOORBELL;
    unsigned long slack_ns = exact ? (unsigned long)prctl(PR_GET_TIMERSLACK) : 0;
    enum ending ending = TIMED_OUT;
    int64_t begin_ns = now_ns();

    if (exact)
        prctl(PR_SET_TIMERSLACK, SLACK_NS);
    if (sleep->reach == BY_DOORBELL)
        ending = doorbell_sleep(sleep->nap_ns);
    else if (has_segment)
        ending = segment_sleep(sleep->nap_ns) ? RUNG : TIMED_OUT;
    else
        nanosleep(&most, NULL);
    if (exact)
        prctl(PR_SET_TIMERSLACK, slack_ns);
    counts.asleep_ns += now_ns() - begin_ns;
    return ending;
}

/* This also ends announcements of waits that exceptions leave: a program's handler of MPI's errors may throw one. */
static void withdraw(const int *announced)
{
    if (*announced)
        segment_awake();
}

/* Sleep once, unless the wait is over, and ring others before if it `rings`, since the last test may have done a step
   for them; `ask`: ranks on other nodes have yet to hear of it. Returns how the sleep ended. */
static enum ending sleep_once(struct wait *wait, int *done, int *error, const struct sleep *sleep, int rings, int ask,
                              int64_t *blocks)
{
    int announced __attribute__((cleanup(withdraw))) = has_segment && (sleep->reach != BY_DOORBELL || sleep->rank < 0);
    int64_t spin_ns = 0;
    enum ending ending;

    if (announced)
        segment_announce(place_of(sleep->peers, sleep->rank), sleep->reach == BY_DOORBELL);
    if (ask)
        ask_away(sleep->peers, sleep->rank);
    if (announced || ask) {
        *error = look(wait, done, sleep->look_ns);
        if (*done || *error)
            return RUNG;
    }
    if (unrung)
        ring_parts(now_ns());
    else if (rings)
        ring_for(wait);
    ending = nap(sleep);
    ++*blocks;
    withdraw(&announced);
    announced = 0;
    if (ending == RUNG && sleep->reach == BY_DOORBELL && wait->kind == MESSAGE)
        spin_ns = now_ns() + OVERTAKEN_NS;
    *error = spin(wait, done, spin_ns);
    return ending;
}

static int block(struct wait *wait, int *done, int64_t *blocks)
{
    const struct peers *peers = peers_for(wait);
    int rank = rank_for(wait);
    int silent = brief || (wait->comm == MPI_COMM_NULL && has_remote_ranks());
    enum reach reach = silent ? SILENT : reach_of(peers, rank);
    int64_t first_ns = reach == BY_SEGMENT ? NAP_NS : BRIEF_NAP_NS;
    int64_t longest_ns = first_ns * (reach == BY_DOORBELL ? 2 * GROWTH : GROWTH);
    struct sleep sleep = {peers, reach, rank, first_ns, 0};
    enum ending ending = RUNG;
    int error = MPI_SUCCESS, steps = 0, asks = 0;
    int64_t lasts_ns = now_ns() + LASTING_NS;
    int lasting __attribute__((cleanup(note_lasted))) = 0; /* an exception may leave the wait */

    if (reach == BY_DOORBELL)
        doorbell_forget();
    while (!*done && !error) {
        if (now_ns() > lasts_ns) {
            lasting = 1;
            note_lasting(wait);
            lasts_ns = now_ns() + LASTING_NS;
        }
        int again = ending == RUNG && steps++ < STEPS * (1 + started);

        sleep.look_ns = sleep.nap_ns / (ending == RUNG ? 1 : UNRUNG);
        ending = sleep_once(wait, done, &error, &sleep, again, again && reach == BY_DOORBELL && asks++ < ASKS, blocks);
        if (*done && ending == TIMED_OUT && reach != SILENT)
            counts.rechecks++;
        if (ending == RUNG && reach == BY_DOORBELL)
            sleep.nap_ns = first_ns;
        else if (ending == TIMED_OUT && sleep.nap_ns < longest_ns)
            sleep.nap_ns *= 2;
    }
    return error;
}

/* MPI may yield in each test: then a spin would last as long as others compute. In its own waits it should: there
   nobody sleeps. Processes whose threads wait do as their MPI. */
static void set_own_yielding(bool yield)
{
    if (own_yielding != NULL)
        own_yielding(yield);
}

/* Whether this thread waits two-phase: no longer once another has waited at the same time. Two cannot sleep on one
   flag, and threads that spin in tests take each other's processors and MPI's locks. In MPI's own calls they take
   turns. One that sleeps meanwhile goes on sleeping, but the others yield. A thread that is inside itself waits in a
   callback of MPI, or has left the last wait by longjmp. */
static int begin_alone(void)
{
    char *before = NULL;

    if (atomic_load(&crowded))
        return 0;
    if (concurrent && !atomic_compare_exchange_strong(&inside, &before, &self) && before != &self) {
        if (!atomic_exchange(&crowded, 1))
            say("several threads wait in MPI at the same time: this process waits as its MPI does from now on");
        set_own_yielding(yields_itself);
        return 0;
    }
    set_own_yielding(false);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&crowded))
        set_own_yielding(yields_itself);
    return 1;
}

/* Also when an exception leaves the wait. */
static void end_alone(const int *alone)
{
    if (!*alone)
        return;
    atomic_store_explicit(&inside, NULL, memory_order_release);
    set_own_yielding(!atomic_load(&crowded) || yields_itself);
}

void wait_own(int begins)
{
    static _Thread_local int64_t taken_ns;
    static _Thread_local long switches;
    struct rusage used;
    int64_t now;

    if (own_yielding == NULL || concurrent)
        return;
    if (!begins || getrusage(RUSAGE_THREAD, &used) != 0) {
        own_yielding(true);
        return;
    }
    now = now_ns();
    if (used.ru_nivcsw != switches)
        taken_ns = now;
    switches = used.ru_nivcsw;
    own_yielding(now - taken_ns < LATELY_NS);
}

static int wait_by_rule(struct wait *wait)
{
    int64_t begin_ns = now_ns(), blocks = 0;
    int alone __attribute__((cleanup(end_alone))) = begin_alone();
    int done = 0, error;

    if (!alone)
        return wait->test(wait->what, NULL);
    poll_over();
    segment_here();
    error = test(wait, &done);
    if (!done && !error) {
        moved_ns = parts = unrung = 0;
        error = spin(wait, &done, end_of_spin(wait, begin_ns));
        if (!done && !error)
            error = block(wait, &done, &blocks);
    }
    carried_bytes = started = 0;
    begin_ns = now_ns() - begin_ns;
    note(wait->kind, begin_ns, blocks);
    if (wait->kind == COLLECTIVE)
        learn_from(begin_ns);
    return error;
}

int wait_two_phase(struct wait *wait)
{
    int error = wait_by_rule(wait);

    ring_for(wait);
    return error;
}

/* Programs also wait in loops that poll. A program that does nothing else, while a rank of the job cannot
   run because it polls, naps between its polls. It does not say who will end its wait, so naps are brief. */
static int64_t polled_ns, poll_nap_ns; /* the last poll in vain; the next nap (0: none) */
static _Atomic int64_t ring_gap_ns, ring_due_ns;

void poll_over(void)
{
    poll_nap_ns = 0;
}

void ring_receiver(MPI_Comm comm, int rank)
{
    poll_over();
    ring_rank(comm, rank);
}

int poll_begin(void)
{
    if (poll_nap_ns == 0)
        return 0;
    ring_all();
    segment_announce(ANYBODY, 0);
    return 1;
}

/* Whether the program's polls take the processor of a rank that may end them, and nobody else needs them. */
static int polls_in_place(void)
{
    const struct peers *peers = peers_of(MPI_COMM_WORLD);

    segment_here();
    return !brief && !has_remote_ranks() && reach_of(peers, MPI_ANY_SOURCE) == BY_SEGMENT &&
           sum_of(peers, MPI_ANY_SOURCE, segment_beside);
}

/* A poll may have advanced operations that others wait for. The more polls have been in vain, the less likely is it, and
   the more rarely do they ring. */
static void ring_after_vain_poll(int64_t now)
{
    if (now < ring_due_ns)
        return;
    ring_due_ns = now + ring_gap_ns;
    if (ring_gap_ns < NAP_NS)
        ring_gap_ns = ring_gap_ns ? 2 * ring_gap_ns : RING_GAP_NS;
    ring_all();
}

void poll_left(const int *announced)
{
    withdraw(announced);
}

/* After a poll that has found something, which is likely to have advanced other operations. A program may find thousands
   so: this reads no clock. */
static int poll_found(int *announced, int error)
{
    poll_over();
    withdraw(announced);
    *announced = 0;
    ring_gap_ns = ring_due_ns = 0; /* the next poll rings, whatever it finds */
    ring_all();
    return error;
}

int poll_end(int *announced, int error, const int *found)
{
    int64_t now;

    if (error || *found)
        return poll_found(announced, error);
    now = now_ns();
    if (concurrent || !has_segment || waiting.rule == SPIN)
        poll_over();
    else {
        if (now - polled_ns > BUSY_NS)
            poll_over();
        else if (!*announced)
            poll_nap_ns = polls_in_place() ? BRIEF_NAP_NS : 0;
        else {
            if (!segment_sleep(poll_nap_ns) && poll_nap_ns < GROWTH * BRIEF_NAP_NS)
                poll_nap_ns *= 2;
            counts.asleep_ns -= now;
            now = now_ns();
            counts.asleep_ns += now;
            if (!polls_in_place())
                poll_over();
        }
        polled_ns = now;
    }
    withdraw(announced);
    *announced = 0;
    ring_after_vain_poll(now);
    return error;
}

static int test_request(void *what, int *done)
{
    return done ? mpi.Test(what, done, MPI_STATUS_IGNORE) : mpi.Wait(what, MPI_STATUS_IGNORE);
}

int wait_collective(MPI_Request *request, MPI_Comm comm)
{
    struct wait wait = {COLLECTIVE, test_request, request, comm, MPI_ANY_SOURCE, 1};

    ring_members(comm);
    return wait_two_phase(&wait);
}

int wait_sent(MPI_Request *request, MPI_Comm comm, int dest)
{
    struct wait wait = {MESSAGE, test_request, request, comm, dest, 1};

    ring_receiver(comm, dest);
    return wait_two_phase(&wait);
}

int wait_entered(MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int error = mpi.Ibarrier(comm, &request);

    return error ? error : wait_collective(&request, comm);
}
