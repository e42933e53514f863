/* The page that the ranks of a job share on a node: who sleeps, and for whom. */
#ifndef LOCKSTEP_PAGE_H
#define LOCKSTEP_PAGE_H

#include <stdint.h>

#define ANYBODY (-1)

/* Make the page for so many ranks. Returns its descriptor, or -1. Nothing of it has a name: it is
   gone with the last process that has it. */
int page_make(int ranks);

/* Take part as rank `own` of the node in the page that `process` made as its `descriptor`. Returns 0, or -1. */
int page_join(int process, int descriptor, int ranks, int own);

/* This rank is about to sleep until `rank` of the node, or ANYBODY, has done something for it. Whoever
   sends it something after this sees it, and whatever was sent before, this rank can now see. */
void page_announce(int rank);

/* Sleep until woken, but not longer than this. Returns whether somebody woke it (or a signal did). */
int page_sleep(int64_t timeout_ns);

/* This rank is awake. */
void page_awake(void);

/* Whether anybody sleeps. Everything this rank has done before is visible to who falls asleep later. */
int page_asleep(void);

/* Wake a rank if it sleeps and waits for this one. Ask page_asleep before. */
void page_ring(int rank);

/* The longest wait that any rank has reported since the last call; UNKNOWN_NS where there is none. */
int64_t page_take_longest(void);
void page_report(int64_t waited_ns);

/* The estimate by which the ranks of the node go. */
int64_t page_estimate(void);
void page_set_estimate(int64_t estimate_ns);

#endif
