/* The clock of every record, and its relation to the wall clock. */
#ifndef MSP_CLOCK_H
#define MSP_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t msp_clock_read(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Return CLOCK_MONOTONIC_RAW in nanoseconds. The system never adjusts this clock, so differences are exact. A call
 * takes 19 ns, and twice as long with cold caches. So threads that record use the faster clock of tsc.h. */
static inline uint64_t msp_now(void) { return msp_clock_read(CLOCK_MONOTONIC_RAW); }

typedef struct {
  uint64_t raw_ns;        /* CLOCK_MONOTONIC_RAW, the middle of two readings */
  uint64_t real_ns;       /* CLOCK_REALTIME, read between these two readings */
  uint64_t half_width_ns; /* uncertainty of the pair: half the time between the two readings, rounded up */
} msp_clock_pair;

/* Read CLOCK_MONOTONIC_RAW and CLOCK_REALTIME several times as a pair, and return the pair with the least
 * uncertainty. */
static inline msp_clock_pair msp_clock_sample(void) {
  msp_clock_pair best = {0, 0, UINT64_MAX};
  for (int attempt = 0; attempt < 5; ++attempt) {
    uint64_t before = msp_now();
    uint64_t real = msp_clock_read(CLOCK_REALTIME);
    uint64_t width = msp_now() - before;
    if ((width + 1) / 2 < best.half_width_ns) {
      best.raw_ns = before + width / 2;
      best.real_ns = real;
      best.half_width_ns = (width + 1) / 2;
    }
  }
  return best;
}

#endif
