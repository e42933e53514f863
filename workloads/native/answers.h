/* Answers of a rank that cannot pass its memory on to lockstep: to another host, network or user. */
#ifndef LOCKSTEP_ANSWERS_H
#define LOCKSTEP_ANSWERS_H

#include <stdint.h>

/* A question is one byte. */
enum question { ASK_COUNTERS = 'c', ASK_NOTES = 'n' };

/* An answer begins so; as many bytes of each kind follow, in this order. harness/measure/remote_rank.py has it, too. */
struct answer {
    uint32_t page;     /* of struct whereabouts: what precedes the communicators, or all that is in use but names */
    uint32_t names;    /* of the calls */
    uint32_t stat;     /* what /proc says of the process and its main thread */
    uint32_t syscall;  /* in which call of the kernel that thread is */
    uint64_t handled;  /* signals that do not kill the process: bit 0 is signal 1 */
};

/* Start the thread that answers lockstep, which `line` has reached by TCP; only the first call does. */
void answers_begin(int line, const char *key, const char *job);

/* MPI_Finalize is over: let the thread say so, and end. */
void answers_end(void);

#endif
