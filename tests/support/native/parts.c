/* Rank 0 sends a message with gaps of so many megabytes to rank 1, which comes later: MPI passes it on in many parts.
   With a second argument rank 0 first waits for many others. Prints the milliseconds from then on until rank 1 has
   it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    int rank, count, wrong = 0, other = 0;
    MPI_Request large, small;
    struct timespec late = {0, 50000000};
    MPI_Datatype gaps;
    double *values, begin;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    count = atoi(argv[1]) * (1000000 / (int)sizeof *values);
    values = calloc(2 * (size_t)count, sizeof *values);
    for (int number = 0; number < count && rank == 0; number++)
        values[2 * number] = number;
    MPI_Type_vector(count, 1, 2, MPI_DOUBLE, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && argc > 2) {
        MPI_Isend(values, 1, gaps, 1, 0, MPI_COMM_WORLD, &large);
        for (int number = 0; number < 20; number++) {
            MPI_Irecv(&other, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &small);
            MPI_Wait(&small, MPI_STATUS_IGNORE);
        }
        MPI_Wait(&large, MPI_STATUS_IGNORE);
    } else if (rank == 0) {
        MPI_Send(values, 1, gaps, 1, 0, MPI_COMM_WORLD);
    } else {
        for (int number = 0; number < 20 && argc > 2; number++)
            MPI_Send(&other, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        nanosleep(&late, NULL);
        begin = MPI_Wtime();
        MPI_Recv(values, 1, gaps, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("%.0f\n", 1e3 * (MPI_Wtime() - begin));
        for (int number = 0; number < count; number++)
            wrong |= values[2 * number] != number || values[2 * number + 1] != 0;
    }
    MPI_Finalize();
    return wrong;
}
