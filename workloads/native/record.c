/* The record of a rank (docs/reference/store.md): written when MPI is finalized, or else when the process ends.
   It goes to a directory, LOCKSTEP_RECORD, and to the listener at the socket LOCKSTEP_LISTENER. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "wrappers.h"

static int rank, ranks;
static pid_t process; /* 0 before MPI is initialized */
static int written;
static int64_t start_ns, start_cpu_ns, start_queued_ns;
static struct rusage start_usage;

static int64_t used_ns(clockid_t clock)
{
    struct timespec used;

    clock_gettime(clock, &used);
    return used.tv_sec * INT64_C(1000000000) + used.tv_nsec;
}

int64_t process_ns(void)
{
    return used_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t thread_ns(void)
{
    return used_ns(CLOCK_THREAD_CPUTIME_ID);
}

static int64_t queued_ns(void)
{
    long long ran = 0, queued = 0;
    FILE *file = fopen("/proc/self/schedstat", "r");

    if (file != NULL) {
        if (fscanf(file, "%lld %lld", &ran, &queued) != 2)
            queued = 0;
        fclose(file);
    }
    return queued;
}

void record_begin(int own, int all)
{
    memset(&counts, 0, sizeof counts);
    rank = own;
    ranks = all;
    process = getpid();
    start_ns = now_ns();
    start_cpu_ns = process_ns();
    start_queued_ns = queued_ns();
    getrusage(RUSAGE_SELF, &start_usage);
}

static void histogram(FILE *out, const char *name, const int64_t bins[BINS])
{
    fprintf(out, ", \"%s\": [", name);
    for (int bin = 0; bin < BINS; bin++)
        fprintf(out, bin ? ", %lld" : "%lld", (long long)bins[bin]);
    fputs("]", out);
}

static void waits(FILE *out, const char *name, const struct waits *waits)
{
    fprintf(out, "\"%s\": {\"spun\": %lld, \"blocked\": %lld, \"blocks\": %lld", name, (long long)waits->spun,
            (long long)waits->blocked, (long long)waits->blocks);
    fprintf(out, ", \"spun_ns\": %lld, \"blocked_ns\": %lld", (long long)waits->spun_ns, (long long)waits->blocked_ns);
    histogram(out, "spun_histogram", waits->spun_histogram);
    histogram(out, "blocked_histogram", waits->blocked_histogram);
    fputs("}", out);
}

static void write_to(FILE *out)
{
    struct rusage usage;
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    getrusage(RUSAGE_SELF, &usage);
    fprintf(out, "{\"job\": 0, \"rank\": %d, \"processes\": %d, \"processor\": %d", rank, ranks, sched_getcpu());
    fprintf(out, ", \"host\": \"%s\", \"pid\": %d", host, (int)process);
    fprintf(out, ", \"start_ns\": %lld, \"finish_ns\": %lld, \"cpu_ns\": %lld", (long long)start_ns, (long long)now_ns(),
            (long long)(process_ns() - start_cpu_ns));
    fprintf(out, ", \"voluntary_switches\": %ld, \"involuntary_switches\": %ld, \"run_queue_ns\": %lld",
            usage.ru_nvcsw - start_usage.ru_nvcsw, usage.ru_nivcsw - start_usage.ru_nivcsw,
            (long long)(queued_ns() - start_queued_ns));
    fprintf(out, ", \"asleep_ns\": %lld, \"rechecks\": %lld, \"concurrent\": %s, \"waits\": {",
            (long long)counts.asleep_ns, (long long)counts.rechecks, concurrent ? "true" : "false");
    waits(out, "barrier", &counts.waits[COLLECTIVE]);
    fputs(", ", out);
    waits(out, "read", &counts.waits[MESSAGE]);
    fputs("}}\n", out);
}

/* A file gets its name when it is complete, so that a killed rank leaves no partial file. On file systems
   without O_TMPFILE the name comes first. */
static void write_file(const char *folder, const char *text, size_t bytes)
{
    char name[4096], unnamed[64];
    int file = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666), named = 0;

    (void)mkdir(folder, 0700); /* each node of a run has its own */
    snprintf(name, sizeof name, "%s/rank-%d-%d.json", folder, rank, (int)process);
    unlink(name); /* left by an earlier process with this pid */
    if (file < 0) {
        file = open(name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
        named = 1;
    }
    snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", file);
    if (file < 0 || write(file, text, bytes) != (ssize_t)bytes ||
        (!named && linkat(AT_FDCWD, unnamed, AT_FDCWD, name, AT_SYMLINK_FOLLOW) != 0))
        say("cannot write the record of a rank");
    if (file >= 0)
        close(file);
}

/* Whether a listener is on this host: its name ends with the host's number of this boot. */
static int is_of_this_host(const char *listener)
{
    char boot[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    int is = file != NULL && fscanf(file, "%63s", boot) == 1 && strstr(listener, boot) != NULL;

    if (file != NULL)
        fclose(file);
    return is;
}

/* `listener`: "NAME,KEY". The key shows that this process is one of the command's, whoever its user is by now. */
static void send_to(const char *listener, char *text, size_t bytes)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {2, 0};
    size_t name = strcspn(listener, ",");
    char *key = strdup(listener + name + (listener[name] != 0));
    struct iovec parts[] = {{key, key != NULL ? strlen(key) : 0}, {" ", 1}, {text, bytes}};
    struct msghdr message = {.msg_name = &address, .msg_iov = parts, .msg_iovlen = sizeof parts / sizeof *parts};
    int channel = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (channel >= 0 && key != NULL && name < sizeof address.sun_path - 1) {
        memcpy(address.sun_path + 1, listener, name);
        message.msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + name);
        setsockopt(channel, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (sendmsg(channel, &message, MSG_NOSIGNAL) < 0 && rank == 0 && errno == ECONNREFUSED &&
            is_of_this_host(listener))
            say("the record of a rank did not arrive: it has a network namespace apart; start lockstep in there");
    }
    if (channel >= 0)
        close(channel);
    free(key);
}

__attribute__((destructor)) void record_write(void)
{
    const char *folder = getenv("LOCKSTEP_RECORD"), *listener = getenv("LOCKSTEP_LISTENER");
    char *text = NULL;
    size_t bytes = 0;
    FILE *out;

    /* A forked child is not a rank. */
    if (written || process != getpid() || (folder == NULL && listener == NULL))
        return;
    written = 1;
    out = open_memstream(&text, &bytes);
    if (out == NULL)
        return;
    write_to(out);
    fclose(out);
    if (folder != NULL)
        write_file(folder, text, bytes);
    if (listener != NULL)
        send_to(listener, text, bytes);
    free(text);
}
