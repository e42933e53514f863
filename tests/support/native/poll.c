/* A ping-pong of two ranks that wait in loops of their own: poll ROUNDS COMPUTE_NS. Rank 1 polls with MPI_Iprobe, rank 0
   with MPI_Test, and computes so long after each. Prints the number of the last message. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void compute(long ns)
{
    long until = now_ns() + ns;

    while (ns > 0 && now_ns() < until)
        ;
}

int main(int count, char **words)
{
    long rounds = atol(words[1]), compute_ns = atol(words[2]), sent, came = -1;
    int rank, done;
    MPI_Request request;

    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long round = 0; round < rounds; round++) {
        sent = round;
        if (rank == 0) {
            MPI_Send(&sent, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
            MPI_Irecv(&came, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD, &request);
            for (done = 0; !done; compute(compute_ns))
                MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            for (done = 0; !done; compute(compute_ns))
                MPI_Iprobe(0, 0, MPI_COMM_WORLD, &done, MPI_STATUS_IGNORE);
            MPI_Recv(&came, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&came, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD);
        }
    }
    if (rank == 0)
        printf("%ld\n", came);
    MPI_Finalize();
    return 0;
}
