/* How the library begins and ends in an MPI process. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "operation.h"
#include "profile.h"

struct own_mpi mpi;
static set_yielding yielding;

/* Find MPI's functions with `find`, before MPI's own initialization. Returns whether they are all there. `yields`: how
   often the calling thread has called sched_yield. */
__attribute__((visibility("default"))) int lockstep_prepare(void *(*find)(const char *name), long (*yields)(void))
{
    yields_so_far = yields;
    if (!find_own_mpi(&mpi, find))
        return 0;
    yielding = (set_yielding)find("opal_progress_set_yield_when_idle");
    revoked = (int (*)(MPI_Comm, int *))find("MPIX_Comm_is_revoked");
    handshake_announce();
    return 1;
}

/* Whether the ranks on some node are more than the processors that these may use together. */
static int oversubscribed(int rank)
{
    MPI_Comm node;
    cpu_set_t mine, together;
    int ranks, crowded, somewhere;

    if (sched_getaffinity(0, sizeof mine, &mine)) /* there are more than 1,024 */
        CPU_ZERO(&mine);
    mpi.Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    PMPI_Comm_size(node, &ranks);
    mpi.Allreduce(&mine, &together, sizeof mine, MPI_BYTE, MPI_BOR, node);
    crowded = ranks > CPU_COUNT(&together);
    mpi.Allreduce(&crowded, &somewhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    mpi.Comm_free(&node);
    return somewhere;
}

/* Prepare everything. All ranks of MPI_COMM_WORLD with this library call this right after MPI's own initialization,
   which took so long, and so much CPU time. Returns the prefix of the functions that replace MPI's
   from now on, or NULL if some rank has no library, or none is needed: then all wait as MPI does. */
__attribute__((visibility("default"))) const char *lockstep_begin(int64_t took_ns, int64_t took_cpu_ns)
{
    enum reach *reach;
    int rank, ranks, level, *place;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!handshake_reached(rank, ranks) || (getenv("LOCKSTEP_IF_OVERSUBSCRIBED") && !oversubscribed(rank))) {
        whereabouts_begin(rank, ranks, NOT_NOTED);
        return NULL;
    }
    PMPI_Query_thread(&level);
    wait_begin(level == MPI_THREAD_MULTIPLE, yielding);
    reach = calloc((size_t)ranks, sizeof *reach);
    place = calloc((size_t)ranks, sizeof *place);
    if (wait_as_mpi())
        mpi.Barrier(MPI_COMM_WORLD);
    else
        discover(rank, ranks, reach, place);
    peers_begin(rank, reach, place);
    (void)peers_of(MPI_COMM_WORLD); /* it is listed before any other */
    whereabouts_begin(rank, ranks, RUNNING);
    mpich_segment_remove_name();
    record_begin(rank, ranks);
    if (operations_open(rank, ranks)) {
        operations_note_init(took_ns, took_cpu_ns);
        return "recorded_";
    }
    return wait_as_mpi() ? "timed_" : "lockstep_";
}

/* Whether the functions profiled_X take the places of noted_X. MPI is initialized. */
__attribute__((visibility("default"))) int lockstep_profiles(void)
{
    return profile_begin();
}

/* Whether MPICH's ranks end without each other, as for ranks that abort alone: MPICH takes 1, yes, true, and on. */
static int ends_alone(void)
{
    const char *set = getenv("MPIR_CVAR_NO_COLLECTIVE_FINALIZE");

    return set != NULL && *set != 0 && (strchr("1yYtT", *set) != NULL || strcasecmp(set, "on") == 0);
}

int lockstep_Finalize(void)
{
    if (!ends_alone())
        wait_entered(MPI_COMM_WORLD);
    record_write();
    return mpi.Finalize();
}

__attribute__((visibility("default"))) int timed_Finalize(void)
{
    record_write();
    return mpi.Finalize();
}

__attribute__((visibility("default"))) int recorded_Finalize(void)
{
    struct transfers transfers = {0};
    int64_t begin_ns, begin_cpu_ns;
    int error;

    if (op_begin()) {
        op_returned();
        op_add(KIND_COMPUTE, 0, NO_RANK, 0, OTHERS, 0);
        op_end();
    }
    operations_close(1);
    if (!ends_alone())
        transfers_find(&transfers);
    operations_note_transfers(&transfers);
    begin_ns = now_ns();
    begin_cpu_ns = process_ns();
    error = UNDER_Finalize();
    operations_note_finalize(now_ns() - begin_ns, process_ns() - begin_cpu_ns);
    return error;
}
