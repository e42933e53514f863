/* A rank whose memory lockstep cannot read answers its questions: what it notes, and what the kernel says of it.
 *
 * A thread waits for them, with all signals blocked. It has descriptors of its own: the program can neither close its
 * line nor see it, a forked child does not hold it, and it ends with the process, and with an exec. If the line breaks,
 * the thread comes again. At the end of MPI_Finalize it says so, unasked, and ends. */
#define _GNU_SOURCE
#include "answers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "descriptor.h"
#include "whereabouts.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define UNSHARED 2u /* CLOSE_RANGE_UNSHARE */
#define STACK_BYTES 262144
#define TRIES 100 /* lines: callers without the key may push one out, and a network may reset it */
#define PAUSE_MS 100
#define FAREWELL_MS 1000 /* for which MPI_Finalize waits for the last answer to be sent */

static struct sockaddr_in asker;
static char greeting[1024];
static int bell = -1; /* of the program's descriptors, but for a socket the only one: it tells the thread to end */
static struct stat made;
static int thread_bell; /* its other end, a descriptor of the thread */
static sem_t apart;     /* the thread has its own descriptors */

/* Give this thread descriptors of its own, and none of the program's: a pipe that it kept open would have no end. */
static int leave_descriptors(int kept)
{
    DIR *all;

    if (syscall(SYS_close_range, (unsigned)kept + 1, ~0u, UNSHARED) == 0)
        return kept == 0 || syscall(SYS_close_range, 0u, (unsigned)kept - 1, 0u) == 0;
    all = unshare(CLONE_FILES) == 0 ? opendir("/proc/thread-self/fd") : NULL; /* before Linux 5.9 */
    if (all == NULL)
        return 0;
    for (const struct dirent *one; (one = readdir(all)) != NULL;)
        if (*one->d_name != '.' && atoi(one->d_name) != dirfd(all) && atoi(one->d_name) != kept)
            close(atoi(one->d_name));
    closedir(all);
    return 1;
}

static int send_all(int line, const void *bytes, size_t count)
{
    const char *at = bytes;

    while (count > 0) {
        ssize_t sent = send(line, at, count, MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR)
            return 0;
        at += sent > 0 ? sent : 0;
        count -= sent > 0 ? (size_t)sent : 0;
    }
    return 1;
}

static uint32_t read_text(const char *path, char *text, size_t room)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file >= 0 ? read(file, text, room) : 0;

    if (file >= 0)
        close(file);
    return bytes > 0 ? (uint32_t)bytes : 0;
}

static uint64_t handled_signals(void)
{
    uint64_t handled = 0;

    for (int number = 1; number <= 64; number++) {
        struct sigaction action;

        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            handled |= UINT64_C(1) << (number - 1);
    }
    return handled;
}

static int answer(int line, char question)
{
    const struct whereabouts *all = whereabouts;
    char stat[1024], syscall_text[256];
    size_t members = (size_t)__atomic_load_n(&all->members_used, __ATOMIC_ACQUIRE);
    struct answer head = {
        .page = offsetof(struct whereabouts, communicators),
        .stat = read_text("/proc/self/stat", stat, sizeof stat),
        .syscall = read_text("/proc/self/syscall", syscall_text, sizeof syscall_text),
        .handled = handled_signals(),
    };

    if (question == ASK_NOTES) {
        head.page = (uint32_t)(offsetof(struct whereabouts, members) + members * sizeof *all->members);
        head.names = (uint32_t)all->calls * NAME_BYTES;
    }
    return send_all(line, &head, sizeof head) && send_all(line, all, head.page) &&
           send_all(line, all->names, head.names) && send_all(line, stat, head.stat) &&
           send_all(line, syscall_text, head.syscall);
}

/* Answer until the line ends, or MPI_Finalize, or we are refused. Returns whether there is nothing more to do. */
static int serve(int line)
{
    struct pollfd ready[] = {{.fd = line, .events = POLLIN}, {.fd = thread_bell, .events = POLLIN}};

    for (;;) {
        char question;
        ssize_t bytes;

        if (poll(ready, 2, -1) < 0)
            continue; /* a signal that the C library keeps for itself */
        if (ready[1].revents && recv(thread_bell, &question, 1, MSG_DONTWAIT) == 1)
            return answer(line, ASK_COUNTERS) || 1;
        if (ready[1].revents) /* the program has closed the other end */
            ready[1].fd = -1;
        if (!ready[0].revents)
            continue;
        bytes = recv(line, &question, 1, MSG_DONTWAIT);
        if (bytes < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (bytes <= 0)
            return 0;
        if (question != ASK_COUNTERS && question != ASK_NOTES)
            return 1;
        if (!answer(line, question))
            return 0;
    }
}

/* Reach lockstep, and serve. Returns whether there is nothing more to do. */
static int answer_once(void)
{
    int line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int over = 0;

    if (line < 0)
        return 1;
    if (connect(line, (struct sockaddr *)&asker, sizeof asker) == 0 && send_all(line, greeting, strlen(greeting)))
        over = serve(line);
    close(line);
    return over;
}

static void *answer_all(void *ignored)
{
    int able = leave_descriptors(thread_bell);

    (void)ignored;
    sem_post(&apart);
    prctl(PR_SET_NAME, "lockstep-asked");
    for (int tries = 0; able && tries < TRIES && !answer_once(); tries++)
        poll(NULL, 0, PAUSE_MS);
    if (able)
        close(thread_bell);
    return NULL;
}

/* Returns whether it has started. */
static int start_thread(void)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    int error;

    if (pthread_attr_init(&attributes))
        return 0;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, answer_all, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return !error;
}

/* What tells our process numbers from equal ones elsewhere: the boot of the host, and the namespace of processes. */
static void name_place(char *place, size_t room)
{
    size_t boot = read_text("/proc/sys/kernel/random/boot_id", place, room / 2);
    ssize_t space;

    while (boot > 0 && place[boot - 1] == '\n')
        boot--;
    space = readlink("/proc/self/ns/pid", place + boot, room - boot - 1);
    place[boot + (space > 0 ? (size_t)space : 0)] = 0;
}

void answers_begin(int line, const char *key, const char *job)
{
    char host[HOST_NAME_MAX + 1] = "", place[256] = "";
    socklen_t length = sizeof asker;
    int ends[2];

    if (bell >= 0 || getpeername(line, (struct sockaddr *)&asker, &length) || gethostname(host, sizeof host - 1) ||
        strpbrk(host, " \n") != NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return;
    name_place(place, sizeof place);
    snprintf(greeting, sizeof greeting, "%s %s %s %s\n", key, job, *host ? host : "?", *place ? place : "?");
    sem_init(&apart, 0, 0);
    bell = ends[0];
    thread_bell = ends[1];
    if (fstat(bell, &made) == 0 && start_thread())
        while (sem_wait(&apart) < 0)
            ;
    close(ends[1]); /* in the program's descriptors */
}

void answers_end(void)
{
    struct pollfd over = {.fd = bell};

    if (bell >= 0 && is_still(bell, &made)) {
        if (send(bell, "", 1, MSG_NOSIGNAL) == 1)
            poll(&over, 1, FAREWELL_MS); /* the thread closes the other end */
        close(bell);
    }
    bell = -1;
}
