/* The bulk-synchronous loop: bsp GRANULARITY_US IMBALANCE ITERATIONS. The computing phases are measured
   in CPU time. Prints the wall-clock seconds of the slowest rank and a sum that must be right. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int count, char **words)
{
    double g = atof(words[1]) * 1e-6, v = atof(words[2]), begin, spent;
    long iterations = atol(words[3]), sum = 0, one = 1;
    int rank;

    (void)count;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    srand48(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = seconds(CLOCK_MONOTONIC);
    for (long iteration = 0; iteration < iterations; iteration++) {
        double until = seconds(CLOCK_THREAD_CPUTIME_ID) + g * (1 + v * (drand48() - .5));
        long all;

        while (seconds(CLOCK_THREAD_CPUTIME_ID) < until)
            ;
        MPI_Allreduce(&one, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        sum += all;
    }
    begin = seconds(CLOCK_MONOTONIC) - begin;
    MPI_Reduce(&begin, &spent, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.4f %ld\n", spent, sum);
    MPI_Finalize();
    return 0;
}
