/* Changes of slot at their times, with a thread on each processor.

   A thread sleeps until shortly before a slot ends, spins the rest, stops and continues the processes of its
   processor, notes the time, and goes on with the next slot. On the processor itself these orders interrupt
   no other one, and all processors change at the same time.

   Nothing is decided here. Python has worked out what each slot changes, and calls lockstep_slots instead of
   sleeping. The threads work during this call only: it ends when a descriptor turns readable, when its time is
   over, when there is no room for more notes, or when a thread has missed a whole slot; then all processors
   are in the same slot. They are threads of the agent, so they end and stop with it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#define LEAD_UP_NS 4000   /* how the lead grows after a late wake-up, ... */
#define LEAD_DOWN_NS 1000 /* ... and shrinks after one in time */
#define MOST_LEAD_NS 100000
#define LEAD_SHARE 8 /* at most this part of a slot, so that its processes get the rest */
#define SLACK_NS 1000 /* of timers, for agents without realtime priority */
#define STACK_BYTES 262144
#define DEEPEST 100 /* generations of descendants that get signals: there is room for so many on the stack */

enum kind { SIGNAL, WRITE, CLASS, FAMILY }; /* as in mechanisms.py */

struct order {
    int32_t kind, descriptor, process, value;
};

struct orders { /* what a slot changes on a processor: from the first until before the end */
    int32_t first, end;
};

struct cycle { /* the slots of a table; `orders` is [processor][slot] */
    const int64_t *lengths_ns;
    const struct orders *changes;
    const struct order *orders;
    int64_t end_ns; /* when the slot in force ends, in CLOCK_MONOTONIC */
    int32_t slots, current, room, error;
};

struct worker {
    struct helper *helper;
    int64_t *done_ns; /* for each change of slot in this call: when its orders were out; 0 without orders */
    int64_t lead_ns;  /* how much earlier than the end of a slot to wake up; learned */
    int32_t processor, core, made, error;
    int last_call;
};

struct helper {
    const struct cycle *cycle;
    struct worker **workers;
    int32_t count;
    int32_t event;           /* readable when a worker cannot go on */
    atomic_int call;         /* a futex: the number of the call in progress, or of the next one */
    atomic_int halt;         /* a futex: 1 when the call is to end */
    atomic_int working;      /* a futex: how many workers have not finished */
    _Atomic int64_t halt_ns; /* changes that are due later are not made any more */
    struct sched_attributes {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } attributes;
};

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void wait_on(atomic_int *word, int value, int64_t until_ns) {
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    const struct timespec *limit = until_ns ? &until : NULL; /* 0: none */
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, limit, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void wake_all(atomic_int *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0); }

static int has_ended(int descriptor) {
    struct pollfd process = {descriptor, POLLIN, 0};
    return poll(&process, 1, 0) > 0;
}

static long send_signal(int descriptor, int signum) {
    return syscall(SYS_pidfd_send_signal, descriptor, signum, NULL, 0);
}

static char launchers[512]; /* the kernel's names of launchers and their proxies, with blanks around each */

/* Whether a process is a launcher or its proxy, by the kernel's name for it. They pass signals on, and tell so; they
 * need no processor, and what they have started gets its own signals. */
static int is_launcher(int32_t process) {
    char text[32], name[40];
    snprintf(text, sizeof text, "/proc/%d/comm", process);
    int file = open(text, O_RDONLY | O_CLOEXEC);
    ssize_t count = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[count < 0 ? 0 : count] = 0;
    text[strcspn(text, ".\n")] = 0;
    snprintf(name, sizeof name, " %s ", text);
    return strstr(launchers, name) != NULL;
}

static void signal_descendants(int32_t parent, int signum, int depth);

static void signal_child(int32_t child, int signum, int depth) {
    int descriptor = (int)syscall(SYS_pidfd_open, child, 0);
    if (descriptor < 0)
        return; /* it has ended */
    if (!is_launcher(child))
        send_signal(descriptor, signum);
    close(descriptor);
    signal_descendants(child, signum, depth + 1);
}

/* Send a signal to the children of all threads of a process, and to theirs, parents first. */
static void signal_descendants(int32_t parent, int signum, int depth) {
    char text[128];
    snprintf(text, sizeof text, "/proc/%d/task", parent);
    DIR *tasks = depth < DEEPEST ? opendir(text) : NULL;
    if (tasks == NULL)
        return;
    for (struct dirent *task; (task = readdir(tasks));) {
        snprintf(text, sizeof text, "%.16s/children", task->d_name);
        int list = openat(dirfd(tasks), text, O_RDONLY | O_CLOEXEC);
        int32_t child = 0;
        for (ssize_t count; list >= 0 && (count = read(list, text, sizeof text)) > 0;)
            for (ssize_t at = 0; at < count; at++) {
                if (text[at] != ' ') {
                    child = child * 10 + (text[at] - '0');
                    continue;
                }
                signal_child(child, signum, depth);
                child = 0;
            }
        if (list >= 0)
            close(list);
    }
    closedir(tasks);
}

