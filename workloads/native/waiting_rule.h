/* How long a process spins before it blocks: workloads/waiting_rules.py in C, number for number. */
#ifndef LOCKSTEP_WAITING_RULE_H
#define LOCKSTEP_WAITING_RULE_H

#include <stdint.h>

enum { SPIN, IMMEDIATE, FIXED, ORACLE, LOCAL_ADAPTIVE, GLOBAL_ADAPTIVE };

#define FOREVER_NS ((int64_t)1 << 62)
#define UNKNOWN_NS ((int64_t)-1)
#define SAMPLE_SIZE 64
#define SAMPLE_HEADER 2
#define SAMPLE_LENGTH (SAMPLE_HEADER + SAMPLE_SIZE)

struct waiting {
    int64_t rule, switch_ns, round_trip_ns, fixed_ns, imbalance_ns;
};

/* Nanoseconds to spin for a message. */
int64_t read_limit(const struct waiting *waiting);

/* Nanoseconds to spin in a collective operation, given the estimate of the load imbalance. */
int64_t barrier_limit(const struct waiting *waiting, int64_t estimate_ns);

/* Put a wait into the sample, and return the new estimate. A sample: count, random state, sorted waits. */
int64_t learn(int64_t *sample, int64_t waited_ns);

#endif
