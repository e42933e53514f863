/* Says whether Open MPI yields while it reduces, inside a wait, and after it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>

static const bool *yields;
static int inside = -1;

static void reduce(void *from, void *into, int *length, MPI_Datatype *datatype)
{
    (void)datatype;
    for (int item = 0; item < *length; item++)
        ((int *)into)[item] += ((int *)from)[item];
    inside = *yields;
}

int main(int argc, char **argv)
{
    int rank, one = 1, ranks;
    MPI_Op op;

    MPI_Init(&argc, &argv);
    yields = dlsym(RTLD_DEFAULT, "opal_progress_yield_when_idle");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Op_create(reduce, 1, &op);
    for (int round = 0; round < 20; round++)
        MPI_Allreduce(&one, &ranks, 1, MPI_INT, op, MPI_COMM_WORLD);
    if (rank == 0)
        printf("inside %d after %d of %d ranks\n", inside, *yields, ranks);
    MPI_Op_free(&op);
    MPI_Finalize();
}
