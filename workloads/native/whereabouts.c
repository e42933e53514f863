#define _GNU_SOURCE
#include "whereabouts.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "answers.h"

#define VERSION 1

_Static_assert(sizeof(struct subject) == 32, "harness/measure/rank_notes.py says so");
_Static_assert(sizeof(struct place) == 104, "so does it");
_Static_assert(sizeof(struct communicator) == 96, "so does it");

static struct whereabouts nowhere; /* notes that nobody reads */
struct whereabouts *whereabouts = &nowhere;
static void *more_memory;
static atomic_flag taken = ATOMIC_FLAG_INIT;

static void lock(void)
{
    while (concurrent && atomic_flag_test_and_set_explicit(&taken, memory_order_acquire))
        ;
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&taken, memory_order_release);
}

uint64_t mixed(uint64_t one, uint64_t other)
{
    uint64_t both = (one ^ (other + UINT64_C(0x9E3779B97F4A7C15))) * UINT64_C(0xBF58476D1CE4E5B9);

    return (both ^ both >> 29) | 1;
}

static size_t whole_bytes(void)
{
    return sizeof *whereabouts + (size_t)noted_count * NAME_BYTES;
}

/* What the launcher says before MPI does; -1: nothing. */
static int32_t told(const char *const variables[], size_t count)
{
    for (size_t number = 0; number < count; number++) {
        const char *value = getenv(variables[number]);

        if (value != NULL)
            return (int32_t)atoi(value);
    }
    return -1;
}

void *whereabouts_more(void)
{
    return more_memory;
}

