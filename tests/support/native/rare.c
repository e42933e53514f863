/* Wrong and rare uses of MPI. Prints every status, error and buffer, so that two runs can be compared
   line by line; nothing in the output depends on time. For 2 or more ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, next, before;
static char out[1 << 16];

#define SAY(...) sprintf(out + strlen(out), __VA_ARGS__)

static void status_of(const char *what, const MPI_Status *status)
{
    int count, cancelled;

    MPI_Get_count(status, MPI_INT, &count);
    MPI_Test_cancelled(status, &cancelled);
    SAY("%s: source %d tag %d count %d cancelled %d\n", what, status->MPI_SOURCE, status->MPI_TAG, count, cancelled);
}

static void error_of(const char *what, int error)
{
    int class = MPI_SUCCESS;

    if (error)
        MPI_Error_class(error, &class);
    SAY("%s: error class %d\n", what, class);
}

static void handler(MPI_Comm *comm, int *error, ...)
{
    int class;

    (void)comm;
    MPI_Error_class(*error, &class);
    SAY("handler: class %d\n", class);
}

static void nobody(void)
{
    int word = 7;
    MPI_Status status;

    MPI_Send(&word, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD);
    MPI_Ssend(&word, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD);
    MPI_Recv(&word, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
    status_of("receive from nobody", &status);
    MPI_Sendrecv(&word, 1, MPI_INT, MPI_PROC_NULL, 3, &word, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
    status_of("exchange with nobody", &status);
    MPI_Sendrecv_replace(&word, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
    MPI_Probe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
    status_of("probe of nobody", &status);
    SAY("word %d\n", word);
}

static void oneself(void)
{
    int sent = 10 + rank, came = 0;
    MPI_Status status;

    MPI_Sendrecv(&sent, 1, MPI_INT, rank, 4, &came, 1, MPI_INT, rank, 4, MPI_COMM_WORLD, &status);
    status_of("to oneself", &status);
    MPI_Allreduce(MPI_IN_PLACE, &came, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    SAY("self %d\n", came);
}

static void around(void)
{
    int sent[4] = {rank, rank + 1, rank + 2, rank + 3}, came[8];
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;

    memset(came, 255, sizeof came);
    MPI_Sendrecv(sent, 3, MPI_INT, next, 5, came, 8, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    status_of("around", &status);
    MPI_Sendrecv_replace(sent, 4, MPI_INT, next, 6, before, 6, MPI_COMM_WORLD, &status);
    status_of("around in place", &status);
    SAY("%d %d %d %d %d %d\n", came[0], came[2], came[3], sent[0], sent[3], came[7]);
    MPI_Isend(sent, 2, MPI_INT, next, 7, MPI_COMM_WORLD, &request);
    MPI_Probe(before, 7, MPI_COMM_WORLD, &status);
    status_of("probe", &status);
    MPI_Mprobe(before, 7, MPI_COMM_WORLD, &message, &status);
    status_of("matched probe", &status);
    MPI_Mrecv(came, 8, MPI_INT, &message, &status);
    status_of("matched receive", &status);
    SAY("message is null: %d\n", message == MPI_MESSAGE_NULL);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAY("request is null: %d\n", request == MPI_REQUEST_NULL);
    MPI_Send(sent, 0, MPI_INT, next, 8, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, before, 8, MPI_COMM_WORLD, &status);
    status_of("nothing", &status);
}

/* A datatype without bytes on one side, and no items on the other one. */
static void empty(void)
{
    int some[16], none[16], at[16] = {0}, buffer = 5;
    MPI_Datatype nothing;

    for (int number = 0; number < 16; number++)
        some[number] = 1, none[number] = 0;
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    MPI_Alltoallv(&buffer, some, at, nothing, &buffer, none, at, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoallv(&buffer, none, at, MPI_INT, &buffer, some, at, nothing, MPI_COMM_WORLD);
#ifndef OPEN_MPI /* whose own hangs */
    MPI_Bcast(&buffer, rank ? 1 : 0, rank ? nothing : MPI_INT, 0, MPI_COMM_WORLD);
#endif
    SAY("empty: %d\n", buffer);
    MPI_Type_free(&nothing);
}

static void large(void)
{
    int count = 1 << 21, wrong = 0;
    int *sent = malloc(sizeof(int) * (size_t)count), *came = malloc(sizeof(int) * (size_t)count);
    MPI_Request requests[2];
    MPI_Status statuses[2];

    for (int place = 0; place < count; place++)
        sent[place] = place ^ rank;
    MPI_Irecv(came, count, MPI_INT, before, 9, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent, count, MPI_INT, next, 9, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    status_of("large", &statuses[0]);
    for (int place = 0; place < count; place++)
        wrong += came[place] != (place ^ before);
    if (rank % 2 == 0 && rank + 1 < ranks) {
        MPI_Send(sent, count, MPI_INT, rank + 1, 10, MPI_COMM_WORLD);
    } else if (rank % 2 == 1) {
        MPI_Recv(came, count, MPI_INT, rank - 1, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int place = 0; place < count; place++)
            wrong += came[place] != (place ^ (rank - 1));
    }
    MPI_Sendrecv(sent, count, MPI_INT, next, 11, came, count, MPI_INT, before, 11, MPI_COMM_WORLD, &statuses[0]);
    MPI_Sendrecv_replace(sent, count, MPI_INT, next, 12, before, 12, MPI_COMM_WORLD, &statuses[0]);
    wrong += memcmp(sent, came, sizeof(int) * (size_t)count) != 0;
    MPI_Allreduce(MPI_IN_PLACE, came, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    SAY("large: %d wrong, %d %d\n", wrong, came[0], came[count - 1]);
    free(sent);
    free(came);
}

static void requests(void)
{
    enum { MANY = 10000 };
    static MPI_Request requests[2 * MANY];
    static int sent[MANY], came[MANY];
    int index = 5, count = 5, indices[4] = {9, 9, 9, 9}, done = 0, wrong = 0;
    MPI_Status status = {0}, statuses[4];

    for (int number = 0; number < 2 * MANY; number++)
        requests[number] = MPI_REQUEST_NULL;
    MPI_Wait(&requests[0], &status);
    status_of("null request", &status);
    MPI_Waitany(4, requests, &index, &status);
    SAY("any of none: %d\n", index == MPI_UNDEFINED);
    status_of("any of none", &status);
    MPI_Waitsome(4, requests, &count, indices, statuses);
    SAY("some of none: %d\n", count == MPI_UNDEFINED);
    MPI_Waitall(4, requests, statuses);
    status_of("all of none", &statuses[3]);
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    for (int number = 0; number < MANY; number++) {
        sent[number] = number + rank;
        MPI_Irecv(&came[number], 1, MPI_INT, before, number % 100, MPI_COMM_WORLD, &requests[number]);
    }
    for (int number = 0; number < MANY; number++)
        MPI_Isend(&sent[number], 1, MPI_INT, next, number % 100, MPI_COMM_WORLD, &requests[MANY + number]);
    MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
    for (int number = 0; number < MANY; number++)
        wrong += came[number] != number + before || requests[number] != MPI_REQUEST_NULL;
    SAY("many: %d wrong\n", wrong);
    for (int number = 0; number < 4; number++) {
        MPI_Irecv(&came[number], 1, MPI_INT, before, number, MPI_COMM_WORLD, &requests[number]);
        MPI_Isend(&sent[number], 1, MPI_INT, next, number, MPI_COMM_WORLD, &requests[4 + number]);
    }
    for (int total = 0; total < 8;) {
        MPI_Waitsome(8, requests, &count, (int[8]){0}, MPI_STATUSES_IGNORE);
        total += count;
    }
    for (int number = 0; number < 4; number++) {
        MPI_Irecv(&came[number], 1, MPI_INT, before, number, MPI_COMM_WORLD, &requests[number]);
        MPI_Send(&sent[number], 1, MPI_INT, next, number, MPI_COMM_WORLD);
    }
    for (int number = 0; number < 4; number++) {
        MPI_Waitany(4, requests, &index, &status);
        done |= 1 << index;
    }
    SAY("any: %d\n", done);
    MPI_Irecv(&came[0], 1, MPI_INT, before, 77, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &done);
    SAY("cancelled: %d\n", done);
}

static void persistent(void)
{
    int sent = rank, came = -1, total = 0, failed = 0;
    MPI_Request requests[2];
    MPI_Status statuses[2];

    MPI_Recv_init(&came, 1, MPI_INT, before, 20, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(&sent, 1, MPI_INT, next, 20, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[0], &statuses[0]);
    status_of("inactive", &statuses[0]);
    MPI_Waitall(2, requests, statuses);
    status_of("inactive, all", &statuses[1]);
    for (int round = 0; round < 50; round++) {
        sent = rank + round;
        MPI_Startall(2, requests);
        statuses[0].MPI_ERROR = statuses[1].MPI_ERROR = MPI_ERR_OTHER;
        MPI_Waitall(2, requests, statuses);
        failed += (statuses[0].MPI_ERROR != MPI_SUCCESS) + (statuses[1].MPI_ERROR != MPI_SUCCESS);
        total += came;
        MPI_Start(&requests[0]);
        MPI_Start(&requests[1]);
        MPI_Wait(&requests[0], &statuses[0]);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        total += came;
    }
    status_of("persistent", &statuses[0]);
    SAY("total %d, kept %d, failed %d\n", total, requests[0] != MPI_REQUEST_NULL, failed);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void errors(void)
{
    int words[4] = {1, 2, 3, 4}, came[4] = {0};
    MPI_Comm comm;
    MPI_Errhandler own;
    MPI_Status status = {0};
    MPI_Request requests[2];
    MPI_Status statuses[2];

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
#ifdef MPICH_VERSION /* others take what is no datatype for an address */
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN); /* the only one that returns */
    error_of("no type", MPI_Bcast(words, 1, (MPI_Datatype)0x12345, 0, comm));
    error_of("no type", MPI_Alltoallv(words, came, came, (MPI_Datatype)0x12345, came, came, came, MPI_INT, comm));
#endif
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_create_errhandler(handler, &own);
    for (int form = 0; form < 2; form++) {
        MPI_Comm_set_errhandler(comm, form ? own : MPI_ERRORS_RETURN);
        error_of("wrong rank", MPI_Send(words, 1, MPI_INT, ranks + 3, 1, comm));
        error_of("wrong tag", MPI_Send(words, 1, MPI_INT, next, -77, comm));
        error_of("wrong count", MPI_Recv(came, -1, MPI_INT, before, 1, comm, &status));
        error_of("wrong type", MPI_Bcast(words, 1, MPI_DATATYPE_NULL, 0, comm));
        error_of("wrong root", MPI_Bcast(words, 1, MPI_INT, ranks + 1, comm));
        error_of("wrong operation", MPI_Allreduce(words, came, 1, MPI_INT, MPI_OP_NULL, comm));
        error_of("wrong source", MPI_Probe(ranks + 5, 1, comm, &status));
        MPI_Isend(words, 4, MPI_INT, next, 2, comm, &requests[0]);
        error_of("too long", MPI_Recv(came, 2, MPI_INT, before, 2, comm, &status));
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Irecv(came, 2, MPI_INT, before, 3, comm, &requests[0]);
        MPI_Isend(words, 4, MPI_INT, next, 3, comm, &requests[1]);
        error_of("too long, all", MPI_Waitall(2, requests, statuses));
        error_of("its status", statuses[0].MPI_ERROR);
        /* The other one may be complete or still pending: MPICH's Waitall and Testall differ. */
        if (requests[1] != MPI_REQUEST_NULL)
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Barrier(comm);
    }
    MPI_Errhandler_free(&own);
    MPI_Comm_free(&comm);
}

static void types(void)
{
    int words[12], came[12], counts[64], places[64], gathered[256];
    MPI_Datatype every_other, resized;
    MPI_Status status;

    for (int place = 0; place < 12; place++)
        words[place] = 100 * rank + place;
    memset(came, 0, sizeof came);
    MPI_Type_vector(3, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Type_create_resized(every_other, 0, 6 * sizeof(int), &resized);
    MPI_Type_commit(&resized);
    MPI_Sendrecv(words, 2, resized, next, 30, came, 6, MPI_INT, before, 30, MPI_COMM_WORLD, &status);
    status_of("vector", &status);
    MPI_Sendrecv_replace(words, 2, resized, next, 31, before, 31, MPI_COMM_WORLD, &status);
    for (int place = 0; place < 12; place++)
        SAY("%d %d ", came[place], words[place]);
    for (int other = 0; other < ranks; other++) {
        counts[other] = other + 1;
        places[other] = 3 * other;
    }
    memset(gathered, 0, sizeof gathered);
    MPI_Allgatherv(words, rank + 1, MPI_INT, gathered, counts, places, MPI_INT, MPI_COMM_WORLD);
    for (int place = 0; place < 3 * ranks; place++)
        SAY("%d ", gathered[place]);
    MPI_Gatherv(rank ? words : MPI_IN_PLACE, rank + 1, MPI_INT, gathered, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Reduce(rank ? words : MPI_IN_PLACE, rank ? NULL : words, 4, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    SAY("%d %d\n", words[0], words[3]);
    MPI_Type_free(&every_other);
    MPI_Type_free(&resized);
}

/* Each rank of one half sends to all ranks of the other. */
static void from_each_root(MPI_Comm inter, MPI_Comm half, int sends)
{
    int me, size;

    MPI_Comm_rank(half, &me);
    if (sends)
        MPI_Comm_size(half, &size);
    else
        MPI_Comm_remote_size(inter, &size);
    for (int each = 0; each < size; each++) {
        int value = sends ? each : -1;

        if (sends && me != each)
            MPI_Bcast(NULL, 0, MPI_INT, MPI_PROC_NULL, inter);
        else
            MPI_Bcast(&value, 1, MPI_INT, sends ? MPI_ROOT : each, inter);
        SAY("between groups: %d\n", value);
    }
}

static void communicators(void)
{
    MPI_Comm half, inter, merged, cart;
    MPI_Group group;
    int size, sum, value = rank + 1, dims[1] = {0}, periods[1] = {1}, sums[2] = {-1, -1};
    MPI_Status status;

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_size(half, &size);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, half);
    SAY("half: %d %d\n", size, sum);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? (ranks - 1) / 2 * 2 : (ranks - 2) / 2 * 2 + 1, 40, &inter);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, inter);
    SAY("the others: %d\n", sum);
    MPI_Barrier(inter);
    from_each_root(inter, half, rank % 2);
    from_each_root(inter, half, rank % 2 == 0);
    if (rank < 2) {
        int sent = rank, came = -1, other;

        MPI_Comm_remote_size(inter, &other);
        MPI_Comm_size(half, &size);
        MPI_Sendrecv(&sent, 1, MPI_INT, other - 1, 41, &came, 1, MPI_INT, other - 1, 41, inter, &status);
        SAY("across: %d of %d from %d\n", came, size, status.MPI_SOURCE);
    }
    MPI_Intercomm_merge(inter, rank % 2, &merged);
    MPI_Bcast(&value, 1, MPI_INT, 0, merged);
    SAY("merged: %d\n", value);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_group(half, &group);
    MPI_Comm_free(&half);
    MPI_Comm_create(MPI_COMM_WORLD, group, &half);
    MPI_Comm_size(half, &size);
    SAY("created: %d\n", size);
    MPI_Group_free(&group);
    MPI_Comm_free(&half);
    MPI_Dims_create(ranks, 1, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &cart);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, sums, 1, MPI_INT, cart);
    SAY("neighbours: %d %d\n", sums[0], sums[1]);
    MPI_Comm_free(&cart);
    for (int round = 0; round < 40; round++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &half);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
        MPI_Comm_free(&half);
    }
    SAY("duplicates: %d\n", sum);
    for (int color = 0; color < 2; color++) {
        MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &half);
        SAY("undefined: %d\n", half == MPI_COMM_NULL);
        if (half != MPI_COMM_NULL)
            MPI_Comm_free(&half);
    }
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    nobody();
    oneself();
    around();
    empty();
    large();
    requests();
    persistent();
    types();
    communicators();
    errors();
    for (int other = 0; other < ranks; other++) {
        if (rank == other && rank != 0)
            MPI_Send(out, sizeof out, MPI_CHAR, 0, 99, MPI_COMM_WORLD);
        if (rank == 0 && other != 0)
            MPI_Recv(out, sizeof out, MPI_CHAR, other, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0)
            printf("rank %d\n%s", other, out);
    }
    MPI_Finalize();
    return 0;
}
