/* Locks on a page that the ranks of a job share on a node: ticket, test-and-test-and-set, MCS.

   A rank that waits spins up to a limit, then sleeps on a futex; the rank that gives the lock away wakes it. A
   sleeper raises its flag, fences, looks once more, and only then sleeps. A releaser gives the lock away,
   fences, and looks at the flag. Whichever comes first, one of the two sees the other.

   Sources: Mellor-Crummey, Scott, "Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors",
   1991 (ticket, MCS); Marsh, Scott, LeBlanc, Markatos, "First-Class User-Level Threads", 1991 (the two-minute
   warning); Kontothanassis, Wisniewski, Scott, "Scheduler-Conscious Synchronization", 1997; Sha, Rajkumar,
   Lehoczky, "Priority Inheritance Protocols", 1990; Anderson, "The Performance of Spin Lock Alternatives", 1990 (test and test and set);
   Drepper, "Futexes Are Tricky", 2011 (its sleepers). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE 128 /* bytes: two cache lines, since processors fetch neighbours */
#define FOREVER_NS ((int64_t)1 << 62)
#define RECHECK_NS 500000000 /* a sleeper looks for itself after this long */
#define POLLS 32             /* between two looks at the clock */
#define LATE_NS 1000000      /* the end of a slot that is later than this does not come any more */

#define GLANCE_NS 2000       /* the CPU time of a running holder grows meanwhile */
#define FRESH_NS 10000       /* a rank that was seen to spin so short a time ago runs */
#define SCHED_CLOCK 2        /* CPUCLOCK_SCHED of a process's clock */

enum remedy { NOTHING, WARNING, CONSCIOUS, INHERITANCE };
enum kind { TICKET, TEST_AND_SET, MCS };
enum state { OUTSIDE, ENTERING, QUEUED, ASLEEP, INSIDE };
enum word { FREE, HELD, HELD_AND_AWAITED }; /* of test-and-test-and-set */

struct rank {
    int32_t state;  /* enum state: all but OUTSIDE and ASLEEP are the do-not-preempt bit */
    int32_t asleep; /* a futex: 1 while it sleeps for its turn */
    int32_t next;   /* MCS: who comes after it, as rank + 1 */
    int32_t behind; /* MCS: 1 until its predecessor has left */
    int64_t stops_ns; /* when the agent is going to stop it, by CLOCK_MONOTONIC; 0: not as far as known */
    int64_t seen_ns;  /* when it was last seen to spin for its turn; 0 if it does not */
    int32_t pid;
    int32_t lifted;  /* somebody has made a realtime process of it, until it leaves its section */
    int32_t wants;   /* conscious: the lock that it waits for, + 1 */
    uint32_t number; /* conscious: the least of those who wait has waited longest */
} __attribute__((aligned(LINE)));

struct lock {
    uint32_t next;    /* ticket: the next one to draw */
    uint32_t serving; /* ticket: the one that may enter */
    int32_t tail;     /* MCS: who came last, as rank + 1 */
    int32_t word;     /* test-and-test-and-set, conscious: enum word, a futex */
    int32_t owner;    /* who has it or has been given it, as rank + 1 */
    int32_t queue[] __attribute__((aligned(LINE))); /* ticket: who drew the number, as rank + 1 */
};

/* A rank's way to the page; `workloads.locks` has the same structure. */
struct taker {
    char *page;
    int32_t ranks, rank, kind;
    int32_t rechecks;  /* turns that the sleeper's own look has found */
    int64_t limit_ns;  /* how long it spins */
    int64_t waited_ns; /* for the lock it has taken last */
    int32_t blocks;    /* how often it slept for it */
    uint32_t ticket;
    int64_t warning_ns; /* how long before it is stopped it enters no section any more */
    int64_t holder_check_ns;    /* how often it looks after the holder as it spins; 0: never */
    int32_t remedy;     /* enum remedy */
};

