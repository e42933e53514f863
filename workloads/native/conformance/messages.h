/* Messages between two ranks, in one of two forms like collective operations. Each rank sends to the one that is
   `step` ranks further, and receives from the one that is so far behind; at the ends of a line there is nobody. */

struct FORM(pair) {
    int send, receive, pairs, dest, source, tag, any;
    const struct group *group;
};

static int FORM(pair_up)(struct FORM(pair) *pair)
{
    const struct group *group = group_draw(INTRA);
    int step, line;

    if (group->comm == MPI_COMM_NULL)
        return 0;
    step = (int)draw((unsigned)group->ranks);
    line = (int)draw(2);
    pair->group = group;
    pair->send = (int)draw(TYPES);
    pair->receive = (int)draw(TYPES);
    pair->tag = (int)draw(100);
    pair->any = (int)draw(2);
    pair->dest = group->rank + step;
    pair->source = group->rank - step;
    if (pair->dest >= group->ranks)
        pair->dest = line ? MPI_PROC_NULL : pair->dest - group->ranks;
    if (pair->source < 0)
        pair->source = line ? MPI_PROC_NULL : pair->source + group->ranks;
    DRAWN(", %d ranks further%s, datatypes %d and %d", step, line ? " on a line" : "", pair->send, pair->receive);
    pair->pairs = pairs_draw(2);
    fill(group->rank, span_of(pair->send, pair->pairs) + span_of(pair->receive, pair->pairs));
    return 1;
}

/* What the program passes to a call. */
#define OUT(pair) sent, items((pair).send, (pair).pairs), types[(pair).send], (pair).dest, (pair).tag, (pair).group->comm
#define IN(pair) received, items((pair).receive, (pair).pairs), types[(pair).receive]
#define FROM(pair)                                                                                              \
    (pair).any && (pair).source != MPI_PROC_NULL ? MPI_ANY_SOURCE : (pair).source,                              \
        (pair).any ? MPI_ANY_TAG : (pair).tag, (pair).group->comm

static void FORM(note_status)(const MPI_Status *status, MPI_Datatype datatype)
{
    int count;

    MPI_Get_count(status, datatype, &count);
    note(status->MPI_SOURCE);
    note(status->MPI_TAG);
    note(count);
}

#define SENDS(name, X, IX)                                                                                      \
    static void FORM(name)(void)                                                                                \
    {                                                                                                           \
        struct FORM(pair) pair;                                                                                 \
        MPI_Request receive;                                                                                    \
                                                                                                                \
        if (!FORM(pair_up)(&pair))                                                                                 \
            return;                                                                                             \
        FORM(MPI_Irecv)(IN(pair), FROM(pair), &receive);                                                        \
        MPI_Barrier(pair.group->comm);                                                                          \
        EITHER(X, IX, OUT(pair));                                                                               \
        MPI_Wait(&receive, MPI_STATUS_IGNORE);                                                                  \
    }
SENDS(send, Send, Isend)
SENDS(ssend, Ssend, Issend)
SENDS(rsend, Rsend, Irsend)

static void FORM(recv)(void)
{
    struct FORM(pair) pair;
    MPI_Request send, receive;
    MPI_Status status;

    if (!FORM(pair_up)(&pair))
        return;
    FORM(MPI_Isend)(OUT(pair), &send);
    if (started && pair.source != MPI_PROC_NULL) { /* else the library makes the call itself */
        FORM(MPI_Irecv)(IN(pair), FROM(pair), &receive);
        finish(&receive, &status);
    } else
        FORM(MPI_Recv)(IN(pair), FROM(pair), &status);
    FORM(note_status)(&status, types[pair.receive]);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Barrier(pair.group->comm); /* nobody receives what is sent next */
}

static void FORM(mrecv)(void)
{
    struct FORM(pair) pair;
    MPI_Request send, receive;
    MPI_Message message;
    MPI_Status status;

    if (!FORM(pair_up)(&pair))
        return;
    FORM(MPI_Isend)(OUT(pair), &send);
    MPI_Mprobe(FROM(pair), &message, &status);
    if (started) {
        FORM(MPI_Imrecv)(IN(pair), &message, &receive);
        finish(&receive, &status);
    } else
        FORM(MPI_Mrecv)(IN(pair), &message, &status);
    FORM(note_status)(&status, types[pair.receive]);
    note(message == MPI_MESSAGE_NULL);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Barrier(pair.group->comm);
}

/* A receive and a send; both are tested until both are over. */
static void FORM(exchange)(const void *out, COUNT count, MPI_Datatype datatype, const struct FORM(pair) *pair,
                           MPI_Status *status)
{
    MPI_Request requests[2];

    FORM(MPI_Irecv)(IN(*pair), FROM(*pair), &requests[0]);
    FORM(MPI_Isend)(out, count, datatype, pair->dest, pair->tag, pair->group->comm, &requests[1]);
    finish(&requests[0], status);
    finish(&requests[1], MPI_STATUS_IGNORE);
}

static void FORM(sendrecv)(void)
{
    struct FORM(pair) pair;
    MPI_Status status;

    if (!FORM(pair_up)(&pair))
        return;
    if (started)
        FORM(exchange)(sent, items(pair.send, pair.pairs), types[pair.send], &pair, &status);
    else
        FORM(MPI_Sendrecv)(sent, items(pair.send, pair.pairs), types[pair.send], pair.dest, pair.tag, IN(pair),
                           FROM(pair), &status);
    FORM(note_status)(&status, types[pair.receive]);
    MPI_Barrier(pair.group->comm);
}

static void FORM(sendrecv_replace)(void)
{
    struct FORM(pair) pair;
    static char packed[ROOM * sizeof(int)];
    COUNT position = 0;
    MPI_Status status;

    if (!FORM(pair_up)(&pair))
        return;
    if (started) {
        FORM(MPI_Pack)(IN(pair), packed, sizeof packed, &position, pair.group->comm);
        FORM(exchange)(packed, position, MPI_PACKED, &pair, &status);
    } else
        FORM(MPI_Sendrecv_replace)(IN(pair), pair.dest, pair.tag, FROM(pair), &status);
    FORM(note_status)(&status, types[pair.receive]);
    MPI_Barrier(pair.group->comm);
}

const struct call MESSAGES[] = {
    {NAMED("Send"), FORM(send), 0},
    {NAMED("Ssend"), FORM(ssend), 0},
    {NAMED("Rsend"), FORM(rsend), 0},
    {NAMED("Recv"), FORM(recv), 0},
    {NAMED("Mrecv"), FORM(mrecv), 0},
    {NAMED("Sendrecv"), FORM(sendrecv), 0},
    {NAMED("Sendrecv_replace"), FORM(sendrecv_replace), 0},
    {NULL, NULL, 0},
};
