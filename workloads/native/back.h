/* What the parts of the library share that is made for one MPI. Its functions that begin with
   lockstep_ take the place of MPI's, or those with timed_ if the rule is to spin; mpi.X is MPI's own X. */
#ifndef LOCKSTEP_BACK_H
#define LOCKSTEP_BACK_H

#include <mpi.h>
#include <stdint.h>

#include "declared.h" /* generated: struct own_mpi, the prototypes, LARGE_COUNTS */
#include "rule.h"

extern struct own_mpi mpi;

/* The ranks of a communicator that share this node's page, as their numbers on it, or -1. */
struct peers {
    int ranks;  /* those that a rank here can send to: the remote group of an intercommunicator */
    int *place; /* of each of them */
    int others; /* ranks on the page that belong to the communicator, this one left out */
    int *other;
    int elsewhere; /* ranks that are not on the page */
    int foreign;   /* ranks that are not of this MPI_COMM_WORLD */
};

/* Find out who shares this node and make the page. Collective over MPI_COMM_WORLD. */
void peers_begin(void);

/* Who takes part in a communicator. Nothing is sent for it. */
const struct peers *peers_of(MPI_Comm comm);

/* Whether a communicator has ranks of another MPI_COMM_WORLD: spawned ones, or those of another job. They
   may run without this library, and MPI's blocking collective operations do not match its nonblocking ones. */
int spans_worlds(MPI_Comm comm);

/* Where a rank is on the page: its number, -1 if it is not there, ANYBODY if all may be meant. */
int place_of(const struct peers *peers, int rank);

/* Wake who waits for this rank: one, those of a communicator, or all on the page. */
void ring_rank(MPI_Comm comm, int rank);
void ring_members(MPI_Comm comm);
void ring_all(void);

/* What a wait is for. */
enum kind { COLLECTIVE, MESSAGE };

struct wait {
    enum kind kind;
    int (*test)(void *what, int *done); /* returns an MPI error */
    void *what;
    MPI_Comm comm; /* whose ranks can end the wait; MPI_COMM_NULL: anybody */
    int rank;      /* which of them; MPI_ANY_SOURCE: any */
};

/* Wait until the test says done, or fails: spin as long as the rule says, then sleep. Returns the error. */
int wait_two_phase(struct wait *wait);

/* Wait in a collective operation that has been started. */
int wait_collective(MPI_Request *request, MPI_Comm comm);

/* Wait for a send that has been started. */
int wait_sent(MPI_Request *request, MPI_Comm comm, int dest);

/* Wait until all ranks have called this. */
int wait_entered(MPI_Comm comm);

/* From now on naps are short: others may need this rank's progress while it sleeps. */
void nap_briefly(void);

/* Note a wait in MPI's own call, which spins. */
void wait_timed(enum kind kind, int64_t begin_ns);

/* Whether MPI's own calls are to wait. */
int wait_as_mpi(void);

/* The rule, and whether several threads of the process may wait. */
void wait_begin(int threads);
extern int concurrent;

/* There is a page, on which this is the rank of that number. */
void wait_page(int rank);

/* What the waits of one kind were (docs/formats.md). */
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

void say(const char *what);
int64_t now_ns(void);

#endif