/* Send a signal to a process and its descendants but launchers; while these get it, the process itself is stopped. */
static long signal_family(const struct order *order) {
    long failed = 0;
    int spared = is_launcher(order->process);
    if (order->value != SIGCONT && !spared)
        failed = send_signal(order->descriptor, order->value);
    if (!failed && !has_ended(order->descriptor))
        signal_descendants(order->process, order->value, 0);
    if (order->value == SIGCONT && !spared)
        failed = send_signal(order->descriptor, order->value);
    return failed;
}

/* A process that has ended needs no orders. */
static int carry_out(const struct order *order) {
    long failed = 0;
    switch (order->kind) {
    case SIGNAL:
        failed = send_signal(order->descriptor, order->value);
        break;
    case FAMILY:
        failed = signal_family(order);
        break;
    case WRITE: {
        char letter = (char)order->value;
        failed = pwrite(order->descriptor, &letter, 1, 0) < 0;
        break;
    }
    case CLASS: {
        struct sched_param priority = {order->value};
        if (!has_ended(order->descriptor))
            failed = sched_setscheduler(order->process, order->value ? SCHED_RR : SCHED_OTHER, &priority);
        break;
    }
    }
    return failed && errno != ESRCH ? errno : 0;
}

/* Make a worker's next change, to this slot. */
static void change(struct worker *worker, int32_t slot) {
    const struct cycle *cycle = worker->helper->cycle;
    const struct orders *change = &cycle->changes[worker->processor * cycle->slots + slot];
    for (int32_t at = change->first; at < change->end && !worker->error; at++)
        worker->error = carry_out(&cycle->orders[at]);
    worker->done_ns[worker->made++] = change->first < change->end ? now_ns() : 0;
}

/* Wake up earlier if this wake-up came after the end of the slot, and later if not. */
static void learn(struct worker *worker, int late) {
    worker->lead_ns += late ? LEAD_UP_NS : -LEAD_DOWN_NS;
    worker->lead_ns = worker->lead_ns < 0 ? 0 : worker->lead_ns;
    worker->lead_ns = worker->lead_ns > MOST_LEAD_NS ? MOST_LEAD_NS : worker->lead_ns;
}

/* Sleep and spin until a slot of this length ends; 0 if the call ends before. */
static int wait_until(struct worker *worker, int64_t end_ns, int64_t length_ns) {
    struct helper *helper = worker->helper;
    int64_t most_ns = length_ns / LEAD_SHARE;
    int64_t early_ns = end_ns - (worker->lead_ns < most_ns ? worker->lead_ns : most_ns);
    if (now_ns() < early_ns) {
        while (!atomic_load(&helper->halt) && now_ns() < early_ns)
            wait_on(&helper->halt, 0, early_ns);
        if (!atomic_load(&helper->halt))
            learn(worker, now_ns() > end_ns);
    }
    while (now_ns() < end_ns)
        if (atomic_load(&helper->halt))
            return 0;
    return !atomic_load(&helper->halt) || end_ns <= atomic_load(&helper->halt_ns);
}

static void work(struct worker *worker) {
    const struct cycle *cycle = worker->helper->cycle;
    int64_t end_ns = cycle->end_ns;
    int32_t slot = cycle->current;
    while (worker->made < cycle->room && !worker->error) {
        if (!wait_until(worker, end_ns, cycle->lengths_ns[slot]))
            return;
        slot = slot + 1 < cycle->slots ? slot + 1 : 0;
        if (now_ns() >= end_ns + cycle->lengths_ns[slot])
            break; /* a whole slot is over: Python knows which one is in force */
        change(worker, slot);
        end_ns += cycle->lengths_ns[slot];
    }
    uint64_t one = 1;
    if (write(worker->helper->event, &one, sizeof one) < 0)
        worker->error = errno;
}

static void *worker_thread(void *given) {
    struct worker *worker = given;
    struct helper *helper = worker->helper;
    if (helper->attributes.policy == SCHED_OTHER)
        syscall(SYS_sched_setattr, 0, &helper->attributes, 0); /* the slice */
    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    for (;;) {
        while (atomic_load(&helper->call) == worker->last_call)
            wait_on(&helper->call, worker->last_call, 0);
        worker->last_call = atomic_load(&helper->call);
        work(worker);
        if (atomic_fetch_sub(&helper->working, 1) == 1)
            wake_all(&helper->working);
    }
    return NULL;
}