#define LOAD(place) __atomic_load_n(&(place), __ATOMIC_ACQUIRE)
#define STORE(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELEASE)
#define SWAP(place, value) __atomic_exchange_n(&(place), value, __ATOMIC_SEQ_CST)

static struct rank *rank_at(const struct taker *taker, int rank)
{
    return (struct rank *)taker->page + rank;
}

static int64_t lock_size(int ranks)
{
    return LINE + (ranks * (int64_t)sizeof(int32_t) + LINE - 1) / LINE * LINE;
}

static struct lock *lock_at(const struct taker *taker, int lock)
{
    return (struct lock *)(taker->page + taker->ranks * (int64_t)LINE + lock * lock_size(taker->ranks));
}

/* Bytes of a page, which is zero at first. */
int64_t lock_bytes(int ranks, int locks)
{
    return ranks * (int64_t)LINE + locks * lock_size(ranks);
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Sleep while the word has this value; returns whether the time ran out. */
static int futex_sleep(int32_t *word, int32_t value)
{
    const struct timespec most = {0, RECHECK_NS};

    return syscall(SYS_futex, word, FUTEX_WAIT, value, &most, NULL, 0) == -1 && errno == ETIMEDOUT;
}

static void futex_wake_one(int32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Try to take a lock that has a word. */
static int grab(struct lock *lock)
{
    return LOAD(lock->word) == FREE && SWAP(lock->word, HELD) == FREE;
}

/* Whether locks go only to ranks that run. A test-and-test-and-set lock does that by itself. */
static int chooses(const struct taker *taker)
{
    return taker->remedy == CONSCIOUS && taker->kind != TEST_AND_SET;
}

/* Whether this rank's turn has come. */
static int my_turn(const struct taker *taker, struct lock *lock)
{
    struct rank *self = rank_at(taker, taker->rank);

    if (chooses(taker)) {
        if (LOAD(self->behind) && grab(lock))
            STORE(self->behind, 0);
        return !LOAD(self->behind);
    }
    if (taker->kind == TICKET)
        return LOAD(lock->serving) == taker->ticket;
    return !LOAD(self->behind);
}

/* Sleep until a releaser rings; its flag is down afterwards. */
static void sleep_for_turn(struct taker *taker, struct lock *lock)
{
    struct rank *self = rank_at(taker, taker->rank);
    int late;

    SWAP(self->asleep, 1);
    if (!my_turn(taker, lock)) {
        taker->blocks++;
        STORE(self->state, ASLEEP);
        late = futex_sleep(&self->asleep, 1);
        STORE(self->state, QUEUED);
        taker->rechecks += late && my_turn(taker, lock);
    }
    STORE(self->asleep, 0);
}

static void ring(const struct taker *taker, int rank)
{
    struct rank *other = rank_at(taker, rank);

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (LOAD(other->asleep)) {
        STORE(other->asleep, 0);
        futex_wake_one(&other->asleep);
    }
}

/* Get in line; returns whether nobody is before this rank. */
static int line_up(struct taker *taker, struct lock *lock, int number)
{
    struct rank *self = rank_at(taker, taker->rank);
    int32_t before;

    if (chooses(taker)) {
        if (grab(lock))
            return 1;
        STORE(self->behind, 1);
        STORE(self->seen_ns, now_ns());
        self->number = __atomic_fetch_add(&lock->next, 1, __ATOMIC_SEQ_CST);
        STORE(self->wants, number + 1);
        return 0;
    }
    if (taker->kind == TICKET) {
        taker->ticket = __atomic_fetch_add(&lock->next, 1, __ATOMIC_SEQ_CST);
        STORE(lock->queue[taker->ticket % taker->ranks], taker->rank + 1);
        return my_turn(taker, lock);
    }
    self->next = 0;
    self->behind = 1;
    before = SWAP(lock->tail, taker->rank + 1);
    if (before == 0)
        self->behind = 0;
    else
        STORE(rank_at(taker, before - 1)->next, taker->rank + 1);
    return before == 0;
}

/* Sleep until a test-and-test-and-set lock is ours. Its word says so as long as somebody may sleep. */
static void sleep_for_word(struct taker *taker, struct lock *lock)
{
    struct rank *self = rank_at(taker, taker->rank);
    int late = 0;

    while (SWAP(lock->word, HELD_AND_AWAITED) != FREE) {
        taker->blocks++;
        STORE(self->state, ASLEEP);
        late = futex_sleep(&lock->word, HELD_AND_AWAITED);
        STORE(self->state, QUEUED);
    }
    taker->rechecks += late;
}

static int64_t cpu_time_ns(int32_t pid)
{
    struct timespec used;

    if (clock_gettime((clockid_t)(~(uint32_t)pid << 3 | SCHED_CLOCK), &used))
        return -1;
    return used.tv_sec * (int64_t)1000000000 + used.tv_nsec;
}

/* Whether the holder of a lock runs, as far as its CPU time shows. */
static int holder_runs(const struct taker *taker, struct lock *lock)
{
    int32_t owner = LOAD(lock->owner), pid;
    int64_t used_ns, until_ns;

    if (owner == 0 || owner == taker->rank + 1)
        return 1;
    pid = rank_at(taker, owner - 1)->pid;
    used_ns = cpu_time_ns(pid);
    for (until_ns = now_ns() + GLANCE_NS; now_ns() < until_ns;)
        relax();
    return used_ns < 0 || LOAD(lock->owner) != owner || cpu_time_ns(pid) != used_ns;
}

/* Make a realtime process of the holder, until it has left its section. It says itself that it is one no more. A
   rank that was lifted too late, as it had just left, finds the mark when it leaves its next section. */
static void lift(const struct taker *taker, struct lock *lock)
{
    const struct sched_param least = {sched_get_priority_min(SCHED_RR)};
    int32_t owner = LOAD(lock->owner);
    struct rank *holder = rank_at(taker, owner - 1);

    if (owner == 0 || LOAD(holder->lifted))
        return;
    STORE(holder->lifted, 1);
    sched_setscheduler(holder->pid, SCHED_RR, &least);
    STORE(holder->lifted, 1);
}

static void come_down(struct rank *self)
{
    const struct sched_param none = {0};

    if (LOAD(self->lifted)) {
        STORE(self->lifted, 0);
        sched_setscheduler(0, SCHED_OTHER, &none);
    }
}

/* The two-minute warning: a rank that is about to be stopped waits until that is over. */
static void await_slot(const struct taker *taker)
{
    struct rank *self = rank_at(taker, taker->rank);
    int64_t stops_ns, left_ns;

    while (taker->warning_ns > 0 && (stops_ns = LOAD(self->stops_ns)) != 0) {
        left_ns = stops_ns - now_ns();
        if (left_ns >= taker->warning_ns || left_ns < -LATE_NS)
            return;
        relax();
    }
}

/* Wait for a lock and enter its section; the taker tells how long and how. A rank is in one section at a time. */
void lock_enter(struct taker *taker, int number)
{
    struct rank *self = rank_at(taker, taker->rank);
    struct lock *lock = lock_at(taker, number);
    int64_t asked_ns = now_ns(), begin_ns;
    int64_t holder_check_ns;
    int entered, sleepy = 0;

    await_slot(taker);
    begin_ns = taker->warning_ns > 0 ? now_ns() : asked_ns;
    holder_check_ns = taker->holder_check_ns > 0 ? begin_ns + taker->holder_check_ns : FOREVER_NS;
    taker->blocks = 0;
    STORE(self->state, ENTERING);
    entered = taker->kind == TEST_AND_SET ? grab(lock) : line_up(taker, lock, number);
    if (!entered)
        STORE(self->state, QUEUED);
    for (unsigned polls = 0; !entered; polls++) {
        if (!sleepy && (taker->limit_ns < FOREVER_NS || taker->holder_check_ns > 0) && polls % POLLS == 0) {
            int64_t time_ns = now_ns();

            STORE(self->seen_ns, time_ns);
            sleepy = time_ns - begin_ns >= taker->limit_ns;
            if (time_ns >= holder_check_ns) {
                holder_check_ns = time_ns + taker->holder_check_ns;
                if (!holder_runs(taker, lock)) {
                    if (taker->remedy == INHERITANCE)
                        lift(taker, lock);
                    else
                        sleepy = 1;
                }
            }
        }
        if (sleepy) {
            STORE(self->seen_ns, 0);
            if (taker->kind == TEST_AND_SET) {
                sleep_for_word(taker, lock);
                break;
            }
            sleep_for_turn(taker, lock);
        } else
            relax();
        entered = taker->kind == TEST_AND_SET ? grab(lock) : my_turn(taker, lock);
    }
    STORE(lock->owner, taker->rank + 1);
    STORE(self->wants, 0);
    STORE(self->state, INSIDE);
    taker->waited_ns = now_ns() - asked_ns;
}

/* Of the ranks that wait for a lock and spin, or sleep, the one that has waited longest; -1 if there is none. */
static int first_of(const struct taker *taker, int number, int asleep)
{
    int64_t least_ns = now_ns() - FRESH_NS;
    int found = -1;

    for (int rank = 0; rank < taker->ranks; rank++) {
        struct rank *other = rank_at(taker, rank);

        if (LOAD(other->wants) != number + 1 || !LOAD(other->behind))
            continue;
        if (asleep ? !LOAD(other->asleep) : LOAD(other->seen_ns) < least_ns)
            continue;
        if (found < 0 || (int32_t)(other->number - rank_at(taker, found)->number) < 0)
            found = rank;
    }
    return found;
}

/* Give a lock to a rank that runs, or free it and wake a sleeper. */
static void choose(const struct taker *taker, struct lock *lock, int number)
{
    int heir = first_of(taker, number, 0);

    if (heir >= 0) {
        STORE(lock->owner, heir + 1);
        STORE(rank_at(taker, heir)->behind, 0);
    } else {
        STORE(lock->owner, 0);
        STORE(lock->word, FREE);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        heir = first_of(taker, number, 1);
    }
    if (heir >= 0)
        ring(taker, heir);
}

/* Give the lock to the next. */
static void hand_over(struct taker *taker, struct lock *lock, int number)
{
    struct rank *self = rank_at(taker, taker->rank);
    int32_t next;

    if (chooses(taker)) {
        choose(taker, lock, number);
    } else if (taker->kind == TEST_AND_SET) {
        STORE(lock->owner, 0);
        if (SWAP(lock->word, FREE) == HELD_AND_AWAITED)
            futex_wake_one(&lock->word);
    } else if (taker->kind == TICKET) {
        next = LOAD(lock->queue[(taker->ticket + 1) % taker->ranks]);
        STORE(lock->owner, next == taker->rank + 1 ? 0 : next);
        STORE(lock->serving, taker->ticket + 1);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        next = LOAD(lock->queue[(taker->ticket + 1) % taker->ranks]);
        if (next != 0 && next != taker->rank + 1)
            ring(taker, next - 1);
    } else {
        int32_t last = taker->rank + 1;

        STORE(lock->owner, 0);
        if (LOAD(self->next) == 0 &&
            __atomic_compare_exchange_n(&lock->tail, &last, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            return;
        while ((next = LOAD(self->next)) == 0)
            relax(); /* it is about to say who it is */
        STORE(lock->owner, next);
        STORE(rank_at(taker, next - 1)->behind, 0);
        ring(taker, next - 1);
    }
}

/* Leave the section. */
void lock_leave(struct taker *taker, int number)
{
    struct rank *self = rank_at(taker, taker->rank);

    hand_over(taker, lock_at(taker, number), number);
    STORE(self->state, OUTSIDE);
    come_down(self);
}

/* Say who this rank is, before it enters anything. */
void lock_begin(struct taker *taker)
{
    rank_at(taker, taker->rank)->pid = getpid();
}
