/* Shared by the parts of the library that is made for one MPI. Functions lockstep_X replace MPI's X;
   under the rule spin, functions timed_X do; functions recorded_X
   note what the program does, around these. mpi.X is MPI's own X. */
#ifndef LOCKSTEP_WRAPPERS_H
#define LOCKSTEP_WRAPPERS_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "declared.h" /* generated: struct own_mpi, the prototypes, LARGE_COUNTS */
#include "waiting_rule.h"

#pragma GCC visibility push(hidden) /* a variable of this library is where it is: no table says it */

extern struct own_mpi mpi;

/* The ranks of a communicator. */
struct peers {
    int ranks;  /* that a rank here can send to; in an intercommunicator the remote group */
    int *world; /* the rank of each of these in MPI_COMM_WORLD, or -1 */
    int others; /* ranks of the communicator that this one can ring, by their ranks in MPI_COMM_WORLD: */
    int *other; /* first those in this node's segment, */
    int away;   /* and so many on other nodes */
    int silent; /* ranks that cannot ring this one */
    int remote; /* ranks that are not of this MPI_COMM_WORLD */
    int inter;   /* whether it is an intercommunicator */
    int idup;    /* whether Open MPI's Comm_idup has been called for it */
    int listed;  /* its place in the list of whereabouts.h */
};

/* Tell lockstep's registrar that this rank has the library. Before MPI's own initialization. */
void handshake_announce(void);

/* Whether all ranks of the job have it: all get the same answer. */
int handshake_reached(int rank, int ranks);

/* Remove the name of the memory that MPI's ranks of this node share. All ranks have left MPI_Init. */
void mpich_segment_remove_name(void);

/* The peers in MPI_COMM_WORLD, and in the other communicator that was looked up last; NULL: there is none. */
extern const struct peers *world_peers, *other_peers;
extern MPI_Comm other_comm;

/* Look up the peers in a communicator: rarely needed. */
__attribute__((cold)) const struct peers *find_peers(MPI_Comm comm);

/* The peers in a communicator. Sends no message. */
static inline const struct peers *peers_of(MPI_Comm comm)
{
    if (comm == MPI_COMM_WORLD && world_peers != NULL)
        return world_peers;
    if (comm == other_comm && other_peers != NULL)
        return other_peers;
    return find_peers(comm);
}

/* Whether all collective operations of a communicator stay MPI's own. Where it has ranks of another MPI_COMM_WORLD
   (spawned ranks, or ranks of another job), these may run without this library, and MPI's blocking operations do not
   match its nonblocking ones. Where it was duplicated by Comm_idup, Open MPI begins steps as nonblocking operations in
   it while ranks wait: each rank at another time, so other nonblocking operations would not match. Where it was revoked
   (by ranks that tolerate faults), nonblocking operations of Open MPI 5.0 never end; blocking ones fail at once. */
int stays_own(MPI_Comm comm);

/* MPI's function that says whether a communicator was revoked; NULL in an MPI without one. */
extern int (*revoked)(MPI_Comm comm, int *flag);

/* The program calls Comm_idup. */
void idup_starts(MPI_Comm comm);

/* Whether it is an intercommunicator. Collective operations with a root stay MPI's own there: in MPICH 5.0 the
   nonblocking ones hang if ranks with the root MPI_PROC_NULL pass a count of 0, as mpi4py does. */
int spans_groups(MPI_Comm comm);

/* Whether items of a datatype have no bytes: some ranks may count them while others count nothing, and then nonblocking
   forms wait for messages that nobody sends. What is no datatype is an error of the communicator, as in the call itself:
   its handler may return, and MPI_Type_size would ask the one of MPI_COMM_WORLD. */
int is_empty(MPI_Datatype datatype, MPI_Comm comm);

/* Counts of nothing for all ranks of a communicator. */
const void *no_counts(MPI_Comm comm);

/* Whether what an operation gives to all comes from this rank. */
int is_root(MPI_Comm comm, int root);

/* Whether any communicator that was looked at has such ranks. */
int has_remote_ranks(void);

/* A rank's number in the segment; ANYBODY if it is not there, or if `rank` may mean any rank. */
int place_of(const struct peers *peers, int rank);

/* The ranks in MPI_COMM_WORLD of a group's ranks, or -1; to be freed. */
int *in_world(MPI_Group group, int ranks);

/* How two ranks can ring each other; both say the same. */
enum reach { SILENT, BY_SEGMENT, BY_DOORBELL };

