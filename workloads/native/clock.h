/* Time, and a line for a person: for the parts of the library that know no MPI, too. */
#ifndef LOCKSTEP_CLOCK_H
#define LOCKSTEP_CLOCK_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

void say(const char *what);
int64_t now_ns(void);
int64_t process_ns(void); /* CPU time of this process */
int64_t thread_ns(void);  /* of this thread */

#pragma GCC visibility pop

#endif
