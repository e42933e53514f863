/* Requests of all kinds in one array: mixed COUNT. Of five, one is none, one a persistent receive that was not started,
   one a persistent receive that was, one a receive and one a send; all messages go to the rank itself and are there.
   Prints what each Wait form tells of them, in the end and for no requests at all. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int count, *in, *indices;
static MPI_Request *requests;
static MPI_Status *statuses;

static void say(int number, const MPI_Status *status)
{
    int items;

    MPI_Get_count(status, MPI_INT, &items);
    if (number % 5 == 4) /* MPI says nothing of a send */
        printf("  %d\n", number);
    else
        printf("  %d: %d %d %d\n", number, status->MPI_SOURCE, status->MPI_TAG, items);
}

static void start(void)
{
    for (int number = 0; number < count; number++) {
        in[number] = -1;
        requests[number] = MPI_REQUEST_NULL;
        if (number % 5 == 1 || number % 5 == 2)
            MPI_Recv_init(&in[number], 1, MPI_INT, 0, number, MPI_COMM_SELF, &requests[number]);
        if (number % 5 == 3)
            MPI_Irecv(&in[number], 1, MPI_INT, 0, number, MPI_COMM_SELF, &requests[number]);
        if (number % 5 == 2)
            MPI_Start(&requests[number]);
        if (number % 5 == 2 || number % 5 == 3)
            MPI_Send(&number, 1, MPI_INT, 0, number, MPI_COMM_SELF);
        if (number % 5 == 4)
            MPI_Isend(&in[number], 1, MPI_INT, MPI_PROC_NULL, number, MPI_COMM_SELF, &requests[number]);
    }
}

static void end(int error)
{
    int right = 1, left = 0;

    for (int number = 0; number < count; number++) {
        if (number % 5 == 2 || number % 5 == 3)
            right &= in[number] == number;
        left += requests[number] != MPI_REQUEST_NULL;
        if (requests[number] != MPI_REQUEST_NULL)
            MPI_Request_free(&requests[number]);
    }
    printf("  error %d %s, %d are left\n", error, right ? "right" : "wrong", left);
}

int main(int argc, char **argv)
{
    int found, index, error;

    count = atoi(argv[1]);
    in = malloc((size_t)count * sizeof *in);
    indices = malloc((size_t)count * sizeof *indices);
    requests = malloc((size_t)count * sizeof *requests);
    statuses = malloc((size_t)count * sizeof *statuses);
    MPI_Init(&argc, &argv);

    puts("Waitall");
    start();
    error = MPI_Waitall(count, requests, statuses);
    for (int number = 0; number < count; number++)
        say(number, &statuses[number]);
    end(error);
    start();
    end(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));

    puts("Waitany");
    start();
    do {
        error = MPI_Waitany(count, requests, &index, statuses);
        say(index == MPI_UNDEFINED ? -1 : index, statuses);
    } while (index != MPI_UNDEFINED);
    end(error);

    puts("Waitsome");
    start();
    do {
        error = MPI_Waitsome(count, requests, &found, indices, statuses);
        printf("  found %d\n", found == MPI_UNDEFINED ? -1 : found);
        for (int number = 0; number < found; number++)
            say(indices[number], &statuses[number]);
    } while (found != MPI_UNDEFINED);
    end(error);

    error = MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    error |= MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE);
    error |= MPI_Waitsome(0, NULL, &found, indices, MPI_STATUSES_IGNORE);
    printf("none: %d %d %d\n", error, index == MPI_UNDEFINED, found == MPI_UNDEFINED);
    fflush(stdout);
    return MPI_Finalize();
}
