/* The recording of a rank: a file that is mapped, so that a killed rank leaves what it has done.
 *
 * The file is bounded. It has room for SLOTS windows of equal length in time, and each window keeps its
 * first operations. When all windows have been used, two neighbours become one, and from then on
 * windows are twice as long. A short program is thus kept as a whole, and of a long one evenly spread
 * windows. All ranks divide the time alike, since they begin together.
 *
 * Room on the disk is reserved before it is touched: on a full disk recording ends, and the program goes on. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "descriptor.h"
#include "operation.h"

#define VERSION 1
#define SLOTS 16
#define FIRST_SLOT_NS 62500000
#define MOST_BYTES 150000000 /* of the operations of all ranks together; LOCKSTEP_OPERATIONS_BYTES replaces it */
#define MOST_KEPT 65536 /* operations in a window, at most */
#define LEAST_KEPT 64 /* and at least */
#define MEMBERS_BYTES 1000000 /* for the ranks of communicators */
#define STEP_BYTES 262144 /* by which room is reserved */
#define SHORT_NS 2000 /* of a shorter time all is CPU time: to look costs as much */
enum { FULL = 1, FINALIZED = 2, ROOTED = 4 }; /* flags */

/* On one node MPICH gathers at a root who has come to a collective operation, and the root releases all. */
#if defined MPICH_NUMVERSION && MPICH_NUMVERSION >= 40000000
#define KIND_OF_MPI ROOTED
#else
#define KIND_OF_MPI 0
#endif

struct slot {
    int64_t begin_ns, kept_end_ns, operations, kept;
    double compute_ns, within_ns, kept_compute_ns, kept_within_ns;
    int64_t collectives; /* on MPI_COMM_WORLD, before it */
    int64_t reserved_bytes;
};

struct head {
    char magic[8], world[32], host[64];
    int32_t version, rank, ranks, process, slots, most_kept, threads, flags;
    int64_t start_ns, finish_ns, slot_ns, collectives, members_bytes, last_ns;
    struct transfers transfers;
    int64_t init_ns, init_cpu_ns, finalize_ns, finalize_cpu_ns, init_switches;
    struct slot slot[SLOTS];
};
_Static_assert(sizeof(struct operation) == 24, "the format says so");
_Static_assert(sizeof(struct head) == 312 + 80 * SLOTS, "the format says so");

#define HEAD_BYTES 4096
static struct head *head;
static int recording; /* calls are; then there is a head */
static struct operation *rows;
static int32_t *member_words;
static int file = -1, current;
static struct stat made_file;
static int64_t slot_end_ns, members_reserved;
static atomic_flag taken = ATOMIC_FLAG_INIT;

static int keyval = MPI_KEYVAL_INVALID, communicators;
static MPI_Comm last_comm;
static const struct members *last_members;
static const struct members others = {.number = OTHERS};
static struct members *freed;

/* Of a thread: times of its last call, and what it has not yet noted. */
static _Thread_local struct {
    int within, known, added, vain;
    int64_t left_ns, left_cpu_ns, entered_ns, entered_cpu_ns;
    double compute_ns, within_ns;
    struct operation *last;
} span;

static void stop_keeping(void)
{
    if (!(head->flags & FULL))
        say("cannot record any more operations: no room for them");
    head->flags |= FULL;
}

/* Room for bytes at a place of the file, of which `reserved` are there already. */
static int reserve(int64_t place, int64_t *reserved, int64_t bytes)
{
    while (*reserved < bytes) {
        if ((head->flags & FULL) || !is_still(file, &made_file) ||
            posix_fallocate(file, place + *reserved, STEP_BYTES) != 0) {
            stop_keeping();
            return 0;
        }
        *reserved += STEP_BYTES;
    }
    return 1;
}

static struct operation *row(int slot, int64_t number)
{
    return rows + (int64_t)slot * head->most_kept + number;
}

static int room(int slot, int64_t operations)
{
    int64_t place = HEAD_BYTES + (char *)row(slot, 0) - (char *)rows;

    return reserve(place, &head->slot[slot].reserved_bytes, operations * (int64_t)sizeof *rows);
}

