/* No rank may sleep while the message that should wake it has arrived unseen. So a sleeper raises a flag,
   fences, looks once more, and only then sleeps. A sender sends, fences, and looks at the flag.
   Whichever comes first, one of the two sees the other. The flag is the futex of the sleeper. */
#define _GNU_SOURCE
#include "node_segment.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "waiting_rule.h"

#define LINE __attribute__((aligned(64)))

enum { AWAKE, ASLEEP, ASLEEP_ELSEWHERE };

struct sleeper {
    LINE _Atomic uint32_t asleep;
    _Atomic int32_t wants;
    _Atomic int32_t here; /* the processor on which it ran last, plus one */
};

struct segment {
    LINE _Atomic int32_t sleepers;
    LINE _Atomic int64_t longest_ns;
    LINE _Atomic int64_t estimate_ns;
    struct sleeper ranks[];
};

static struct segment *segment;
static int own;

static size_t bytes(int ranks)
{
    return sizeof(struct segment) + (size_t)ranks * sizeof(struct sleeper);
}

int segment_make(int ranks)
{
    int descriptor = memfd_create("lockstep", MFD_CLOEXEC);

    if (descriptor >= 0 && ftruncate(descriptor, (off_t)bytes(ranks)) == 0)
        return descriptor;
    if (descriptor >= 0)
        close(descriptor);
    return -1;
}

int segment_join(int descriptor, int ranks, int rank)
{
    struct stat found;
    void *memory = MAP_FAILED;
    int error = EINVAL;

    if (fstat(descriptor, &found) == 0 && (size_t)found.st_size == bytes(ranks)) {
        memory = mmap(NULL, bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        error = errno;
    }
    close(descriptor);
    if (memory == MAP_FAILED)
        return error;
    own = rank;
    segment = memory;
    return 0;
}

void segment_here(void)
{
    int here = sched_getcpu() + 1;

    /* Others read this line: it is written only if it changes. */
    if (segment != NULL && atomic_load_explicit(&segment->ranks[own].here, memory_order_relaxed) != here)
        atomic_store_explicit(&segment->ranks[own].here, here, memory_order_relaxed);
}

uint32_t segment_beside(int rank)
{
    struct sleeper *other = &segment->ranks[rank], *self = &segment->ranks[own];

    return rank != own && !atomic_load_explicit(&other->asleep, memory_order_relaxed) &&
           atomic_load_explicit(&other->here, memory_order_relaxed) ==
               atomic_load_explicit(&self->here, memory_order_relaxed);
}

void segment_announce(int rank, int elsewhere)
{
    atomic_store_explicit(&segment->ranks[own].wants, rank, memory_order_relaxed);
    atomic_store_explicit(&segment->ranks[own].asleep, elsewhere ? ASLEEP_ELSEWHERE : ASLEEP,
                          memory_order_release);
    atomic_fetch_add(&segment->sleepers, 1);
    atomic_thread_fence(memory_order_seq_cst);
}

int segment_sleep(int64_t timeout_ns)
{
    struct timespec most = {timeout_ns / 1000000000, timeout_ns % 1000000000};

    return syscall(SYS_futex, &segment->ranks[own].asleep, FUTEX_WAIT, ASLEEP, &most, NULL, 0) == 0 ||
           errno != ETIMEDOUT;
}

void segment_awake(void)
{
    atomic_store_explicit(&segment->ranks[own].asleep, AWAKE, memory_order_relaxed);
    atomic_fetch_sub_explicit(&segment->sleepers, 1, memory_order_relaxed);
}

int segment_asleep(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    return segment != NULL && atomic_load_explicit(&segment->sleepers, memory_order_relaxed) > 0;
}

int segment_ring(int rank)
{
    struct sleeper *other = &segment->ranks[rank];
    uint32_t before;
    int wants;

    if (!atomic_load_explicit(&other->asleep, memory_order_acquire))
        return 0;
    wants = atomic_load_explicit(&other->wants, memory_order_relaxed);
    if (wants != own && wants != ANYBODY)
        return 0;
    before = atomic_exchange(&other->asleep, AWAKE);
    if (before == ASLEEP)
        syscall(SYS_futex, &other->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
    return before == ASLEEP_ELSEWHERE;
}

int64_t segment_take_longest(void)
{
    return atomic_exchange(&segment->longest_ns, 0) - 1; /* stored plus one, since a new segment holds zeros */
}

void segment_report(int64_t waited_ns)
{
    int64_t before = atomic_load_explicit(&segment->longest_ns, memory_order_relaxed);

    while (before < waited_ns + 1 && !atomic_compare_exchange_weak(&segment->longest_ns, &before, waited_ns + 1))
        ;
}

int64_t segment_estimate(void)
{
    return atomic_load_explicit(&segment->estimate_ns, memory_order_relaxed) - 1;
}

void segment_set_estimate(int64_t estimate_ns)
{
    atomic_store_explicit(&segment->estimate_ns, estimate_ns + 1, memory_order_relaxed);
}
