/* A program without MPI that opens a module (registered MODULE), and that module (-DMODULE), which is bound to an MPI: it
   gives the program a function in its constructor, so nobody looks for a name in it. The function calls MPI. */
#include <dlfcn.h>
#include <stdio.h>
#ifdef MODULE
#include <mpi.h>

extern void (*work)(void);

static void sum_up(void)
{
    int rank, ranks, one = 1, sum;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int round = 0; round < 50; round++)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%d %s\n", rank, sum == ranks ? "right" : "wrong");
    fflush(stdout);
    MPI_Finalize();
}

__attribute__((constructor)) static void give(void)
{
    work = sum_up;
}
#else
void (*work)(void);

int main(int argc, char **argv)
{
    if (argc < 2 || dlopen(argv[1], RTLD_NOW) == NULL)
        return 1;
    work();
    return 0;
}
#endif