/* Start a worker's thread, with its priority from the beginning: it might not run for long without. It is by
   `above` higher than the calling thread's, so that no work of the agent or the driver delays it. */
static int start(pthread_t *thread, struct worker *worker, int above) {
    const struct sched_attributes *wanted = &worker->helper->attributes;
    struct sched_param priority = {(int)wanted->priority + above};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (wanted->priority) {
        pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
        pthread_attr_setschedpolicy(&attributes, (int)wanted->policy);
        pthread_attr_setschedparam(&attributes, &priority);
    }
    if (worker->core >= 0) {
        cpu_set_t *cores = CPU_ALLOC(worker->core + 1);
        size_t size = CPU_ALLOC_SIZE(worker->core + 1);
        CPU_ZERO_S(size, cores);
        CPU_SET_S(worker->core, size, cores);
        pthread_attr_setaffinity_np(&attributes, size, cores);
        CPU_FREE(cores);
    }
    int failed = pthread_create(thread, &attributes, worker_thread, worker);
    pthread_attr_destroy(&attributes);
    return failed;
}

/* A helper without workers; NULL if there is no memory or no descriptor left. `names` are those of launchers. */
struct helper *lockstep_helper(const char *names) {
    snprintf(launchers, sizeof launchers, "%s", names);
    struct helper *helper = calloc(1, sizeof *helper);
    if (helper && (helper->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0) {
        free(helper);
        return NULL;
    }
    return helper;
}

/* Add a worker for the next processor, on this core (negative: on any), as prompt as the calling thread.
   Its times go to `done_ns`, of the length of `cycle.room`. Returns an error number, or 0. */
int32_t lockstep_worker(struct helper *helper, int32_t core, int64_t *done_ns) {
    struct worker **workers = realloc(helper->workers, (size_t)(helper->count + 1) * sizeof *workers);
    struct worker *worker = calloc(1, sizeof *worker);
    if (workers)
        helper->workers = workers;
    if (!worker || !workers) {
        free(worker);
        return ENOMEM;
    }
    worker->done_ns = done_ns;
    worker->last_call = atomic_load(&helper->call);
    worker->helper = helper;
    worker->processor = helper->count;
    worker->core = core;
    syscall(SYS_sched_getattr, 0, &helper->attributes, sizeof helper->attributes, 0);
    sigset_t all, before; /* signals are for the calling thread */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int failed = EPERM; /* a user may have no higher priority */
    for (int above = helper->attributes.priority > 0; failed == EPERM && above >= 0; above--)
        failed = start(&thread, worker, above);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        free(worker);
    else
        helper->workers[helper->count++] = worker;
    return failed;
}

/* Let the workers carry the cycle out until `until_ns` or an event of `descriptor`.

   Returns how many changes of slot all workers have made, and moves the cycle on by as many; `error` says why
   it failed, if it did. */
int32_t lockstep_slots(struct helper *helper, struct cycle *cycle, int32_t descriptor, int64_t until_ns) {
    helper->cycle = cycle;
    for (int32_t at = 0; at < helper->count; at++)
        helper->workers[at]->made = helper->workers[at]->error = 0;
    atomic_store(&helper->halt, 0);
    atomic_store(&helper->working, helper->count);
    atomic_fetch_add(&helper->call, 1);
    wake_all(&helper->call);

    int64_t left_ns = until_ns - now_ns();
    left_ns = left_ns < 0 ? 0 : left_ns;
    struct timespec left = {left_ns / 1000000000, left_ns % 1000000000};
    struct pollfd events[] = {{descriptor, POLLIN, 0}, {helper->event, POLLIN, 0}};
    ppoll(events, 2, &left, NULL);

    atomic_store(&helper->halt_ns, now_ns());
    atomic_store(&helper->halt, 1);
    wake_all(&helper->halt);
    for (int working; (working = atomic_load(&helper->working));)
        wait_on(&helper->working, working, 0);
    uint64_t count;
    while (read(helper->event, &count, sizeof count) > 0)
        ;

    int32_t made = 0; /* a worker may have made one change more than another that saw the halt before it */
    for (int32_t at = 0; at < helper->count; at++)
        made = helper->workers[at]->made > made ? helper->workers[at]->made : made;
    cycle->error = 0;
    for (int32_t at = 0; at < helper->count; at++) {
        struct worker *worker = helper->workers[at];
        while (worker->made < made && !worker->error)
            change(worker, (cycle->current + worker->made + 1) % cycle->slots);
        cycle->error = worker->error ? worker->error : cycle->error;
    }
    for (int32_t at = 0; at < made; at++) {
        cycle->current = cycle->current + 1 < cycle->slots ? cycle->current + 1 : 0;
        cycle->end_ns += cycle->lengths_ns[cycle->current];
    }
    return made;
}
