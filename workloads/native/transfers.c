/* What the program's own MPI does with messages: from how many bytes on a send waits for its receive, how long such
 * messages take, and how often a rank that waits gives its processor away (sched_yield). A smaller one may wait until the receiver is in MPI, as Open MPI's do, but not for the
 * receive. Two ranks of a node find it out when the program calls MPI_Finalize: nothing of the program's is left
 * then, and all of its ranks come. It takes some milliseconds, and ends early where the two ranks do not run at
 * the same time. */
#include <stdlib.h>
#include <string.h>

#include "operation.h"

#define GIVE_UP_NS 20000000
#define AWAY_NS 100000 /* for so long the receiver does not receive, but lets MPI work, ... */
#define AT_ONCE_NS 50000 /* ... and for so long the sender looks whether its send has ended */
#define TIMES 5
#define LEAST_BYTES 1024 /* for which it is tried whether a send waits */
#define TAG 0
#define NO_TAG 1 /* of no message */

struct command {
    int64_t bytes, away; /* 0 bytes: the end */
};

long (*yields_so_far)(void);

static void send(void *buffer, int64_t bytes, int peer, MPI_Comm comm)
{
    mpi.Send(buffer, (int)bytes, MPI_BYTE, peer, TAG, comm);
}

static void receive(void *buffer, int64_t bytes, int peer, MPI_Comm comm)
{
    mpi.Recv(buffer, (int)bytes, MPI_BYTE, peer, TAG, comm, MPI_STATUS_IGNORE);
}

/* The other rank of the two. */
static void answer(void *buffer, MPI_Comm comm)
{
    struct command command;
    int64_t until_ns;
    int there;

    for (;;) {
        receive(&command, sizeof command, 0, comm);
        if (command.bytes == 0)
            return;
        until_ns = now_ns() + AWAY_NS;
        while (command.away && now_ns() < until_ns)
            mpi.Iprobe(0, NO_TAG, comm, &there, MPI_STATUS_IGNORE);
        for (int time = 0; time < (command.away ? 1 : TIMES); time++) {
            receive(buffer, command.bytes, 0, comm);
            send(buffer, command.away ? 1 : command.bytes, 0, comm);
        }
    }
}

/* One way of a message: half of the shortest of some round trips. */
static int64_t one_way_ns(void *buffer, int64_t bytes, MPI_Comm comm)
{
    struct command command = {bytes, 0};
    int64_t least_ns = INT64_MAX, begin_ns;

    send(&command, sizeof command, 1, comm);
    for (int time = 0; time < TIMES; time++) {
        begin_ns = now_ns();
        send(buffer, bytes, 1, comm);
        receive(buffer, bytes, 1, comm);
        begin_ns = now_ns() - begin_ns;
        least_ns = begin_ns < least_ns ? begin_ns : least_ns;
    }
    return least_ns / 2;
}

/* Whether a send waits for its receive: it never ends while the receiver is away. A first send may be slow. */
static int meets(void *buffer, int64_t bytes, MPI_Comm comm)
{
    struct command command = {bytes, 1};
    MPI_Request request;
    int64_t took_ns;
    int done = 0, early = 0;

    for (int time = 0; time < TIMES && !early; time++) {
        send(&command, sizeof command, 1, comm);
        took_ns = -now_ns();
        mpi.Isend(buffer, (int)bytes, MPI_BYTE, 1, TAG, comm, &request);
        do
            mpi.Test(&request, &done, MPI_STATUS_IGNORE);
        while (!done && took_ns + now_ns() < AT_ONCE_NS);
        early = done && took_ns + now_ns() < AWAY_NS;
        if (!done)
            mpi.Wait(&request, MPI_STATUS_IGNORE);
        receive(buffer, 1, 1, comm);
    }
    return !early;
}

/* How long a wait looks for its message between two calls of sched_yield; 0 if it calls it less than twice. */
static double yield_ns(void *buffer, MPI_Comm comm)
{
    struct command command = {1, 1};
    double least_ns = 0;

    for (int time = 0; time < TIMES; time++) {
        int64_t began_ns;
        long before;
        double every_ns;

        send(&command, sizeof command, 1, comm);
        send(buffer, 1, 1, comm);
        before = yields_so_far();
        began_ns = now_ns();
        receive(buffer, 1, 1, comm);
        if (yields_so_far() < before + 2)
            return 0;
        every_ns = (double)(now_ns() - began_ns) / (double)(yields_so_far() - before);
        least_ns = time > 0 && least_ns < every_ns ? least_ns : every_ns;
    }
    return least_ns;
}

static void ask(struct transfers *found, void *buffer, MPI_Comm comm)
{
    struct command end = {0, 0};
    int64_t until_ns = now_ns() + GIVE_UP_NS, bytes, empty_ns = one_way_ns(buffer, 1, comm), copy_ns;
    struct transfers made = {.yield_ns = yield_ns(buffer, comm)};

    for (bytes = LEAST_BYTES; bytes <= MOST_COPIED && now_ns() < until_ns; bytes *= 2)
        if (meets(buffer, bytes, comm)) {
            made.meets_from_bytes = bytes;
            break;
        }
    for (int size = 0; size < COPIED_SIZES; size++) {
        if (now_ns() >= until_ns)
            break;
        copy_ns = one_way_ns(buffer, LEAST_COPIED << size, comm) - empty_ns;
        made.copy_ns[size] = copy_ns > 0 ? copy_ns : 0;
    }
    if (now_ns() < until_ns)
        *found = made;
    send(&end, sizeof end, 1, comm);
}

void transfers_find(struct transfers *found)
{
    MPI_Comm node;
    void *buffer = calloc(1, MOST_COPIED);
    int rank = 0, ranks = 0;

    memset(found, 0, sizeof *found);
    if (mpi.Comm_split_type(MPI_COMM_WORLD, buffer ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, 0, MPI_INFO_NULL, &node) ||
        node == MPI_COMM_NULL) {
        free(buffer);
        return;
    }
    PMPI_Comm_rank(node, &rank);
    PMPI_Comm_size(node, &ranks);
    if (ranks > 1) {
        if (rank == 0)
            ask(found, buffer, node);
        else if (rank == 1)
            answer(buffer, node);
        mpi.Bcast(found, sizeof *found, MPI_BYTE, 0, node);
    }
    mpi.Comm_free(&node);
    free(buffer);
}