/* Try how this rank and each other can ring each other, make what they need, and say once a job where they cannot.
   `place`: of each rank in the segment, or -1. Collective over MPI_COMM_WORLD. */
void discover(int own, int ranks, enum reach *reach, int *place);

/* From now on ranks are known: how this one, `own`, and each other can ring each other, and their places in the
   segment. Both arrays stay in use. */
void peers_begin(int own, const enum reach *reach, const int *place);

/* How a rank can ring this one. */
enum reach reach_of(const struct peers *peers, int rank);

/* Wake ranks that wait for this one: one rank, the ranks of a communicator, or all. */
void ring_rank(MPI_Comm comm, int rank);
void ring_members(MPI_Comm comm);
void ring_all(void);

/* What the segment says of the ranks of this node that can end a wait, added up: of `rank`, or of all of the
   communicator. */
uint32_t sum_of(const struct peers *peers, int rank, uint32_t (*of)(int place));

/* Ask ranks on other nodes to ring: `rank`, or all of the communicator. */
void ask_away(const struct peers *peers, int rank);

/* What a wait is for. */
enum kind { COLLECTIVE, MESSAGE };

struct wait {
    enum kind kind;
    int (*test)(void *what, int *done); /* returns an MPI error; without `done` waits as MPI does */
    void *what;
    MPI_Comm comm; /* its ranks can end the wait; MPI_COMM_NULL: any rank can */
    int rank;      /* the rank of comm that can; MPI_ANY_SOURCE: any */
    int requests;  /* how many it waits for */
    int more;      /* how many times more than once MPI polls in a test */
    MPI_Request *waited; /* the program's requests, if it waits for some */
};

/* Wait until the test says done, or fails: spin as long as the rule allows, then sleep. Returns the error. */
int wait_two_phase(struct wait *wait);

/* This many items are on their way from here: the next wait may take as long as they do, and spins so much longer.
   MPI has accepted the datatype. */
void wait_carries(MPI_Count count, MPI_Datatype datatype);

/* The program has started a collective operation, which its next wait may complete in many steps. */
void collective_started(MPI_Comm comm);

/* Wait in a collective operation that has been started. */
int wait_collective(MPI_Request *request, MPI_Comm comm);

/* Wait for a send that has been started. */
int wait_sent(MPI_Request *request, MPI_Comm comm, int dest);

/* From now on requests may be of persistent collective operations or partitioned messages. */
void requests_last(void);

/* From now on requests may be of collective operations on files. */
void requests_of_files(void);

/* Wait until all ranks have called this. */
int wait_entered(MPI_Comm comm);

/* From now on naps are short: others may need this rank's progress while it sleeps. */
void nap_briefly(void);

/* Around each poll of the program's own: if it only polls, and in vain, it naps. The second takes what the first has
   returned, and returns the poll's error. The third takes it when it goes out of scope: exceptions may leave the poll. */
int poll_begin(void);
int poll_end(int *announced, int error, const int *found);
void poll_left(const int *announced);

/* The program has done something else than poll in vain. */
void poll_over(void);

/* Wake a rank that waits for a message from this one, which is something else than a poll. */
void ring_receiver(MPI_Comm comm, int rank);

/* Note a wait in MPI's own call, which spins. */
void wait_timed(enum kind kind, int64_t begin_ns);

/* Around a call of MPI's own that often waits: in it MPI yields if another process has lately taken the processor. */
void wait_own(int begins);

/* Whether MPI's own calls wait (the rule spin). */
int wait_as_mpi(void);

/* Open MPI's function that sets whether its idle ranks yield; returns whether they did. */
typedef bool (*set_yielding)(bool yield);

/* Read the rule; `threads`: whether several threads of the process may wait; `yielding`: NULL in other MPIs. */
void wait_begin(int threads, set_yielding yielding);
extern int concurrent;

/* Note that there is a segment, on which this rank has the number `rank`. */
void wait_segment(int rank);

/* Counts of the waits of one kind (docs/reference/store.md). */
#define BINS 64
struct waits {
    int64_t spun, blocked, blocks, spun_ns, blocked_ns, spun_histogram[BINS], blocked_histogram[BINS];
};
struct counts {
    struct waits waits[2];
    int64_t rechecks, asleep_ns;
};
extern struct counts counts;

void record_begin(int rank, int ranks);
void record_write(void);

#pragma GCC visibility pop

#endif
