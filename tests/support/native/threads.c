/* Several threads of each rank wait in MPI at the same time: threads THREADS ROUNDS COMPUTE_US. Each has a
   communicator of its own, on which it computes, adds up, exchanges with both neighbours and enters a barrier, and
   every tenth round sends a large message around. The threads of a rank also pass a message on among themselves.
   Rank 0 prints the number of wrong
   results, and the seconds. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST 16
#define LARGE 40000

static int rank, ranks, threads;
static long rounds, compute_us, wrong[MOST];
static MPI_Comm comms[MOST], within;

static void compute(void)
{
    struct timespec now;
    long until_ns;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    until_ns = now.tv_sec * 1000000000L + now.tv_nsec + compute_us * 1000;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (now.tv_sec * 1000000000L + now.tv_nsec < until_ns);
}

static void *talk(void *which)
{
    int own = (int)(long)which, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    int *sent = malloc(LARGE * sizeof *sent), *came = malloc(LARGE * sizeof *came);
    MPI_Comm comm = comms[own];

    for (long round = 0; round < rounds; round++) {
        long give = round * (rank + 1), sum = 0, ends[2] = {give + own, give + own}, got[2];
        MPI_Request requests[4];
        int items = round % 10 == 9 ? LARGE : 1;

        compute();
        MPI_Allreduce(&give, &sum, 1, MPI_LONG, MPI_SUM, comm);
        wrong[own] += sum != round * ranks * (ranks + 1) / 2;
        MPI_Irecv(&got[0], 1, MPI_LONG, before, 1, comm, &requests[0]);
        MPI_Irecv(&got[1], 1, MPI_LONG, next, 2, comm, &requests[1]);
        MPI_Isend(&ends[0], 1, MPI_LONG, next, 1, comm, &requests[2]);
        MPI_Isend(&ends[1], 1, MPI_LONG, before, 2, comm, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        wrong[own] += got[0] != round * (before + 1) + own || got[1] != round * (next + 1) + own;
        for (int item = 0; item < items; item++)
            sent[item] = (int)round + item + rank;
        MPI_Sendrecv(sent, items, MPI_INT, next, 3, came, items, MPI_INT, before, 3, comm, MPI_STATUS_IGNORE);
        for (int item = 0; item < items; item++)
            wrong[own] += came[item] != (int)round + item + before;
        if (own + 1 < threads)
            MPI_Send(&give, 1, MPI_LONG, 0, own + 1, within);
        if (own > 0) {
            MPI_Recv(got, 1, MPI_LONG, 0, own, within, MPI_STATUS_IGNORE);
            wrong[own] += got[0] != give;
        }
        MPI_Barrier(comm);
    }
    free(sent);
    free(came);
    return NULL;
}

int main(int count, char **words)
{
    int level;
    long found = 0, all = 0;
    double begin;
    pthread_t made[MOST];

    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &level);
    threads = atoi(words[1]);
    rounds = atol(words[2]);
    compute_us = atol(words[3]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_SELF, &within);
    for (int number = 0; number < threads; number++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[number]);
    begin = MPI_Wtime();
    for (int number = 1; number < threads; number++)
        pthread_create(&made[number], NULL, talk, (void *)(long)number);
    talk((void *)0L);
    for (int number = 1; number < threads; number++)
        pthread_join(made[number], NULL);
    begin = MPI_Wtime() - begin;
    for (int number = 0; number < threads; number++)
        found += wrong[number];
    MPI_Reduce(&found, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%ld %.3f\n", all, begin);
    MPI_Finalize();
    return level != MPI_THREAD_MULTIPLE;
}
