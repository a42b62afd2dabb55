/* Sums of spans by name and category. Knows nothing of Python. */
#ifndef MSP_SUMS_H
#define MSP_SUMS_H

#include <stddef.h>

#include "nesting.h"

/* The sums of all spans with one `key`. */
typedef struct {
  uint64_t key, count;
  int64_t total_ns, self_ns, min_ns, max_ns;
  uint64_t squares_low, squares_high; /* of durations, 128 bits */
} msp_sum;

typedef struct {
  msp_sum *sums;
  size_t count;
} msp_sums;

/* Sum up spans by `key`: a name times 256, and a category. An operator that is the only content of an operator of the
 * same name adds only to the self time: both are one call.
 *
 * A span that is `counted` has been summed up before: only its inner spans that are not counted reduce its self time.
 * Self times are durations without the result of `msp_inside`. Without any span that is not counted, `min_ns` is
 * INT64_MAX and `max_ns` INT64_MIN. `open` tells which spans have not ended when the last one of their lane begins.
 *
 * Returns false when there is no memory; `to->sums` is to be freed. */
bool msp_sum_up(int64_t count, const msp_spans *of, const uint64_t *key, const uint8_t *counted, uint8_t *open,
                msp_sums *to);

#endif
