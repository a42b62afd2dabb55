/* Times of another clock as CLOCK_MONOTONIC_RAW: pairs of readings of both, and lines between them.
 *
 * One thread at a time.
 */
#ifndef MSP_DEVICES_MATCH_H
#define MSP_DEVICES_MATCH_H

#include <stdbool.h>
#include <stdint.h>

enum { MSP_MATCHES_MOST = 16 };

typedef struct {
  uint64_t theirs;
  uint64_t raw_ns; /* our clock: the middle of two readings around the other clock's */
} msp_match;

typedef struct {
  msp_match pairs[MSP_MATCHES_MOST]; /* the last ones, by time */
  uint32_t count;
  uint64_t uncertainty_ns; /* half the time that the slowest pair took */
} msp_matches;

/* Read both clocks, several times, and keep the narrowest pair. `read` returns false when it cannot be read. */
bool msp_match_take(msp_matches *matches, bool (*read)(uint64_t *theirs));

/* Add a pair. */
void msp_match_add(msp_matches *matches, msp_match pair, uint64_t half_width_ns);

/* Change of the difference of both clocks between the pairs, ns. */
uint64_t msp_match_wander(const msp_matches *matches);

/* Convert a time: between two pairs on the line through both; outside of all pairs with the difference of the
 * nearest pair. If a clock was set back, some of its times occur twice: then the later one counts. */
uint64_t msp_match_convert(const msp_matches *matches, uint64_t theirs);

#endif
