/* Datagrams between ranks of different nodes: a sleeper asks ranks elsewhere to ring, and they ring once. */
#ifndef LOCKSTEP_DOORBELL_H
#define LOCKSTEP_DOORBELL_H

#include <stdint.h>

#define ADDRESSES 8
#define LOOPBACK (ADDRESSES + 1)

/* How others reach a rank. All of it is in network byte order. */
struct doorbell_card {
    uint32_t address[ADDRESSES];
    uint16_t port; /* 0: it has no doorbell */
    uint16_t addresses;
};

/* Open this rank's socket, and describe it. Returns 0, or -1 if others could not reach it. */
int doorbell_open(struct doorbell_card *card);
void doorbell_close(void);

/* Take part as rank `own` of `ranks`; datagrams without the job's token are ignored. After it, the other calls may
   be made. Returns 0, or -1. */
int doorbell_join(int own, int ranks, uint64_t token);

/* Try to reach a rank of another host at each of its addresses, and this one at LOOPBACK. */
void doorbell_try(int rank, const struct doorbell_card *card);

/* The number, from 1 on, of this rank's address at which `rank` has reached it, or LOOPBACK; 0: at none so far. */
int doorbell_tried(int rank);

/* From now on reach a rank at its address of this number, or at LOOPBACK. */
void doorbell_introduce(int rank, const struct doorbell_card *card, int number);

/* Ask a rank to ring when it has done something that this rank may wait for. */
void doorbell_ask(int rank);

/* Read what has come. Returns how many ranks have asked and were not yet rung. */
int doorbell_heed(void);

/* Ring a rank, if it has asked. */
void doorbell_ring(int rank);

/* Ring a rank, which is known to sleep. */
void doorbell_wake(int rank);

/* Forget rings that have come so far. */
void doorbell_forget(void);

/* How a sleep ended: by a ring, by its time, or by something else. */
enum ending { RUNG, TIMED_OUT, DISTURBED };

/* Sleep until somebody rings, but not longer than this. */
enum ending doorbell_sleep(int64_t timeout_ns);

#endif
