/* Calls of MPI 4: messages in partitions, whose receiver polls or waits; persistent collective operations; exchanges
   that are started; communicators that are duplicated meanwhile; statuses of requests. newer ROUNDS. For 2 or more
   ranks. Prints the number of wrong results of all ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define PARTS 4
#define ITEMS 2048

static int rank, ranks, next, before;
static long rounds, wrong;

static void partitions(int polls)
{
    static double out[PARTS * ITEMS], in[PARTS * ITEMS];
    MPI_Request requests[2];
    int list[2] = {0, 2}, there;

    MPI_Psend_init(out, PARTS, ITEMS, MPI_DOUBLE, next, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, PARTS, ITEMS, MPI_DOUBLE, before, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (long round = 0; round < rounds; round++) {
        MPI_Startall(2, requests);
        for (int item = 0; item < PARTS * ITEMS; item++)
            out[item] = (double)(round * ranks + rank + item);
        MPI_Pready(3, requests[0]);
        MPI_Pready_range(1, 1, requests[0]);
        MPI_Pready_list(2, list, requests[0]);
        /* Of two neighbours one polls and one waits. */
        for (int part = 0; polls && rank % 2 && part < PARTS; part++)
            do
                MPI_Parrived(requests[1], part, &there);
            while (!there);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        for (int item = 0; item < PARTS * ITEMS; item++)
            wrong += in[item] != (double)(round * ranks + before + item);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void collectives(void)
{
    MPI_Comm grid;
    MPI_Request requests[3];
    long give = 0, sum = 0, root = 0, beside[2] = {0, 0};
    int periods[1] = {1};

    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, periods, 0, &grid);
    MPI_Allreduce_init(&give, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Bcast_init(&root, 1, MPI_LONG, ranks - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Neighbor_allgather_init(&give, 1, MPI_LONG, beside, 1, MPI_LONG, grid, MPI_INFO_NULL, &requests[2]);
    for (long round = 0; round < rounds; round++) {
        give = round * (rank + 1);
        root = rank == ranks - 1 ? round : -1;
        for (int number = 0; number < 3; number++)
            MPI_Start(&requests[number]);
        for (int number = 0; number < 3; number++)
            MPI_Wait(&requests[number], MPI_STATUS_IGNORE);
        wrong += sum != round * ranks * (ranks + 1) / 2 || root != round;
        wrong += beside[0] != round * (before + 1) || beside[1] != round * (next + 1);
    }
    for (int number = 0; number < 3; number++)
        MPI_Request_free(&requests[number]);
    MPI_Comm_free(&grid);
}

static void exchanges(void)
{
    for (long round = 0; round < rounds; round++) {
        long out = round + rank, in = -1, both = round + rank;
        MPI_Request request;
        MPI_Status status;
        MPI_Comm copy;
        int there = 0;

        MPI_Isendrecv(&out, 1, MPI_LONG, next, 1, &in, 1, MPI_LONG, before, 1, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, &status);
        wrong += in != round + before;
        MPI_Isendrecv_replace(&both, 1, MPI_LONG, before, 2, next, 2, MPI_COMM_WORLD, &request);
        while (!there)
            MPI_Request_get_status(request, &there, &status);
        MPI_Wait(&request, &status);
        wrong += both != round + next;
        if (round % 10 == 0) {
            MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Bcast(&both, 1, MPI_LONG, 0, copy);
            wrong += both != round + 1;
            MPI_Comm_free(&copy);
        }
    }
}

int main(int count, char **words)
{
    long all = 0;

    MPI_Init(&count, &words);
    rounds = atol(words[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    partitions(0);
    partitions(1);
    collectives();
    exchanges();
    MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%ld\n", all);
    MPI_Finalize();
    return 0;
}
