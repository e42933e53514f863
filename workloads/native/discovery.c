/* How the ranks find out, at the beginning, by which way each can ring each other.
 *
 * Ranks are on one node if they have the same boot and the same network. The first of a node makes the segment
 * and passes it to the others. Each rank is tried by one rank of every other node, at all its addresses: all
 * ranks of a node have the same network. Nobody waits for long for a datagram: what was sent before a barrier
 * has come after it, or comes a little later. Then each rank tells each other what came from there. A way
 * counts only if it works in both directions, so both ends know the same.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wrappers.h"
#include "doorbell.h"
#include "node_segment.h"
#include "fd_passing.h"

#define HELD_UP_NS INT64_C(30000000000) /* within which the rank that passes the segment does so */
#define TOGETHER_NS 100000              /* for which ranks yield before they sleep */
#define LATE_NS 10000000 /* by which a datagram may come later than the messages of a barrier */

struct card {
    int64_t node;
    uint64_t token; /* of rank 0: the job's */
    struct fd_card pass;
    struct doorbell_card doorbell;
};

struct member {
    int64_t node;
    int rank;
};

struct discovery {
    int own, ranks;
    struct card *cards;
    struct member *by_node; /* all ranks, node after node */
    int first, here, index; /* where this node's ranks begin there, how many, and which of them this one is */
};

/* Why a rank cannot ring others, as numbers; 0: it can. The largest of each kind is told. */
enum { NO_SEGMENT, NO_DOORBELL, TROUBLES };

/* What a rank tells each other one. */
struct word {
    int64_t came;               /* from there: the segment, or the number of an address */
    int64_t troubles[TROUBLES]; /* for rank 0 */
};

static int64_t encode(int64_t high, int low)
{
    return high << 32 | (low + 1);
}

/* A number that ranks share if they have the same boot and the same network. */
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
    if (stat("/proc/self/ns/net", &found) == 0)
        sprintf(text + strlen(text), "%llu", (unsigned long long)found.st_ino);
    for (char *at = text; *at; at++)
        digest = (digest ^ (unsigned char)*at) * 1099511628211u;
    return (int64_t)digest;
}

/* Take what datagrams have come while MPI is waited for. */
static int test_request(void *what, int *done)
{
    doorbell_heed();
    return done ? mpi.Test(what, done, MPI_STATUS_IGNORE) : mpi.Wait(what, MPI_STATUS_IGNORE);
}

/* Wait until a test is done. Ranks that have just begun come together soon: before they sleep they yield to
   each other for a moment, whatever the rule. */
static void finish(int (*test)(void *, int *), void *what)
{
    struct wait wait = {COLLECTIVE, test, what, MPI_COMM_NULL, MPI_ANY_SOURCE, 1};
    int64_t end_ns = now_ns() + TOGETHER_NS;
    int done = 0;

    while (!test(what, &done) && !done && now_ns() < end_ns)
        sched_yield();
    if (!done)
        wait_two_phase(&wait);
}

static int compare(const void *one, const void *other)
{
    const struct member *a = one, *b = other;

    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->rank - b->rank;
}

/* Where the ranks of the node end that begin here. */
static int end_of(const struct discovery *discovery, int begin)
{
    int end = begin;

    while (end < discovery->ranks && discovery->by_node[end].node == discovery->by_node[begin].node)
        end++;
    return end;
}

static void sort(struct discovery *discovery)
{
    int64_t own = discovery->cards[discovery->own].node;

    for (int rank = 0; rank < discovery->ranks; rank++)
        discovery->by_node[rank] = (struct member){discovery->cards[rank].node, rank};
    qsort(discovery->by_node, (size_t)discovery->ranks, sizeof *discovery->by_node, compare);
    while (discovery->by_node[discovery->first].node != own)
        discovery->first++;
    discovery->here = end_of(discovery, discovery->first) - discovery->first;
    while (discovery->by_node[discovery->first + discovery->index].rank != discovery->own)
        discovery->index++;
}

/* The card of this node's first rank, which provides the segment, or of a later one. */
static const struct fd_card *card_of(const struct discovery *discovery, int index)
{
    return &discovery->cards[discovery->by_node[discovery->first + index].rank].pass;
}

/* Make the segment for the ranks of this node, and send it to all of them. Returns 0, or an error. */
static int provide(const struct discovery *discovery)
{
    int segment = segment_make(discovery->here), error = segment < 0 ? errno : 0;

    for (int index = 0; index < discovery->here; index++) {
        int sent = fd_send(card_of(discovery, index), segment);

        error = sent ? sent : error;
    }
    if (segment >= 0)
        close(segment);
    return error;
}

struct passing {
    int64_t end_ns;
    int segment;
};