static void begin_slot(int number, int64_t begin_ns)
{
    int64_t reserved = head->slot[number].reserved_bytes;

    head->slot[number] = (struct slot){.begin_ns = begin_ns, .kept_end_ns = begin_ns,
                                       .collectives = head->collectives, .reserved_bytes = reserved};
}

/* Make one window of two, where `to` <= `first`. It keeps what of them lies together. */
static void merge(int to, int first)
{
    struct slot one = head->slot[first], two = head->slot[first + 1], *made = &head->slot[to];
    int64_t fits = head->most_kept - one.kept, more = two.kept < fits ? two.kept : fits;

    one.reserved_bytes = made->reserved_bytes;
    *made = one;
    if (one.kept && !room(to, one.kept))
        made->kept = 0, made->kept_compute_ns = made->kept_within_ns = 0;
    memmove(row(to, 0), row(first, 0), (size_t)made->kept * sizeof *rows);
    made->operations += two.operations;
    made->compute_ns += two.compute_ns;
    made->within_ns += two.within_ns;
    if (made->kept < one.operations || (more && !room(to, made->kept + more)))
        return;
    memmove(row(to, made->kept), row(first + 1, 0), (size_t)more * sizeof *rows);
    made->kept += more;
    made->kept_end_ns = two.kept_end_ns;
    for (int64_t number = 0; number < more; number++) {
        made->kept_compute_ns += row(first + 1, number)->compute_ns;
        made->kept_within_ns += row(first + 1, number)->within_ns;
    }
}

static void next_slot(int64_t now)
{
    while (now >= slot_end_ns) {
        if (current + 1 == SLOTS) {
            for (int number = 0; number < SLOTS / 2; number++)
                merge(number, 2 * number);
            head->slot_ns *= 2;
            current = SLOTS / 2 - 1;
            head->slots = SLOTS / 2;
            slot_end_ns = head->start_ns + (current + 1) * head->slot_ns;
            continue;
        }
        begin_slot(++current, slot_end_ns);
        head->slots = current + 1;
        slot_end_ns += head->slot_ns;
    }
}

static int make(const char *folder, int rank, int ranks)
{
    char name[4096];
    const char *most = getenv("LOCKSTEP_OPERATIONS_BYTES");
    int64_t most_kept = (most ? atoll(most) : MOST_BYTES) / ranks / SLOTS / (int64_t)sizeof *rows, bytes;
    struct rlimit limit;
    void *mapped;

    most_kept = most_kept > MOST_KEPT ? MOST_KEPT : most_kept < LEAST_KEPT ? LEAST_KEPT : most_kept;
    bytes = HEAD_BYTES + SLOTS * most_kept * (int64_t)sizeof *rows;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < (rlim_t)(bytes + MEMBERS_BYTES + STEP_BYTES))
        return 0; /* a signal would end the program */
    snprintf(name, sizeof name, "%s/rank-%d-%d.operations", folder, rank, (int)getpid());
    unlink(name);
    file = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0 || ftruncate(file, bytes + MEMBERS_BYTES + STEP_BYTES) != 0 ||
        posix_fallocate(file, 0, HEAD_BYTES) != 0 || fstat(file, &made_file) != 0)
        return 0;
    mapped = mmap(NULL, (size_t)(bytes + MEMBERS_BYTES), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        return 0;
    head = mapped;
    rows = (struct operation *)((char *)mapped + HEAD_BYTES);
    member_words = (int32_t *)((char *)mapped + bytes);
    head->version = VERSION;
    head->rank = rank;
    head->ranks = ranks;
    head->process = getpid();
    head->flags = KIND_OF_MPI;
    head->most_kept = (int32_t)most_kept;
    return 1;
}

/* Note the ranks of a communicator in the recording. Returns whether there is room. */
static int note_members(const struct members *members)
{
    int64_t bytes = head->members_bytes + (3 + members->ranks) * (int64_t)sizeof *member_words;
    int32_t *words = member_words + head->members_bytes / (int64_t)sizeof *member_words;

    if (bytes > MEMBERS_BYTES || !reserve((char *)member_words - (char *)head, &members_reserved, bytes))
        return 0;
    words[0] = members->number;
    words[1] = members->inter;
    words[2] = members->ranks;
    for (int rank = 0; rank < members->ranks; rank++)
        words[3 + rank] = members->world[rank];
    head->members_bytes = bytes;
    return 1;
}

