/* Waits for requests of all kinds, and probes: the blocking call, or its test until it is true. */
#include "conformance.h"

#define REQUESTS 12

/* Requests of one case; `status`: whether its status says from whom a message came, or that nothing came;
   `lasting`: a persistent collective operation or a partitioned message is among them. */
struct some {
    const struct group *group;
    int count, lasting, status[REQUESTS], persistent[REQUESTS];
    MPI_Request requests[REQUESTS];
    MPI_Status statuses[REQUESTS];
};

static void add(struct some *some, MPI_Request request, int status, int persistent)
{
    some->status[some->count] = status;
    some->persistent[some->count] = persistent;
    some->requests[some->count++] = request;
}

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 5;
    status->MPI_TAG = 6;
    return MPI_SUCCESS;
}

static int freed(void *extra)
{
    (void)extra;
    note(77);
    return MPI_SUCCESS;
}

static int cancelled(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

/* One or two requests of a kind, which have been started. Numbers of one place of the buffers are theirs. */
static void start_one(struct some *some, unsigned kind, int place)
{
    MPI_Comm comm = some->group->comm;
    int *in = &received[8 * place], *out = &sent[8 * place], ranks = some->group->ranks, rank = some->group->rank;
    int step = place % ranks, dest = (rank + step) % ranks, source = (rank + ranks - step) % ranks;
    MPI_Request one = MPI_REQUEST_NULL, two = MPI_REQUEST_NULL;

    switch (kind) {
    case 0:
        DRAWN(" null");
        add(some, one, 1, 0);
        break;
    case 1:
        DRAWN(" message");
        MPI_Irecv(in, 8, MPI_INT, place & 1 ? MPI_ANY_SOURCE : source, place, comm, &one);
        MPI_Isend(out, 5, MPI_INT, dest, place, comm, &two);
        add(some, one, 1, 0);
        add(some, two, 0, 0);
        break;
    case 2:
        DRAWN(" persistent message");
        MPI_Recv_init(in, 8, MPI_INT, source, place, comm, &one);
        MPI_Send_init(out, 5, MPI_INT, dest, place, comm, &two);
        MPI_Start(&one);
        MPI_Start(&two);
        add(some, one, 1, 1);
        add(some, two, 0, 1);
        break;
    case 3:
        DRAWN(" inactive");
        MPI_Recv_init(in, 8, MPI_INT, source, place, comm, &one);
        add(some, one, 1, 1);
        break;
    case 4:
        DRAWN(" allreduce");
        MPI_Iallreduce(out, in, 8, MPI_INT, MPI_SUM, comm, &one);
        add(some, one, 0, 0);
        break;
    case 5:
        DRAWN(" barrier");
        MPI_Ibarrier(comm, &one);
        add(some, one, 0, 0);
        break;
    case 6:
        DRAWN(" own");
        MPI_Grequest_start(query, freed, cancelled, NULL, &one);
        MPI_Grequest_complete(one);
        add(some, one, 1, 0);
        break;
    case 7:
        DRAWN(" nobody");
        MPI_Irecv(in, 8, MPI_INT, MPI_PROC_NULL, place, comm, &one);
        add(some, one, 1, 0);
        break;
#if MPI_VERSION >= 4
    case 8:
        DRAWN(" persistent allreduce");
        MPI_Allreduce_init(out, in, 8, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &one);
        MPI_Start(&one);
        add(some, one, 0, 1);
        some->lasting = 1;
        break;
    case 9:
        DRAWN(" persistent barrier");
        MPI_Barrier_init(comm, MPI_INFO_NULL, &one);
        MPI_Start(&one);
        add(some, one, 0, 1);
        some->lasting = 1;
        break;
    case 10:
        DRAWN(" partitioned");
        MPI_Precv_init(in, 2, 2, MPI_INT, source, place, comm, MPI_INFO_NULL, &one);
        MPI_Psend_init(out, 2, 2, MPI_INT, dest, place, comm, MPI_INFO_NULL, &two);
        MPI_Start(&one);
        MPI_Start(&two);
        MPI_Pready_range(0, 1, two);
        add(some, one, 0, 1);
        add(some, two, 0, 1);
        some->lasting = 1;
        break;
#endif
    default:
        break;
    }
}

/* Kinds of requests that every MPI completes in all its calls, and those that some only complete in a few. */
static int start_some(struct some *some, unsigned kinds)
{
    int ranks;

    some->group = group_draw(INTRA);
    if (some->group->comm == MPI_COMM_NULL)
        return 0;
    some->count = some->lasting = 0;
    fill(some->group->rank, 8 * REQUESTS);
    ranks = 1 + (int)draw(5);
    DRAWN(", requests:");
    for (int place = 0; place < ranks; place++)
        start_one(some, draw(kinds), place);
    return 1;
}

static void note_one(const struct some *some, int place, const MPI_Status *status)
{
    int count, was_cancelled;

    note(place);
    note(some->requests[place] == MPI_REQUEST_NULL);
    if (!some->status[place])
        return;
    MPI_Get_count(status, MPI_INT, &count);
    MPI_Test_cancelled(status, &was_cancelled);
    note(count);
    note(was_cancelled);
    note(status->MPI_SOURCE);
    note(status->MPI_TAG);
}

static void end_some(struct some *some)
{
    for (int place = 0; place < some->count; place++)
        if (some->persistent[place])
            MPI_Request_free(&some->requests[place]);
    MPI_Barrier(some->group->comm);
}

static void wait_each(unsigned kinds)
{
    struct some some;

    if (!start_some(&some, kinds))
        return;
    for (int place = 0; place < some.count; place++) {
        MPI_Status status;

        if (started)
            finish(&some.requests[place], &status);
        else
            MPI_Wait(&some.requests[place], &status);
        note_one(&some, place, &status);
    }
    end_some(&some);
}

static void wait_all(unsigned kinds)
{
    struct some some;
    MPI_Status *statuses = draw(2) ? some.statuses : MPI_STATUSES_IGNORE;
    int done = 0;

    if (!start_some(&some, kinds))
        return;
    if (!started)
        MPI_Waitall(some.count, some.requests, statuses);
    for (int place = 0; started && some.lasting && place < some.count; place++)
        finish(&some.requests[place], statuses == some.statuses ? &statuses[place] : MPI_STATUS_IGNORE);
    while (started && !some.lasting && !done)
        MPI_Testall(some.count, some.requests, &done, statuses);
    for (int place = 0; place < some.count && statuses == some.statuses; place++)
        note_one(&some, place, &statuses[place]);
    end_some(&some);
}

/* Which comes first is chance; so what is noted is sorted. The status of nothing is not: MPICH 4.0 leaves it as it was. */
static void wait_any(unsigned kinds)
{
    struct some some;
    MPI_Status status;
    int index, done, came[REQUESTS] = {0};

    if (!start_some(&some, kinds))
        return;
    for (;;) {
        done = 0;
        if (!started)
            MPI_Waitany(some.count, some.requests, &index, &status);
        while (started && !done)
            MPI_Testany(some.count, some.requests, &index, &done, &status);
        if (index == MPI_UNDEFINED)
            break;
        some.statuses[index] = status;
        came[index]++;
    }
    for (int place = 0; place < some.count; place++) {
        note(came[place]);
        if (came[place])
            note_one(&some, place, &some.statuses[place]);
    }
    end_some(&some);
}

static void wait_some(unsigned kinds)
{
    struct some some;
    MPI_Status statuses[REQUESTS];
    int count, indices[REQUESTS], came[REQUESTS] = {0};

    if (!start_some(&some, kinds))
        return;
    for (;;) {
        count = 0;
        if (!started)
            MPI_Waitsome(some.count, some.requests, &count, indices, statuses);
        while (started && count == 0)
            MPI_Testsome(some.count, some.requests, &count, indices, statuses);
        if (count == MPI_UNDEFINED)
            break;
        for (int number = 0; number < count; number++) {
            some.statuses[indices[number]] = statuses[number];
            came[indices[number]]++;
        }
    }
    for (int place = 0; place < some.count; place++) {
        note(came[place]);
        if (came[place])
            note_one(&some, place, &some.statuses[place]);
    }
    end_some(&some);
}

#define OLD 8 /* kinds of requests: before MPI 4, and with it */
#define ALL (MPI_VERSION >= 4 ? 11 : OLD)
#define WAITS(name)                                                                                             \
    static void name##_old(void)                                                                                \
    {                                                                                                           \
        name(OLD);                                                                                              \
    }                                                                                                           \
    static void name##_all(void)                                                                                \
    {                                                                                                           \
        name(ALL);                                                                                              \
    }
WAITS(wait_each)
WAITS(wait_all)
WAITS(wait_any)
WAITS(wait_some)

/* A message that is probed for, and received. */
static void probed(int matched)
{
    const struct group *group = group_draw(INTRA);
    int step, nobody = draw(5) == 0, any = (int)draw(2), dest, source, count, done = 0;
    MPI_Request request;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;

    if (group->comm == MPI_COMM_NULL)
        return;
    step = (int)draw((unsigned)group->ranks);
    dest = nobody ? MPI_PROC_NULL : (group->rank + step) % group->ranks;
    source = nobody ? MPI_PROC_NULL : any ? MPI_ANY_SOURCE : (group->rank + group->ranks - step) % group->ranks;
    fill(group->rank, 8);
    MPI_Isend(sent, 5, MPI_INT, dest, 3, group->comm, &request);
    if (!started && matched)
        MPI_Mprobe(source, any ? MPI_ANY_TAG : 3, group->comm, &message, &status);
    else if (!started)
        MPI_Probe(source, any ? MPI_ANY_TAG : 3, group->comm, &status);
    while (started && !done)
        if (matched)
            MPI_Improbe(source, any ? MPI_ANY_TAG : 3, group->comm, &done, &message, &status);
        else
            MPI_Iprobe(source, any ? MPI_ANY_TAG : 3, group->comm, &done, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    note(count);
    note(status.MPI_SOURCE);
    note(status.MPI_TAG);
    note(message == MPI_MESSAGE_NO_PROC);
    if (matched)
        MPI_Mrecv(received, 8, MPI_INT, &message, MPI_STATUS_IGNORE);
    else
        MPI_Recv(received, 8, MPI_INT, source, 3, group->comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(group->comm);
}

static void probe(void)
{
    probed(0);
}

static void mprobe(void)
{
    probed(1);
}

static void barrier(void)
{
    const struct group *group = group_draw(ANY_KIND);
    MPI_Request request;

    if (group->comm == MPI_COMM_NULL)
        return;
    if (started) {
        MPI_Ibarrier(group->comm, &request);
        finish(&request, MPI_STATUS_IGNORE);
    } else
        MPI_Barrier(group->comm);
}

/* After a colon: with requests of MPI 4, too. */
const struct call completions[] = {
    {"Barrier", barrier, 0},
    {"Probe", probe, 0},
    {"Mprobe", mprobe, 0},
    {"Wait", wait_each_old, 0},
    {"Wait:4", wait_each_all, 0},
    {"Waitall", wait_all_old, 0},
    {"Waitall:4", wait_all_all, 0},
    {"Waitany", wait_any_old, 0},
    {"Waitany:4", wait_any_all, 0},
    {"Waitsome", wait_some_old, 0},
    {"Waitsome:4", wait_some_all, 0},
    {NULL, NULL, 0},
};
