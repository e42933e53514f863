/* round_trips messages|sums N: N messages of 8 bytes to and fro, or N sums that follow 100 us of computation each.
   Rank 0 of two prints the seconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void to_and_fro(int rank, int count)
{
    long value = 0;

    for (int number = 0; number < count; number++) {
        if (rank == 0)
            MPI_Send(&value, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(&value, 8, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(&value, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

static void sums(int count)
{
    double one = 1.0, sum;

    for (int number = 0; number < count; number++) {
        double until = MPI_Wtime() + 100e-6;

        while (MPI_Wtime() < until)
            ;
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank;
    double begin;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    if (strcmp(argv[1], "messages") == 0)
        to_and_fro(rank, atoi(argv[2]));
    else
        sums(atoi(argv[2]));
    if (rank == 0)
        printf("%.6f\n", MPI_Wtime() - begin);
    MPI_Finalize();
    return 0;
}
