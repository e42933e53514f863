/* The page of the node, and the ranks of a communicator on it.
 *
 * Ranks are on one node if they have the same boot and the same process numbers. The first of them
 * provides the page; the others open its descriptor through /proc. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "back.h"
#include "page.h"

struct card {
    int64_t node, process, page;
};

static int *place; /* of each rank of MPI_COMM_WORLD on the page, or -1 */
static int own_place;
static int keyval = MPI_KEYVAL_INVALID;
static MPI_Comm last_comm;
static const struct peers *last_peers, nobody;

/* A number that ranks share if they have the same boot and the same process numbers. */
static int64_t node(void)
{
    char text[128] = "";
    FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "r");
    struct stat found;
    uint64_t digest = 14695981039346656037u;

    if (boot != NULL) {
        if (fgets(text, 64, boot) == NULL)
            text[0] = 0;
        fclose(boot);
    }
    if (stat("/proc/self/ns/pid", &found) == 0)
        sprintf(text + strlen(text), "%llu", (unsigned long long)found.st_ino);
    for (char *at = text; *at; at++)
        digest = (digest ^ (unsigned char)*at) * 1099511628211u;
    return (int64_t)digest;
}

static int forget(MPI_Comm comm, int key, void *value, void *extra)
{
    struct peers *peers = value;

    (void)comm, (void)key, (void)extra;
    if (peers == last_peers)
        last_peers = NULL;
    free(peers->place);
    free(peers->other);
    free(peers);
    return MPI_SUCCESS;
}

static int test_request(void *what, int *done)
{
    return mpi.Test(what, done, MPI_STATUS_IGNORE);
}

void peers_begin(void)
{
    int rank, ranks, here = 0, first = -1;
    MPI_Request request;
    struct card own, *cards;
    struct wait wait = {COLLECTIVE, test_request, &request, MPI_COMM_NULL, MPI_ANY_SOURCE};

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    cards = calloc((size_t)ranks, sizeof *cards);
    place = calloc((size_t)ranks, sizeof *place);
    own = (struct card){node(), getpid(), page_make(ranks)};
    mpi.Iallgather(&own, sizeof own, MPI_BYTE, cards, sizeof own, MPI_BYTE, MPI_COMM_WORLD, &request);
    wait_two_phase(&wait);
    for (int other = 0; other < ranks; other++) {
        place[other] = cards[other].node == own.node ? here++ : -1;
        if (place[other] == 0)
            first = other;
    }
    if (own.page >= 0 && first != rank)
        close((int)own.page);
    own_place = place[rank];
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &keyval, NULL);
    if (here > 1 && cards[first].page >= 0 &&
        page_join((int)cards[first].process, (int)cards[first].page, ranks, own_place) == 0)
        wait_page(own_place);
    free(cards);
}

/* The places of a group's ranks; `foreign` grows by the number of ranks outside MPI_COMM_WORLD. */
static int *places(MPI_Group group, int ranks, int *foreign)
{
    int *from = malloc(2 * ((size_t)ranks + 1) * sizeof *from), *found = malloc(((size_t)ranks + 1) * sizeof *found);
    MPI_Group world;

    for (int rank = 0; rank < ranks; rank++)
        from[rank] = rank;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, ranks, from, world, found);
    PMPI_Group_free(&world);
    free(from);
    for (int rank = 0; rank < ranks; rank++) {
        *foreign += found[rank] < 0;
        found[rank] = found[rank] < 0 ? -1 : place[found[rank]];
    }
    return found;
}

static struct peers *look_up(MPI_Comm comm)
{
    struct peers *peers = calloc(1, sizeof *peers);
    MPI_Group group;
    int inter, ranks, *local;

    PMPI_Comm_group(comm, &group);
    PMPI_Group_size(group, &ranks);
    local = places(group, ranks, &peers->foreign);
    PMPI_Group_free(&group);
    peers->place = local;
    peers->ranks = ranks;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter) {
        PMPI_Comm_remote_group(comm, &group);
        PMPI_Group_size(group, &peers->ranks);
        peers->place = places(group, peers->ranks, &peers->foreign);
        PMPI_Group_free(&group);
    }
    for (int rank = 0; rank < peers->ranks; rank++)
        peers->elsewhere += peers->place[rank] < 0;
    for (int rank = 0; inter && rank < ranks; rank++)
        peers->elsewhere += local[rank] < 0;
    peers->other = malloc(((size_t)ranks + (size_t)peers->ranks) * sizeof *peers->other);
    for (int rank = 0; rank < ranks; rank++)
        if (local[rank] >= 0 && local[rank] != own_place)
            peers->other[peers->others++] = local[rank];
    for (int rank = 0; inter && rank < peers->ranks; rank++)
        if (peers->place[rank] >= 0)
            peers->other[peers->others++] = peers->place[rank];
    if (inter)
        free(local);
    return peers;
}

const struct peers *peers_of(MPI_Comm comm)
{
    void *value = NULL;
    int found = 0;

    if (keyval == MPI_KEYVAL_INVALID) /* before peers_begin */
        return &nobody;
    if (last_peers != NULL && comm == last_comm)
        return last_peers;
    if (PMPI_Comm_get_attr(comm, keyval, &value, &found) != MPI_SUCCESS)
        return &nobody; /* not a communicator; the call itself will fail */
    if (!found) {
        value = look_up(comm);
        PMPI_Comm_set_attr(comm, keyval, value);
    }
    if (!concurrent) {
        last_comm = comm;
        last_peers = value;
    }
    return value;
}

int spans_worlds(MPI_Comm comm)
{
    return comm != MPI_COMM_NULL && peers_of(comm)->foreign > 0;
}

int place_of(const struct peers *peers, int rank)
{
    if (rank < 0 || rank >= peers->ranks)
        return ANYBODY;
    return peers->place[rank] >= 0 ? peers->place[rank] : ANYBODY;
}

void ring_rank(MPI_Comm comm, int rank)
{
    const struct peers *peers;

    if (rank < 0 || !page_asleep())
        return;
    peers = peers_of(comm);
    if (rank < peers->ranks && peers->place[rank] >= 0)
        page_ring(peers->place[rank]);
}

void ring_members(MPI_Comm comm)
{
    const struct peers *peers;

    if (!page_asleep())
        return;
    peers = peers_of(comm);
    for (int number = 0; number < peers->others; number++)
        page_ring(peers->other[number]);
}

void ring_all(void)
{
    if (page_asleep())
        ring_members(MPI_COMM_WORLD);
}
