/* How the ranks find out, at the beginning, by which way each can ring each other.
 *
 * Ranks are on one node if they have the same boot and the same network. The first of a node makes the page
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

#include "back.h"
#include "bell.h"
#include "page.h"
#include "pass.h"

#define HELD_UP_NS INT64_C(30000000000) /* within which the rank that passes the page does so */
#define TOGETHER_NS 100000              /* for which ranks yield before they sleep */
#define LATE_NS 10000000 /* by which a datagram may come later than the messages of a barrier */

struct card {
    int64_t node;
    uint64_t token; /* of rank 0: the job's */
    struct pass_card pass;
    struct bell_card bell;
};

struct member {
    int64_t node;
    int rank;
};

struct meeting {
    int own, ranks;
    struct card *cards;
    struct member *by_node; /* all ranks, node after node */
    int first, here, index; /* where this node's ranks begin there, how many, and which of them this one is */
};

/* Why a rank cannot ring others, as numbers; 0: it can. The largest of each kind is told. */
enum { NO_PAGE, NO_BELL, TROUBLES };

/* What a rank tells each other one. */
struct word {
    int64_t came;               /* from there: the page, or the number of an address */
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
    bell_heed();
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
static int end_of(const struct meeting *meeting, int begin)
{
    int end = begin;

    while (end < meeting->ranks && meeting->by_node[end].node == meeting->by_node[begin].node)
        end++;
    return end;
}

static void sort(struct meeting *meeting)
{
    int64_t own = meeting->cards[meeting->own].node;

    for (int rank = 0; rank < meeting->ranks; rank++)
        meeting->by_node[rank] = (struct member){meeting->cards[rank].node, rank};
    qsort(meeting->by_node, (size_t)meeting->ranks, sizeof *meeting->by_node, compare);
    while (meeting->by_node[meeting->first].node != own)
        meeting->first++;
    meeting->here = end_of(meeting, meeting->first) - meeting->first;
    while (meeting->by_node[meeting->first + meeting->index].rank != meeting->own)
        meeting->index++;
}

/* The card of this node's first rank, which provides the page, or of a later one. */
static const struct pass_card *card_of(const struct meeting *meeting, int index)
{
    return &meeting->cards[meeting->by_node[meeting->first + index].rank].pass;
}

/* Make the page for the ranks of this node, and send it to all of them. Returns 0, or an error. */
static int provide(const struct meeting *meeting)
{
    int page = page_make(meeting->here), error = page < 0 ? errno : 0;

    for (int index = 0; index < meeting->here; index++) {
        int sent = pass_to(card_of(meeting, index), page);

        error = sent ? sent : error;
    }
    if (page >= 0)
        close(page);
    return error;
}

struct passing {
    int64_t end_ns;
    int page;
};

/* Whether the page has come, or no longer will. MPI is called since others may need this rank's progress. */
static int test_passing(void *what, int *done)
{
    struct passing *passing = what;
    int ignored;

    *done = pass_take(&passing->page) || now_ns() > passing->end_ns; /* no other thread waits yet */
    return *done ? MPI_SUCCESS
                 : mpi.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &ignored, MPI_STATUS_IGNORE);
}

/* Share a page with the ranks of this node. Returns 0, or the error: EAGAIN if none came. */
static int share_page(const struct meeting *meeting)
{
    struct passing passing = {now_ns() + HELD_UP_NS, -1};

    if (pass_is_open(card_of(meeting, 0)) && pass_is_open(card_of(meeting, meeting->index)))
        finish(test_passing, &passing);
    return passing.page < 0 ? EAGAIN : page_join(passing.page, meeting->here, meeting->index);
}

/* Whether all of these ranks have bells. */
static int have_bells(const struct meeting *meeting, int begin, int end)
{
    for (int number = begin; number < end; number++)
        if (meeting->cards[meeting->by_node[number].rank].bell.port == 0)
            return 0;
    return 1;
}

/* Which of these ranks of another node tries this one. */
static int tries_this(const struct meeting *meeting, int begin, int end)
{
    return meeting->by_node[begin + meeting->index % (end - begin)].rank;
}

/* Try the ranks of other nodes that this one is to try, and the loopback for the ranks of this node. */
static void try_all(const struct meeting *meeting)
{
    bell_try(meeting->own, &meeting->cards[meeting->own].bell);
    for (int begin = 0, end; begin < meeting->ranks; begin = end) {
        end = end_of(meeting, begin);
        if (begin == meeting->first || !have_bells(meeting, begin, end))
            continue;
        for (int number = begin + meeting->index; number < end; number += meeting->here)
            bell_try(meeting->by_node[number].rank, &meeting->cards[meeting->by_node[number].rank].bell);
        bell_heed(); /* before too many have come */
    }
}

/* A rank from which a try is still to come, or -1. */
static int missing(const struct meeting *meeting)
{
    int found = meeting->here > 1 && bell_tried(meeting->own) == 0 ? meeting->own : -1;

    for (int begin = 0, end; begin < meeting->ranks && found < 0; begin = end) {
        end = end_of(meeting, begin);
        if (begin != meeting->first && have_bells(meeting, begin, end) &&
            bell_tried(tries_this(meeting, begin, end)) == 0)
            found = tries_this(meeting, begin, end);
    }
    return found;
}

