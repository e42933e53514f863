/* A halo exchange: halo NEIGHBOURS BYTES COMPUTE_US ROUNDS [plain]. In each round a rank computes for the given
   CPU time, give or take an eighth, asking for that time again and again or, plain, without a system call; then
   it exchanges a message of so many bytes with each of its neighbours on a ring by
   Irecv, Isend and Waitall. Prints the seconds of the slowest rank, and a sum that must be right. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double processor_s(void)
{
    struct timespec used;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static volatile double value = 1;

static void work(long steps)
{
    for (long step = 0; step < steps; step++)
        value = value * 1.0000001 + 1e-9;
}

/* How many steps of work take a second of CPU time: the most of some tries. */
static double steps_per_s(void)
{
    double most = 0;

    for (int time = 0; time < 20; time++) {
        double begin_s = processor_s(), per_s;

        work(200000);
        per_s = 200000 / (processor_s() - begin_s);
        most = per_s > most ? per_s : most;
    }
    return most;
}

int main(int argc, char **argv)
{
    int neighbours = argc > 1 ? atoi(argv[1]) : 2, bytes = argc > 2 ? atoi(argv[2]) : 3000;
    double compute_s = 1e-6 * (argc > 3 ? atof(argv[3]) : 70), begin_s, took_s, longest_s;
    int rounds = argc > 4 ? atoi(argv[4]) : 1000, rank, ranks, plain = argc > 5;
    double per_s = plain ? steps_per_s() : 0;
    MPI_Request *requests = malloc(2 * (size_t)neighbours * sizeof *requests);
    char *in = calloc((size_t)neighbours, (size_t)bytes + 1), *out = calloc((size_t)neighbours, (size_t)bytes + 1);
    unsigned short state[3] = {1, 2, 3};
    long sum = 0, all = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    state[0] = (unsigned short)rank;
    MPI_Barrier(MPI_COMM_WORLD);
    begin_s = MPI_Wtime();
    for (int round = 0; round < rounds; round++) {
        double this_s = compute_s * (0.875 + 0.25 * erand48(state)), until_s = plain ? 0 : processor_s() + this_s;

        while (!plain && processor_s() < until_s)
            ;
        if (plain)
            work((long)(per_s * this_s));
        for (int number = 0; number < neighbours; number++) {
            int step = number / 2 + 1, source = (rank + (number % 2 ? step : ranks * step - step)) % ranks;

            MPI_Irecv(in + (size_t)number * (size_t)bytes, bytes, MPI_CHAR, source, number, MPI_COMM_WORLD,
                      &requests[number]);
        }
        for (int number = 0; number < neighbours; number++) {
            int step = number / 2 + 1, dest = (rank + (number % 2 ? ranks * step - step : step)) % ranks;

            memset(out + (size_t)number * (size_t)bytes, (rank + round) % 100, (size_t)bytes);
            MPI_Isend(out + (size_t)number * (size_t)bytes, bytes, MPI_CHAR, dest, number, MPI_COMM_WORLD,
                      &requests[neighbours + number]);
        }
        MPI_Waitall(2 * neighbours, requests, MPI_STATUSES_IGNORE);
        for (int number = 0; number < neighbours; number++) {
            int step = number / 2 + 1, source = (rank + (number % 2 ? step : ranks * step - step)) % ranks;

            sum += in[(size_t)number * (size_t)bytes + (size_t)bytes - 1] == (source + round) % 100;
        }
    }
    took_s = MPI_Wtime() - begin_s;
    MPI_Reduce(&took_s, &longest_s, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&sum, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.4f %s\n", longest_s, all == (long)ranks * rounds * neighbours ? "right" : "wrong");
    MPI_Finalize();
    return 0;
}
