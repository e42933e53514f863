/* The threads of each rank share pieces of work and meet in a barrier after each; after PIECES the ranks add up:
   hybrid ROUNDS PIECES WORK_US [FILE]. In FILE-RANK each thread counts its pieces. With -DALONE it is a program
   without MPI. Rank 0 prints the number of pieces of all threads, and on how many processors each of its own may run. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#ifndef ALONE
#include <mpi.h>
#endif

#define MOST 64

static long spare[MOST], *counts = spare;

static void compute(long work_us)
{
    struct timespec now;
    long until_ns;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    until_ns = now.tv_sec * 1000000000L + now.tv_nsec + work_us * 1000;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (now.tv_sec * 1000000000L + now.tv_nsec < until_ns);
}

static void share(const char *name, int rank)
{
    char path[4096];
    int file;

    snprintf(path, sizeof path, "%s-%d", name, rank);
    file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof spare))
        exit(1);
    counts = mmap(NULL, sizeof spare, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

int main(int count, char **words)
{
    long rounds = atol(words[1]), pieces = atol(words[2]), work_us = atol(words[3]), own = 0, all = 0;
    int rank = 0, processors[MOST] = {0};

#ifndef ALONE
    int level;
    MPI_Init_thread(&count, &words, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#endif
    if (count > 4)
        share(words[4], rank);
    for (long round = 0; round < rounds; round++) {
#pragma omp parallel
        for (long piece = 0; piece < pieces; piece++) {
            compute(work_us / omp_get_num_threads());
            counts[omp_get_thread_num()]++;
#pragma omp barrier
        }
        own = 0;
        for (int thread = 0; thread < MOST; thread++)
            own += counts[thread];
#ifdef ALONE
        all = own;
#else
        MPI_Allreduce(&own, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
#endif
    }
#pragma omp parallel
    {
        cpu_set_t mask;
        if (sched_getaffinity(0, sizeof mask, &mask) == 0)
            processors[omp_get_thread_num()] = CPU_COUNT(&mask);
    }
    if (rank == 0) {
        printf("%ld", all);
        for (int thread = 0; thread < MOST && processors[thread]; thread++)
            printf(" %d", processors[thread]);
        printf("\n");
    }
#ifndef ALONE
    MPI_Finalize();
#endif
    return 0;
}