/* Wait a little for late ones. Returns the rank of one that did not come, or -1. */
static int await_tries(const struct meeting *meeting)
{
    int64_t end_ns = now_ns() + LATE_NS, now;

    bell_heed();
    while (missing(meeting) >= 0 && (now = now_ns()) < end_ns)
        (void)bell_sleep(end_ns - now);
    return missing(meeting);
}

/* Note what came to this rank from each. */
static void note(const struct meeting *meeting, int page, int bells, struct word *here)
{
    if (meeting->here > 1 && bells && bell_tried(meeting->own) == 0)
        bells = 0;
    for (int begin = 0, end; begin < meeting->ranks; begin = end) {
        int from = 0;

        end = end_of(meeting, begin);
        if (begin == meeting->first)
            from = page;
        else if (bells && have_bells(meeting, begin, end))
            from = bell_tried(tries_this(meeting, begin, end));
        for (int number = begin; number < end; number++)
            here[meeting->by_node[number].rank].came = from;
    }
}

/* Use the ways that work in both directions. Returns whether one is a bell. */
static int agree(const struct meeting *meeting, const struct word *here, const struct word *there,
                 enum reach *reach, int *place)
{
    int bells = 0;

    for (int number = 0; number < meeting->ranks; number++) {
        int rank = meeting->by_node[number].rank, within = number - meeting->first;
        int beside = within >= 0 && within < meeting->here;

        place[rank] = -1;
        if (here[rank].came && there[rank].came) {
            reach[rank] = beside ? BY_PAGE : BY_BELL;
            place[rank] = beside ? within : -1;
        }
        bells |= reach[rank] == BY_BELL;
    }
    for (int rank = 0; rank < meeting->ranks && bells; rank++)
        bell_introduce(rank, &meeting->cards[rank].bell,
                       reach[rank] == BY_BELL ? (int)there[rank].came : LOOPBACK);
    return bells;
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
    error = (int)(troubles[NO_PAGE] >> 32), rank = (int)(troubles[NO_PAGE] & INT32_MAX) - 1;
    from = (int)(troubles[NO_BELL] >> 32), to = (int)(troubles[NO_BELL] & INT32_MAX) - 1;
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

/* Take part in the page of this node. Returns whether this rank does. */
static int meet_here(const struct meeting *meeting, int error, int64_t *trouble)
{
    int joined;

    if (meeting->here == 1)
        return 0;
    if (meeting->index == 0 && !error)
        error = provide(meeting);
    joined = share_page(meeting);
    if (error || joined)
        *trouble = encode(error ? error : joined == EAGAIN ? 0 : joined, meeting->own);
    return !joined;
}

/* Try to reach ranks of other nodes. Returns whether this rank takes part. */
static int meet_elsewhere(const struct meeting *meeting, int64_t *trouble)
{
    MPI_Request request;
    int absent = meeting->own, bells;

    if (meeting->here == meeting->ranks)
        return 0;
    bells = have_bells(meeting, meeting->first, meeting->first + meeting->here) &&
            bell_join(meeting->own, meeting->ranks, meeting->cards[0].token) == 0;
    if (bells)
        try_all(meeting);
    mpi.Ibarrier(MPI_COMM_WORLD, &request);
    finish(test_request, &request);
    if (bells)
        absent = await_tries(meeting);
    else if (concurrent || meeting->cards[meeting->own].bell.port != 0)
        absent = -1; /* that is no trouble, or another rank's */
    if (absent >= 0)
        *trouble = encode(absent, meeting->own);
    return bells;
}

void meet(int own, int ranks, enum reach *reach, int *place)
{
    struct meeting meeting = {.own = own, .ranks = ranks};
    struct card card = {.node = node()};
    struct word *here = calloc((size_t)ranks, sizeof *here), *there = calloc((size_t)ranks, sizeof *there);
    int64_t troubles[TROUBLES] = {0};
    int error = pass_open(&card.pass), page, bells;
    MPI_Request request;

    meeting.cards = calloc((size_t)ranks, sizeof *meeting.cards);
    meeting.by_node = calloc((size_t)ranks, sizeof *meeting.by_node);
    if (!concurrent && getrandom(&card.token, sizeof card.token, 0) == sizeof card.token)
        bell_open(&card.bell);
    mpi.Iallgather(&card, sizeof card, MPI_BYTE, meeting.cards, sizeof card, MPI_BYTE, MPI_COMM_WORLD,
                   &request);
    finish(test_request, &request);
    sort(&meeting);
    page = meet_here(&meeting, error, &troubles[NO_PAGE]);
    pass_close();
    bells = meet_elsewhere(&meeting, &troubles[NO_BELL]);
    note(&meeting, page, bells, here);
    memcpy(here[0].troubles, troubles, sizeof troubles);
    mpi.Ialltoall(here, sizeof *here, MPI_BYTE, there, sizeof *there, MPI_BYTE, MPI_COMM_WORLD,
                  &request);
    finish(test_request, &request);
    if (own == 0)
        tell(there, ranks);
    if (page)
        wait_page(meeting.index);
    if (!agree(&meeting, here, there, reach, place))
        bell_close();
    free(meeting.cards);
    free(meeting.by_node);
    free(here);
    free(there);
}
