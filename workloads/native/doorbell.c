/* A rank cannot see whether a rank on another node sleeps. So a sleeper asks those that can end its wait to
   ring, and each rings once, at its next call that may have done so. Who asks too late, or whose datagram is
   lost, finds its message at the end of a nap. */
#define _GNU_SOURCE
#include "doorbell.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "descriptor.h"

#define MOST_READ 1024 /* datagrams at a time */

enum what { ASK = 1, RING, TRY };

/* All but the token is in network byte order. */
struct datagram {
    uint64_t token;
    uint32_t from, to; /* ranks: several hosts may have one address */
    uint32_t what;
    uint32_t number; /* of a try: the number of the address to which it is sent */
};

static int doorbell = -1;
static struct stat made; /* the socket */
static int own, ranks, asking, rung;
static uint64_t token;
static struct doorbell_card self;
static struct sockaddr_in *reached; /* of each rank */
static char *asked;                 /* by each rank */
static unsigned char *tried;        /* by each rank, and at which address */

static void note_addresses(struct doorbell_card *card)
{
    struct ifaddrs *found, *at;

    if (getifaddrs(&found))
        return;
    for (at = found; at != NULL && card->addresses < ADDRESSES; at = at->ifa_next) {
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET)
            continue;
        if ((at->ifa_flags & (IFF_LOOPBACK | IFF_UP | IFF_RUNNING)) != (IFF_UP | IFF_RUNNING))
            continue;
        card->address[card->addresses++] = ((struct sockaddr_in *)at->ifa_addr)->sin_addr.s_addr;
    }
    freeifaddrs(found);
}

static int is_ours(void)
{
    if (doorbell >= 0 && !is_still(doorbell, &made))
        doorbell = -1;
    return doorbell >= 0;
}

int doorbell_open(struct doorbell_card *card)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t length = sizeof any;

    memset(card, 0, sizeof *card);
    doorbell = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (doorbell < 0)
        return -1;
    if (fstat(doorbell, &made) || bind(doorbell, (struct sockaddr *)&any, sizeof any) ||
        getsockname(doorbell, (struct sockaddr *)&any, &length)) {
        doorbell_close();
        return -1;
    }
    note_addresses(card);
    if (card->addresses == 0) {
        doorbell_close();
        return -1;
    }
    card->port = any.sin_port;
    self = *card;
    return 0;
}

void doorbell_close(void)
{
    if (is_ours())
        close(doorbell);
    doorbell = -1;
}

int doorbell_join(int rank, int all, uint64_t of_job)
{
    own = rank;
    ranks = all;
    token = of_job;
    reached = calloc((size_t)all, sizeof *reached);
    tried = calloc((size_t)all, 1);
    asked = calloc((size_t)all, 1);
    return reached != NULL && tried != NULL && asked != NULL ? 0 : -1;
}

void doorbell_introduce(int rank, const struct doorbell_card *card, int number)
{
    reached[rank].sin_family = AF_INET;
    reached[rank].sin_port = card->port;
    reached[rank].sin_addr.s_addr = number == LOOPBACK ? htonl(INADDR_LOOPBACK) : card->address[number - 1];
}

/* One that cannot be sent is as good as lost. */
static void send_to(int rank, enum what what, int number)
{
    struct datagram datagram = {token, htonl((uint32_t)own), htonl((uint32_t)rank), htonl(what),
                                htonl((uint32_t)number)};

    if (is_ours())
        (void)sendto(doorbell, &datagram, sizeof datagram, MSG_NOSIGNAL, (struct sockaddr *)&reached[rank],
                     sizeof reached[rank]);
}

static int is_own(uint32_t address)
{
    int found = 0;

    for (int number = 0; number < self.addresses; number++)
        found |= self.address[number] == address;
    return found;
}

static void try_at(int rank, const struct doorbell_card *card, int number)
{
    doorbell_introduce(rank, card, number);
    send_to(rank, TRY, number);
}

void doorbell_try(int rank, const struct doorbell_card *card)
{
    if (rank == own)
        try_at(rank, card, LOOPBACK);
    for (int number = 1; rank != own && number <= card->addresses; number++)
        if (!is_own(card->address[number - 1]))
            try_at(rank, card, number);
}

int doorbell_tried(int rank)
{
    return tried[rank];
}

void doorbell_ask(int rank)
{
    send_to(rank, ASK, 0);
}

/* Whether something has come. Each call of the program asks this, so it only looks, and asks whose socket
   this is only before something is taken from it. */
static int has_come(void)
{
    char first;

    return recv(doorbell, &first, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 && is_ours();
}

/* Read what has come, and leave the program's errno alone. */
static void read_all(void)
{
    struct datagram datagram;
    int before = errno, come = asked != NULL && has_come();
    ssize_t length;

    for (int read = 0; come && read < MOST_READ; read++) {
        uint32_t rank, number;

        length = recv(doorbell, &datagram, sizeof datagram, MSG_TRUNC | MSG_DONTWAIT);
        if (length < 0)
            break;
        rank = ntohl(datagram.from);
        number = ntohl(datagram.number);
        if (length != sizeof datagram || datagram.token != token || rank >= (uint32_t)ranks ||
            ntohl(datagram.to) != (uint32_t)own || number > LOOPBACK)
            continue;
        if (ntohl(datagram.what) == RING) {
            rung = 1;
        } else if (ntohl(datagram.what) == TRY) {
            if (tried[rank] == 0 || number < tried[rank])
                tried[rank] = (unsigned char)number;
        } else if (!asked[rank]) {
            asked[rank] = 1;
            asking++;
        }
    }
    errno = before;
}

int doorbell_heed(void)
{
    if (doorbell >= 0)
        read_all();
    return asking;
}

void doorbell_ring(int rank)
{
    if (asked == NULL || !asked[rank])
        return;
    asked[rank] = 0;
    asking--;
    send_to(rank, RING, 0);
}

void doorbell_wake(int rank)
{
    send_to(rank, RING, 0);
}

void doorbell_forget(void)
{
    read_all();
    rung = 0;
}

enum ending doorbell_sleep(int64_t timeout_ns)
{
    struct pollfd socket = {.fd = is_ours() ? doorbell : -1, .events = POLLIN}; /* -1: nothing ever comes */
    struct timespec most = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    int found = rung ? 1 : ppoll(&socket, 1, &most, NULL);

    if (found == 0)
        return TIMED_OUT;
    read_all();
    found = rung;
    rung = 0;
    return found ? RUNG : DISTURBED;
}