/* Requests may still refer to its ranks, and another communicator of the same ranks gets its number: so
   programs that make and free communicators for ever need few numbers. */
static int forget(MPI_Comm comm, int key, void *value, void *extra)
{
    struct members *members = value;

    (void)comm, (void)key, (void)extra;
    if (members == last_members)
        last_members = NULL;
    if (members != &others) {
        members->next = freed;
        freed = members;
    }
    return MPI_SUCCESS;
}

static struct members *freed_like(const struct members *members)
{
    for (struct members **at = &freed; *at != NULL; at = &(*at)->next) {
        struct members *found = *at;

        if (found->inter == members->inter && found->ranks == members->ranks &&
            memcmp(found->world, members->world, (size_t)members->ranks * sizeof *members->world) == 0) {
            *at = found->next;
            return found;
        }
    }
    return NULL;
}

/* The first communicators get numbers: 0 is MPI_COMM_WORLD, 1 MPI_COMM_SELF. */
static const struct members *number_of(MPI_Comm comm)
{
    struct members members = {.number = communicators}, *known;
    MPI_Group group;

    PMPI_Comm_test_inter(comm, &members.inter);
    members.inter ? PMPI_Comm_remote_group(comm, &group) : PMPI_Comm_group(comm, &group);
    PMPI_Group_size(group, &members.ranks);
    members.world = in_world(group, members.ranks);
    PMPI_Group_free(&group);
    known = freed_like(&members);
    if (known == NULL && communicators < OTHERS && note_members(&members)) {
        known = malloc(sizeof *known);
        *known = members;
        communicators++;
        return known;
    }
    free(members.world);
    return known != NULL ? known : &others;
}

const struct members *members_of(MPI_Comm comm)
{
    void *value = NULL;
    int found = 0;

    if (last_members != NULL && comm == last_comm)
        return last_members;
    if (comm == MPI_COMM_NULL)
        return &others;
    if (keyval == MPI_KEYVAL_INVALID)
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &keyval, NULL);
    if (PMPI_Comm_get_attr(comm, keyval, &value, &found) != MPI_SUCCESS)
        return &others;
    if (!found) {
        value = (void *)number_of(comm);
        PMPI_Comm_set_attr(comm, keyval, value);
    }
    last_comm = comm;
    last_members = value;
    return value;
}

int operations_open(int rank, int ranks)
{
    const char *folder = getenv("LOCKSTEP_OPERATIONS");
    char world[32] = "";

    if (folder == NULL)
        return 0;
    if (rank == 0)
        snprintf(world, sizeof world, "%lx-%llx", (long)getpid(), (long long)now_ns());
    mpi.Bcast(world, sizeof world, MPI_BYTE, 0, MPI_COMM_WORLD);
    mpi.Barrier(MPI_COMM_WORLD);
    if (!make(folder, rank, ranks)) {
        say("cannot record the operations of a rank: no room or no right to write");
        if (file >= 0)
            close(file);
        mpi.Barrier(MPI_COMM_WORLD);
        return 1; /* other ranks are recorded, and all must call alike */
    }
    memcpy(head->world, world, sizeof world);
    gethostname(head->host, sizeof head->host - 1);
    mpi.Barrier(MPI_COMM_WORLD);
    head->start_ns = now_ns();
    head->slot_ns = FIRST_SLOT_NS;
    slot_end_ns = head->start_ns + FIRST_SLOT_NS;
    head->slots = 1;
    begin_slot(0, head->start_ns);
    members_of(MPI_COMM_WORLD);
    members_of(MPI_COMM_SELF);
    memcpy(head->magic, "LOCKSTEP", 8);
    recording = 1;
    span.known = 1;
    head->threads = 1;
    span.left_ns = now_ns();
    span.left_cpu_ns = thread_ns();
    return 1;
}

void operations_close(int finalized)
{
    if (!recording || head->process != getpid()) /* a forked child is not a rank */
        return;
    head->finish_ns = now_ns();
    head->flags |= finalized ? FINALIZED : 0;
    recording = 0; /* the mapping stays: another thread may be noting something */
    if (is_still(file, &made_file))
        close(file);
}

