/* Ranks of which one is late: latecomer ROUNDS LATE_US [dies]. Rank 2 comes so much later than the others to 9 of 10
   Allreduces; with 0 nobody is late. Ten Barriers follow, to which rank 1 comes late, a row of messages from
   rank 1 to rank 0, which are as late, and go by any call that receives, and ten Ibcasts of rank 1, for which the
   others wait in Waitsome. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void be_late(long us)
{
    if (us > 0)
        usleep((useconds_t)us);
}

static void broadcast(void)
{
    MPI_Request request;
    int done, place;
    double word = 0;

    MPI_Ibcast(&word, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD, &request);
    MPI_Waitsome(1, &request, &done, &place, MPI_STATUSES_IGNORE);
}

static void receive(int way)
{
    MPI_Request request;
    MPI_Status status;
    double word;

    if (way == 0)
        MPI_Recv(&word, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (way == 1) {
        MPI_Probe(1, 0, MPI_COMM_WORLD, &status);
        MPI_Recv(&word, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, &status);
    } else {
        MPI_Irecv(&word, 1, MPI_DOUBLE, way == 2 ? 1 : MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &request);
        if (way == 2)
            MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
        else
            MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

int main(int count, char **words)
{
    long rounds = atol(words[1]), late_us = atol(words[2]);
    double word = 0, sum;
    int rank;

    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long round = 0; round < rounds; round++) {
        if (rank == 2 && round % 10)
            be_late(late_us);
        MPI_Allreduce(&word, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    for (int round = 0; round < 10; round++) {
        if (rank == 1)
            be_late(late_us);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int way = 0; way < 40; way++) {
        if (rank == 1) {
            be_late(late_us);
            MPI_Send(&word, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
        } else if (rank == 0)
            receive(way % 4);
    }
    for (int round = 0; round < 10; round++) {
        if (rank == 1)
            be_late(late_us);
        broadcast();
    }
    if (count > 3 && strcmp(words[3], "dies") == 0 && rank == 3)
        raise(SIGKILL);
    MPI_Finalize();
    return 0;
}
