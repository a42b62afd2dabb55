/* Convert times of another clock to CLOCK_MONOTONIC_RAW, by interpolation between pairs of readings of both clocks.
 *
 * One thread at a time uses a list of pairs.
 */
#ifndef MSP_DEVICES_MATCH_H
#define MSP_DEVICES_MATCH_H

#include <stdbool.h>
#include <stdint.h>

enum { MSP_MATCHES_MOST = 16 };

typedef struct {
  uint64_t theirs;
  uint64_t raw_ns; /* CLOCK_MONOTONIC_RAW: the middle of a reading before and a reading after that of the other clock */
} msp_match;

typedef struct {
  msp_match pairs[MSP_MATCHES_MOST]; /* the last pairs, sorted by time */
  uint32_t count;
  uint64_t uncertainty_ns; /* half the duration of the slowest pair of readings */
} msp_matches;

/* Read both clocks several times, and add the pair whose reading took the shortest time. `read` reads the other clock,
 * and returns false on failure. */
bool msp_match_take(msp_matches *matches, bool (*read)(uint64_t *theirs));

/* Add a pair of readings of both clocks. */
void msp_match_add(msp_matches *matches, msp_match pair, uint64_t half_width_ns);

/* Return by how many nanoseconds the difference of the two clocks varies between the stored pairs of readings. */
uint64_t msp_match_wander(const msp_matches *matches);

/* Convert a time of the other clock to CLOCK_MONOTONIC_RAW. Between two pairs of readings, interpolate on the line
 * through both. Before the first pair and after the last one, the clocks differ by as much as in the nearest pair. When
 * the other clock was set back, some of its times occur twice; then the later occurrence counts. */
uint64_t msp_match_convert(const msp_matches *matches, uint64_t theirs);

#endif