void operations_note_transfers(const struct transfers *transfers)
{
    if (head != NULL)
        head->transfers = *transfers;
}

void operations_note_init(int64_t took_ns, int64_t took_cpu_ns)
{
    struct rusage used = {0};

    getrusage(RUSAGE_THREAD, &used);
    if (head != NULL)
        head->init_ns = took_ns, head->init_cpu_ns = took_cpu_ns, head->init_switches = used.ru_nvcsw;
}

void operations_note_finalize(int64_t took_ns, int64_t took_cpu_ns)
{
    if (head != NULL)
        head->finalize_ns = took_ns, head->finalize_cpu_ns = took_cpu_ns;
}

__attribute__((destructor)) static void end(void)
{
    operations_close(0);
}

void op_lock(void)
{
    while (concurrent && atomic_flag_test_and_set_explicit(&taken, memory_order_acquire))
        sched_yield();
}

void op_unlock(void)
{
    if (concurrent)
        atomic_flag_clear_explicit(&taken, memory_order_release);
}

int op_begin(void)
{
    int64_t burst_ns;

    if (!recording || span.within)
        return 0;
    span.within = 1;
    span.entered_ns = now_ns();
    if (!span.known) { /* another thread's first call */
        span.known = 1;
        span.left_ns = span.entered_ns;
        span.left_cpu_ns = thread_ns();
        __atomic_fetch_add(&head->threads, 1, __ATOMIC_RELAXED);
    }
    burst_ns = span.entered_ns - span.left_ns;
    span.entered_cpu_ns = burst_ns < SHORT_NS ? span.left_cpu_ns + burst_ns : thread_ns();
    if (span.vain && burst_ns < SHORT_NS) /* it only polls */
        span.within_ns += (double)burst_ns;
    else
        span.compute_ns += (double)(span.entered_cpu_ns - span.left_cpu_ns);
    return 1;
}

void op_returned(void)
{
    int64_t now = now_ns(), within_ns = now - span.entered_ns;

    span.within_ns += (double)within_ns;
    span.left_ns = now;
    span.left_cpu_ns = within_ns < SHORT_NS ? span.entered_cpu_ns + within_ns : -1;
    span.added = 0;
    span.last = NULL;
    op_lock();
}

void op_add(int kind, int64_t bytes, int peer, uint32_t request, unsigned comm, int tag)
{
    struct slot *slot;

    if (bytes > UINT32_MAX) {
        op_add(KIND_MORE, bytes >> 32, NO_RANK, 0, 0, 0);
        bytes &= UINT32_MAX;
    }
    slot = &head->slot[current];
    span.added = 1;
    span.last = NULL;
    slot->operations++;
    slot->compute_ns += span.compute_ns;
    if (slot->kept + 1 == slot->operations && slot->kept < head->most_kept && room(current, slot->kept + 1)) {
        span.last = row(current, slot->kept);
        *span.last = (struct operation){(float)span.compute_ns, 0, (uint32_t)bytes, peer, request, (uint16_t)comm,
                                        (uint8_t)kind, (uint8_t)(tag == MPI_ANY_TAG ? 255 : tag % 255)};
        slot->kept++;
        slot->kept_compute_ns += span.compute_ns;
    }
    span.compute_ns = 0;
    head->collectives += comm == 0 && kind >= KIND_BARRIER;
}

void op_end(void)
{
    if (span.added) {
        struct slot *slot = &head->slot[current];

        slot->within_ns += span.within_ns;
        if (span.last != NULL) {
            span.last->within_ns = (float)span.within_ns;
            slot->kept_within_ns += span.within_ns;
            slot->kept_end_ns = span.left_ns;
        }
        span.within_ns = 0;
        head->last_ns = span.left_ns;
        if (span.left_ns >= slot_end_ns)
            next_slot(span.left_ns);
    }
    span.vain = !span.added;
    op_unlock();
    if (span.left_cpu_ns < 0) {
        span.left_cpu_ns = thread_ns();
        span.left_ns = now_ns();
    }
    span.within = 0;
}

void op_left(const int *outer)
{
    if (!*outer || !span.within)
        return;
    span.left_cpu_ns = thread_ns();
    span.left_ns = now_ns();
    span.within = 0;
}
