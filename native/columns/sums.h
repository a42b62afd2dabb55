/* Sum up the durations of spans by name and category. Does not use Python's API. */
#ifndef MSP_SUMS_H
#define MSP_SUMS_H

#include <stddef.h>

#include "nesting.h"

/* The sums of all spans with one `key`. */
typedef struct {
  uint64_t key, count;
  int64_t total_ns, self_ns, min_ns, max_ns;
  uint64_t squares_low, squares_high; /* sum of the squares of durations, 128 bits */
} msp_sum;

typedef struct {
  msp_sum *sums;
  size_t count;
} msp_sums;

/* Sum up spans by `key`, which is 256 * name + category. When the only child of an operator is an operator with the
 * same name, both count as one call, and the inner one adds only to the self time.
 *
 * The flag `counted` marks a span that an earlier call has summed up. It is not summed up again; only its inner spans
 * without the flag reduce its self time. The self time of a span is its duration minus the result of `msp_inside`. If
 * all spans of a key have the flag, `min_ns` is INT64_MAX and `max_ns` is INT64_MIN. `open` receives for each span
 * whether it ends after the start of the last span of its lane.
 *
 * Returns false when there is no memory; `to->sums` is to be freed. */
bool msp_sum_up(int64_t count, const msp_spans *of, const uint64_t *key, const uint8_t *counted, uint8_t *open,
                msp_sums *to);

#endif
