/* What the program's own MPI does with messages: from how many bytes on a send waits for its receive, how long such
 * messages take, and how often a rank that waits gives its processor away (sched_yield). A smaller one may wait until
 * the receiver is in MPI, as Open MPI's do, but not for the receive. Two ranks of a node find it out when the program
 * calls MPI_Finalize: nothing of the program's is left then, and all of its ranks come. It takes some milliseconds.
 * Where others take the processors meanwhile it takes longer, and what is not found by the end stays unknown. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "operation.h"

#define GIVE_UP_NS 300000000
#define OF_YIELDS_NS 100000000 /* so much of it at the most for the yields */
#define AWAY_NS 100000 /* for so long the receiver does not receive, but lets MPI work */
#define TIMES 5
#define CALM 3 /* so many round trips in which the sender kept its processor tell how long they take */
#define WAITED_NS (TIMES * AWAY_NS / 2) /* so much CPU time in waits tells whether they yield, ... */
#define YIELDED 100 /* ... and so do so many yields, ... */
#define FEW_YIELDS 10 /* ... and at the end so many */
#define LEAST_BYTES 1024 /* for which it is tried whether a send waits */

enum { TAG, COMMANDS, NO_TAG /* of no message */ };
enum { END, COME_LATE, SEND_LATE, RETURN };

struct command {
    int64_t what, bytes;
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

static void tell(int what, int64_t bytes, MPI_Comm comm)
{
    struct command command = {what, bytes};

    mpi.Send(&command, sizeof command, MPI_BYTE, 1, COMMANDS, comm);
}

static struct command told(MPI_Comm comm)
{
    struct command command = {END, 0};

    mpi.Recv(&command, sizeof command, MPI_BYTE, 0, COMMANDS, comm, MPI_STATUS_IGNORE);
    return command;
}

/* The other rank of the two. */
static void answer(void *buffer, MPI_Comm comm)
{
    struct command command;
    char word = 0;

    while ((command = told(comm)).what != END) {
        int64_t until_ns = now_ns() + AWAY_NS;
        int there;

        while (command.what != RETURN && now_ns() < until_ns)
            mpi.Iprobe(0, NO_TAG, comm, &there, MPI_STATUS_IGNORE);
        if (command.what != RETURN)
            send(&word, 1, 0, comm);
        if (command.what == COME_LATE) {
            told(comm); /* the sender has looked whether its send has ended */
            receive(buffer, command.bytes, 0, comm);
        }
        for (int time = 0; command.what == RETURN && time < TIMES; time++) {
            receive(buffer, command.bytes, 0, comm);
            send(buffer, command.bytes, 0, comm);
        }
    }
}

static long switches(void)
{
    struct rusage used = {0};

    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nvcsw + used.ru_nivcsw;
}

/* One way of a message: half of the shortest round trip, of at least CALM in which this rank kept its processor; 0 if
   there are none until then. */
static int64_t one_way_ns(void *buffer, int64_t bytes, MPI_Comm comm, int64_t until_ns)
{
    int64_t least_ns = INT64_MAX;
    int calm = 0;

    while (calm < CALM) {
        if (now_ns() >= until_ns)
            return 0;
        tell(RETURN, bytes, comm);
        for (int time = 0; time < TIMES; time++) {
            long before = switches();
            int64_t took_ns = -now_ns();

            send(buffer, bytes, 1, comm);
            receive(buffer, bytes, 1, comm);
            took_ns += now_ns();
            least_ns = took_ns < least_ns ? took_ns : least_ns;
            calm += switches() == before;
        }
    }
    return least_ns / 2;
}

/* Whether a send waits for its receive: it has not ended when the receiver, which has not received, has let MPI work
   for a while and says so. A first send may be slow. */
static int meets(void *buffer, int64_t bytes, MPI_Comm comm)
{
    int done = 0;

    for (int time = 0; time < TIMES && !done; time++) {
        MPI_Request request;
        char word;

        mpi.Isend(buffer, (int)bytes, MPI_BYTE, 1, TAG, comm, &request);
        tell(COME_LATE, bytes, comm);
        receive(&word, 1, 1, comm);
        for (int look = 0; look < TIMES && !done; look++)
            mpi.Test(&request, &done, MPI_STATUS_IGNORE);
        tell(COME_LATE, 0, comm);
        if (!done)
            mpi.Wait(&request, MPI_STATUS_IGNORE);
    }
    return !done;
}

/* How much CPU time a wait takes between two calls of sched_yield; NO_YIELDS if it makes less than one in
   AWAY_NS, 0 if that is not known until then. */
static double yield_interval_ns(MPI_Comm comm, int64_t until_ns)
{
    int64_t waited_ns = 0;
    long yields = 0;

    for (int time = 0; time < TIMES || (waited_ns < WAITED_NS && yields < YIELDED); time++) {
        char word;

        if (now_ns() >= until_ns)
            break;
        tell(SEND_LATE, 1, comm);
        waited_ns -= thread_ns();
        yields -= yields_so_far();
        receive(&word, 1, 1, comm);
        yields += yields_so_far();
        waited_ns += thread_ns();
    }
    if (waited_ns < WAITED_NS && yields < FEW_YIELDS)
        return 0;
    return yields * AWAY_NS > waited_ns ? (double)waited_ns / (double)yields : NO_YIELDS;
}

static void copies(struct transfers *found, void *buffer, MPI_Comm comm, int64_t until_ns)
{
    int64_t empty_ns = one_way_ns(buffer, 1, comm, until_ns);
    double copy_ns[COPIED_SIZES];

    for (int size = 0; size < COPIED_SIZES; size++) {
        int64_t took_ns = one_way_ns(buffer, LEAST_COPIED << size, comm, until_ns);

        if (empty_ns == 0 || took_ns == 0)
            return;
        copy_ns[size] = took_ns > empty_ns ? (double)(took_ns - empty_ns) : 1;
    }
    memcpy(found->copy_ns, copy_ns, sizeof copy_ns);
}

static void ask(struct transfers *found, void *buffer, MPI_Comm comm)
{
    int64_t begin_ns = now_ns(), until_ns = begin_ns + GIVE_UP_NS;

    found->yield_interval_ns = yield_interval_ns(comm, begin_ns + OF_YIELDS_NS);
    for (int64_t bytes = LEAST_BYTES; bytes <= MOST_COPIED && now_ns() < until_ns; bytes *= 2)
        if (meets(buffer, bytes, comm)) {
            found->meets_from_bytes = bytes;
            break;
        }
    copies(found, buffer, comm, until_ns);
    tell(END, 0, comm);
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
