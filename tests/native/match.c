/* Check the conversion between two clocks by pairs of readings: for times between pairs and outside of all pairs; and
 * check the reported wander of the clocks.
 *
 * A failed check aborts the program; see tests/test_match.py.
 */
#include "devices/match.h"

#include "check.h"

static msp_matches matches;

static void add(uint64_t theirs, uint64_t raw_ns) { msp_match_add(&matches, (msp_match){theirs, raw_ns}, 20); }

static void start(void) { matches = (msp_matches){.count = 0}; }

int main(void) {
  start();
  CHECK(msp_match_wander(&matches) == 0);
  CHECK(msp_match_convert(&matches, 7) == 7);
  add(1000000, 500);
  CHECK(msp_match_wander(&matches) == 0);
  CHECK(msp_match_convert(&matches, 1000100) == 600 && msp_match_convert(&matches, 999900) == 400);
  /* the other clock is a tenth faster */
  add(1001100, 1500);
  CHECK(msp_match_convert(&matches, 1000550) == 1000);
  CHECK(msp_match_convert(&matches, 1001200) == 1600);
  CHECK(msp_match_wander(&matches) == 100 && matches.uncertainty_ns == 20);
  /* the other clock is set back, so that it shows some times a second time */
  add(901100, 2500);
  CHECK(msp_match_wander(&matches) == 101000);
  CHECK(msp_match_convert(&matches, 901200) == 2600);
  add(902100, 3500);
  CHECK(msp_match_convert(&matches, 901600) == 3000);
  CHECK(msp_match_convert(&matches, 901000) == 2400);
  CHECK(msp_match_convert(&matches, 902200) == 3600);
  /* only the last pairs are kept */
  for (uint64_t second = 0; second < MSP_MATCHES_MOST; ++second) add(5000000 + 1000 * second, 10000 + 1000 * second);
  CHECK(matches.count == MSP_MATCHES_MOST && msp_match_wander(&matches) == 0);
  return 0;
}