/* Whether the segment has come, or no longer will. MPI is called since others may need this rank's progress. */
static int test_passing(void *what, int *done)
{
    struct passing *passing = what;
    int ignored;

    *done = fd_take(&passing->segment) || now_ns() > passing->end_ns; /* no other thread waits yet */
    return *done ? MPI_SUCCESS
                 : mpi.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &ignored, MPI_STATUS_IGNORE);
}

/* Share a segment with the ranks of this node. Returns 0, or the error: EAGAIN if none came. */
static int share_segment(const struct discovery *discovery)
{
    struct passing passing = {now_ns() + HELD_UP_NS, -1};

    if (fd_is_open(card_of(discovery, 0)) && fd_is_open(card_of(discovery, discovery->index)))
        finish(test_passing, &passing);
    return passing.segment < 0 ? EAGAIN : segment_join(passing.segment, discovery->here, discovery->index);
}

/* Whether all of these ranks have doorbells. */
static int have_doorbells(const struct discovery *discovery, int begin, int end)
{
    for (int number = begin; number < end; number++)
        if (discovery->cards[discovery->by_node[number].rank].doorbell.port == 0)
            return 0;
    return 1;
}

/* Which of these ranks of another node tries this one. */
static int tries_this(const struct discovery *discovery, int begin, int end)
{
    return discovery->by_node[begin + discovery->index % (end - begin)].rank;
}

/* Try the ranks of other nodes that this one is to try, and the loopback for the ranks of this node. */
static void try_all(const struct discovery *discovery)
{
    doorbell_try(discovery->own, &discovery->cards[discovery->own].doorbell);
    for (int begin = 0, end; begin < discovery->ranks; begin = end) {
        end = end_of(discovery, begin);
        if (begin == discovery->first || !have_doorbells(discovery, begin, end))
            continue;
        for (int number = begin + discovery->index; number < end; number += discovery->here)
            doorbell_try(discovery->by_node[number].rank, &discovery->cards[discovery->by_node[number].rank].doorbell);
        doorbell_heed(); /* before too many have come */
    }
}

/* A rank from which a try is still to come, or -1. */
static int missing(const struct discovery *discovery)
{
    int found = discovery->here > 1 && doorbell_tried(discovery->own) == 0 ? discovery->own : -1;

    for (int begin = 0, end; begin < discovery->ranks && found < 0; begin = end) {
        end = end_of(discovery, begin);
        if (begin != discovery->first && have_doorbells(discovery, begin, end) &&
            doorbell_tried(tries_this(discovery, begin, end)) == 0)
            found = tries_this(discovery, begin, end);
    }
    return found;
}

/* Wait a little for late ones. Returns the rank of one that did not come, or -1. */
static int await_tries(const struct discovery *discovery)
{
    int64_t end_ns = now_ns() + LATE_NS, now;

    doorbell_heed();
    while (missing(discovery) >= 0 && (now = now_ns()) < end_ns)
        (void)doorbell_sleep(end_ns - now);
    return missing(discovery);
}

/* Note what came to this rank from each. */
static void note(const struct discovery *discovery, int segment, int doorbells, struct word *here)
{
    if (discovery->here > 1 && doorbells && doorbell_tried(discovery->own) == 0)
        doorbells = 0;
    for (int begin = 0, end; begin < discovery->ranks; begin = end) {
        int from = 0;

        end = end_of(discovery, begin);
        if (begin == discovery->first)
            from = segment;
        else if (doorbells && have_doorbells(discovery, begin, end))
            from = doorbell_tried(tries_this(discovery, begin, end));
        for (int number = begin; number < end; number++)
            here[discovery->by_node[number].rank].came = from;
    }
}

/* Use the ways that work in both directions. Returns whether one is a doorbell. */
static int agree(const struct discovery *discovery, const struct word *here, const struct word *there,
                 enum reach *reach, int *place)
{
    int doorbells = 0;

    for (int number = 0; number < discovery->ranks; number++) {
        int rank = discovery->by_node[number].rank, within = number - discovery->first;
        int beside = within >= 0 && within < discovery->here;

        place[rank] = -1;
        if (here[rank].came && there[rank].came) {
            reach[rank] = beside ? BY_SEGMENT : BY_DOORBELL;
            place[rank] = beside ? within : -1;
        }
        doorbells |= reach[rank] == BY_DOORBELL;
    }
    for (int rank = 0; rank < discovery->ranks && doorbells; rank++)
        doorbell_introduce(rank, &discovery->cards[rank].doorbell,
                       reach[rank] == BY_DOORBELL ? (int)there[rank].came : LOOPBACK);
    return doorbells;
}

