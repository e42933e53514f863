/* The segment that the ranks of a job share on a node: which ranks sleep, and which ranks they wait for. */
#ifndef LOCKSTEP_NODE_SEGMENT_H
#define LOCKSTEP_NODE_SEGMENT_H

#include <stdint.h>

#define ANYBODY (-1)

/* Make the segment for `ranks` ranks. Returns its descriptor, or -1 and sets errno. The segment has no name: it
   disappears with the last process that has it. */
int segment_make(int ranks);

/* Take part as rank `own` of the node in the segment of a descriptor, which is closed. Returns 0, or the error. */
int segment_join(int descriptor, int ranks, int own);

/* Note the processor on which this rank runs. */
void segment_here(void);

/* Whether another rank is awake and ran last on the processor on which this one is: then it cannot run as long
   as this one spins. */
uint32_t segment_beside(int rank);

/* Announce that this rank will sleep until `rank` of the node, or ANYBODY, wakes it: in the segment, or
   elsewhere. Later senders see the announcement; this rank can now see all that was sent before. */
void segment_announce(int rank, int elsewhere);

/* Sleep until woken, but not longer than this. Returns whether somebody woke it (or a signal did). */
int segment_sleep(int64_t timeout_ns);

/* This rank is awake. */
void segment_awake(void);

/* Whether anybody sleeps. All that this rank has done before is visible to ranks that fall asleep later. */
int segment_asleep(void);

/* Wake a rank if it sleeps and waits for this one. Returns whether it sleeps elsewhere, and so is to be woken
   there. Ask segment_asleep before. */
int segment_ring(int rank);

/* The longest wait that any rank has reported since the last call; UNKNOWN_NS without any. */
int64_t segment_take_longest(void);
void segment_report(int64_t waited_ns);

/* The estimate that all ranks of the node use. */
int64_t segment_estimate(void);
void segment_set_estimate(int64_t estimate_ns);

#endif
