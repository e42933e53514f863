/* Calls that wait for messages and requests.
 *
 * MPI itself completes a program's own requests: Wait calls MPI's Test until it is true, and the others
 * do likewise. */
#include <stdlib.h>

#include "back.h"

struct receipt {
    MPI_Request *request;
    MPI_Status *status;
};

static int test_receipt(void *what, int *done)
{
    struct receipt *receipt = what;

    return mpi.Test(receipt->request, done, receipt->status);
}

static int wait_received(MPI_Request *request, MPI_Status *status, MPI_Comm comm, int source)
{
    struct receipt receipt = {request, status};
    struct wait wait = {MESSAGE, test_receipt, &receipt, comm, source};

    return wait_two_phase(&wait);
}

struct exchange {
    MPI_Request *requests; /* the receive, the send */
    MPI_Status *status;
    int over[2];
    int error;
};

static int test_exchange(void *what, int *done)
{
    struct exchange *exchange = what;

    for (int number = 0; number < 2; number++) {
        MPI_Status *status = number == 0 ? exchange->status : MPI_STATUS_IGNORE;
        int error;

        if (exchange->over[number])
            continue;
        exchange->over[number] = 1; /* if it fails */
        error = mpi.Test(&exchange->requests[number], &exchange->over[number], status);
        if (error && !exchange->error)
            exchange->error = error;
        exchange->over[number] |= error != MPI_SUCCESS;
    }
    *done = exchange->over[0] && exchange->over[1];
    return MPI_SUCCESS;
}

static int wait_exchanged(MPI_Request requests[2], MPI_Status *status, MPI_Comm comm, int dest, int source)
{
    struct exchange exchange = {requests, status, {0, 0}, MPI_SUCCESS};
    int only = dest == MPI_PROC_NULL ? source : source == MPI_PROC_NULL || source == dest ? dest : MPI_ANY_SOURCE;
    struct wait wait = {MESSAGE, test_exchange, &exchange, comm, only};

    ring_rank(comm, dest);
    wait_two_phase(&wait);
    return exchange.error;
}

#define COUNT int
#define FORM(name) name
#include "receive.h"
#undef COUNT
#undef FORM
#if LARGE_COUNTS
#define COUNT MPI_Count
#define FORM(name) name##_c
#include "receive.h"
#endif

struct probe {
    int source, tag;
    MPI_Comm comm;
    MPI_Message *message; /* NULL: MPI keeps the message */
    MPI_Status *status;
};

static int test_probe(void *what, int *done)
{
    struct probe *probe = what;

    if (probe->message == NULL)
        return mpi.Iprobe(probe->source, probe->tag, probe->comm, done, probe->status);
    return mpi.Improbe(probe->source, probe->tag, probe->comm, done, probe->message, probe->status);
}

int lockstep_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    struct probe probe = {source, tag, comm, NULL, status};
    struct wait wait = {MESSAGE, test_probe, &probe, comm, source};

    return wait_two_phase(&wait);
}

int lockstep_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    struct probe probe = {source, tag, comm, message, status};
    struct wait wait = {MESSAGE, test_probe, &probe, comm, source};

    return wait_two_phase(&wait);
}

/* Requests of the program: the library does not know which ranks can complete them. */
struct requests {
    int count;
    MPI_Request *requests;
    int *index, *indices;
    MPI_Status *status;
    int done, error; /* so many requests are over; what Waitall returns */
};

static int wait_requests(int (*test)(void *, int *), struct requests *requests)
{
    struct wait wait = {MESSAGE, test, requests, MPI_COMM_NULL, MPI_ANY_SOURCE};

    return wait_two_phase(&wait);
}

int lockstep_Wait(MPI_Request *request, MPI_Status *status)
{
    return wait_received(request, status, MPI_COMM_NULL, MPI_ANY_SOURCE);
}

/* Testall of MPICH 4.0 to 5.0 fails if a persistent collective operation or a partitioned message is among the
   requests. Its Test does not. */
static int lasting;

void requests_last(void)
{
    lasting = 1;
}

/* A request has failed: all statuses tell how their requests fared. */
static void note_failure(struct requests *all, int error)
{
    for (int number = 0; !all->error && all->status != MPI_STATUSES_IGNORE && number < all->done; number++)
        all->status[number].MPI_ERROR = MPI_SUCCESS;
    all->error = MPI_ERR_IN_STATUS;
    if (all->status != MPI_STATUSES_IGNORE)
        all->status[all->done].MPI_ERROR = error;
}

static int test_each(struct requests *all, int *done)
{
    for (*done = 0; all->done < all->count; all->done++) {
        MPI_Status *status = all->status == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &all->status[all->done];
        int over = 1, error = mpi.Test(&all->requests[all->done], &over, status);

        if (error)
            note_failure(all, error);
        else if (!over)
            return MPI_SUCCESS;
        else if (all->error && status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = MPI_SUCCESS;
    }
    *done = 1;
    return all->error;
}

static int test_all(void *what, int *done)
{
    struct requests *all = what;

    if (lasting)
        return test_each(all, done);
    return mpi.Testall(all->count, all->requests, done, all->status);
}

int lockstep_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct requests all = {count, requests, NULL, NULL, statuses, 0, MPI_SUCCESS};

    return wait_requests(test_all, &all);
}

static int test_any(void *what, int *done)
{
    struct requests *any = what;

    return mpi.Testany(any->count, any->requests, any->index, done, any->status);
}

int lockstep_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    struct requests any = {count, requests, index, NULL, status, 0, MPI_SUCCESS};

    return wait_requests(test_any, &any);
}

static int test_some(void *what, int *done)
{
    struct requests *some = what;
    int error;

    *some->index = MPI_UNDEFINED;
    error = mpi.Testsome(some->count, some->requests, some->index, some->indices, some->status);
    *done = error || *some->index != 0;
    return error;
}

int lockstep_Waitsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    struct requests some = {count, requests, outcount, indices, statuses, 0, MPI_SUCCESS};

    return wait_requests(test_some, &some);
}

/* A poll of the program's own. A rank that completes something may have advanced operations that others wait for. */
static int polled(int announced, int error, const int *done)
{
    poll_end(announced, error || *done);
    if (!error && *done)
        ring_all();
    return error;
}

int lockstep_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    int announced = poll_begin();

    return polled(announced, mpi.Iprobe(source, tag, comm, flag, status), flag);
}

int lockstep_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    int announced = poll_begin();

    return polled(announced, mpi.Improbe(source, tag, comm, flag, message, status), flag);
}

int lockstep_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    int announced = poll_begin();

    return polled(announced, mpi.Test(request, flag, status), flag);
}

int lockstep_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    int announced = poll_begin();

    return polled(announced, mpi.Testall(count, requests, flag, statuses), flag);
}

int lockstep_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    int announced = poll_begin();

    return polled(announced, mpi.Testany(count, requests, index, flag, status), flag);
}

int lockstep_Testsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    int announced = poll_begin();

    return polled(announced, mpi.Testsome(count, requests, outcount, indices, statuses), outcount);
}

/* A persistent request does not say who its peer is. */
int lockstep_Start(MPI_Request *request)
{
    int error = mpi.Start(request);

    ring_all();
    return error;
}

int lockstep_Startall(int count, MPI_Request requests[])
{
    int error = mpi.Startall(count, requests);

    ring_all();
    return error;
}
