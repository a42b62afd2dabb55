/* Convert times of another clock to CLOCK_MONOTONIC_RAW, by interpolation between pairs of readings of both clocks.
 *
 * Used by one thread at a time.
 */
#ifndef MSP_DEVICES_MATCH_H
#define MSP_DEVICES_MATCH_H

#include <stdbool.h>
#include <stdint.h>

enum { MSP_MATCHES_MOST = 16 };

typedef struct {
  uint64_t theirs;
  uint64_t raw_ns; /* CLOCK_MONOTONIC_RAW: the middle of one reading before and one after the other clock's reading */
} msp_match;

typedef struct {
  msp_match pairs[MSP_MATCHES_MOST]; /* the last pairs, sorted by time */
  uint32_t count;
  uint64_t uncertainty_ns; /* half the duration of the slowest pair of readings */
} msp_matches;

/* Read both clocks several times, and add the pair that was read fastest. `read` reads the other clock; it returns
 * false on failure. */
bool msp_match_take(msp_matches *matches, bool (*read)(uint64_t *theirs));

/* Add a pair. */
void msp_match_add(msp_matches *matches, msp_match pair, uint64_t half_width_ns);

/* Return by how many ns the difference of the clocks varies between the pairs. */
uint64_t msp_match_wander(const msp_matches *matches);

/* Convert a time of the other clock. Between two pairs, the line through both is used. Before the first pair and
 * after the last one, the clocks differ by as much as in the nearest pair. If the other clock was set back, some of its
 * times occur twice; then the later occurrence counts. */
uint64_t msp_match_convert(const msp_matches *matches, uint64_t theirs);

#endif
