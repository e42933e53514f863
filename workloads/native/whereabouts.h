/* What the threads of a rank do in MPI, in memory that lockstep reads when somebody asks where the ranks are.
   The rank makes the memory before it initializes MPI, and passes it on with its registration (handshake.c), or
   answers questions about it where that cannot be done (answers.c). A call costs it some stores in a line of the cache
   that nobody else reads meanwhile. */
#ifndef LOCKSTEP_WHEREABOUTS_H
#define LOCKSTEP_WHEREABOUTS_H

#include "wrappers.h"

#pragma GCC visibility push(hidden)

#define PLACES 8         /* threads that are told apart; all later ones share the last place */
#define COMMUNICATORS 64 /* and so are communicators and windows */
#define MEMBERS 16384    /* ranks of all of these together */
#define STARTED 64       /* requests whose start is known, by their handles */
#define NAME_BYTES 48
enum { NO_PEER = -9, NOT_LISTED = -1, SHARED = -1 };

/* What a call is about. */
struct subject {
    int32_t call; /* its number in `names` */
    int32_t comm; /* its place in `communicators`, or NOT_LISTED */
    int32_t to, from, tag; /* ranks of that communicator, or NO_PEER; `from` may be the root */
    int32_t item_bytes;    /* 0: unknown */
    int64_t items;         /* of a message; of a call for requests, how many there are */
};

struct place {
    uint64_t entered, left, progressed; /* calls: begun, ended, and ended with something done */
    int32_t thread, pending; /* the thread, or SHARED: only progress counts; how many of `handles` are in use */
    struct subject subject;             /* of the last call */
    uint64_t handles[4];                /* of requests that the call still waits for */
    uint64_t frame;                     /* on the stack, of the outermost call */
};

struct communicator {
    uint64_t id;      /* the same at all its ranks; 0: unknown */
    uint64_t members_digest;
    uint64_t collectives, children; /* begun in it, and made from it, by this rank */
    int32_t ranks, member; /* where its ranks of MPI_COMM_WORLD begin in `members`; NOT_LISTED: there is no room */
    int32_t origin;        /* the call that made it, or NOT_LISTED */
    int16_t used, inter;   /* used: enum use; inter: the members are its remote group */
    char name[NAME_BYTES];
};

struct started {
    uint64_t handle;
    struct subject subject;
};

enum use { UNUSED, USED, WORLD }; /* WORLD: it is MPI_COMM_WORLD */

enum stage { BEGINNING, RUNNING, FINALIZING, FINALIZED, NOT_NOTED };

struct whereabouts {
    char magic[8];
    uint64_t job; /* the same for its ranks */
    int32_t version, bytes, pid, rank, ranks, stage, calls, members_used;
    struct place places[PLACES];
    struct communicator communicators[COMMUNICATORS];
    struct started started[STARTED];
    int32_t members[MEMBERS];
    char names[]; /* of the calls, NAME_BYTES each */
};

extern struct whereabouts *whereabouts; /* never NULL */
extern const char *const noted_calls[]; /* generated */
extern const int noted_count;

/* Make the memory of a rank of a job, and more behind it. Returns a descriptor of it for lockstep, or -1. */
int whereabouts_open(const char *job, size_t more);
void *whereabouts_more(void); /* NULL: there is none */

/* Make it for this process alone, which tells lockstep what it holds (answers.c). Returns whether there is room. */
int whereabouts_keep(const char *job);

/* MPI is initialized. */
void whereabouts_begin(int rank, int ranks, enum stage stage);

uint64_t mixed(uint64_t one, uint64_t other);

/* Give a communicator or a window a place in the list. Returns it, or NOT_LISTED. */
int whereabouts_list(const int *world, int ranks, int inter, enum use use);
void whereabouts_forget(int listed);

/* MPI_Finalize begins or ends; a forked child is not a rank. */
void note_stage(enum stage stage);