/* Say what the ranks have told. */
static void tell(const struct word *there, int ranks)
{
    int64_t troubles[TROUBLES] = {0};
    int from, to, error, rank;
    char line[400];

    for (int number = 0; number < ranks; number++)
        for (int kind = 0; kind < TROUBLES; kind++)
            if (there[number].troubles[kind] > troubles[kind])
                troubles[kind] = there[number].troubles[kind];
    error = (int)(troubles[NO_SEGMENT] >> 32), rank = (int)(troubles[NO_SEGMENT] & INT32_MAX) - 1;
    from = (int)(troubles[NO_DOORBELL] >> 32), to = (int)(troubles[NO_DOORBELL] & INT32_MAX) - 1;
    if (rank >= 0) {
        snprintf(line, sizeof line,
                 "ranks of one host cannot all share memory (rank %d: %s): their waits nap, and take up to "
                 "three times as long; allow memfd_create and abstract Unix sockets there, and enough open "
                 "files (ulimit -n)",
                 rank, error ? strerror(error) : "nothing came");
        say(line);
    }
    if (to < 0)
        return;
    if (from == to)
        snprintf(line, sizeof line,
                 "rank %d has no network to be woken through by ranks of other hosts or network namespaces: "
                 "such waits nap; give it an IPv4 address on an interface that is up",
                 to);
    else
        snprintf(line, sizeof line,
                 "UDP datagrams of rank %d do not reach rank %d on another host: waits for such ranks nap; "
                 "let UDP pass between the hosts, and give each an IPv4 address that no other host has",
                 from, to);
    say(line);
}

/* Take part in the segment of this node. Returns whether this rank does. */
static int discover_here(const struct discovery *discovery, int error, int64_t *trouble)
{
    int joined;

    if (discovery->here == 1)
        return 0;
    if (discovery->index == 0 && !error)
        error = provide(discovery);
    joined = share_segment(discovery);
    if (error || joined)
        *trouble = encode(error ? error : joined == EAGAIN ? 0 : joined, discovery->own);
    return !joined;
}

/* Try to reach ranks of other nodes. Returns whether this rank takes part. */
static int discover_elsewhere(const struct discovery *discovery, int64_t *trouble)
{
    MPI_Request request;
    int absent = discovery->own, doorbells;

    if (discovery->here == discovery->ranks)
        return 0;
    doorbells = have_doorbells(discovery, discovery->first, discovery->first + discovery->here) &&
            doorbell_join(discovery->own, discovery->ranks, discovery->cards[0].token) == 0;
    if (doorbells)
        try_all(discovery);
    mpi.Ibarrier(MPI_COMM_WORLD, &request);
    finish(test_request, &request);
    if (doorbells)
        absent = await_tries(discovery);
    else if (concurrent || discovery->cards[discovery->own].doorbell.port != 0)
        absent = -1; /* that is no trouble, or another rank's */
    if (absent >= 0)
        *trouble = encode(absent, discovery->own);
    return doorbells;
}

void discover(int own, int ranks, enum reach *reach, int *place)
{
    struct discovery discovery = {.own = own, .ranks = ranks};
    struct card card = {.node = node()};
    struct word *here = calloc((size_t)ranks, sizeof *here), *there = calloc((size_t)ranks, sizeof *there);
    int64_t troubles[TROUBLES] = {0};
    int error = fd_open(&card.pass), segment, doorbells;
    MPI_Request request;

    discovery.cards = calloc((size_t)ranks, sizeof *discovery.cards);
    discovery.by_node = calloc((size_t)ranks, sizeof *discovery.by_node);
    if (!concurrent && getrandom(&card.token, sizeof card.token, 0) == sizeof card.token)
        doorbell_open(&card.doorbell);
    mpi.Iallgather(&card, sizeof card, MPI_BYTE, discovery.cards, sizeof card, MPI_BYTE, MPI_COMM_WORLD,
                   &request);
    finish(test_request, &request);
    sort(&discovery);
    segment = discover_here(&discovery, error, &troubles[NO_SEGMENT]);
    fd_close();
    doorbells = discover_elsewhere(&discovery, &troubles[NO_DOORBELL]);
    note(&discovery, segment, doorbells, here);
    memcpy(here[0].troubles, troubles, sizeof troubles);
    mpi.Ialltoall(here, sizeof *here, MPI_BYTE, there, sizeof *there, MPI_BYTE, MPI_COMM_WORLD,
                  &request);
    finish(test_request, &request);
    if (own == 0)
        tell(there, ranks);
    if (segment)
        wait_segment(discovery.index);
    if (!agree(&discovery, here, there, reach, place))
        doorbell_close();
    free(discovery.cards);
    free(discovery.by_node);
    free(here);
    free(there);
}
