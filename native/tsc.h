/* CLOCK_MONOTONIC_RAW for one thread, computed from the processor's time-stamp counter.
 *
 * Where Linux keeps its time by that counter, RAW is a straight line over it. A thread reads both, follows the line for
 * a millisecond and reads both again. So errors do not add up, whatever happened to the machine meanwhile: each is the
 * error of one reading, some tens of nanoseconds. If the clock deviates from the end of a line, the clock does not
 * follow the counter, and from then on all threads read the clock. A thread's times never decrease.
 */
#ifndef MSP_TSC_H
#define MSP_TSC_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/* A thread's line; all zeros before the first one. */
typedef struct {
  uint64_t ticks; /* where it begins */
  uint64_t ns;
  uint64_t length;  /* ticks for which it holds */
  uint64_t last_ns; /* returned last */
  uint32_t rate;    /* ns a tick, times 2^32 */
  uint32_t failed;  /* attempts in a row to read both clocks at one moment */
} msp_tsc;

/* Both clocks at one moment. */
typedef struct {
  uint64_t ticks; /* the middle of two readings of the counter */
  uint64_t ns;    /* reading of the clock between them */
  uint64_t width; /* ticks between the two readings */
  uint64_t slept; /* ns for which the machine was suspended so far: the counter may include them, the clock does not */
} msp_tsc_pair;

/* Find out whether the counter is reliable, and begin to measure its rate; once per process. Lines begin when the
 * rate is known, 20 ms later. */
void msp_tsc_init(void);

/* Repair a change that a fork may have interrupted; the child may be in another time namespace. */
void msp_tsc_after_fork(void);

/* Tell whether threads may follow the counter. */
bool msp_tsc_trusted(void);

/* Stop using the counter: each thread reads the clock again as soon as its line ends. */
void msp_tsc_distrust(void);

/* Begin a line at a pair and return its time. */
uint64_t msp_tsc_begin(msp_tsc *tsc, const msp_tsc_pair *pair);

/* The rare case of msp_tsc_now: read the clock, and begin a line if possible. */
uint64_t msp_tsc_read(msp_tsc *tsc);

/* The time given, or the thread's last one when that is later. */
static inline uint64_t msp_tsc_not_before(msp_tsc *tsc, uint64_t ns) {
  if (ns < tsc->last_ns) ns = tsc->last_ns;
  tsc->last_ns = ns;
  return ns;
}

/* CLOCK_MONOTONIC_RAW in nanoseconds, for the thread that owns `tsc`. */
static inline uint64_t msp_tsc_now(msp_tsc *tsc) {
#if defined(__x86_64__)
  uint64_t ran = __builtin_ia32_rdtsc() - tsc->ticks;
  if (__builtin_expect(ran < tsc->length, 1)) return msp_tsc_not_before(tsc, tsc->ns + (ran * tsc->rate >> 32));
#endif
  return msp_tsc_read(tsc);
}

#endif
