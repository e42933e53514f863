/* The waiting rules. Every line has its counterpart in workloads/waiting_rules.py, which explains it;
   tests/workloads/test_preload.py feeds both the same waits and compares every answer. */
#include "waiting_rule.h"

int64_t read_limit(const struct waiting *waiting)
{
    if (waiting->rule == SPIN)
        return FOREVER_NS;
    if (waiting->rule == IMMEDIATE)
        return 0;
    if (waiting->rule == FIXED)
        return waiting->fixed_ns;
    return 2 * waiting->switch_ns;
}

int64_t barrier_limit(const struct waiting *waiting, int64_t estimate_ns)
{
    int64_t least = 2 * waiting->switch_ns, most = 10 * waiting->switch_ns, v = estimate_ns;

    if (waiting->rule == SPIN)
        return FOREVER_NS;
    if (waiting->rule == IMMEDIATE)
        return 0;
    if (waiting->rule == FIXED)
        return waiting->fixed_ns;
    if (waiting->rule == ORACLE)
        v = waiting->imbalance_ns;
    if (v < 0)
        v = most;
    if (v > most)
        return least;
    return v + waiting->round_trip_ns > least ? v + waiting->round_trip_ns : least;
}

int64_t learn(int64_t *sample, int64_t waited_ns)
{
    int64_t count = sample[0], place, last;

    if (count < SAMPLE_SIZE) {
        place = SAMPLE_HEADER + count;
        sample[0] = ++count;
    } else {
        sample[1] = (sample[1] * 1103515245 + 12345) & 0x7FFFFFFF;
        place = SAMPLE_HEADER + (sample[1] >> 8) % count;
    }
    last = SAMPLE_HEADER + count - 1;
    for (; place > SAMPLE_HEADER && sample[place - 1] > waited_ns; place--)
        sample[place] = sample[place - 1];
    for (; place < last && sample[place + 1] < waited_ns; place++)
        sample[place] = sample[place + 1];
    sample[place] = waited_ns;
    return sample[SAMPLE_HEADER + count - count / 10 - 1];
}
