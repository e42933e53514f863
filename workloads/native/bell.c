/* A rank cannot see whether a rank on another node sleeps. So a sleeper asks those that can end its wait to
   ring, and each rings once, at its next call that may have done so. Who asks too late, or whose datagram is
   lost, finds its message at the end of a nap. */
#define _GNU_SOURCE
#include "bell.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "descriptor.h"

#define MOST_READ 1024 /* datagrams at a time */

enum what { ASK = 1, RING };

struct datagram {
    uint64_t token;
    uint32_t rank; /* network byte order */
    uint32_t what; /* network byte order */
};

static int bell = -1;
static struct stat made; /* the socket */
static int own, ranks, asking, rung;
static uint64_t token;
static struct bell_card self;
static struct sockaddr_in *reached; /* of each rank */
static char *asked;                 /* by each rank */

static void note_addresses(struct bell_card *card)
{
    struct ifaddrs *found, *at;

    if (getifaddrs(&found))
        return;
    for (at = found; at != NULL && card->addresses < ADDRESSES; at = at->ifa_next) {
        if (at->ifa_addr == NULL || at->ifa_netmask == NULL || at->ifa_addr->sa_family != AF_INET)
            continue;
        if ((at->ifa_flags & IFF_LOOPBACK) || !(at->ifa_flags & IFF_UP))
            continue;
        card->address[card->addresses] = ((struct sockaddr_in *)at->ifa_addr)->sin_addr.s_addr;
        card->mask[card->addresses++] = ((struct sockaddr_in *)at->ifa_netmask)->sin_addr.s_addr;
    }
    freeifaddrs(found);
}

static int is_ours(void)
{
    if (bell >= 0 && !is_still(bell, &made))
        bell = -1;
    return bell >= 0;
}

int bell_open(struct bell_card *card)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t length = sizeof any;

    memset(card, 0, sizeof *card);
    if (getrandom(&card->token, sizeof card->token, 0) != sizeof card->token)
        return -1;
    bell = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (bell < 0)
        return -1;
    if (fstat(bell, &made) || bind(bell, (struct sockaddr *)&any, sizeof any) ||
        getsockname(bell, (struct sockaddr *)&any, &length)) {
        bell_close();
        return -1;
    }
    note_addresses(card);
    if (card->addresses == 0) {
        bell_close();
        return -1;
    }
    card->port = any.sin_port;
    self = *card;
    return 0;
}

void bell_close(void)
{
    if (is_ours())
        close(bell);
    bell = -1;
}

int bell_join(int rank, int all)
{
    own = rank;
    ranks = all;
    reached = calloc((size_t)all, sizeof *reached);
    asked = calloc((size_t)all, 1);
    return reached != NULL && asked != NULL ? 0 : -1;
}

/* The address at which this host best reaches another: on a network that both are in, else its first. */
static uint32_t address_of(const struct bell_card *card, int here)
{
    if (here)
        return htonl(INADDR_LOOPBACK);
    for (int theirs = 0; theirs < card->addresses; theirs++)
        for (int mine = 0; mine < self.addresses; mine++)
            if (self.mask[mine] == card->mask[theirs] &&
                ((self.address[mine] ^ card->address[theirs]) & self.mask[mine]) == 0)
                return card->address[theirs];
    return card->address[0];
}

void bell_introduce(int rank, const struct bell_card *card, int here)
{
    if (rank == 0)
        token = card->token;
    reached[rank].sin_family = AF_INET;
    reached[rank].sin_port = card->port;
    reached[rank].sin_addr.s_addr = address_of(card, here);
}

static void send_to(int rank, enum what what)
{
    struct datagram datagram = {token, htonl((uint32_t)own), htonl(what)};

    /* One that cannot be sent is as good as lost. */
    if (!is_ours())
        return;
    (void)sendto(bell, &datagram, sizeof datagram, MSG_NOSIGNAL, (struct sockaddr *)&reached[rank],
                 sizeof reached[rank]);
}

void bell_ask(int rank)
{
    send_to(rank, ASK);
}

/* Whether something has come. Each call of the program asks this, so it only looks, and asks whose socket
   this is only before something is taken from it. */
static int has_come(void)
{
    char first;

    return recv(bell, &first, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 && is_ours();
}

/* Read what has come, and leave the program's errno alone. */
static void read_all(void)
{
    struct datagram datagram;
    int before = errno, come = asked != NULL && has_come();
    ssize_t length;

    for (int read = 0; come && read < MOST_READ; read++) {
        uint32_t rank;

        length = recv(bell, &datagram, sizeof datagram, MSG_TRUNC | MSG_DONTWAIT);
        if (length < 0)
            break;
        rank = ntohl(datagram.rank);
        if (length != sizeof datagram || datagram.token != token || rank >= (uint32_t)ranks)
            continue;
        if (ntohl(datagram.what) == RING) {
            rung = 1;
        } else if (!asked[rank]) {
            asked[rank] = 1;
            asking++;
        }
    }
    errno = before;
}

int bell_heed(void)
{
    if (bell >= 0)
        read_all();
    return asking;
}

void bell_ring(int rank)
{
    if (asked == NULL || !asked[rank])
        return;
    asked[rank] = 0;
    asking--;
    send_to(rank, RING);
}

void bell_wake(int rank)
{
    send_to(rank, RING);
}

void bell_forget(void)
{
    read_all();
    rung = 0;
}

enum ending bell_sleep(int64_t timeout_ns)
{
    struct pollfd socket = {.fd = is_ours() ? bell : -1, .events = POLLIN}; /* -1: nothing ever comes */
    struct timespec most = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    int found = rung ? 1 : ppoll(&socket, 1, &most, NULL);

    if (found == 0)
        return TIMED_OUT;
    read_all();
    found = rung;
    rung = 0;
    return found ? RUNG : DISTURBED;
}
