/* Calls that wait for messages and requests.
 *
 * MPI itself completes a program's own requests: Wait calls MPI's Test until it is true, and the others
 * do likewise. */
#include <limits.h>
#include <stdlib.h>

#include "wrappers.h"

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
    int over; /* of Waitall: so many of the first requests are over; */
    int error; /* and what it returns */
};

/* MPI is asked about so many requests at a time. In a test it looks at all that it is given, and moves messages on
   once: a test of thousands costs as much as all their messages, and takes one of them. */
#define TOGETHER 8

/* Asked for any or some, MPICH's own waits also move messages on after so many. Open MPI's look at all before. */
#ifdef OPEN_MPI
#define PART INT_MAX
#else
#define PART TOGETHER
#endif

static int least(int one, int other)
{
    return one < other ? one : other;
}

static MPI_Status *status_at(MPI_Status *statuses, int place)
{
    return statuses == MPI_STATUSES_IGNORE ? statuses : statuses + place;
}

/* MPICH's tests mix up several nonblocking collective operations on files, its waits do not. Open MPI's do neither. */
static int filing;

void requests_of_files(void)
{
#ifndef OPEN_MPI
    filing = 1;
#endif
}

/* Testall of MPICH 4.0 to 5.0 fails if a persistent collective operation or a partitioned message is among the
   requests, and asks a generalized request for its status once more than Waitall does. Test does neither. */
static int lasting;

void requests_last(void)
{
    lasting = 1;
}

static int wait_as_own(int (*test)(void *, int *), void *what)
{
    int error = test(what, NULL);

    ring_all();
    return error;
}

static int wait_requests(int (*test)(void *, int *), struct requests *requests, int more)
{
    struct wait wait = {MESSAGE, test, requests, MPI_COMM_NULL, MPI_ANY_SOURCE, requests->count, more,
                        .waited = lasting ? NULL : requests->requests};

    return filing ? wait_as_own(test, requests) : wait_two_phase(&wait);
}

int lockstep_Wait(MPI_Request *request, MPI_Status *status)
{
    struct receipt receipt = {request, status};
    struct wait wait = {MESSAGE, test_receipt, &receipt, MPI_COMM_NULL, MPI_ANY_SOURCE, 1,
                        .waited = lasting ? NULL : request};

    return filing ? wait_as_own(test_receipt, &receipt) : wait_two_phase(&wait);
}

static int test_each(struct requests *all, int *done)
{
    for (*done = 0; all->over < all->count; all->over++) {
        MPI_Status *status = all->status == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &all->status[all->over];
        int over = 1, error = mpi.Test(&all->requests[all->over], &over, status);

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

/* The requests behind those that MPI was asked about when one had failed. */
static void leave_pending(const struct requests *all)
{
    for (int number = all->over + TOGETHER; all->status != MPI_STATUSES_IGNORE && number < all->count; number++)
        if (all->requests[number] != MPI_REQUEST_NULL)
            all->status[number].MPI_ERROR = MPI_ERR_PENDING;
}

/* Where there are many, messages come one after the other: several polls follow each other, as in MPI's own wait. */
#define MANY 64
#define MOST_POLLS 8

static int test_together(struct requests *all, int *done)
{
    int unset = *done, polls = least(1 + all->count / MANY, MOST_POLLS);

    do {
        int part = least(all->count - all->over, TOGETHER), error;

        *done = unset;
        error = mpi.Testall(part, all->requests + all->over, done, status_at(all->status, all->over));
        if (error || *done == unset) {
            leave_pending(all);
            return error;
        }
        if (*done)
            all->over += part;
        else
            polls--;
    } while (all->over < all->count && polls > 0);
    return MPI_SUCCESS;
}

static int test_all(void *what, int *done)
{
    struct requests *all = what;

    if (done == NULL)
        return mpi.Waitall(all->count, all->requests, all->status);
    return lasting ? test_each(all, done) : test_together(all, done);
}

int lockstep_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct requests all = {count, requests, NULL, NULL, statuses, 0, MPI_SUCCESS};

    /* MPI's own sets all; MPICH's tests set those of requests that fail. */
    for (int number = 0; statuses != MPI_STATUSES_IGNORE && statuses != NULL && number < count; number++)
        statuses[number].MPI_ERROR = MPI_SUCCESS;
    return wait_requests(test_all, &all, 0);
}

static int test_any(void *what, int *done)
{
    struct requests *any = what;
    int unset, at = 0, active = 0;

    if (done == NULL)
        return mpi.Waitany(any->count, any->requests, any->index, any->status);
    unset = *done;
    do {
        int part = least(any->count - at, PART), error;

        *any->index = MPI_UNDEFINED;
        *done = unset;
        error = mpi.Testany(part, any->requests + at, any->index, done, any->status);
        if (error || *done == unset || *any->index != MPI_UNDEFINED) {
            *any->index += *any->index != MPI_UNDEFINED ? at : 0;
            return error;
        }
        active |= !*done;
        at += part;
    } while (at < any->count);
    *done = !active;
    return MPI_SUCCESS;
}

/* How many times more than once MPI moves on messages in a test of so many requests. */
static int more_than_once(int count)
{
    return count > 0 ? (count - 1) / PART : 0;
}

int lockstep_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    struct requests any = {count, requests, index, NULL, status, 0, MPI_SUCCESS};

    return wait_requests(test_any, &any, more_than_once(count));
}

/* Statuses say of all their requests whether they failed, if one has. */
static void succeeded(MPI_Status *statuses, int from, int to)
{
    for (int number = from; statuses != MPI_STATUSES_IGNORE && number < to; number++)
        statuses[number].MPI_ERROR = MPI_SUCCESS;
}

static int test_some(void *what, int *done)
{
    struct requests *some = what;
    int at = 0, active = 0, total = 0, failed = MPI_SUCCESS;

    if (done == NULL)
        return mpi.Waitsome(some->count, some->requests, some->index, some->indices, some->status);
    do {
        int part = least(some->count - at, PART), before = total, found = MPI_UNDEFINED;
        int error = mpi.Testsome(part, some->requests + at, &found, some->indices + total,
                                 status_at(some->status, total));

        active |= found != MPI_UNDEFINED;
        for (; found > 0; found--)
            some->indices[total++] += at;
        if (error && !failed)
            succeeded(some->status, 0, before);
        else if (failed && !error)
            succeeded(some->status, before, total);
        failed = error ? error : failed;
        at += part;
    } while (at < some->count);
    *some->index = active ? total : MPI_UNDEFINED;
    *done = failed || total || !active;
    return failed;
}

int lockstep_Waitsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    struct requests some = {count, requests, outcount, indices, statuses, 0, MPI_SUCCESS};

    return wait_requests(test_some, &some, more_than_once(count));
}
