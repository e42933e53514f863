/* Ranks that wait for ever, each kind by its name: what lockstep is to find out about. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define LARGE 2000000

#define IS(name) (strcmp(kind, name) == 0)

static int rank, ranks;
static char *large;

static void each_sends(int bytes)
{
    int other = rank ^ 1;

    if (other < ranks) {
        MPI_Send(large, bytes, MPI_BYTE, other, 3, MPI_COMM_WORLD);
        MPI_Recv(large, bytes, MPI_BYTE, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void exchange(int tag_sent, int tag_received, MPI_Comm sent, MPI_Comm received)
{
    if (rank == 0)
        MPI_Send(large, 8, MPI_BYTE, 1, tag_sent, sent);
    if (rank == 1)
        MPI_Recv(large, 8, MPI_BYTE, 0, tag_received, received, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* By what the launcher says, before MPI does. */
static int is_last(void)
{
    const char *number = getenv("PMI_RANK"), *size = getenv("PMI_SIZE");

    if (number == NULL)
        number = getenv("OMPI_COMM_WORLD_RANK"), size = getenv("OMPI_COMM_WORLD_SIZE");
    return number != NULL && size != NULL && atoi(number) == atoi(size) - 1;
}

/* Another thread of the last rank waits for a message, too. */
static void *receive(void *ignored)
{
    char byte;

    MPI_Recv(&byte, 1, MPI_BYTE, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return ignored;
}

/* MPI_Finalize calls it. */
static int never_deleted(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    return pause();
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    int one = 1, sum, flag = 0, last, level, key;
    MPI_Comm grid, dup, half, children;
    MPI_Request requests[2];

    if (IS("init") && is_last()) {
        printf("begun\n");
        fflush(stdout);
        sleep(1000);
    }
    if (IS("child"))
        sleep(1000);
    MPI_Init_thread(&argc, &argv, IS("threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    last = ranks - 1;
    large = calloc(LARGE, 1);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_set_name(dup, "copy");
    for (int round = 0; round < 3; round++)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, dup);
    if (rank == 0)
        printf("begun\n");
    fflush(stdout);
    if (IS("large-sends"))
        each_sends(LARGE);
    else if (IS("small-sends"))
        each_sends(8);
    else if (IS("tag"))
        exchange(3, 4, MPI_COMM_WORLD, MPI_COMM_WORLD);
    else if (IS("communicator"))
        exchange(3, 3, MPI_COMM_WORLD, dup);
    else if (IS("skipped")) {
        if (rank != last)
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, dup);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (IS("other-collective")) {
        if (rank != last)
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, dup);
        else
            MPI_Barrier(dup);
        if (rank == last || rank == 0)
            pause();
    } else if (IS("orders")) {
        MPI_Barrier(rank == last ? dup : MPI_COMM_WORLD);
        MPI_Barrier(rank == last ? MPI_COMM_WORLD : dup);
    } else if (IS("loop")) {
        for (volatile long at = 0; rank == last; at++)
            ;
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (IS("read")) {
        int ends[2];

        if (rank == last && pipe(ends) == 0 && read(ends[0], &flag, 1))
            flag = 1;
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (IS("lock")) {
        FILE *mine = fopen(argv[2], "w"), *again = fopen(argv[2], "w");

        if (rank == last)
            flock(fileno(mine), LOCK_EX), flock(fileno(again), LOCK_EX);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (IS("mutex")) {
        static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

        if (rank == last)
            pthread_mutex_lock(&mutex), pthread_mutex_lock(&mutex);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (IS("waitall")) {
        MPI_Irecv(large, 8, MPI_BYTE, (rank + 1) % ranks, 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(large + 8, 8, MPI_BYTE, (rank + 1) % ranks, 6, MPI_COMM_WORLD, &requests[1]);
        MPI_Send(large, 8, MPI_BYTE, (rank + last) % ranks, 5, MPI_COMM_WORLD);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (IS("half")) {
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        if (rank % 2 == 0 && rank != 0)
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half);
        while (rank == 0)
            usleep(1000);
        while (rank % 2)
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half);
    } else if (IS("fence")) {
        MPI_Win win;

        MPI_Win_create(large, 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_fence(0, win);
        if (rank != last)
            MPI_Win_fence(0, win);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (IS("iprobe")) {
        while (rank == last && !flag)
            MPI_Iprobe(0, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (IS("finalize")) {
        if (rank == 1)
            MPI_Recv(large, 8, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (IS("grid")) {
        int dims[1] = {ranks}, periods[1] = {1};

        MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid);
        MPI_Comm_set_name(grid, "grid");
        if (rank != last)
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, grid);
        else
            MPI_Recv(large, 8, MPI_BYTE, MPI_ANY_SOURCE, 7, grid, MPI_STATUS_IGNORE);
    } else if (IS("stopped")) {
        if (rank == last)
            raise(SIGSTOP);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (IS("threads")) {
        pthread_t thread;

        if (rank == last)
            pthread_create(&thread, NULL, receive, NULL);
        if (rank == last)
            MPI_Recv(large, 8, MPI_BYTE, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (IS("exit")) {
        if (rank == last)
            _exit(0);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (IS("spawn")) {
        char *words[] = {"child", NULL};

        MPI_Comm_spawn(argv[0], words, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    } else if (IS("late")) {
        if (rank == last)
            pause();
    } else if (IS("callback")) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, never_deleted, &key, NULL);
        if (rank == last)
            MPI_Comm_set_attr(MPI_COMM_SELF, key, large);
    } else if (IS("works"))
        for (int round = 0; round < 600; round++) {
            usleep(10000);
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, dup);
        }
    MPI_Finalize();
    printf("rank %d ended\n", rank);
    return 0;
}
