/* Duplicates MPI_COMM_WORLD in groups of seven at a time, which takes many steps of all ranks. Prints the milliseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    enum { GROUP = 7 };
    int rank, groups;
    MPI_Comm made[GROUP];
    MPI_Request requests[GROUP];
    double begin;

    MPI_Init(&argc, &argv);
    groups = atoi(argv[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (int group = 0; group < groups; group++) {
        for (int number = 0; number < GROUP; number++)
            MPI_Comm_idup(MPI_COMM_WORLD, &made[number], &requests[number]);
        MPI_Waitall(GROUP, requests, MPI_STATUSES_IGNORE);
        for (int number = 0; number < GROUP; number++)
            MPI_Comm_free(&made[number]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.0f\n", 1e3 * (MPI_Wtime() - begin));
    MPI_Finalize();
    return 0;
}
