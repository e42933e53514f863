/* Whether all ranks of a job on one host have this library, where no lockstep answers. */
#ifndef LOCKSTEP_MEETING_H
#define LOCKSTEP_MEETING_H

#pragma GCC visibility push(hidden)

/* Before MPI's own initialization: this rank of the job of that name has the library. */
void meeting_begin(const char *name);

/* After it, once: whether all have it. All ranks that have the library get the same answer. */
int meeting_all(int ranks);

#pragma GCC visibility pop

#endif
