/* CLOCK_MONOTONIC_RAW for one thread, computed from the processor's time-stamp counter.
 *
 * When Linux uses the time-stamp counter as its clock source, the clock is a linear function of the counter. A thread
 * reads the clock and the counter. For 4 to 64 milliseconds, it then computes times from the counter with this linear
 * function, which we call a line. Then it reads both again. So errors do not add up: the error is that of one reading,
 * some tens of nanoseconds. If the clock differs from the computed time at the end of a line, the clock does not follow
 * the counter. From then on, all threads read the clock. While one reading of both takes too long, a thread reads the
 * clock alone, and tries again every ten milliseconds. A thread's times never decrease.
 */
#ifndef MSP_TSC_H
#define MSP_TSC_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/* A thread's line: the linear function by which it computes the time from the counter. All fields are zero before the
 * first line. */
typedef struct {
  uint64_t ticks; /* begin of the line by the counter; the next field is its begin by the clock */
  uint64_t ns;
  uint64_t length;    /* number of ticks for which the line is valid */
  uint64_t last_ns;   /* the last time that was returned */
  uint64_t paused_ns; /* until this time, a thread with many failed attempts reads the clock alone */
  uint32_t rate;      /* ns a tick, times 2^32 */
  uint32_t failed;    /* attempts in a row to read both clocks at one moment; not counted beyond FAILED_MOST */
} msp_tsc;

/* Readings of the time-stamp counter and of CLOCK_MONOTONIC_RAW at one moment. */
typedef struct {
  uint64_t ticks; /* the middle of two readings of the counter */
  uint64_t ns;    /* reading of the clock between them */
  uint64_t width; /* ticks between the two readings */
  uint64_t slept; /* ns for which the machine was suspended so far; only the counter may include them */
} msp_tsc_pair;

/* Find out whether the time-stamp counter is reliable, and begin to measure its rate; called once per process. The rate
 * is known after 20 ms. Until then, threads read the clock. */
void msp_tsc_init(void);

/* In a fork child, measure the rate of the counter again: the child may be in another time namespace. */
void msp_tsc_after_fork(void);

/* Return whether threads may compute the time from the time-stamp counter. */
bool msp_tsc_trusted(void);

/* Stop using the time-stamp counter. Each thread reads the clock once its present line ends, after 64 milliseconds
 * at most. */
void msp_tsc_distrust(void);

/* Begin to compute times from the counter (a line) at this pair of readings, if possible. Returns the time of the
 * pair. */
uint64_t msp_tsc_begin(msp_tsc *tsc, const msp_tsc_pair *pair);

/* The slow path of msp_tsc_now: read the clock, and begin to compute times from the counter if possible. */
uint64_t msp_tsc_read(msp_tsc *tsc);

/* Return `ns`, or the last time that the thread got if that is later. So the times of a thread never decrease. */
static inline uint64_t msp_tsc_not_before(msp_tsc *tsc, uint64_t ns) {
  if (ns < tsc->last_ns) ns = tsc->last_ns;
  tsc->last_ns = ns;
  return ns;
}

/* Return CLOCK_MONOTONIC_RAW in nanoseconds, for the thread to which `tsc` belongs. */
static inline uint64_t msp_tsc_now(msp_tsc *tsc) {
#if defined(__x86_64__)
  uint64_t ran = __builtin_ia32_rdtsc() - tsc->ticks;
  if (__builtin_expect(ran < tsc->length, 1)) return msp_tsc_not_before(tsc, tsc->ns + (ran * tsc->rate >> 32));
#endif
  return msp_tsc_read(tsc);
}

#endif
