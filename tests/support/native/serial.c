/* A serial program that is built with stub.c, or, with -DWEAK, asks whether it has an MPI. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#ifdef WEAK
#define OPTIONAL __attribute__((weak))
#else
#define OPTIONAL
#endif

OPTIONAL int MPI_Init(int *argc, char ***argv);
OPTIONAL int MPI_Comm_size(long comm, int *size);
OPTIONAL int MPI_Bcast(double *buffer, long count);
OPTIONAL int MPI_Finalize(void);

int main(int argc, char **argv)
{
    double value = 40;
    int size = 0;

#ifdef WEAK
    printf("%d %d %d %d\n", MPI_Init != 0, MPI_Bcast != 0, dlsym(RTLD_DEFAULT, "MPI_Barrier") != 0,
           dlsym(RTLD_DEFAULT, "PMPI_Init") != 0);
    if (!MPI_Init)
        return 0;
#endif
    MPI_Init(&argc, &argv);
    MPI_Comm_size(77, &size);
    MPI_Bcast(&value, 2);
    MPI_Finalize();
    printf("%d %g\n", size, value);
    return 0;
}
