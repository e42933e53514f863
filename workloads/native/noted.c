/* What functions noted_X say of communicators, windows and waits that last. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "whereabouts.h"

/* A communicator's place is found by its peers, a window's here. */
static struct {
    MPI_Win win;
    int listed;
} windows[COMMUNICATORS];

/* All ranks of a communicator make others from it in the same order: so they give these the same number. */
static void descend(int parent, int made, int call)
{
    struct communicator *from, *to;

    if (parent == NOT_LISTED)
        return;
    from = &whereabouts->communicators[parent];
    from->children++;
    if (made == NOT_LISTED)
        return;
    to = &whereabouts->communicators[made];
    to->id = from->id && to->members_digest ? mixed(mixed(from->id, from->children), to->members_digest) : 0;
    to->origin = call;
}

void note_communicator(MPI_Comm parent, MPI_Comm made, int call)
{
    descend(listed(parent), listed(made), call);
}

void note_window(MPI_Comm comm, MPI_Win made, int call)
{
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    const struct peers *peers = peers_of(comm);
    int number = 0;

    while (concurrent && atomic_flag_test_and_set_explicit(&taken, memory_order_acquire))
        sched_yield();

    while (number < COMMUNICATORS && windows[number].listed)
        number++;
    if (number < COMMUNICATORS && made != MPI_WIN_NULL) {
        int place = whereabouts_list(peers->world, peers->ranks, 0, USED);

        descend(peers->listed, place, call);
        windows[number].win = made;
        windows[number].listed = place + 1;
    }
    atomic_flag_clear_explicit(&taken, memory_order_release);
}

static int place_of_window(MPI_Win win)
{
    int number = 0;

    while (number < COMMUNICATORS && !(windows[number].listed && windows[number].win == win))
        number++;
    return number;
}

int listed_window(MPI_Win win)
{
    int number = place_of_window(win);

    return number < COMMUNICATORS ? windows[number].listed - 1 : NOT_LISTED;
}

void note_window_freed(MPI_Win win)
{
    int number = place_of_window(win);

    if (number < COMMUNICATORS) {
        whereabouts_forget(windows[number].listed - 1);
        windows[number].listed = 0;
    }
}

/* Until now it was not worth the time. */
static void note_name(MPI_Comm comm)
{
    char name[MPI_MAX_OBJECT_NAME];
    int number = listed(comm), length;

    if (number != NOT_LISTED && PMPI_Comm_get_name(comm, name, &length) == MPI_SUCCESS)
        strncpy(whereabouts->communicators[number].name, name, NAME_BYTES - 1);
}

/* Whether the request of a call is started again and again. */
static int is_prepared(const struct subject *subject)
{
    return strstr(noted_calls[subject->call], "_init") != NULL;
}

static void note_pending(int count, const MPI_Request requests[])
{
    struct place *place = place_of_caller();
    int pending = 0, room = (int)(sizeof place->handles / sizeof *place->handles);

    for (int number = 0; number < count && pending < room; number++) {
        uint64_t handle = (uint64_t)(uintptr_t)requests[number];
        int over = 1;

        if (requests[number] == MPI_REQUEST_NULL ||
            mpi.Request_get_status(requests[number], &over, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            continue;
        if (!over)
            place->handles[pending++] = handle;
        else if (start_of(handle)->handle == handle && !is_prepared(&start_of(handle)->subject))
            start_of(handle)->handle = 0;
    }
    __atomic_store_n(&place->pending, pending, __ATOMIC_RELEASE);
}

void note_lasting(const struct wait *wait)
{
    place_of_caller()->pending = 0; /* longjmp may have left the last wait that lasted */
    if (wait->comm != MPI_COMM_NULL)
        note_name(wait->comm);
    else if (wait->waited != NULL)
        note_pending(wait->requests, wait->waited);
}

/* Calls do not look whether requests are listed: few waits last. */
void note_lasted(const int *lasting)
{
    if (*lasting)
        place_of_caller()->pending = 0;
}
