/* What a program does, as recordings hold it (docs/reference/recordings.md).
   Functions recorded_X take the places of MPI's X; each goes like this:

       int outer __attribute__((cleanup(op_left))) = op_begin();
       int error = UNDER_X(...);

       if (outer) {
           op_returned();
           ...              what the call was, if it was something
           op_end();
       } */
#ifndef LOCKSTEP_OPERATION_H
#define LOCKSTEP_OPERATION_H

#include <stddef.h> /* for generated text, too */

#include "wrappers.h"

struct operation {
    float compute_ns; /* CPU time of the thread since the operation before it */
    float within_ns;  /* wall-clock time in MPI, with the polls in vain before it */
    uint32_t bytes;   /* of the message or operation; of a WAIT or PROBE: 1 if the program polled for it */
    int32_t peer;     /* rank in MPI_COMM_WORLD of the other end, or the root */
    uint32_t request; /* the request that it starts, or waits for; 0: none, or not known */
    uint16_t comm;    /* number of the communicator */
    uint8_t kind, tag;
};

enum { NO_RANK = -1, ANYONE = -2 }; /* as a peer; so are ranks of another MPI_COMM_WORLD NO_RANK */

/* What large messages between the ranks of a node cost, and how ranks wait for messages. */
#define LEAST_COPIED 4096
#define COPIED_SIZES 9 /* each twice as large as the one before */
#define MOST_COPIED (LEAST_COPIED << (COPIED_SIZES - 1))
struct transfers {
    int64_t meets_from_bytes;      /* a send of so many bytes waits for its receive; 0: unknown, or none does */
    double copy_ns[COPIED_SIZES]; /* by how much longer a message takes than one of a byte */
    double yield_interval_ns;     /* a call that waits gives its processor away so often; 0: unknown */
};
#define NO_YIELDS (-1.0) /* in the place of yield_interval_ns: it keeps its processor */
extern long (*yields_so_far)(void);

/* Find it out. Collective over MPI_COMM_WORLD. */
void transfers_find(struct transfers *found);

/* Make the recording of this rank, if LOCKSTEP_OPERATIONS names a directory; returns whether calls are to be
   recorded. Collective over MPI_COMM_WORLD. */
int operations_open(int rank, int ranks);
/* `finalized`: by MPI_Finalize. */
void operations_close(int finalized);
/* Add to the recording of this rank, if it was made; also after it was closed. */
void operations_note_transfers(const struct transfers *transfers);
/* Likewise how long MPI_Init and MPI_Finalize took, and how much CPU time; and how often this thread has slept
   until MPI_Init returned. */
void operations_note_init(int64_t took_ns, int64_t took_cpu_ns);
void operations_note_finalize(int64_t took_ns, int64_t took_cpu_ns);

/* A call begins. Returns 0 if MPI itself or a callback makes it within another. */
int op_begin(void);
/* It has returned. From here to the end no other thread notes anything. */
void op_returned(void);
void op_end(void);
/* Exceptions may leave it, too, as a program's handler of MPI's errors throws them: `outer` goes out of scope. */
void op_left(const int *outer);

/* What op_returned takes and op_end gives back. */
void op_lock(void);
void op_unlock(void);

/* One operation; `peer` is a rank of MPI_COMM_WORLD. */
void op_add(int kind, int64_t bytes, int peer, uint32_t request, unsigned comm, int tag);

/* The bytes of so many items. */
int64_t op_bytes(MPI_Count count, MPI_Datatype datatype);

/* A message to or from a rank of `comm`, or a collective operation with a root (or MPI_PROC_NULL). With a
   request it has only been started; `prepared`: only MPI_Start starts it. */
void op_message(int kind, int64_t bytes, int rank, int tag, MPI_Comm comm, MPI_Request *request, int prepared);
void op_collective(int kind, int64_t bytes, int root, MPI_Comm comm, MPI_Request *request, int prepared);

/* A prepared request has been started. */
void op_started(MPI_Request request);

/* A message was sent, and one received, in one call. */
void op_exchanged(int64_t sent, int dest, int sent_tag, int64_t room, int source, int tag, MPI_Comm comm);

/* The own rank in a communicator. */
int op_rank(MPI_Comm comm);

/* What was `request` before the call is complete; `polled`: a call that does not wait found it so. */
void op_waited(MPI_Request request, const MPI_Status *status, int polled);

/* Whether the status of this request says who sent: it receives from anybody. */
int op_from_anyone(MPI_Request request);

/* The program has given a request up, which MPI completes. */
void op_forget(MPI_Request request);

/* Messages that were probed for and taken out of their queue. */
void op_probed(MPI_Comm comm, const MPI_Status *status, MPI_Message *message, int polled);
void op_received(MPI_Message message, int64_t bytes, MPI_Request *request);

/* The ranks of a communicator, by number. */
struct members {
    int number, ranks, *world; /* `world`: of the ranks that a rank here can send to, in MPI_COMM_WORLD, or NO_RANK */
    int inter; /* they are the remote group of an intercommunicator */
    struct members *next;
};
#define OTHERS 65535 /* the number of all communicators after the first ones */

const struct members *members_of(MPI_Comm comm);

/* The peer for a rank of a communicator. */
int op_peer(const struct members *members, int rank);

#endif
