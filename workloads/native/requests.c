/* What recordings know of requests and messages that are under way. */
#include <stdlib.h>
#include <string.h>

#include "operation.h"

int op_peer(const struct members *members, int rank)
{
    if (rank == MPI_ANY_SOURCE)
        return ANYONE;
    return rank >= 0 && rank < members->ranks ? members->world[rank] : NO_RANK;
}

int64_t op_bytes(MPI_Count count, MPI_Datatype datatype)
{
    int size = 0;

    return count > 0 && PMPI_Type_size(datatype, &size) == MPI_SUCCESS && size > 0 ? count * size : 0;
}

/* Requests by their handles. MPICH gives one handle to several sends that are complete at once, so that a
   handle may be there several times; which of them is taken makes no difference. */
struct pending {
    uint64_t handle;
    const struct members *members;
    int64_t bytes;
    uint32_t number;
    int next, kind, peer, tag, prepared;
};

#define CHAINS 1024
static int chains[CHAINS], unused, held; /* places from 1 on; 0: the end */
static struct pending *pending;
static uint32_t numbers;

static uint64_t key_of(MPI_Request request)
{
    return (uint64_t)(uintptr_t)request;
}

static uint64_t key_of_message(MPI_Message message)
{
    return ~(uint64_t)(uintptr_t)message;
}

static int *chain_of(uint64_t handle)
{
    return &chains[(handle * UINT64_C(0x9E3779B97F4A7C15)) >> 54];
}

static struct pending *find(uint64_t handle)
{
    int place = *chain_of(handle);

    while (place && pending[place].handle != handle)
        place = pending[place].next;
    return place ? &pending[place] : NULL;
}

static void hold(struct pending given)
{
    int *chain = chain_of(given.handle), place = unused;

    if (place == 0) {
        int more = held ? 2 * held : 64;
        struct pending *larger = realloc(pending, (size_t)more * sizeof *larger);

        if (larger == NULL)
            return; /* its wait is then one for a request that is not known */
        pending = larger;
        for (int number = held ? held : 1; number < more; number++) {
            pending[number].next = unused;
            unused = number;
        }
        held = more;
        place = unused;
    }
    unused = pending[place].next;
    pending[place] = given;
    pending[place].next = *chain;
    *chain = place;
}

static void drop(const struct pending *found)
{
    int place = (int)(found - pending), *at = chain_of(found->handle);

    while (*at != place)
        at = &pending[*at].next;
    *at = found->next;
    pending[place].next = unused;
    unused = place;
}

static uint32_t new_number(void)
{
    return ++numbers ? numbers : ++numbers;
}

static void begun(struct pending one, MPI_Request *request, int prepared)
{
    if (request != NULL) {
        one.handle = key_of(*request);
        one.number = prepared ? 0 : new_number();
        one.prepared = prepared;
        hold(one);
    }
    if (!prepared)
        op_add(one.kind, one.bytes, one.peer, one.number, (unsigned)one.members->number, one.tag);
}

void op_message(int kind, int64_t bytes, int rank, int tag, MPI_Comm comm, MPI_Request *request, int prepared)
{
    const struct members *members = members_of(comm);

    begun((struct pending){.members = members, .bytes = bytes, .kind = kind, .peer = op_peer(members, rank),
                           .tag = tag}, request, prepared);
}

void op_collective(int kind, int64_t bytes, int root, MPI_Comm comm, MPI_Request *request, int prepared)
{
    op_message(kind, bytes, root, 0, comm, request, prepared);
}

void op_exchanged(int64_t sent, int dest, int sent_tag, int64_t room, int source, int tag, MPI_Comm comm)
{
    const struct members *members = members_of(comm);
    uint32_t in = new_number(), out = new_number();
    unsigned number = (unsigned)members->number;

    op_add(KIND_IRECV, room, op_peer(members, source), in, number, tag);
    op_add(KIND_ISEND, sent, op_peer(members, dest), out, number, sent_tag);
    op_add(KIND_WAIT, 0, op_peer(members, source), in, number, tag);
    op_add(KIND_WAIT, 0, op_peer(members, dest), out, number, sent_tag);
}

int op_rank(MPI_Comm comm)
{
    int rank = 0;

    PMPI_Comm_rank(comm, &rank);
    return rank;
}

void op_started(MPI_Request request)
{
    struct pending *found = find(key_of(request));

    if (found == NULL)
        return;
    found->number = new_number();
    op_add(found->kind, found->bytes, found->peer, found->number, (unsigned)found->members->number, found->tag);
}

void op_waited(MPI_Request request, const MPI_Status *status, int polled)
{
    struct pending *found;

    if (request == MPI_REQUEST_NULL)
        return;
    found = find(key_of(request));
    if (found == NULL) {
        op_add(KIND_WAIT, polled, NO_RANK, 0, OTHERS, 0);
        return;
    }
    if (found->prepared && found->number == 0) /* it was not started */
        return;
    if (found->peer == ANYONE && status != NULL)
        op_add(KIND_WAIT, polled, op_peer(found->members, status->MPI_SOURCE), found->number,
               (unsigned)found->members->number, status->MPI_TAG);
    else
        op_add(KIND_WAIT, polled, found->peer, found->number, (unsigned)found->members->number, found->tag);
    if (found->prepared)
        found->number = 0;
    else
        drop(found);
}

int op_from_anyone(MPI_Request request)
{
    const struct pending *found;
    int anyone;

    op_lock();
    found = find(key_of(request));
    anyone = found != NULL && found->peer == ANYONE;
    op_unlock();
    return anyone;
}

void op_forget(MPI_Request request)
{
    const struct pending *found = find(key_of(request));

    if (found != NULL)
        drop(found);
}

void op_probed(MPI_Comm comm, const MPI_Status *status, MPI_Message *message, int polled)
{
    const struct members *members = members_of(comm);
    int peer = op_peer(members, status->MPI_SOURCE);

    op_add(KIND_PROBE, polled, peer, 0, (unsigned)members->number, status->MPI_TAG);
    if (message != NULL)
        hold((struct pending){.handle = key_of_message(*message), .members = members, .peer = peer,
                              .tag = status->MPI_TAG});
}

void op_received(MPI_Message message, int64_t bytes, MPI_Request *request)
{
    const struct pending *found = find(key_of_message(message));
    struct pending one = found ? *found : (struct pending){.members = members_of(MPI_COMM_NULL), .peer = NO_RANK};

    if (found != NULL)
        drop(found);
    one.kind = request != NULL ? KIND_IRECV : KIND_RECV;
    one.bytes = bytes;
    begun(one, request, 0);
}
