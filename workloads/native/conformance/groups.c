/* The communicators in which cases are tried. */
#include "conformance.h"

#define TOPOLOGIES 14
#define EDGES 3 /* between two ranks, at most */

static struct group intra[2 * MOST], topology[TOPOLOGIES], inter[2];
static int intras, inters;

static void describe(struct group *group)
{
    if (group->comm == MPI_COMM_NULL)
        return;
    MPI_Comm_rank(group->comm, &group->rank);
    MPI_Comm_size(group->comm, &group->ranks);
    MPI_Comm_test_inter(group->comm, &group->inter);
    group->remote = group->ranks;
    if (group->inter)
        MPI_Comm_remote_size(group->comm, &group->remote);
}

/* The first ranks of all, in their order or in the opposite one. */
static void split(struct group *group, int ranks, int reversed)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, reversed ? -rank : rank, &group->comm);
    snprintf(group->what, sizeof group->what, "%d ranks%s", ranks, reversed ? " in reverse" : "");
    describe(group);
}

/* A grid of `ranks` ranks, whose sides are drawn. */
static void grid(struct group *group, MPI_Comm comm, int ranks)
{
    int side[3] = {1, 1, 1}, periodic[3], dimensions = 1 + (int)draw(3), left = ranks;

    for (int dimension = 0; dimension < dimensions; dimension++) {
        side[dimension] = 1 + (int)draw((unsigned)left);
        while (left % side[dimension])
            side[dimension]--;
        if (dimension == dimensions - 1)
            side[dimension] = left;
        left /= side[dimension];
        periodic[dimension] = draw(4) > 0;
    }
    snprintf(group->what, sizeof group->what, "grid %d x %d x %d, periodic %d%d%d", side[0], side[1], side[2],
             periodic[0], dimensions > 1 && periodic[1], dimensions > 2 && periodic[2]);
    if (comm == MPI_COMM_NULL)
        return;
    MPI_Cart_create(comm, dimensions, side, periodic, 0, &group->comm);
    for (int dimension = 0; dimension < dimensions; dimension++) {
        int *at = &group->source[group->sources];

        MPI_Cart_shift(group->comm, dimension, 1, &at[0], &at[1]);
        group->sources += 2;
    }
    for (int edge = 0; edge < group->sources; edge++) {
        group->source[edge] = group->source[edge] == MPI_PROC_NULL ? -1 : group->source[edge];
        group->destination[edge] = group->source[edge];
    }
    group->destinations = group->sources;
}

/* A graph with loops and several edges between two ranks; with `both`, each has one in the other direction. */
static void graph(struct group *group, MPI_Comm comm, int ranks, int both, int old)
{
    int edges[MOST][MOST], index[MOST], all[MOST * MOST * EDGES], weight[MOST] = {0}, total = 0, own, first = (int)draw(2);

    snprintf(group->what, sizeof group->what, "%s of %d ranks", old ? "graph" : "distributed graph", ranks);
    for (int from = 0; from < ranks; from++)
        for (int to = 0; to < ranks; to++)
            edges[from][to] = both && to < from ? edges[to][from] : (int)draw(ranks > 4 ? 2 : EDGES);
    if (comm == MPI_COMM_NULL)
        return;
    MPI_Comm_rank(comm, &own);
    for (int step = 0; step < ranks; step++) { /* not sorted */
        int other = first ? step : (own + step) % ranks;

        for (int edge = 0; edge < edges[other][own]; edge++)
            group->source[group->sources++] = other;
        for (int edge = 0; edge < edges[own][other]; edge++)
            group->destination[group->destinations++] = other;
    }
    if (old) {
        for (int from = 0; from < ranks; from++) {
            for (int step = 0; step < ranks; step++) {
                int other = first ? step : (from + step) % ranks;

                for (int edge = 0; edge < edges[from][other]; edge++)
                    all[total++] = other;
            }
            index[from] = total;
        }
        MPI_Graph_create(comm, ranks, index, all, 0, &group->comm);
    } else
        MPI_Dist_graph_create_adjacent(comm, group->sources, group->source, weight, group->destinations,
                                       group->destination, weight, MPI_INFO_NULL, 0, &group->comm);
}

static void between(struct group *group, int first, int ranks)
{
    int rank;
    MPI_Comm side;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank < first, rank, &side);
    MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, rank < first ? first : 0, 7, &group->comm);
    MPI_Comm_free(&side);
    group->here = rank < first ? 0 : MOST;
    group->there = MOST - group->here;
    snprintf(group->what, sizeof group->what, "between %d and %d ranks", first, ranks - first);
    describe(group);
}

void groups_make(unsigned seed)
{
    int ranks;

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    draw_from(seed, "groups", ranks);
    for (int size = 1; size <= ranks; size++) {
        split(&intra[intras++], size, 0);
        if (size > 1)
            split(&intra[intras++], size, 1);
    }
    for (int number = 0; number < TOPOLOGIES; number++) {
        struct group *group = &topology[number];
        int which = (int)draw((unsigned)ranks), kind = number % 4; /* half of them are grids */
        MPI_Comm comm;

        comm = intra[which ? 2 * which - 1 : 0].comm; /* which + 1 ranks */
        group->comm = MPI_COMM_NULL;
        if (kind < 2)
            grid(group, comm, which + 1);
        else
            graph(group, comm, which + 1, kind == 3, kind == 3);
        describe(group);
    }
    if (ranks > 1) {
        between(&inter[inters++], 1, ranks);
        between(&inter[inters++], ranks / 2, ranks);
    }
}

void groups_free(void)
{
    for (int number = 0; number < TOPOLOGIES; number++)
        if (topology[number].comm != MPI_COMM_NULL)
            MPI_Comm_free(&topology[number].comm);
    for (int number = 0; number < intras; number++)
        if (intra[number].comm != MPI_COMM_NULL)
            MPI_Comm_free(&intra[number].comm);
    for (int number = 0; number < inters; number++)
        MPI_Comm_free(&inter[number].comm);
}

const struct group *group_draw(enum kind kind)
{
    const struct group *found = NULL;

    if (kind == TOPOLOGY)
        found = &topology[draw(TOPOLOGIES)];
    else if (kind == ANY_KIND && inters && draw(4) == 0)
        found = &inter[draw((unsigned)inters)];
    else
        found = &intra[draw((unsigned)intras)];
    DRAWN("%s", found->what);
    return found;
}
