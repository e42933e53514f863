/* Rank 0 ends MPI; rank 1 does so only after it has seen the file that rank 0 makes then, or after three seconds:
   then it fails. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, seen;

    (void)argc;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int look = 0; rank == 1 && look < 300 && access(argv[1], F_OK) != 0; look++)
        usleep(10000);
    seen = access(argv[1], F_OK) == 0;
    MPI_Finalize();
    if (rank == 0)
        fclose(fopen(argv[1], "w"));
    return !seen && rank == 1;
}
