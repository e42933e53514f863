/* A known list of operations of two ranks, for tests of recordings: operations [MODE]
   The mode says how it ends: by itself, "abort", "exit" (without MPI_Finalize), "kill", "exec", or goes on: "many"
   communicators, "threads", "loop" ITERATIONS MICROSECONDS, "take" (the recorder's descriptor) FILE. Prints what must
   be the same with and without a recording. */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, other;
static char out[4096], in[4096];

static void compute(double us)
{
    struct timespec now;
    double until;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    until = 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec + us;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec < until);
}

static void messages(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Message message;
    int index, done = 0, count, indices[2];

    if (rank == 0) {
        MPI_Send(out, 100, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
        MPI_Recv(in, 400, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Probe(0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(in, 100, MPI_BYTE, 0, 7, MPI_COMM_WORLD, &statuses[0]);
        MPI_Ssend(out, 4, MPI_INT, 0, 8, MPI_COMM_WORLD);
    }
    MPI_Irecv(in, 10, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, 3, MPI_DOUBLE, other, 300, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);

    MPI_Send_init(out, 16, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(in, 16, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[1]);
    for (int step = 0; step < 2; step++) {
        MPI_Startall(2, requests);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);

    MPI_Sendrecv(out, 8, MPI_BYTE, other, 2, in, 9, MPI_BYTE, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, 8, MPI_BYTE, MPI_PROC_NULL, 2, in, 9, MPI_BYTE, MPI_PROC_NULL, 2, MPI_COMM_WORLD, statuses);

    MPI_Isend(out, 5, MPI_BYTE, other, 3, MPI_COMM_WORLD, &requests[0]);
    requests[1] = MPI_REQUEST_NULL;
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    MPI_Recv(in, 5, MPI_BYTE, other, 3, MPI_COMM_WORLD, statuses);

    MPI_Irecv(in, 6, MPI_BYTE, other, 4, MPI_COMM_WORLD, &requests[0]);
    compute(1000);
    MPI_Bsend_init(out, 6, MPI_BYTE, MPI_PROC_NULL, 4, MPI_COMM_WORLD, &requests[1]);
    MPI_Request_free(&requests[1]);
    MPI_Send(out, 6, MPI_BYTE, other, 4, MPI_COMM_WORLD);
    while (!done)
        MPI_Testsome(1, requests, &done, indices, MPI_STATUSES_IGNORE);

    MPI_Isend(out, 12, MPI_BYTE, other, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Mprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &message, &statuses[0]);
    MPI_Get_count(&statuses[0], MPI_BYTE, &count);
    MPI_Mrecv(in, count, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    for (done = 0; !done;)
        MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE);
}

static void collectives(void)
{
    int counts[2] = {1, 2}, places[2] = {0, 1}, sum = 0;
    MPI_Request request;
    MPI_Comm copy, half;

    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Allreduce(MPI_IN_PLACE, in, 4, MPI_DOUBLE, MPI_SUM, copy);
    MPI_Comm_split(copy, rank, 0, &half);
    MPI_Barrier(half);
    MPI_Comm_free(&half);
    MPI_Bcast(in, 50, MPI_BYTE, 1, copy);
    MPI_Comm_free(&copy);
    MPI_Alltoall(out, 3, MPI_BYTE, in, 3, MPI_BYTE, MPI_COMM_WORLD);
    counts[0] = counts[1] = 2;
    MPI_Alltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgatherv(out, 2, MPI_BYTE, in, counts, places, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Scatter(out, 7, MPI_BYTE, in, 7, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(out, in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("sum %d\n", sum);
}

static void *talk(void *comm)
{
    int sum, one = 1;

    for (int step = 0; step < 100; step++)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, *(MPI_Comm *)comm);
    return NULL;
}

static void threads(void)
{
    pthread_t thread[2];
    MPI_Comm comms[2];

    for (int number = 0; number < 2; number++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[number]);
        pthread_create(&thread[number], NULL, talk, &comms[number]);
    }
    for (int number = 0; number < 2; number++)
        pthread_join(thread[number], NULL);
}

/* Close all descriptors of recordings, and open a file in their place; returns its descriptor. */
static int take(const char *name)
{
    char link[64], path[4096];
    int taken = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

    for (int number = 3; number < 256; number++) {
        ssize_t length;

        snprintf(link, sizeof link, "/proc/self/fd/%d", number);
        length = readlink(link, path, sizeof path - 1);
        if (length > 0 && (path[length] = 0, strstr(path, ".operations") != NULL))
            taken = dup2(taken, number);
    }
    if (write(taken, "mine", 4) != 4)
        abort();
    return taken;
}

/* Many operations of one rank, which a recording keeps. */
static void probe_often(void)
{
    MPI_Request request;

    for (int step = 0; step < 20000; step++) {
        MPI_Isend(out, 1, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "";
    int level, ranks;

    MPI_Init_thread(&count, &words, strcmp(mode, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    other = 1 - rank;
    if (strcmp(mode, "loop") == 0) {
        for (long step = 0, steps = atol(words[2]); step < steps; step++) {
            compute(atof(words[3]));
            MPI_Allreduce(out, in, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        }
        MPI_Finalize();
        return 0;
    }
    if (strcmp(mode, "take") == 0) {
        char name[4096];
        int mine;

        snprintf(name, sizeof name, "%s-%d", words[2], rank);
        mine = take(name);
        probe_often();
        MPI_Finalize();
        return write(mine, " alone", 6) != 6;
    }
    if (strcmp(mode, "many") == 0)
        for (int step = 0; step < 10; step++) {
            MPI_Comm copy;

            MPI_Comm_dup(MPI_COMM_SELF, &copy);
            MPI_Comm_free(&copy);
        }
    messages();
    collectives();
    if (strcmp(mode, "threads") == 0)
        threads();
    fflush(stdout);
    if (strcmp(mode, "abort") == 0) {
        if (rank == 0)
            MPI_Abort(MPI_COMM_WORLD, 3);
        pause();
    }
    if (strcmp(mode, "kill") == 0 && rank == 1)
        kill(getpid(), SIGKILL);
    if (strcmp(mode, "exit") == 0)
        _exit(0);
    if (strcmp(mode, "exec") == 0)
        execlp("true", "true", (char *)NULL);
    MPI_Finalize();
    return 0;
}
