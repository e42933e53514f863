/* A tool that counts a program's calls, as profilers do; TOOL is its name. With -DNEXT it calls the MPI_X of the
   next tool, where there is one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

static int barriers, sums;

#ifdef NEXT
#define BEHIND(name) ((__typeof__(MPI_##name) *)dlsym(RTLD_NEXT, "MPI_" #name))
#else
#define BEHIND(name) PMPI_##name
#endif

int MPI_Barrier(MPI_Comm comm)
{
    barriers++;
    return BEHIND(Barrier)(comm);
}

int MPI_Allreduce(const void *sent, void *received, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    sums++;
    return BEHIND(Allreduce)(sent, received, count, datatype, op, comm);
}

int MPI_Finalize(void)
{
    printf("%s: %d barriers, %d sums\n", TOOL, barriers, sums);
    fflush(stdout);
    return BEHIND(Finalize)();
}
