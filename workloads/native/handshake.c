/* Whether all ranks of a job have this library. A blocking collective operation of a rank without it does not match
 * the nonblocking ones of the others, so they must know before the first. No MPI call can find it out: ranks without
 * the library would have to take part. So each rank tells a registrar of lockstep, before MPI's own initialization,
 * that it has the library (LOCKSTEP_REGISTRAR: "KEY,PATH,PORT,ADDRESS,..."). After it all ranks have begun it, and
 * have told; then each asks, and all get one answer. A rank whose line has ended by then tells and asks again. A rank
 * that the registrar does not hear is as good as one without the library: no rank gets a yes. Without a registrar
 * they meet (meeting.h), if LOCKSTEP_MEETING is set; and else all have the library, since who sets it sees to that. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "answers.h"
#include "meeting.h"
#include "profile.h"
#include "whereabouts.h"

#define PATIENCE_MS 1000 /* for a connection with another host, which may not be reached at all */
#define QUEUE_S 10       /* and for one on this host: there many may come at once */
#define ANSWER_NS INT64_C(60000000000) /* for the answer; the registrar gives no yes half as late */
#define AGAIN_NS INT64_C(10000000000)  /* in which a rank whose line has ended comes again */
#define PAUSE_MS 10                    /* before that */

static int line = -1; /* to the registrar */
static int expected;  /* there is one */
static int meets;     /* there is none, and the ranks tell each other */
static int notes = -1; /* what this rank will note of itself (whereabouts.h), to be passed on */

static int connected(int channel, const struct sockaddr *address, socklen_t length)
{
    struct pollfd ready = {.fd = channel, .events = POLLOUT};
    int error = 0;
    socklen_t bytes = sizeof error;

    if (connect(channel, address, length) == 0)
        return 1;
    return errno == EINPROGRESS && poll(&ready, 1, PATIENCE_MS) == 1 &&
           getsockopt(channel, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0;
}

static int open_line(const struct sockaddr *address, socklen_t length)
{
    int here = address->sa_family == AF_UNIX;
    int channel = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | (here ? 0 : SOCK_NONBLOCK), 0);
    struct timeval queue = {QUEUE_S, 0};

    if (channel >= 0 && here)
        setsockopt(channel, SOL_SOCKET, SO_SNDTIMEO, &queue, sizeof queue);
    if (channel >= 0 && connected(channel, address, length) && fcntl(channel, F_SETFL, 0) == 0)
        return channel;
    if (channel >= 0)
        close(channel);
    return -1;
}

static int open_path(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    strcpy(address.sun_path, path);
    if (*path == '@') /* in no file system */
        *address.sun_path = 0;
    return open_line((struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
}

static int open_port(const char *host, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    return inet_pton(AF_INET, host, &address.sin_addr) == 1 ? open_line((struct sockaddr *)&address, sizeof address)
                                                            : -1;
}

/* What Hydra's proxies of a job have in common: MPICH's launcher gives ranks no other name of their job. */
static void add_hydra(char *name, size_t room)
{
    int parent = getppid();

    for (int depth = 0; depth < 16 && parent > 1; depth++) {
        char path[64], words[4096], status[512], *after;
        FILE *file;
        size_t bytes;

        snprintf(path, sizeof path, "/proc/%d/cmdline", parent);
        file = fopen(path, "re");
        if (file == NULL)
            return;
        bytes = fread(words, 1, sizeof words - 1, file);
        fclose(file);
        words[bytes] = 0;
        for (char *at = words; at < words + bytes; at += strlen(at) + 1)
            if (strcmp(at, "--control-port") == 0 || strcmp(at, "--pgid") == 0) {
                at += strlen(at) + 1;
                snprintf(name + strlen(name), room - strlen(name), "/%.64s", at < words + bytes ? at : "");
            }
        if (strstr(name, "/") != NULL)
            return;
        snprintf(path, sizeof path, "/proc/%d/stat", parent);
        file = fopen(path, "re");
        bytes = file != NULL ? fread(status, 1, sizeof status - 1, file) : 0;
        if (file != NULL)
            fclose(file);
        status[bytes] = 0;
        after = strrchr(status, ')');
        if (after == NULL || sscanf(after + 1, " %*c %d", &parent) != 1)
            return;
    }
}

/* The name of the job whose ranks are together in MPI_COMM_WORLD, as its launcher has it. */
static void name_world(char *name, size_t room)
{
    static const char *const variables[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID",
                                            "SLURM_STEP_ID"};

    *name = 0;
    add_hydra(name, room);
    for (size_t number = 0; number < sizeof variables / sizeof *variables; number++) {
        const char *value = getenv(variables[number]);

        snprintf(name + strlen(name), room - strlen(name), "%.100s,", value != NULL ? value : "");
    }
    for (char *at = name; *at; at++)
        if (*at == '\n' || *at == ' ')
            *at = '_';
}

static int tell(const char *text)
{
    return send(line, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

/* Say it, and pass a descriptor on, if there is one; only a line on this host can. */
static void tell_and_pass(const char *text, int descriptor)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof descriptor)];
    } beside = {.bytes = {0}};
    struct iovec words = {(void *)(uintptr_t)text, strlen(text)};
    struct msghdr message = {.msg_iov = &words, .msg_iovlen = 1};

    if (descriptor >= 0) {
        message.msg_control = &beside;
        message.msg_controllen = sizeof beside;
        beside.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
                                         .cmsg_len = CMSG_LEN(sizeof descriptor)};
        memcpy(CMSG_DATA(&beside.header), &descriptor, sizeof descriptor);
    }
    /* Without the descriptor where that may not be passed on. A line that has ended shows it later. */
    if (sendmsg(line, &message, MSG_NOSIGNAL) < 0 && descriptor >= 0)
        (void)!tell(text);
}

