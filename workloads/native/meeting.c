/* Whether all ranks of a job on one host have this library, where no lockstep answers.
 *
 * A TaskProlog of Slurm (docs/how-to/slurm-prolog.md) gives a rank the library, and no process is there that would be
 * a registrar. So the first rank that comes is the host of a meeting: it listens at a socket in no file system, whose
 * name is the job's, and the others connect with it, all before MPI's own initialization. After that each asks, and
 * the host answers all at once. Its rules are those of harness/measure/registrar.py: a yes waits until all have asked,
 * and there is a no if a rank is missing. Ranks on other hosts are missing, too.
 *
 * The socket ends with its process, however that ends, and nothing is left. Every user can take the name, or connect:
 * who is another user is no rank. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "clock.h"
#include "meeting.h"

#define QUEUE_S 10 /* for a connection: many may come at once */
#define TRIES 1000 /* of 1 ms, in which the process that has the name listens, or ends */
#define ANSWER_MS 60000 /* in which the host answers */
#define NO_YES_NS INT64_C(30000000000) /* after the first question */
#define GRACE_NS INT64_C(1000000000) /* so long after the last news a rank that has not come has no library, ... */
#define MOST_GRACE_NS INT64_C(10000000000) /* ... or as long as one that has come is in MPI's initialization */

static int host = -1; /* at which this rank listens */
static int line = -1; /* to the host */

struct question {
    int64_t asked_ns;
    int64_t ranks;
};

struct guest {
    int line, asked;
    struct question question;
};

static int of_this_user(int line)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t bytes = sizeof peer;

    return getsockopt(line, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
    uint64_t digest = 14695981039346656037u;
    int bytes;

    for (; *name; name++)
        digest = (digest ^ (unsigned char)*name) * 1099511628211u;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    bytes = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "lockstep-meeting-%u-%016llx",
                     (unsigned)geteuid(), (unsigned long long)digest);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)bytes);
}

void meeting_begin(const char *name)
{
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    struct timeval queue = {QUEUE_S, 0};

    for (int try = 0; try < TRIES; try++) {
        int channel = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), refused, again;

        if (channel < 0)
            return;
        if (bind(channel, (struct sockaddr *)&address, length) == 0 && listen(channel, 4096) == 0) {
            host = channel;
            return;
        }
        setsockopt(channel, SOL_SOCKET, SO_SNDTIMEO, &queue, sizeof queue);
        refused = connect(channel, (struct sockaddr *)&address, length) != 0;
        if (!refused && of_this_user(channel)) {
            line = channel;
            return;
        }
        again = refused && errno == ECONNREFUSED; /* the host does not listen yet, or has just ended */
        close(channel);
        if (!again) /* another user has the name, or does not let this rank in */
            return;
        poll(NULL, 0, 1);
    }
}

/* Let everybody in who is at the door. Returns how many guests there are then. */
static int welcome(struct guest *guests, int come, int room)
{
    int came;

    while (come < room && (came = accept4(host, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (of_this_user(came))
            guests[come++] = (struct guest){.line = came};
        else
            close(came);
    }
    return come;
}

/* Whether a guest stays: it has said nothing yet, or has asked for its job of so many ranks. */
static int stays(struct guest *guest, int ranks)
{
    struct question *question = &guest->question;
    ssize_t bytes = recv(guest->line, question, sizeof *question, 0);

    if (bytes < 0)
        return errno == EAGAIN || errno == EINTR;
    guest->asked = bytes == sizeof *question && question->ranks == ranks;
    return guest->asked;
}

/* Take part as the host, until the answer is known; `guests` has room for one more than there should be. */
static int decide(struct guest *guests, int *come, int ranks)
{
    struct pollfd *ready = calloc((size_t)ranks + 1, sizeof *ready);
    int64_t first_ns = now_ns(), news_ns = first_ns; /* the first question, and the last news */
    int asked = 0, answer = -1;

    while (ready != NULL && answer < 0) {
        int before = *come, asked_before = asked;

        ready[0] = (struct pollfd){.fd = host, .events = POLLIN};
        for (int guest = 0; guest < *come; guest++)
            ready[guest + 1] = (struct pollfd){.fd = guests[guest].line, .events = POLLIN};
        poll(ready, (nfds_t)*come + 1, 100);
        *come = welcome(guests, *come, ranks);
        asked = 0;
        for (int guest = 0; guest < *come;) {
            if (stays(&guests[guest], ranks)) {
                if (guests[guest].asked && guests[guest].question.asked_ns < first_ns)
                    first_ns = guests[guest].question.asked_ns;
                asked += guests[guest++].asked;
            } else { /* it has ended, or is of another job */
                close(guests[guest].line);
                guests[guest] = guests[--*come];
            }
        }
        if (*come != before || asked != asked_before)
            news_ns = now_ns();
        if (*come >= ranks || now_ns() - first_ns >= NO_YES_NS)
            answer = 0;
        else if (*come == ranks - 1 && asked == *come)
            answer = 1;
        else if (*come < ranks - 1 && now_ns() - news_ns >= (asked == *come ? GRACE_NS : MOST_GRACE_NS))
            answer = 0;
    }
    free(ready);
    return answer == 1;
}

static int hold(int ranks)
{
    struct guest *guests = calloc((size_t)ranks, sizeof *guests);
    int come = 0, answer = guests != NULL && fcntl(host, F_SETFL, O_NONBLOCK) == 0 && decide(guests, &come, ranks);
    char word = answer ? 'y' : 'n';
    char text[256];

    close(host); /* before a rank gets its answer: the name may come again */
    for (int guest = 0; guest < come; guest++) {
        send(guests[guest].line, &word, 1, MSG_NOSIGNAL);
        close(guests[guest].line);
    }
    free(guests);
    if (!answer) {
        snprintf(text, sizeof text,
                 "%d of the %d ranks of this job have said on this host that they have the library of its TaskProlog, "
                 "so all wait as MPI does: link all of them with the MPI's shared library",
                 come + 1, ranks);
        say(text);
    }
    return answer;
}

static int ask(int ranks)
{
    struct pollfd ready = {.fd = line, .events = POLLIN};
    int64_t end_ns = now_ns() + INT64_C(1000000) * ANSWER_MS, left_ns;
    struct question question = {now_ns(), ranks};
    char answer = 'n';

    if (send(line, &question, sizeof question, MSG_NOSIGNAL) == sizeof question)
        while ((left_ns = end_ns - now_ns()) > 0 && poll(&ready, 1, (int)(left_ns / 1000000) + 1) < 0 &&
               errno == EINTR)
            ;
    if (recv(line, &answer, 1, MSG_DONTWAIT) != 1)
        answer = 'n';
    close(line);
    return answer == 'y';
}

int meeting_all(int ranks)
{
    if (ranks == 1) {
        if (host >= 0)
            close(host);
        if (line >= 0)
            close(line);
        return 1;
    }
    return host >= 0 ? hold(ranks) : line >= 0 && ask(ranks);
}