/* Note what is there from now on in this memory, all of whose bytes are zero. */
static void note_in(struct whereabouts *made, const char *job, size_t bytes)
{
    static const char *const ranks[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
    static const char *const sizes[] = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"};

    made->version = VERSION;
    for (const char *at = job; *at; at++)
        made->job = mixed(made->job, (uint64_t)(unsigned char)*at);
    made->bytes = (int32_t)bytes;
    made->pid = getpid();
    made->rank = told(ranks, sizeof ranks / sizeof *ranks);
    made->ranks = told(sizes, sizeof sizes / sizeof *sizes);
    made->calls = noted_count;
    for (int number = 0; number < noted_count; number++)
        strncpy(made->names + number * NAME_BYTES, noted_calls[number], NAME_BYTES - 1);
    memcpy(made->magic, "LOCKSTEP", sizeof made->magic);
    whereabouts = made;
}

int whereabouts_open(const char *job, size_t more)
{
    size_t bytes = whole_bytes() + more;
    int file = memfd_create("lockstep-whereabouts", MFD_CLOEXEC);
    struct whereabouts *made = MAP_FAILED;

    if (file >= 0 && ftruncate(file, (off_t)bytes) == 0)
        made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (made == MAP_FAILED) {
        if (file >= 0)
            close(file);
        return -1;
    }
    note_in(made, job, bytes);
    if (more > 0)
        more_memory = (char *)made + whole_bytes();
    return file;
}

int whereabouts_keep(const char *job)
{
    struct whereabouts *made = whereabouts == &nowhere ? calloc(1, whole_bytes()) : NULL;

    if (made != NULL)
        note_in(made, job, whole_bytes());
    return whereabouts != &nowhere;
}

void whereabouts_begin(int rank, int ranks, enum stage stage)
{
    whereabouts->rank = rank;
    whereabouts->ranks = ranks;
    whereabouts->places[0].thread = (int32_t)syscall(SYS_gettid);
    __atomic_store_n(&whereabouts->stage, stage, __ATOMIC_RELEASE);
}

struct place *place_of_thread(void)
{
    static _Atomic int places;
    static _Thread_local int own = -1;
    struct place *place;

    if (own >= 0)
        return &whereabouts->places[own];
    own = atomic_fetch_add(&places, 1);
    own = own < PLACES ? own : PLACES - 1;
    place = &whereabouts->places[own];
    if (own == PLACES - 1) { /* no call of several threads is the outermost */
        place->frame = UINT64_MAX;
        place->entered = 1;
    }
    place->thread = own == PLACES - 1 ? SHARED : (int32_t)syscall(SYS_gettid);
    return place;
}

static uint64_t digest(const int *world, int ranks)
{
    uint64_t all = (uint64_t)ranks;

    for (int rank = 0; rank < ranks; rank++)
        all = mixed(all, (uint64_t)(uint32_t)world[rank]);
    return all;
}

/* Room for members is not given back: a program that makes communicators for ever soon has ones without a list. */
int whereabouts_list(const int *world, int ranks, int inter, enum use use)
{
    struct whereabouts *all = whereabouts;
    int number = 0;

    lock();
    while (number < COMMUNICATORS && all->communicators[number].used)
        number++;
    if (number < COMMUNICATORS) {
        struct communicator *one = &all->communicators[number];
        int room = one->member != NOT_LISTED && one->ranks >= ranks && one->ranks > 0; /* that of a freed one */
        int member = room ? one->member : all->members_used + ranks <= MEMBERS ? all->members_used : NOT_LISTED;

        if (!room && member != NOT_LISTED)
            all->members_used += ranks;
        *one = (struct communicator){.ranks = ranks, .member = member, .origin = NOT_LISTED, .inter = inter};
        if (member != NOT_LISTED)
            memcpy(&all->members[member], world, (size_t)ranks * sizeof *world);
        one->members_digest = inter ? 0 : digest(world, ranks);
        one->id = use == WORLD ? one->members_digest : 0;
        __atomic_store_n(&one->used, use, __ATOMIC_RELEASE);
    }
    unlock();
    return number < COMMUNICATORS ? number : NOT_LISTED;
}

void whereabouts_forget(int listed)
{
    if (listed != NOT_LISTED)
        __atomic_store_n(&whereabouts->communicators[listed].used, UNUSED, __ATOMIC_RELEASE);
}

void note_stage(enum stage stage)
{
    if (whereabouts->pid != getpid())
        return;
    __atomic_store_n(&whereabouts->stage, stage, __ATOMIC_RELEASE);
    if (stage == FINALIZED)
        answers_end();
}

struct started *start_of(uint64_t handle)
{
    return &whereabouts->started[handle * UINT64_C(0x9E3779B97F4A7C15) >> 58];
}

void note_started(MPI_Request request, const struct subject *subject)
{
    struct started *one = start_of((uint64_t)(uintptr_t)request);

    one->handle = (uint64_t)(uintptr_t)request;
    one->subject = *subject;
}

MPI_Datatype last_datatype; /* at first none that a program has */
int last_bytes;

/* Open MPI's datatypes are addresses that only a running program knows. */
static int look_up_bytes(MPI_Datatype datatype)
{
    const struct {
        MPI_Datatype datatype;
        int bytes;
    } known[] = {{MPI_BYTE, 1}, {MPI_CHAR, 1}, {MPI_PACKED, 1}, {MPI_SHORT, sizeof(short)}, {MPI_INT, sizeof(int)},
                 {MPI_UNSIGNED, sizeof(int)}, {MPI_LONG, sizeof(long)}, {MPI_UNSIGNED_LONG, sizeof(long)},
                 {MPI_FLOAT, sizeof(float)}, {MPI_DOUBLE, sizeof(double)}, {MPI_INT64_T, 8}, {MPI_UINT8_T, 1},
                 {MPI_LONG_LONG, sizeof(long long)}};

    for (size_t number = 0; number < sizeof known / sizeof *known; number++)
        if (known[number].datatype == datatype)
            return known[number].bytes;
    return 0;
}

int find_bytes(MPI_Datatype datatype)
{
    int bytes = look_up_bytes(datatype);

    last_bytes = bytes;
    last_datatype = datatype;
    return bytes;
}