/* Whether there is a line to the registrar; it may end as soon as it has begun. */
static int announce(void)
{
    const char *given = getenv("LOCKSTEP_REGISTRAR");
    char *copy = given != NULL ? strdup(given) : NULL, *rest = copy, *key, *path, *port, *host;
    char name[640], text[1024];
    int here = 0;

    if (copy == NULL)
        return 0;
    key = strsep(&rest, ",");
    path = strsep(&rest, ",");
    port = strsep(&rest, ",");
    if (port != NULL) {
        line = open_path(path);
        here = line >= 0;
        while (line < 0 && (host = strsep(&rest, ",")) != NULL)
            line = open_port(host, atoi(port));
        name_world(name, sizeof name);
        if (here && notes < 0)
            notes = whereabouts_open(name, profile_bytes());
        if (line >= 0 && !here && notes < 0 && whereabouts_keep(name))
            answers_begin(line, key, name);
        snprintf(text, sizeof text, "%s %s\n", key, name);
        if (line >= 0)
            tell_and_pass(text, here ? notes : -1);
    }
    free(copy);
    return line >= 0;
}

void handshake_announce(void)
{
    char name[640];

    expected = getenv("LOCKSTEP_REGISTRAR") != NULL;
    meets = !expected && getenv("LOCKSTEP_MEETING") != NULL;
    if (meets) {
        name_world(name, sizeof name);
        meeting_begin(name);
    }
    announce();
}

enum { ENDED = 'e', LATE = 'l' }; /* the line has ended; nothing came in time: the registrar may be stopped */

/* The registrar's answer, or why there is none. */
static char take_answer(void)
{
    struct pollfd ready = {.fd = line, .events = POLLIN};
    int64_t end_ns = now_ns() + ANSWER_NS, left_ns;

    while ((left_ns = end_ns - now_ns()) > 0) {
        int come = poll(&ready, 1, (int)(left_ns / 1000000) + 1);
        char answer;
        ssize_t bytes = come == 1 ? recv(line, &answer, 1, MSG_DONTWAIT) : -1;

        if (bytes >= 0)
            return bytes > 0 ? answer : ENDED;
        if (come != 0 && errno != EINTR && errno != EAGAIN)
            return ENDED;
    }
    return LATE;
}

static void hang_up(void)
{
    close(line);
    line = -1;
}

static int come_again(void)
{
    hang_up();
    poll(NULL, 0, PAUSE_MS);
    return announce();
}

static int reached(int rank, int ranks)
{
    int64_t until_ns = now_ns() + AGAIN_NS;
    char text[64], answer;

    if (line < 0) {
        if (expected && ranks > 1 && rank == 0)
            say("this rank does not reach lockstep, and its job waits as MPI does: it has a network namespace apart, "
                "or its host does not reach lockstep's; start lockstep in there");
        return !expected || ranks == 1;
    }
    snprintf(text, sizeof text, "%d %d\n", rank, ranks);
    if (ranks == 1) {
        tell(text);
        hang_up();
        return 1;
    }
    do /* callers without the key may have pushed this rank out before it had shown its own */
        answer = tell(text) ? take_answer() : ENDED;
    while (answer == ENDED && now_ns() < until_ns && come_again());
    hang_up();
    return answer == 'y';
}

int handshake_reached(int rank, int ranks)
{
    int all = meets ? meeting_all(ranks) : reached(rank, ranks);

    if (notes >= 0)
        close(notes);
    notes = -1;
    return all;
}
