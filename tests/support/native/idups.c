/* Starts to duplicate MPI_COMM_WORLD five times, makes other communicators of it meanwhile, and adds up all ranks in
   each. Prints how many sums are wrong. */
#include <mpi.h>
#include <stdio.h>

#define COPIES 5

static int wrong_sum(MPI_Comm comm, int expected)
{
    int one = 1, sum = 0;

    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    return sum != expected;
}

int main(int argc, char **argv)
{
    int rank, ranks, wrong = 0;
    MPI_Comm copies[COPIES], made;
    MPI_Request requests[COPIES];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int number = 0; number < COPIES; number++)
        MPI_Comm_idup(MPI_COMM_WORLD, &copies[number], &requests[number]);
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    wrong += wrong_sum(made, ranks);
    MPI_Comm_free(&made);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &made);
    wrong += wrong_sum(made, (ranks + (rank + 1) % 2) / 2);
    MPI_Comm_free(&made);
    wrong += wrong_sum(MPI_COMM_WORLD, ranks);
    MPI_Waitall(COPIES, requests, MPI_STATUSES_IGNORE);
    for (int number = 0; number < COPIES; number++) {
        wrong += wrong_sum(copies[number], ranks);
        MPI_Comm_free(&copies[number]);
    }
    MPI_Reduce(rank ? &wrong : MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d\n", wrong);
    MPI_Finalize();
    return 0;
}
