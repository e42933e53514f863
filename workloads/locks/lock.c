/* Locks on a page that the ranks of a job share on a node: ticket, test-and-test-and-set, MCS.

   A rank that waits spins up to a limit, then sleeps on a futex; whoever gives the lock away wakes it. A
   sleeper raises its flag, fences, looks once more, and only then sleeps. A releaser gives the lock away,
   fences, and looks at the flag. Whichever comes first, one of the two sees the other.

   Sources: Mellor-Crummey, Scott, "Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors",
   1991 (ticket, MCS); Anderson, "The Performance of Spin Lock Alternatives", 1990 (test and test and set);
   Drepper, "Futexes Are Tricky", 2011 (its sleepers). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE 128 /* bytes: two cache lines, since processors fetch neighbours */
#define FOREVER_NS ((int64_t)1 << 62)
#define RECHECK_NS 500000000 /* a sleeper looks for itself after this long */
#define POLLS 32             /* between two looks at the clock */

enum kind { TICKET, TEST_AND_SET, MCS };
enum state { OUTSIDE, ENTERING, QUEUED, ASLEEP, INSIDE };
enum word { FREE, HELD, HELD_AND_AWAITED }; /* of test-and-test-and-set */

struct rank {
    int32_t state;  /* enum state: all but OUTSIDE and ASLEEP are the do-not-preempt bit */
    int32_t asleep; /* a futex: 1 while it sleeps for its turn */
    int32_t next;   /* MCS: who comes after it, as rank + 1 */
    int32_t behind; /* MCS: 1 until its predecessor has left */
} __attribute__((aligned(LINE)));

struct lock {
    uint32_t next;    /* ticket: the next one to draw */
    uint32_t serving; /* ticket: the one that may enter */
    int32_t tail;     /* MCS: who came last, as rank + 1 */
    int32_t word;     /* test-and-test-and-set: enum word, a futex */
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

/* Whether this rank's turn has come. */
static int my_turn(const struct taker *taker, struct lock *lock)
{
    if (taker->kind == TICKET)
        return LOAD(lock->serving) == taker->ticket;
    return !LOAD(rank_at(taker, taker->rank)->behind);
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
static int line_up(struct taker *taker, struct lock *lock)
{
    struct rank *self = rank_at(taker, taker->rank);
    int32_t before;

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

/* Try to take a test-and-test-and-set lock. */
static int grab(struct lock *lock)
{
    return LOAD(lock->word) == FREE && SWAP(lock->word, HELD) == FREE;
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

/* Wait for a lock and enter its section; the taker tells how long and how. A rank is in one section at a time. */
void lock_enter(struct taker *taker, int number)
{
    struct rank *self = rank_at(taker, taker->rank);
    struct lock *lock = lock_at(taker, number);
    int64_t begin_ns = now_ns();
    int entered, polls = 0;

    taker->blocks = 0;
    STORE(self->state, ENTERING);
    entered = taker->kind == TEST_AND_SET ? grab(lock) : line_up(taker, lock);
    if (!entered)
        STORE(self->state, QUEUED);
    while (!entered) {
        if (taker->limit_ns < FOREVER_NS && polls++ % POLLS == 0 && now_ns() - begin_ns >= taker->limit_ns) {
            polls = 0;
            if (taker->kind == TEST_AND_SET) {
                sleep_for_word(taker, lock);
                break;
            }
            sleep_for_turn(taker, lock);
        } else
            relax();
        entered = taker->kind == TEST_AND_SET ? grab(lock) : my_turn(taker, lock);
    }
    STORE(self->state, INSIDE);
    taker->waited_ns = now_ns() - begin_ns;
}

/* Leave the section and give the lock to the next. */
void lock_leave(struct taker *taker, int number)
{
    struct rank *self = rank_at(taker, taker->rank);
    struct lock *lock = lock_at(taker, number);
    int32_t next;

    if (taker->kind == TEST_AND_SET) {
        if (SWAP(lock->word, FREE) == HELD_AND_AWAITED)
            futex_wake_one(&lock->word);
    } else if (taker->kind == TICKET) {
        STORE(lock->serving, taker->ticket + 1);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        next = LOAD(lock->queue[(taker->ticket + 1) % taker->ranks]);
        if (next != 0 && next != taker->rank + 1)
            ring(taker, next - 1);
    } else {
        int32_t last = taker->rank + 1;

        if (LOAD(self->next) == 0 &&
            __atomic_compare_exchange_n(&lock->tail, &last, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
            STORE(self->state, OUTSIDE);
            return;
        }
        while ((next = LOAD(self->next)) == 0)
            relax(); /* it is about to say who it is */
        STORE(rank_at(taker, next - 1)->behind, 0);
        ring(taker, next - 1);
    }
    STORE(self->state, OUTSIDE);
}
