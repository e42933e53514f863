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

    return done ? mpi.Test(receipt->request, done, receipt->status) : mpi.Wait(receipt->request, receipt->status);
}

static int wait_received(MPI_Request *request, MPI_Status *status, MPI_Comm comm, int source)
{
    struct receipt receipt = {request, status};
    struct wait wait = {MESSAGE, test_receipt, &receipt, comm, source, 1};

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
        struct receipt receipt = {&exchange->requests[number], number == 0 ? exchange->status : MPI_STATUS_IGNORE};
        int error;

        if (exchange->over[number])
            continue;
        exchange->over[number] = 1; /* if it fails */
        error = test_receipt(&receipt, done ? &exchange->over[number] : NULL);
        if (error && !exchange->error)
            exchange->error = error;
        exchange->over[number] |= error != MPI_SUCCESS;
    }
    if (done)
        *done = exchange->over[0] && exchange->over[1];
    return MPI_SUCCESS;
}

static int wait_exchanged(MPI_Request requests[2], MPI_Status *status, MPI_Comm comm, int dest, int source)
{
    struct exchange exchange = {requests, status, {0, 0}, MPI_SUCCESS};
    int only = dest == MPI_PROC_NULL ? source : source == MPI_PROC_NULL || source == dest ? dest : MPI_ANY_SOURCE;
    struct wait wait = {MESSAGE, test_exchange, &exchange, comm, only, 2};

    ring_receiver(comm, dest);
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
        return done ? mpi.Iprobe(probe->source, probe->tag, probe->comm, done, probe->status)
                    : mpi.Probe(probe->source, probe->tag, probe->comm, probe->status);
    if (done == NULL)
        return mpi.Mprobe(probe->source, probe->tag, probe->comm, probe->message, probe->status);
    return mpi.Improbe(probe->source, probe->tag, probe->comm, done, probe->message, probe->status);
}

int lockstep_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    struct probe probe = {source, tag, comm, NULL, status};
    struct wait wait = {MESSAGE, test_probe, &probe, comm, source, 1};

    return wait_two_phase(&wait);
}

int lockstep_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    struct probe probe = {source, tag, comm, message, status};
    struct wait wait = {MESSAGE, test_probe, &probe, comm, source, 1};

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

/* MPICH's tests mix up several nonblocking collective operations on files, its waits do not. Open MPI's do neither. */
static int filing;

void requests_of_files(void)
{
#ifndef OPEN_MPI
    filing = 1;
#endif
}

static int wait_as_own(int (*test)(void *, int *), void *what)
{
    int error = test(what, NULL);

    ring_all();
    return error;
}

static int wait_requests(int (*test)(void *, int *), struct requests *requests)
{
    struct wait wait = {MESSAGE, test, requests, MPI_COMM_NULL, MPI_ANY_SOURCE, requests->count};

    return filing ? wait_as_own(test, requests) : wait_two_phase(&wait);
}

int lockstep_Wait(MPI_Request *request, MPI_Status *status)
{
    struct receipt receipt = {request, status};

    if (filing)
        return wait_as_own(test_receipt, &receipt);
    return wait_received(request, status, MPI_COMM_NULL, MPI_ANY_SOURCE);
}

/* Testall of MPICH 4.0 to 5.0 fails if a persistent collective operation or a partitioned message is among the
   requests. Its Test does not. */
static int lasting;

void requests_last(void)
{
    lasting = 1;
}

static int test_each(struct requests *all, int *done)
{
    for (*done = 0; all->done < all->count; all->done++) {
        MPI_Status *status = all->status == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &all->status[all->done];
        int over = 1, error = mpi.Test(&all->requests[all->done], &over, status);

        if (!error && !over)
            return MPI_SUCCESS;
        if (error && status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = error;
        if (error)
            all->error = MPI_ERR_IN_STATUS;
    }
    *done = 1;
    return all->error;
}

static int test_all(void *what, int *done)
{
    struct requests *all = what;

    if (done && lasting)
        return test_each(all, done);
    return done ? mpi.Testall(all->count, all->requests, done, all->status)
                : mpi.Waitall(all->count, all->requests, all->status);
}

int lockstep_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct requests all = {count, requests, NULL, NULL, statuses, 0, MPI_SUCCESS};

    /* MPI's own sets all; MPICH's tests set those of requests that fail. */
    for (int number = 0; statuses != MPI_STATUSES_IGNORE && statuses != NULL && number < count; number++)
        statuses[number].MPI_ERROR = MPI_SUCCESS;
    return wait_requests(test_all, &all);
}

static int test_any(void *what, int *done)
{
    struct requests *any = what;

    return done ? mpi.Testany(any->count, any->requests, any->index, done, any->status)
                : mpi.Waitany(any->count, any->requests, any->index, any->status);
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

    if (done == NULL)
        return mpi.Waitsome(some->count, some->requests, some->index, some->indices, some->status);
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