/* A call has made a communicator from `parent`, or a window. */
void note_communicator(MPI_Comm parent, MPI_Comm made, int call);
void note_window(MPI_Comm comm, MPI_Win made, int call);
void note_window_freed(MPI_Win win);
int listed_window(MPI_Win win);

/* Where the start of a request is noted, or of another one. */
struct started *start_of(uint64_t handle);

/* A request has been started by a call. */
void note_started(MPI_Request request, const struct subject *subject);

/* The datatype that was looked up last, and its bytes. */
extern MPI_Datatype last_datatype;
extern int last_bytes;
__attribute__((cold)) int find_bytes(MPI_Datatype datatype);

/* The bytes of an item; 0: unknown. What is no datatype must not be asked for its size before MPI has accepted it. */
static inline int item_bytes(MPI_Datatype datatype)
{
    return datatype == last_datatype ? last_bytes : find_bytes(datatype);
}

/* The place of the calling thread. */
struct place *place_of_thread(void);

/* A wait in this thread lasts: note which of its requests are not complete, and how the program calls its
   communicator. The end of the wait is noted, too. */
void note_lasting(const struct wait *wait);
void note_lasted(const int *lasting);

static inline int listed(MPI_Comm comm)
{
    return peers_of(comm)->listed;
}

/* A rank as a peer. MPIs have different numbers for any source, and for no rank. */
enum { ANY_PEER = -2 };
#define PEER(rank) ((rank) == MPI_ANY_SOURCE ? ANY_PEER : (rank) < 0 ? NO_PEER : (rank))

/* A collective call begins in the communicator or window of this number. Returns it. */
static inline int note_collective(int number)
{
    if (number != NOT_LISTED)
        whereabouts->communicators[number].collectives++;
    return number;
}

/* A call that is noted. */
struct noted {
    struct place *place;
    int outermost; /* no call of MPI is around it */
};

static inline struct place *place_of_caller(void)
{
    return concurrent ? place_of_thread() : whereabouts->places;
}

/* Whether a call is in no other one; a callback of MPI may call MPI within a call. A call that longjmp has left is not
   around those that follow: their frames are not below its own. */
static inline int is_outermost(const struct place *place, const void *frame)
{
    return place->entered == place->left || place->frame <= (uintptr_t)frame;
}

static inline struct noted note_entered(const struct subject *subject, void *frame)
{
    struct place *place = place_of_caller();
    struct noted noted = {place, is_outermost(place, frame)};

    if (noted.outermost) {
        place->frame = (uintptr_t)frame;
        /* One by one: what was stored in parts would be loaded as a whole only after these stores have ended. */
        __atomic_store_n(&place->subject.call, subject->call, __ATOMIC_RELAXED);
        __atomic_store_n(&place->subject.comm, subject->comm, __ATOMIC_RELAXED);
        __atomic_store_n(&place->subject.to, subject->to, __ATOMIC_RELAXED);
        __atomic_store_n(&place->subject.from, subject->from, __ATOMIC_RELAXED);
        __atomic_store_n(&place->subject.tag, subject->tag, __ATOMIC_RELAXED);
        __atomic_store_n(&place->subject.item_bytes, subject->item_bytes, __ATOMIC_RELAXED);
        __atomic_store_n(&place->subject.items, subject->items, __ATOMIC_RELAXED);
        __atomic_store_n(&place->entered, place->entered + 1, __ATOMIC_RELEASE);
    }
    return noted;
}

/* The call is over, also where an exception has left it. */
static inline void note_left(struct noted *noted)
{
    if (!noted->outermost)
        return;
    __atomic_store_n(&noted->place->left, noted->place->entered, __ATOMIC_RELEASE);
}

static inline void note_progress(struct noted *noted)
{
    if (!noted->outermost && noted->place->thread == SHARED)
        __atomic_fetch_add(&noted->place->progressed, 1, __ATOMIC_RELAXED);
    else
        __atomic_store_n(&noted->place->progressed, noted->place->progressed + 1, __ATOMIC_RELAXED);
}

#pragma GCC visibility pop

#endif
