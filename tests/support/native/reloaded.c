/* A program that uses an MPI library which it has closed and opened again: reloaded LIBRARY TIMES [stays]. After each
   closing it keeps memory, so that the library comes to another place, but not with "stays". It looks up all that it
   uses. Each rank prints whether its sums are right. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static void *library;

static void *named(const char *name)
{
    void *found = dlsym(library, name);

    if (found == NULL)
        exit(3);
    return found;
}

int main(int argc, char **argv)
{
    int times = atoi(argv[2]), version, minor, rank, ranks, one = 1, sum = 0, right = 1;
#ifdef OPEN_MPI
    const char *names[] = {"ompi_mpi_comm_world", "ompi_mpi_int", "ompi_mpi_op_sum"};
#endif

    for (int round = 0; round < times; round++) {
        library = dlopen(argv[1], RTLD_LAZY | (round % 2 ? RTLD_GLOBAL : RTLD_LOCAL));
        ((int (*)(int *, int *))named("MPI_Get_version"))(&version, &minor);
        dlclose(library);
        for (int kept = 0; argc == 3 && kept < 40; kept++)
            mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
#ifdef OPEN_MPI
    MPI_Comm world = named(names[0]);
    MPI_Datatype type = named(names[1]);
    MPI_Op op = named(names[2]);
#else
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Datatype type = MPI_INT;
    MPI_Op op = MPI_SUM;
#endif
    ((int (*)(int *, char ***))named("MPI_Init"))(NULL, NULL);
    ((int (*)(MPI_Comm, int *))named("MPI_Comm_rank"))(world, &rank);
    ((int (*)(MPI_Comm, int *))named("MPI_Comm_size"))(world, &ranks);
    for (int round = 0; round < 50; round++) {
        ((int (*)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm))named("MPI_Allreduce"))(&one, &sum, 1, type,
                                                                                                    op, world);
        right &= sum == ranks;
    }
    printf("%d %s\n", rank, right ? "right" : "wrong");
    fflush(stdout);
    ((int (*)(void))named("MPI_Finalize"))();
    dlclose(library);
    return 0;
}
