/* Collective operations, in one of two forms: COUNT and DISPL are int and FORM(X) is X, or MPI_Count, MPI_Aint and
   X_c. In each case a rank's buffers hold numbers, of which those between the items must stay. */

/* The call, or its nonblocking form and tests. */
#define EITHER(X, IX, ...)                                                                                      \
    do {                                                                                                        \
        MPI_Request request = MPI_REQUEST_NULL;                                                                 \
                                                                                                                \
        if (started) {                                                                                          \
            FORM(MPI_##IX)(__VA_ARGS__, &request);                                                              \
            finish(&request, MPI_STATUS_IGNORE);                                                                \
        } else                                                                                                  \
            FORM(MPI_##X)(__VA_ARGS__);                                                                         \
    } while (0)

/* Blocks of pairs, one after another with gaps between them, the first somewhere in the middle. */
struct FORM(layout) {
    COUNT counts[MOST];
    DISPL displs[MOST];
    MPI_Aint places[MOST]; /* in bytes */
    DISPL bytes[MOST];
    MPI_Datatype all[MOST];
    int span;
};

static void FORM(lay)(struct FORM(layout) *layout, int type, int blocks, const int *pairs)
{
    unsigned first = draw(MOST), gap = draw(3);
    int at = 0;

    for (int step = 0; step < blocks; step++) {
        int block = (int)(first + (unsigned)step) % blocks;

        layout->counts[block] = items(type, pairs[block]);
        layout->displs[block] = at;
        layout->places[block] = (MPI_Aint)at * type_extent[type] * (MPI_Aint)sizeof(int);
        layout->bytes[block] = (DISPL)layout->places[block];
        layout->all[block] = types[type];
        at += items(type, pairs[block]) + (int)gap;
    }
    layout->span = at * type_extent[type];
}

/* How many pairs each rank sends to another. */
static void FORM(amounts)(const struct group *group, int *out, int *in, unsigned below)
{
    unsigned here = (unsigned)(group->here + group->rank), there = (unsigned)group->there;

    for (int rank = 0; rank < group->remote; rank++) {
        out[rank] = (int)spread(here, there + (unsigned)rank, below);
        in[rank] = (int)spread(there + (unsigned)rank, here, below);
    }
}

struct FORM(two) {
    int send, receive; /* datatypes */
    const struct group *group;
};

static struct FORM(two) FORM(begin)(enum kind kind)
{
    const struct group *group = group_draw(kind);
    int send = (int)draw(TYPES), receive = (int)draw(TYPES);

    DRAWN(", datatypes %d and %d", send, receive);
    return (struct FORM(two)){send, receive, group};
}
#define BEGIN(kind)                                                                                             \
    struct FORM(two) two = FORM(begin)(kind);                                                                   \
    const struct group *group = two.group;                                                                      \
    int ranks = group->ranks, rank = group->rank;                                                               \
                                                                                                                \
    (void)rank, (void)ranks;                                                                                    \
    if (group->comm == MPI_COMM_NULL)                                                                           \
    return

#define OTHERS_COUNT ((COUNT)(odd ? -1 : 1))

static void FORM(bcast)(void)
{
    BEGIN(INTRA);
    int pairs = pairs_draw(1), root = (int)draw((unsigned)ranks);

    fill(rank, span_of(two.send, pairs));
    EITHER(Bcast, Ibcast, rank == root ? sent : received, items(two.send, pairs), types[two.send], root,
           group->comm);
}

/* What is drawn for an operation with a root: where it is, whether it uses MPI_IN_PLACE, and whether what MPI ignores
   is wrong. The other form gets no such arguments: the library replaces them. */
#define ROOTED                                                                                                  \
    int root = (int)draw((unsigned)ranks), place = in_place, odd = draw(2) == 0 && !started;                    \
                                                                                                                \
    (void)odd;                                                                                                  \
    DRAWN(", root %d%s%s", root, place ? ", in place" : "", odd ? ", ignored arguments" : "")
#define AT_ROOT(what, otherwise) (rank == root ? (what) : (otherwise))

static void FORM(gather)(void)
{
    BEGIN(INTRA);
    int pairs = pairs_draw(ranks), sends, at;
    ROOTED;

    at = root == rank && place;
    fill(rank, span_of(two.receive, pairs) * ranks + span_of(two.send, pairs));
    sends = items(two.send, pairs);
    EITHER(Gather, Igather, at ? MPI_IN_PLACE : sent, at ? OTHERS_COUNT : sends, at && odd ? MPI_DATATYPE_NULL : types[two.send],
           AT_ROOT(received, odd ? NULL : received), AT_ROOT(items(two.receive, pairs), OTHERS_COUNT),
           AT_ROOT(types[two.receive], odd ? MPI_DATATYPE_NULL : types[0]), root, group->comm);
}

static void FORM(gatherv)(void)
{
    BEGIN(INTRA);
    int amount[MOST], at;
    struct FORM(layout) layout;
    ROOTED;

    for (int other = 0; other < ranks; other++)
        amount[other] = (int)spread((unsigned)other, 0, 4);
    FORM(lay)(&layout, two.receive, ranks, amount);
    at = root == rank && place;
    fill(rank, layout.span + 64);
    EITHER(Gatherv, Igatherv, at ? MPI_IN_PLACE : sent, at ? OTHERS_COUNT : items(two.send, amount[rank]),
           at && odd ? MPI_DATATYPE_NULL : types[two.send], AT_ROOT(received, odd ? NULL : received),
           AT_ROOT(layout.counts, odd ? NULL : layout.counts), AT_ROOT(layout.displs, odd ? NULL : layout.displs),
           AT_ROOT(types[two.receive], odd ? MPI_DATATYPE_NULL : types[0]), root, group->comm);
}

static void FORM(scatter)(void)
{
    BEGIN(INTRA);
    int pairs = pairs_draw(ranks), at;
    ROOTED;

    at = root == rank && place;
    fill(rank, span_of(two.send, pairs) * ranks + span_of(two.receive, pairs));
    EITHER(Scatter, Iscatter, AT_ROOT(sent, odd ? NULL : sent), AT_ROOT(items(two.send, pairs), OTHERS_COUNT),
           AT_ROOT(types[two.send], odd ? MPI_DATATYPE_NULL : types[0]), at ? MPI_IN_PLACE : received,
           at ? OTHERS_COUNT : items(two.receive, pairs), at && odd ? MPI_DATATYPE_NULL : types[two.receive], root, group->comm);
}

static void FORM(scatterv)(void)
{
    BEGIN(INTRA);
    int amount[MOST], at;
    struct FORM(layout) layout;
    ROOTED;

    for (int other = 0; other < ranks; other++)
        amount[other] = (int)spread((unsigned)other, 0, 4);
    FORM(lay)(&layout, two.send, ranks, amount);
    at = root == rank && place;
    fill(rank, layout.span + 64);
    EITHER(Scatterv, Iscatterv, AT_ROOT(sent, odd ? NULL : sent),
           AT_ROOT(layout.counts, odd ? NULL : layout.counts), AT_ROOT(layout.displs, odd ? NULL : layout.displs),
           AT_ROOT(types[two.send], odd ? MPI_DATATYPE_NULL : types[0]), at ? MPI_IN_PLACE : received,
           at ? OTHERS_COUNT : items(two.receive, amount[rank]), at && odd ? MPI_DATATYPE_NULL : types[two.receive], root,
           group->comm);
}

/* All ranks in place, or none; then MPI ignores what is sent. */
#define IN_PLACE                                                                                                \
    int place = in_place && !group->inter, odd = draw(2) == 0 && !started;                                      \
                                                                                                                \
    (void)odd;                                                                                                  \
    DRAWN("%s%s", place ? ", in place" : "", place && odd ? ", ignored arguments" : "")
#define GIVEN(what) (place ? MPI_IN_PLACE : (void *)(what))
#define IF_GIVEN(what, otherwise) (place && odd ? (otherwise) : (what))

static void FORM(allgather)(void)
{
    BEGIN(ANY_KIND);
    int pairs = pairs_draw(ranks + group->remote + 1);
    IN_PLACE;

    fill(rank, span_of(two.receive, pairs) * group->remote + span_of(two.send, pairs));
    EITHER(Allgather, Iallgather, GIVEN(sent), IF_GIVEN(items(two.send, pairs), OTHERS_COUNT),
           IF_GIVEN(types[two.send], MPI_DATATYPE_NULL), received, items(two.receive, pairs), types[two.receive],
           group->comm);
}

static void FORM(allgatherv)(void)
{
    BEGIN(ANY_KIND);
    int amount[MOST], own = (int)spread((unsigned)(group->here + rank), 0, 4);
    struct FORM(layout) layout;
    IN_PLACE;

    for (int other = 0; other < group->remote; other++)
        amount[other] = (int)spread((unsigned)(group->there + other), 0, 4);
    FORM(lay)(&layout, two.receive, group->remote, amount);
    fill(rank, layout.span + 64);
    EITHER(Allgatherv, Iallgatherv, GIVEN(sent), IF_GIVEN(items(two.send, own), OTHERS_COUNT),
           IF_GIVEN(types[two.send], MPI_DATATYPE_NULL), received, layout.counts, layout.displs, types[two.receive],
           group->comm);
}

static void FORM(alltoall)(void)
{
    BEGIN(ANY_KIND);
    int pairs = pairs_draw(2 * (ranks + group->remote + 1));
    IN_PLACE;

    fill(rank, (span_of(two.receive, pairs) + span_of(two.send, pairs)) * group->remote);
    EITHER(Alltoall, Ialltoall, GIVEN(sent), IF_GIVEN(items(two.send, pairs), OTHERS_COUNT),
           IF_GIVEN(types[two.send], MPI_DATATYPE_NULL), received, items(two.receive, pairs), types[two.receive],
           group->comm);
}

static void FORM(alltoallv)(void)
{
    BEGIN(ANY_KIND);
    int out[MOST], in[MOST];
    struct FORM(layout) from, to;
    IN_PLACE;

    FORM(amounts)(group, out, in, 4);
    if (place) /* as much each way */
        for (int other = 0; other < ranks; other++)
            in[other] = (int)spread((unsigned)(rank < other ? rank : other), (unsigned)(rank < other ? other : rank), 4);
    FORM(lay)(&from, two.send, group->remote, out);
    FORM(lay)(&to, two.receive, group->remote, in);
    fill(rank, from.span + to.span);
    EITHER(Alltoallv, Ialltoallv, GIVEN(sent), IF_GIVEN(from.counts, NULL), IF_GIVEN(from.displs, NULL),
           IF_GIVEN(types[two.send], MPI_DATATYPE_NULL), received, to.counts, to.displs, types[two.receive], group->comm);
}

static void FORM(alltoallw)(void)
{
    BEGIN(ANY_KIND);
    int out[MOST], in[MOST];
    struct FORM(layout) from, to;
    IN_PLACE;

    FORM(amounts)(group, out, in, 4);
    if (place)
        for (int other = 0; other < ranks; other++)
            in[other] = (int)spread((unsigned)(rank < other ? rank : other), (unsigned)(rank < other ? other : rank), 4);
    FORM(lay)(&from, two.send, group->remote, out);
    FORM(lay)(&to, two.receive, group->remote, in);
    for (int other = 0; other < group->remote; other++)
        if (out[other] == 0)
            from.all[other] = MPI_INT;
    fill(rank, from.span + to.span);
    EITHER(Alltoallw, Ialltoallw, GIVEN(sent), IF_GIVEN(from.counts, NULL), IF_GIVEN(from.bytes, NULL),
           IF_GIVEN(from.all, NULL), received, to.counts, to.bytes, to.all, group->comm);
}

static void FORM(reduce)(void)
{
    BEGIN(INTRA);
    int pairs = pairs_draw(1), at;
    MPI_Op op = op_for(two.send);
    ROOTED;

    at = root == rank && place;
    fill(rank, span_of(two.send, pairs));
    EITHER(Reduce, Ireduce, at ? MPI_IN_PLACE : sent, AT_ROOT(received, odd ? NULL : received),
           items(two.send, pairs), types[two.send], op, root, group->comm);
}

static void FORM(allreduce)(void)
{
    BEGIN(ANY_KIND);
    int pairs = pairs_draw(1);
    MPI_Op op = op_for(two.send);
    IN_PLACE;

    fill(rank, span_of(two.send, pairs));
    EITHER(Allreduce, Iallreduce, GIVEN(sent), received, items(two.send, pairs), types[two.send], op,
           group->comm);
}

/* MPICH 4.0 to 5.0 have too little room for datatypes with gaps, in both forms. */
static int FORM(without_gaps)(int type)
{
    return type == 0 ? 0 : TYPES - 1;
}

static void FORM(reduce_scatter)(void)
{
    BEGIN(ANY_KIND);
    int total = 0, uneven = !group->inter && draw(2) == 0, most = 1 + (int)draw(4);
    COUNT counts[MOST];
    int type = FORM(without_gaps)(two.send);
    MPI_Op op = op_for(type);
    IN_PLACE;

    for (int other = 0; other < ranks; other++) {
        counts[other] = items(type, uneven ? (int)spread(0, (unsigned)other, 4) : most * group->remote);
        total += (int)counts[other];
    }
    fill(rank, total * type_extent[type]);
    EITHER(Reduce_scatter, Ireduce_scatter, GIVEN(sent), received, counts, types[type], op, group->comm);
}

static void FORM(reduce_scatter_block)(void)
{
    BEGIN(ANY_KIND);
    int pairs = (int)draw(4) * (group->inter ? group->remote : 1);
    int type = FORM(without_gaps)(two.send);
    MPI_Op op = op_for(type);
    IN_PLACE;

    fill(rank, span_of(type, pairs) * ranks);
    EITHER(Reduce_scatter_block, Ireduce_scatter_block, GIVEN(sent), received, items(type, pairs),
           types[type], op, group->comm);
}

static void FORM(scan)(void)
{
    BEGIN(INTRA);
    int pairs = pairs_draw(1);
    MPI_Op op = op_for(two.send);
    IN_PLACE;

    fill(rank, span_of(two.send, pairs));
    EITHER(Scan, Iscan, GIVEN(sent), received, items(two.send, pairs), types[two.send], op, group->comm);
}

static void FORM(exscan)(void)
{
    BEGIN(INTRA);
    int pairs = pairs_draw(1);
    MPI_Op op = op_for(two.send);
    IN_PLACE;

    fill(rank, span_of(two.send, pairs));
    EITHER(Exscan, Iexscan, GIVEN(sent), received, items(two.send, pairs), types[two.send], op, group->comm);
    if (rank == 0) /* undefined */
        memset(received, 0, sizeof received);
}

static void FORM(neighbor_allgather)(void)
{
    BEGIN(TOPOLOGY);
    int pairs = (int)draw(4);

    fill(rank, span_of(two.receive, pairs) * group->sources + span_of(two.send, pairs));
    EITHER(Neighbor_allgather, Ineighbor_allgather, sent, items(two.send, pairs), types[two.send], received,
           items(two.receive, pairs), types[two.receive], group->comm);
}

static void FORM(neighbor_allgatherv)(void)
{
    BEGIN(TOPOLOGY);
    int in[MOST], own = (int)spread((unsigned)rank, 0, 4);
    struct FORM(layout) to;

    for (int edge = 0; edge < group->sources; edge++)
        in[edge] = group->source[edge] < 0 ? 1 : (int)spread((unsigned)group->source[edge], 0, 4);
    FORM(lay)(&to, two.receive, group->sources, in);
    fill(rank, to.span + 64);
    EITHER(Neighbor_allgatherv, Ineighbor_allgatherv, sent, items(two.send, own), types[two.send], received,
           to.counts, to.displs, types[two.receive], group->comm);
}

static void FORM(neighbor_alltoall)(void)
{
    BEGIN(TOPOLOGY);
    int pairs = (int)draw(4);

    fill(rank, span_of(two.receive, pairs) * group->sources + span_of(two.send, pairs) * group->destinations);
    EITHER(Neighbor_alltoall, Ineighbor_alltoall, sent, items(two.send, pairs), types[two.send], received,
           items(two.receive, pairs), types[two.receive], group->comm);
}

static void FORM(edges)(const struct group *group, int *out, int *in)
{
    unsigned rank = (unsigned)group->rank;

    for (int edge = 0; edge < group->sources; edge++)
        in[edge] = group->source[edge] < 0 ? 1 : (int)spread((unsigned)group->source[edge], rank, 4);
    for (int edge = 0; edge < group->destinations; edge++)
        out[edge] = group->destination[edge] < 0 ? 1 : (int)spread(rank, (unsigned)group->destination[edge], 4);
}

static void FORM(neighbor_alltoallv)(void)
{
    BEGIN(TOPOLOGY);
    int out[MOST], in[MOST];
    struct FORM(layout) from, to;

    FORM(edges)(group, out, in);
    FORM(lay)(&from, two.send, group->destinations, out);
    FORM(lay)(&to, two.receive, group->sources, in);
    fill(rank, from.span + to.span);
    EITHER(Neighbor_alltoallv, Ineighbor_alltoallv, sent, from.counts, from.displs, types[two.send], received,
           to.counts, to.displs, types[two.receive], group->comm);
}

static void FORM(neighbor_alltoallw)(void)
{
    BEGIN(TOPOLOGY);
    int out[MOST], in[MOST];
    struct FORM(layout) from, to;

    FORM(edges)(group, out, in);
    FORM(lay)(&from, two.send, group->destinations, out);
    FORM(lay)(&to, two.receive, group->sources, in);
    fill(rank, from.span + to.span);
    EITHER(Neighbor_alltoallw, Ineighbor_alltoallw, sent, from.counts, from.places, from.all, received, to.counts,
           to.places, to.all, group->comm);
}

const struct call TABLE[] = {
    {NAMED("Bcast"), FORM(bcast), 0},
    {NAMED("Gather"), FORM(gather), 1},
    {NAMED("Gatherv"), FORM(gatherv), 1},
    {NAMED("Scatter"), FORM(scatter), 1},
    {NAMED("Scatterv"), FORM(scatterv), 1},
    {NAMED("Allgather"), FORM(allgather), 1},
    {NAMED("Allgatherv"), FORM(allgatherv), 1},
    {NAMED("Alltoall"), FORM(alltoall), 1},
    {NAMED("Alltoallv"), FORM(alltoallv), 1},
    {NAMED("Alltoallw"), FORM(alltoallw), 1},
    {NAMED("Reduce"), FORM(reduce), 1},
    {NAMED("Allreduce"), FORM(allreduce), 1},
    {NAMED("Reduce_scatter"), FORM(reduce_scatter), 1},
    {NAMED("Reduce_scatter_block"), FORM(reduce_scatter_block), 1},
    {NAMED("Scan"), FORM(scan), 1},
    {NAMED("Exscan"), FORM(exscan), 1},
    {NAMED("Neighbor_allgather"), FORM(neighbor_allgather), 0},
    {NAMED("Neighbor_allgatherv"), FORM(neighbor_allgatherv), 0},
    {NAMED("Neighbor_alltoall"), FORM(neighbor_alltoall), 0},
    {NAMED("Neighbor_alltoallv"), FORM(neighbor_alltoallv), 0},
    {NAMED("Neighbor_alltoallw"), FORM(neighbor_alltoallw), 0},
    {NULL, NULL, 0},
};
