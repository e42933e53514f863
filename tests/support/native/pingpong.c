/* Microseconds of a round trip of 8 bytes: pingpong ROUNDS. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words)
{
    long rounds = atol(words[1]);
    double word = 0, begin;
    int rank;

    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long round = -rounds / 10; round < rounds; round++) {
        if (round == 0)
            begin = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(&word, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(&word, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(&word, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&word, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
        }
    }
    if (rank == 0)
        printf("%.3f\n", 1e6 * (MPI_Wtime() - begin) / (double)rounds);
    MPI_Finalize();
    return 0;
}
