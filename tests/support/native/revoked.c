/* A barrier of all ranks, 10 of a copy of their communicator, and 10 of another copy that is said to be revoked. */
#include <mpi.h>

static MPI_Comm gone = MPI_COMM_NULL;

int MPIX_Comm_is_revoked(MPI_Comm comm, int *flag) /* in place of the MPI's, which may have none */
{
    *flag = comm == gone;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    MPI_Comm comm, copy;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Barrier(MPI_COMM_WORLD);
    gone = copy;
    for (int round = 0; round < 10; round++) {
        MPI_Barrier(comm);
        MPI_Barrier(copy);
    }
    MPI_Comm_free(&comm);
    MPI_Comm_free(&copy);
    MPI_Finalize();
    return 0;
}
