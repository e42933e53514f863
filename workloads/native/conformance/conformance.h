/* Compares the blocking form of each call with its nonblocking form and a loop of tests, on an MPI itself.
   Every case is drawn at random, alike on all ranks and in both forms. */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MOST 16 /* ranks; edges of a rank */

/* A communicator: `ranks` here, and so many that this rank sends to and receives from. */
struct group {
    MPI_Comm comm; /* MPI_COMM_NULL: this rank is not in it */
    int rank, ranks, inter, remote;
    int here, there; /* numbers from which ranks here and at the other end are counted: what two ranks exchange depends on both */
    int sources, destinations, source[MOST], destination[MOST]; /* in a topology; -1: MPI_PROC_NULL */
    char what[80];
};

/* The form: MPI's blocking one, or started and tested. */
extern int started;
/* Whether buffers are MPI_IN_PLACE. */
extern int in_place;

void groups_make(unsigned seed);
void groups_free(void);
/* Communicators of one kind, one of which is drawn. */
enum kind { INTRA, ANY_KIND, TOPOLOGY };
const struct group *group_draw(enum kind kind);

/* A number below a bound, the same on all ranks. */
void draw_from(uint64_t seed, const char *call, int number);
unsigned draw(unsigned below);
/* One that also depends on a place, and draws nothing. */
unsigned spread(unsigned from, unsigned to, unsigned below);
extern char drawn[400]; /* what was, in words */
#define DRAWN(...) snprintf(drawn + strlen(drawn), sizeof drawn - strlen(drawn), __VA_ARGS__)

/* Datatypes of two numbers, but for the first; all but the first and the last have gaps. */
#define TYPES 4
extern MPI_Datatype types[TYPES];
extern const int type_size[TYPES], type_extent[TYPES];
void types_make(void);
void types_free(void);
static inline int items(int type, int pairs)
{
    return 2 * pairs / type_size[type];
}
static inline int span_of(int type, int pairs)
{
    return items(type, pairs) * type_extent[type];
}
/* An operation for a datatype; `what` is the number of ours or of MPI's. */
MPI_Op op_for(int type);

/* The buffers; each number in them is compared. Filled with numbers that tell the rank and the place. */
#define ROOM (1 << 15)
extern int sent[ROOM], received[ROOM];
void fill(int rank, int span);
void note(int64_t number);
/* A number of pairs, of which `blocks` fit into a buffer. */
int pairs_draw(int blocks);

/* Wait by tests. */
void finish(MPI_Request *request, MPI_Status *status);

struct call {
    const char *name;
    void (*one)(void);
    int places; /* whether it is also tried in place */
};
extern const struct call collectives[], collectives_large[], messages[], messages_large[], completions[];

#endif
