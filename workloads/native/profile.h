/* How long a rank is in the calls of MPI, for whom it waits there, and when it comes to collective calls, for
   `lockstep exec --profile`. Functions profiled_X stand in front of noted_X, only where LOCKSTEP_PROFILE is set. The
   memory is that of whereabouts.h, behind the names of the calls; the ranks tell each other nothing. */
#ifndef LOCKSTEP_PROFILE_H
#define LOCKSTEP_PROFILE_H

#include "whereabouts.h"

#define CALLS 1024    /* calls that are told apart */
#define ARRIVALS 4096 /* at collective calls that are kept */
#define AWAITED 1024  /* pairs of a call and a rank for which it has waited */

/* The calls of one kind. */
struct in_call {
    int64_t calls, within_ns;
    int32_t kept, level; /* of its arrivals: how many are kept, which are one of 2 to the power of `level` */
};

/* A rank's arrival at the n-th collective call of a communicator of so many ranks. */
struct arrival {
    uint64_t comm;
    uint32_t number;
    int32_t ranks;
    int64_t entered_ns, within_ns;
    int32_t call, root; /* the root's rank in MPI_COMM_WORLD, or NOBODY */
};

struct awaited {
    int32_t call, rank; /* in MPI_COMM_WORLD */
    int64_t calls, within_ns;
};

struct profile {
    int64_t begin_ns, until_ns; /* MPI was initialized, and the last call has ended, */
    int64_t within_ns;          /* of the first thread, which was in calls for so long; */
    int32_t kept, reserved;     /* how many arrivals there are */
    struct in_call in_call[CALLS];
    struct awaited awaited[AWAITED];
    struct arrival arrivals[ARRIVALS];
};

/* What a call waits for. */
enum awaits { AWAITS_NOTHING, AWAITS_RANK, AWAITS_ALL };

enum { NOBODY = -1, UNTIMED = -1 };

/* A call that is timed. */
struct timed {
    struct place *place;
    int64_t entered_ns; /* UNTIMED: it is within another */
    int32_t call;
    enum awaits awaits;
    int32_t rank;   /* in MPI_COMM_WORLD, that started requests wait for, or NOBODY */
    int32_t source; /* of what any rank could send, in the communicator of the call, or NO_PEER */
    int32_t comm;   /* of that request whose source was any rank, or NOT_LISTED: the call's own */
};

/* So much memory it takes; 0: it is not asked for. */
size_t profile_bytes(void);

/* Whether this rank's calls are timed from now on. */
int profile_begin(void);

extern const unsigned char is_message[]; /* generated, by call: whether it sends or receives */

struct timed profile_entered(int call, enum awaits awaits, void *frame);

/* The call waits for requests. */
void profile_requests(struct timed *timed, int count, const MPI_Request requests[]);

/* The call is over, also where an exception has left it. */
void profile_left(struct timed *timed);

#endif
