/* Datagrams between ranks of different nodes: a sleeper asks ranks elsewhere to ring, and they ring once. */
#ifndef LOCKSTEP_BELL_H
#define LOCKSTEP_BELL_H

#include <stdint.h>

#define ADDRESSES 4

/* How others reach a rank. All of it is in network byte order. */
struct bell_card {
    uint64_t token; /* of rank 0; what comes without it is ignored */
    uint32_t address[ADDRESSES], mask[ADDRESSES];
    uint16_t port;
    uint16_t addresses;
};

/* Open this rank's socket, and describe it. Returns 0, or -1 if others could not reach it. */
int bell_open(struct bell_card *card);
void bell_close(void);

/* Take part as rank `own` of `ranks`. After it, the other calls may be made. Returns 0, or -1. */
int bell_join(int own, int ranks);

/* `rank` is reached as its card says; `here`: on this host. */
void bell_introduce(int rank, const struct bell_card *card, int here);

/* Ask a rank to ring when it has done something that this rank may wait for. */
void bell_ask(int rank);

/* Read what has come. Returns how many ranks have asked and were not yet rung. */
int bell_heed(void);

/* Ring a rank, if it has asked. */
void bell_ring(int rank);

/* Ring a rank, which is known to sleep. */
void bell_wake(int rank);

/* Forget rings that have come so far. */
void bell_forget(void);

/* How a sleep ended: by a ring, by its time, or by something else. */
enum ending { RUNG, TIMED_OUT, DISTURBED };

/* Sleep until somebody rings, but not longer than this. */
enum ending bell_sleep(int64_t timeout_ns);

#endif
