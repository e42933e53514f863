#include "profile.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LOOKS 8     /* places at which an awaited rank may be */
#define REQUESTS 64 /* of a wait that are looked at */

_Static_assert(sizeof(struct in_call) == 24, "harness/measure/rank_profile.py says so");
_Static_assert(sizeof(struct arrival) == 40, "so does it");
_Static_assert(sizeof(struct awaited) == 24, "so does it");

static struct profile *profile;
static atomic_flag taken = ATOMIC_FLAG_INIT;

size_t profile_bytes(void)
{
    return getenv("LOCKSTEP_PROFILE") != NULL ? sizeof *profile : 0;
}

int profile_begin(void)
{
    profile = whereabouts_more();
    if (profile != NULL)
        profile->begin_ns = profile->until_ns = now_ns();
    return profile != NULL;
}

struct timed profile_entered(int call, enum awaits awaits, void *frame)
{
    struct place *place = place_of_caller();
    struct timed timed = {place, UNTIMED, call, awaits, NOBODY, NO_PEER, NOT_LISTED};

    if (is_outermost(place, frame))
        timed.entered_ns = now_ns();
    return timed;
}

/* The rank in MPI_COMM_WORLD of a rank of a communicator; NOBODY if it is not known, or of another world. */
static int32_t in_its_world(int comm, int32_t rank)
{
    const struct communicator *one = &whereabouts->communicators[comm == NOT_LISTED ? 0 : comm];

    if (comm == NOT_LISTED || rank < 0 || rank >= one->ranks || one->member == NOT_LISTED)
        return NOBODY;
    return whereabouts->members[one->member + rank];
}

/* Sends are often complete at once: a wait for several requests is one for the rank from which it receives. */
void profile_requests(struct timed *timed, int count, const MPI_Request requests[])
{
    int32_t from = NO_PEER, to = NO_PEER, comm = NOT_LISTED;
    int receives = 0;

    if (timed->entered_ns == UNTIMED || requests == NULL)
        return;
    for (int number = 0; number < count && number < REQUESTS; number++) {
        uint64_t handle = (uint64_t)(uintptr_t)requests[number];
        const struct started *one = start_of(handle);

        if (requests[number] == MPI_REQUEST_NULL)
            continue;
        if (one->handle != handle || !is_message[one->subject.call])
            return;
        if (one->subject.from != NO_PEER) {
            int32_t rank = in_its_world(one->subject.comm, one->subject.from);

            if (receives++ && (from != rank || rank == NOBODY))
                return; /* from several */
            from = rank;
            comm = one->subject.from == ANY_PEER ? one->subject.comm : NOT_LISTED;
        } else {
            int32_t rank = in_its_world(one->subject.comm, one->subject.to);

            to = to == NO_PEER || to == rank ? rank : NOBODY;
        }
    }
    timed->rank = receives ? from : to == NO_PEER ? NOBODY : to;
    timed->comm = comm;
}

/* The rank for which a call has waited; the call itself has been noted. */
static int32_t awaited_rank(const struct timed *timed)
{
    const struct subject *subject = &timed->place->subject;
    int32_t rank = subject->from != NO_PEER ? subject->from : subject->to;

    if (timed->rank != NOBODY)
        return timed->rank;
    if (timed->comm != NOT_LISTED) /* that of a request */
        return in_its_world(timed->comm, timed->source);
    return in_its_world(subject->comm, rank == ANY_PEER ? timed->source : rank);
}

static void await(int32_t call, int32_t rank, int64_t within_ns)
{
    uint64_t place = mixed((uint64_t)(uint32_t)call, (uint64_t)(uint32_t)rank) >> 32;

    for (int look = 0; rank != NOBODY && look < LOOKS; look++) {
        struct awaited *one = &profile->awaited[(place + (uint64_t)look) % AWAITED];

        if (one->calls && (one->call != call || one->rank != rank))
            continue;
        one->call = call;
        one->rank = rank;
        one->within_ns += within_ns;
        one->calls++;
        return;
    }
}

/* Whether an arrival is kept. All ranks of a communicator keep those at the same calls: it depends on nothing else. */
static int is_kept(const struct arrival *arrival)
{
    int32_t level = profile->in_call[arrival->call].level;

    return level == 0 || mixed(mixed(arrival->comm, arrival->number), arrival->number) >> (64 - level) == 0;
}

/* Make room: of the call with most arrivals, from now on only half of them are kept. */
static void thin(void)
{
    int32_t most = 0, kept = 0;

    for (int32_t call = 0; call < CALLS; call++)
        if (profile->in_call[call].kept > profile->in_call[most].kept)
            most = call;
    profile->in_call[most].level++;
    profile->in_call[most].kept = 0;
    for (int32_t number = 0; number < profile->kept; number++) {
        const struct arrival *one = &profile->arrivals[number];

        if (one->call == most && !is_kept(one))
            continue;
        profile->in_call[most].kept += one->call == most;
        profile->arrivals[kept++] = *one;
    }
    __atomic_store_n(&profile->kept, kept, __ATOMIC_RELEASE);
}

static void arrive(const struct timed *timed, int64_t within_ns)
{
    const struct subject *subject = &timed->place->subject;
    const struct communicator *comm = &whereabouts->communicators[subject->comm == NOT_LISTED ? 0 : subject->comm];
    struct arrival arrival = {comm->id, (uint32_t)comm->collectives, comm->ranks, timed->entered_ns, within_ns,
                              timed->call, NOBODY};

    if (subject->comm == NOT_LISTED || comm->id == 0 || comm->ranks < 2)
        return;
    while (profile->kept == ARRIVALS)
        thin();
    if (!is_kept(&arrival))
        return;
    arrival.root = in_its_world(subject->comm, subject->from);
    profile->arrivals[profile->kept] = arrival;
    profile->in_call[timed->call].kept++;
    __atomic_store_n(&profile->kept, profile->kept + 1, __ATOMIC_RELEASE);
}

void profile_left(struct timed *timed)
{
    int64_t now, within_ns;
    struct in_call *in_call = &profile->in_call[timed->call];

    if (timed->entered_ns == UNTIMED)
        return;
    now = now_ns();
    within_ns = now - timed->entered_ns;
    while (concurrent && atomic_flag_test_and_set_explicit(&taken, memory_order_acquire))
        sched_yield();
    in_call->calls++;
    in_call->within_ns += within_ns;
    if (timed->awaits == AWAITS_ALL)
        arrive(timed, within_ns);
    else if (timed->awaits == AWAITS_RANK)
        await(timed->call, awaited_rank(timed), within_ns);
    if (timed->place == whereabouts->places) {
        profile->within_ns += within_ns;
        profile->until_ns = now;
    }
    atomic_flag_clear_explicit(&taken, memory_order_release);
}
