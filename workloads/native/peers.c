/* How the ranks of a communicator reach each other: by the segment of a node, by doorbells between nodes. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrappers.h"
#include "doorbell.h"
#include "node_segment.h"
#include "whereabouts.h"

#define MOST_AWAY 16 /* ranks of a communicator on other nodes that a sleeper asks to ring */

static const int *place;        /* of each rank of MPI_COMM_WORLD in the segment, or -1 */
static const enum reach *reach; /* of each rank of MPI_COMM_WORLD */
static int own_rank, remote_ranks;
int (*revoked)(MPI_Comm comm, int *flag);
static int keyval = MPI_KEYVAL_INVALID;
MPI_Comm other_comm;
const struct peers *world_peers, *other_peers;
static const struct peers nobody = {.listed = NOT_LISTED};

static int forget(MPI_Comm comm, int key, void *value, void *extra)
{
    struct peers *peers = value;

    (void)comm, (void)key, (void)extra;
    if (peers == other_peers)
        other_peers = NULL;
    if (peers == world_peers)
        world_peers = NULL;
    whereabouts_forget(peers->listed);
    free(peers->world);
    free(peers->other);
    free(peers);
    return MPI_SUCCESS;
}

void peers_begin(int own, const enum reach *reach_of_each, const int *place_of_each)
{
    own_rank = own;
    reach = reach_of_each;
    place = place_of_each;
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &keyval, NULL);
}

int *in_world(MPI_Group group, int ranks)
{
    int *from = malloc(((size_t)ranks + 1) * sizeof *from), *found = malloc(((size_t)ranks + 1) * sizeof *found);
    MPI_Group world;

    for (int rank = 0; rank < ranks; rank++)
        from[rank] = rank;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, ranks, from, world, found);
    PMPI_Group_free(&world);
    free(from);
    for (int rank = 0; rank < ranks; rank++)
        found[rank] = found[rank] < 0 ? -1 : found[rank];
    return found;
}

/* Add the ranks that are reached like this. */
static void add(struct peers *peers, const int *world, int ranks, enum reach how)
{
    for (int rank = 0; rank < ranks; rank++) {
        if (world[rank] == own_rank || (world[rank] < 0 ? SILENT : reach[world[rank]]) != how)
            continue;
        if (how == SILENT)
            peers->silent++;
        else
            peers->other[peers->others++] = world[rank];
        peers->away += how == BY_DOORBELL;
        peers->remote += world[rank] < 0;
    }
}

static struct peers *look_up(MPI_Comm comm)
{
    struct peers *peers = calloc(1, sizeof *peers);
    MPI_Group group;
    int ranks, *local;

    PMPI_Comm_group(comm, &group);
    PMPI_Group_size(group, &ranks);
    local = in_world(group, ranks);
    PMPI_Group_free(&group);
    peers->world = local;
    peers->ranks = ranks;
    PMPI_Comm_test_inter(comm, &peers->inter);
    if (peers->inter) {
        PMPI_Comm_remote_group(comm, &group);
        PMPI_Group_size(group, &peers->ranks);
        peers->world = in_world(group, peers->ranks);
        PMPI_Group_free(&group);
    }
    peers->other = malloc(((size_t)ranks + (size_t)peers->ranks) * sizeof *peers->other);
    for (enum reach how = SILENT; how <= BY_DOORBELL; how++) {
        add(peers, local, ranks, how);
        if (peers->inter)
            add(peers, peers->world, peers->ranks, how);
    }
    if (peers->inter)
        free(local);
    remote_ranks |= peers->remote > 0;
    peers->listed = whereabouts_list(peers->world, peers->ranks, peers->inter, comm == MPI_COMM_WORLD ? WORLD : USED);
    return peers;
}

/* The peers that were found before; NULL if none were, and nobody for what is no communicator: the call itself will
   fail. A handler of errors may return, and may not. */
static const struct peers *known_peers(MPI_Comm comm)
{
    void *value = NULL;
    int found = -1;

    if (PMPI_Comm_get_attr(comm, keyval, &value, &found) != MPI_SUCCESS || found < 0)
        return &nobody;
    return found ? value : NULL;
}

/* Two threads may look at a communicator for the first time. */
static const struct peers *look_up_once(MPI_Comm comm)
{
    static atomic_flag looking = ATOMIC_FLAG_INIT;
    const struct peers *peers = known_peers(comm);

    if (peers != NULL)
        return peers;
    while (concurrent && atomic_flag_test_and_set_explicit(&looking, memory_order_acquire))
        syscall(SYS_sched_yield); /* the preload counts MPI's own yields */
    peers = known_peers(comm);
    if (peers == NULL) {
        peers = look_up(comm);
        PMPI_Comm_set_attr(comm, keyval, (void *)peers);
    }
    atomic_flag_clear_explicit(&looking, memory_order_release);
    return peers;
}

