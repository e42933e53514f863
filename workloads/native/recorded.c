/* Recorded calls that wait for requests, or poll. A poll in vain is no operation: its time goes to the
   next one. A poll that finds something is noted as such: a rank that polls does not sleep. What the program ignores of a
   status, we look at in our own. */
#include <stdlib.h>
#include <string.h>

#include "operation.h"

#define OWN(status, own) ((status) == MPI_STATUS_IGNORE ? &(own) : (status))

int recorded_Wait(MPI_Request *request, MPI_Status *status)
{
    MPI_Request before = *request;
    MPI_Status own;
    int outer __attribute__((cleanup(op_left))) = op_begin(), error;

    status = OWN(status, own);
    error = UNDER_Wait(request, status);
    if (outer) {
        op_returned();
        op_waited(before, error ? NULL : status, 0);
        op_end();
    }
    return error;
}

int recorded_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    MPI_Request before = *request;
    MPI_Status own;
    int outer __attribute__((cleanup(op_left))) = op_begin(), error;

    status = OWN(status, own);
    error = UNDER_Test(request, flag, status);
    if (outer) {
        op_returned();
        if (error || *flag)
            op_waited(before, error ? NULL : status, 1);
        op_end();
    }
    return error;
}

/* Requests as they were before a call, and statuses for those from which we need one. */
#define FEW 64
#define BEFORE struct before before __attribute__((cleanup(leave)))
struct before {
    int outer;
    MPI_Request few[FEW], *requests; /* NULL: there is no memory, and nothing is noted */
    MPI_Status *statuses, *own;
};

static void look(struct before *before, int count, const MPI_Request requests[], MPI_Status *statuses, int need)
{
    size_t bytes = (size_t)(count > 0 ? count : 0) * sizeof *requests;

    before->own = NULL;
    before->statuses = statuses;
    before->outer = op_begin();
    before->requests = !before->outer || count <= FEW ? before->few : malloc(bytes);
    if (!before->outer || before->requests == NULL || bytes == 0)
        return;
    memcpy(before->requests, requests, bytes);
    for (int number = 0; number < count && statuses == MPI_STATUSES_IGNORE && !before->own; number++)
        if (need && op_from_anyone(requests[number]))
            before->own = malloc((size_t)count * sizeof *before->own);
    if (before->own)
        before->statuses = before->own;
}

/* Also when an exception leaves the call. */
static void leave(struct before *before)
{
    op_left(&before->outer);
    if (before->requests != before->few)
        free(before->requests);
    free(before->own);
}

/* Note what has completed: the requests at these places, or the first `done` of all. */
static void completed(struct before *before, int done, const int *places, int error, int polled)
{
    if (before->outer) {
        op_returned();
        for (int number = 0; number < done && before->requests != NULL; number++) {
            int known = !error && before->statuses != MPI_STATUSES_IGNORE;

            op_waited(before->requests[places ? places[number] : number],
                      known ? &before->statuses[number] : NULL, polled);
        }
        op_end();
    }
}

int recorded_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    BEFORE;
    int error;

    look(&before, count, requests, statuses, 1);
    error = UNDER_Waitall(count, requests, before.statuses);
    completed(&before, count, NULL, error, 0);
    return error;
}

int recorded_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    BEFORE;
    int error;

    look(&before, count, requests, statuses, 1);
    error = UNDER_Testall(count, requests, flag, before.statuses);
    completed(&before, error || *flag ? count : 0, NULL, error, 1);
    return error;
}

int recorded_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    BEFORE;
    MPI_Status own;
    int error;

    look(&before, count, requests, OWN(status, own), 0);
    error = UNDER_Waitany(count, requests, index, before.statuses);
    completed(&before, !error && *index != MPI_UNDEFINED, index, error, 0);
    return error;
}

int recorded_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    BEFORE;
    MPI_Status own;
    int error;

    look(&before, count, requests, OWN(status, own), 0);
    error = UNDER_Testany(count, requests, index, flag, before.statuses);
    completed(&before, !error && *flag && *index != MPI_UNDEFINED, index, error, 1);
    return error;
}

int recorded_Waitsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    BEFORE;
    int error;

    look(&before, count, requests, statuses, 1);
    error = UNDER_Waitsome(count, requests, outcount, indices, before.statuses);
    completed(&before, !error && *outcount != MPI_UNDEFINED ? *outcount : 0, indices, error, 0);
    return error;
}

int recorded_Testsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    BEFORE;
    int error;

    look(&before, count, requests, statuses, 1);
    error = UNDER_Testsome(count, requests, outcount, indices, before.statuses);
    completed(&before, !error && *outcount != MPI_UNDEFINED ? *outcount : 0, indices, error, 1);
    return error;
}
