/* Arguments that MPI ignores, with wrong values; errors that the program handles itself; neighbours that are the same
   rank; waits for persistent requests. Prints what came, sorted by rank, so that two runs can be compared. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, ranks;
static char out[1 << 14];

#define SAY(...) sprintf(out + strlen(out), __VA_ARGS__)

static void numbers(const char *what, const int *from, int count)
{
    SAY("%s:", what);
    for (int at = 0; at < count; at++)
        SAY(" %d", from[at]);
    SAY("\n");
}

/* `wrong` stands where MPI does not look. */
static void ignored(MPI_Datatype wrong)
{
    int all[16], own = 10 + rank, root = ranks - 1, at = rank == root;
    MPI_Request request;

    for (int number = 0; number < 16; number++)
        all[number] = 100 * rank + number;
    MPI_Scatter(at ? all : NULL, at ? 1 : -5, at ? MPI_INT : wrong, at ? MPI_IN_PLACE : &own, 1, at ? wrong : MPI_INT,
                root, MPI_COMM_WORLD);
    numbers("scatter", &own, 1);
    MPI_Iscatter(all, 1, at ? MPI_INT : wrong, &own, 1, MPI_INT, root, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    numbers("started scatter", &own, 1);
    MPI_Gather(at ? MPI_IN_PLACE : &own, 1, at ? wrong : MPI_INT, at ? all : NULL, 1, at ? MPI_INT : wrong, root,
               MPI_COMM_WORLD);
    numbers("gather", all, ranks);
    all[rank] = rank + 7;
    MPI_Allgather(MPI_IN_PLACE, -1, wrong, all, 1, MPI_INT, MPI_COMM_WORLD);
    numbers("allgather", all, ranks);
    MPI_Alltoall(MPI_IN_PLACE, 1, wrong, all, 1, MPI_INT, MPI_COMM_WORLD);
    numbers("alltoall", all, ranks);
}

static void handler(MPI_Comm *comm, int *error, ...)
{
    int class;

    (void)comm;
    MPI_Error_class(*error, &class);
    SAY("handler: class %d\n", class);
}

static void errors(void)
{
    int word = 0, error, class;
    MPI_Comm comm;
    MPI_Errhandler own;
    MPI_Request request = MPI_REQUEST_NULL;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handler, &own);
    for (int handled = 0; handled < 2; handled++) {
        MPI_Comm_set_errhandler(comm, handled ? own : MPI_ERRORS_RETURN);
        error = MPI_Isend(&word, 1, MPI_DATATYPE_NULL, rank, 0, comm, &request);
        MPI_Error_class(error, &class);
        SAY("isend: class %d\n", class);
        error = MPI_Bcast(&word, 1, MPI_DATATYPE_NULL, 0, comm);
        MPI_Error_class(error, &class);
        SAY("bcast: class %d\n", class);
    }
    MPI_Errhandler_free(&own);
    MPI_Comm_free(&comm);
}

static void neighbours(int columns)
{
    int side[2] = {ranks / columns, columns}, periodic[2] = {1, 1}, to[4], from[4], one[4] = {1, 1, 1, 1};
    int places[4] = {0, 1, 2, 3}, own;
    MPI_Aint bytes[4] = {0, 4, 8, 12};
    MPI_Datatype types[4] = {MPI_INT, MPI_INT, MPI_INT, MPI_INT};
    MPI_Comm grid;

    MPI_Cart_create(MPI_COMM_WORLD, 2, side, periodic, 0, &grid);
    if (grid == MPI_COMM_NULL)
        return;
    MPI_Comm_rank(grid, &own);
    for (int edge = 0; edge < 4; edge++)
        to[edge] = 10 * own + edge;
    MPI_Neighbor_alltoall(to, 1, MPI_INT, from, 1, MPI_INT, grid);
    numbers("neighbours", from, 4);
    MPI_Neighbor_alltoallv(to, one, places, MPI_INT, from, one, places, MPI_INT, grid);
    numbers("neighbours, v", from, 4);
    MPI_Neighbor_alltoallw(to, one, bytes, types, from, one, bytes, types, grid);
    numbers("neighbours, w", from, 4);
    MPI_Comm_free(&grid);
}

#if MPI_VERSION >= 4
static void persistent(void)
{
    int in[2] = {0, 0}, parts[2] = {rank, 5}, word = 0, came = 0, given = 0, sum = 0;
    MPI_Request requests[5];
    MPI_Status statuses[5];

    MPI_Recv_init(&came, 1, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Allreduce_init(&given, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Send_init(&word, 1, MPI_INT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Precv_init(in, 2, 1, MPI_INT, (rank + 1) % ranks, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[3]);
    MPI_Psend_init(parts, 2, 1, MPI_INT, (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[4]);
    for (int round = 0; round < 3; round++) {
        word = given = rank + round;
        MPI_Startall(5, requests);
        MPI_Pready_range(0, 1, requests[4]);
        MPI_Waitall(5, requests, statuses);
        SAY("persistent: %d %d from %d, %d\n", came, sum, statuses[0].MPI_SOURCE, in[0]);
    }
    for (int number = 0; number < 5; number++)
        MPI_Request_free(&requests[number]);
}
#endif

int main(int count, char **words)
{
    MPI_Datatype garbage;
    int mpich = count > 1;

    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(&garbage, 0x5a, sizeof garbage);
    ignored(MPI_DATATYPE_NULL);
    if (mpich)
        ignored(garbage);
    errors();
    neighbours(1);
    neighbours(ranks);
#if MPI_VERSION >= 4
    persistent();
#endif
    for (int turn = 0; turn < ranks; turn++) {
        if (turn == rank && rank > 0)
            MPI_Send(out, (int)sizeof out, MPI_CHAR, 0, 9, MPI_COMM_WORLD);
        if (rank == 0) {
            if (turn > 0)
                MPI_Recv(out, (int)sizeof out, MPI_CHAR, turn, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            printf("rank %d\n%s", turn, out);
        }
    }
    return MPI_Finalize();
}