const struct peers *find_peers(MPI_Comm comm)
{
    const struct peers *peers;

    if (keyval == MPI_KEYVAL_INVALID || comm == MPI_COMM_NULL) /* before peers_begin */
        return &nobody;
    if (whereabouts->stage >= FINALIZED) /* a session may go on */
        return &nobody;
    peers = look_up_once(comm);
    if (peers == &nobody)
        return peers;
    if (comm == MPI_COMM_WORLD)
        world_peers = peers;
    else if (!concurrent) {
        other_comm = comm;
        other_peers = peers;
    }
    return peers;
}

static int is_revoked(MPI_Comm comm)
{
    int flag = 0;

    return revoked != NULL && revoked(comm, &flag) == MPI_SUCCESS && flag;
}

int stays_own(MPI_Comm comm)
{
    return comm != MPI_COMM_NULL && (peers_of(comm)->remote > 0 || peers_of(comm)->idup || is_revoked(comm));
}

void idup_starts(MPI_Comm comm)
{
#ifdef OPEN_MPI
    struct peers *peers = (struct peers *)peers_of(comm);

    if (peers != &nobody)
        peers->idup = 1;
#else
    (void)comm;
#endif
}

int spans_groups(MPI_Comm comm)
{
    return comm != MPI_COMM_NULL && peers_of(comm)->inter;
}

int is_empty(MPI_Datatype datatype, MPI_Comm comm)
{
    int size = 1;

    if (datatype == MPI_DATATYPE_NULL || comm == MPI_COMM_NULL)
        return 0;
    return PMPI_Pack_size(1, datatype, comm, &size) == MPI_SUCCESS && size == 0;
}

const void *no_counts(MPI_Comm comm)
{
    static MPI_Count *counts;
    static int room;
    int ranks = peers_of(comm)->ranks;

    if (ranks > room) { /* what was there may be in use */
        counts = calloc((size_t)ranks, sizeof *counts);
        room = ranks;
    }
    return counts;
}

int is_root(MPI_Comm comm, int root)
{
    int rank = 0;

    if (root < 0 || spans_groups(comm))
        return root == MPI_ROOT;
    PMPI_Comm_rank(comm, &rank);
    return rank == root;
}

int has_remote_ranks(void)
{
    return remote_ranks;
}

int place_of(const struct peers *peers, int rank)
{
    if (rank < 0 || rank >= peers->ranks || peers->world[rank] < 0)
        return ANYBODY;
    return place[peers->world[rank]] >= 0 ? place[peers->world[rank]] : ANYBODY;
}

enum reach reach_of(const struct peers *peers, int rank)
{
    if (rank >= 0 && rank < peers->ranks)
        return peers->world[rank] < 0 ? SILENT : reach[peers->world[rank]];
    if (peers->silent > 0 || peers->away > MOST_AWAY || reach == NULL)
        return SILENT;
    return peers->away > 0 ? BY_DOORBELL : reach[own_rank];
}

uint32_t sum_of(const struct peers *peers, int rank, uint32_t (*of)(int place))
{
    uint32_t sum = 0;

    if (rank >= 0)
        return place_of(peers, rank) >= 0 ? of(place_of(peers, rank)) : 0;
    for (int number = 0; number < peers->others - peers->away; number++)
        sum += of(place[peers->other[number]]);
    return sum;
}

void ask_away(const struct peers *peers, int rank)
{
    if (rank >= 0 && rank < peers->ranks) {
        doorbell_ask(peers->world[rank]);
        return;
    }
    for (int number = peers->others - peers->away; number < peers->others; number++)
        doorbell_ask(peers->other[number]);
}

/* Wake a rank of MPI_COMM_WORLD, if it waits for this one. */
static void ring(int rank)
{
    if (reach[rank] == BY_DOORBELL)
        doorbell_ring(rank);
    else if (reach[rank] == BY_SEGMENT && segment_ring(place[rank]))
        doorbell_wake(rank);
}

/* Whether any rank sleeps that this one may have to wake. */
static int asleep(void)
{
    return (doorbell_heed() > 0) | segment_asleep();
}

void ring_rank(MPI_Comm comm, int rank)
{
    const struct peers *peers;

    if (rank < 0 || !asleep())
        return;
    peers = peers_of(comm);
    if (rank < peers->ranks && peers->world[rank] >= 0)
        ring(peers->world[rank]);
}

void ring_members(MPI_Comm comm)
{
    const struct peers *peers;

    if (!asleep())
        return;
    peers = peers_of(comm);
    for (int number = 0; number < peers->others; number++)
        ring(peers->other[number]);
}

void ring_all(void)
{
    if (asleep())
        ring_members(MPI_COMM_WORLD);
}
