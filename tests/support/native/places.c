/* Ranks that wait for ever in functions of their own: where they are is known by name. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OWN __attribute__((noinline)) static

OWN void *other(void *ignored)
{
    for (;;)
        pause();
    return ignored;
}

OWN void combine(void *in, void *inout, int *length, MPI_Datatype *type)
{
    printf("begun\n");
    fflush(stdout);
    for (;;)
        sleep(1000); /* in an operation */
}

OWN int exchange(void)
{
    char byte;

    MPI_Recv(&byte, 1, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return byte;
}

OWN int step(void)
{
    return exchange() + 1;
}

int main(int argc, char **argv)
{
    int one = 1, sum;
    pthread_t thread;
    MPI_Op op;

    MPI_Init(&argc, &argv);
    pthread_create(&thread, NULL, other, NULL);
    if (strcmp(argv[1], "operation") == 0) {
        MPI_Op_create(combine, 1, &op);
        MPI_Reduce_local(&one, &sum, 1, MPI_INT, op);
    }
    printf("begun\n");
    fflush(stdout);
    sum = step();
    MPI_Finalize();
    return sum;
}
