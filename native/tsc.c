#include "tsc.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* The rate of the counter is computed from two pairs of readings that are at least 20 ms apart, and anew each time that
 * their distance has doubled, up to some seconds. The error of a pair is half of its width, usually 30 ns. A line lasts
 * a fifth of this distance, so at its end, the error of a computed time is 12 ns at most. A new line takes some 10 us
 * on a virtual machine, because nothing that its four clocks need is in the caches: with lines of 4 ms, a loop of
 * short steps took 0.25 % longer. */
#define BASELINE_LEAST_NS 20000000u
#define BASELINE_MOST_NS 5000000000u
#define LINES 5u               /* lines for each distance between the two pairs */
#define LINE_MOST_NS 64000000u /* a longer line would save less than 0.02 % */
/* The first rate is wrong by 15 in a million at most. If a later one differs by more than this, the counter has jumped.
 */
#define RATE_DIFFERS_MOST 1e-4
#define SLEPT_MOST_NS 100000u /* a smaller difference is no sleep: the two clocks are read one after the other */
#define WIDTH_ENOUGH 200u     /* ticks; if a pair is wider, the thread was interrupted, and reads again */
#define WIDTH_MOST 600u       /* ticks; from a wider pair of readings, no times are computed */
#define ATTEMPTS 4            /* attempts to read a narrow pair */
#define FAILED_MOST 8u        /* after so many wide pairs in a row, the thread reads the clock for PAUSE_NS */
/* On a virtual machine, all readings of the clock took 0.3 to 1 us for up to 27 ms, some times a second, and 80 ns
 * otherwise. Where they always do, an attempt each 10 ms costs 0.02 % of the thread's time. */
#define PAUSE_NS 10000000u
#define DEVIATION_MOST_NS 1000u /* largest deviation of the clock from the computed time */
#define COMPARED_MOST 4u        /* the clock is compared with a computed time only within this multiple of a line */
#define SOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

static struct {
  uint32_t trusted;
  uint32_t busy;      /* a thread uses `first` and `wanted_ns` */
  uint64_t line;      /* upper 32 bits: ns of a line; lower: the rate, ns a tick, times 2^32; 0 until it is known */
  uint64_t wanted_ns; /* from a pair so long after the first one, the rate is computed next */
  msp_tsc_pair first; /* the pair from which the rate is computed */
} counter = {.wanted_ns = BASELINE_LEAST_NS};

#if defined(__x86_64__)

/* Return whether the time-stamp counter is reliable. It must have the same rate in all states of the processor. And the
 * kernel, which makes more checks, must use it as its clock source. */
static bool reliable(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(0x80000007u, &a, &b, &c, &d) || (d & 1u << 8) == 0) return false;
  int descriptor = open(SOURCE, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  char name[8];
  ssize_t length = read(descriptor, name, sizeof name);
  close(descriptor);
  return length == 4 && memcmp(name, "tsc\n", 4) == 0;
}

static uint64_t ticks_now(void) { return __builtin_ia32_rdtsc(); }

#else

static bool reliable(void) { return false; }
static uint64_t ticks_now(void) { return 0; }

#endif

static msp_tsc_pair read_pair(void) {
  msp_tsc_pair best = {0, 0, UINT64_MAX, 0};
  for (int attempt = 0; attempt < ATTEMPTS && best.width > WIDTH_ENOUGH; ++attempt) {
    uint64_t before = ticks_now();
    uint64_t ns = msp_now();
    uint64_t width = ticks_now() - before;
    if (width < best.width) best = (msp_tsc_pair){before + width / 2, ns, width, 0};
  }
  best.slept = msp_clock_read(CLOCK_BOOTTIME) - msp_clock_read(CLOCK_MONOTONIC);
  return best;
}

void msp_tsc_init(void) {
  if (!reliable()) return;
  counter.first = read_pair();
  __atomic_store_n(&counter.trusted, 1, __ATOMIC_RELAXED);
}

void msp_tsc_after_fork(void) {
  counter.first = read_pair();
  __atomic_store_n(&counter.busy, 0, __ATOMIC_RELAXED);
}

bool msp_tsc_trusted(void) { return __atomic_load_n(&counter.trusted, __ATOMIC_RELAXED) != 0; }
void msp_tsc_distrust(void) { __atomic_store_n(&counter.trusted, 0, __ATOMIC_RELAXED); }

static bool slept_between(const msp_tsc_pair *one, const msp_tsc_pair *other) {
  uint64_t apart = other->slept - one->slept + SLEPT_MOST_NS;
  return apart > 2 * SLEPT_MOST_NS;
}

/* Compute the rate of the counter from the first pair of readings and from this pair, if that is due. */
static void measure(const msp_tsc_pair *pair, uint64_t line) {
  uint64_t ns = pair->ns - counter.first.ns, ticks = pair->ticks - counter.first.ticks;
  if (counter.first.width > WIDTH_MOST || pair->ns <= counter.first.ns || slept_between(&counter.first, pair)) {
    counter.first = *pair;
    return;
  }
  if (ns < counter.wanted_ns || counter.wanted_ns > BASELINE_MOST_NS) return;
  double before = (double)(uint32_t)line, rate = (double)ns / (double)ticks * 4294967296.0;
  if (line != 0 && (rate > before * (1 + RATE_DIFFERS_MOST) || rate < before * (1 - RATE_DIFFERS_MOST))) {
    counter.first = *pair;
  } else if (ns < ticks) {
    uint64_t length = ns / LINES < LINE_MOST_NS ? ns / LINES : LINE_MOST_NS;
    __atomic_store_n(&counter.line, length << 32 | (uint32_t)rate, __ATOMIC_RELAXED);
    counter.wanted_ns = 2 * ns;
  } else {
    msp_tsc_distrust(); /* a counter below 1 GHz is too coarse */
  }
}

/* Return the length of a line and the rate of the counter, see `counter.line`; 0 while they are unknown. */
static uint64_t line_with(const msp_tsc_pair *pair) {
  if (__atomic_exchange_n(&counter.busy, 1, __ATOMIC_ACQUIRE) == 0) {
    measure(pair, __atomic_load_n(&counter.line, __ATOMIC_RELAXED));
    __atomic_store_n(&counter.busy, 0, __ATOMIC_RELEASE);
  }
  return __atomic_load_n(&counter.line, __ATOMIC_RELAXED);
}

/* Return whether the clock deviates from the time that the thread computes from the counter. */
static bool strays(const msp_tsc *tsc, const msp_tsc_pair *pair) {
  uint64_t ran = pair->ticks - tsc->ticks;
  if (ran >= COMPARED_MOST * tsc->length) return false; /* too long ago, or nothing was computed before */
  int64_t ahead = (int64_t)(tsc->ns + (ran * tsc->rate >> 32) - pair->ns);
  return ahead > (int64_t)DEVIATION_MOST_NS || ahead < -(int64_t)DEVIATION_MOST_NS;
}

uint64_t msp_tsc_begin(msp_tsc *tsc, const msp_tsc_pair *pair) {
  uint64_t line = 0;
  if (pair->width <= WIDTH_MOST) {
    tsc->failed = 0;
    if (strays(tsc, pair)) msp_tsc_distrust();
    line = line_with(pair);
  } else {
    if (tsc->failed < FAILED_MOST) ++tsc->failed;
    tsc->paused_ns = pair->ns + PAUSE_NS;
  }
  tsc->length = 0;
  if (line != 0 && msp_tsc_trusted()) {
    tsc->ticks = pair->ticks;
    tsc->ns = pair->ns;
    tsc->rate = (uint32_t)line;
    tsc->length = (line >> 32 << 32) / tsc->rate;
  }
  return msp_tsc_not_before(tsc, pair->ns);
}

uint64_t msp_tsc_read(msp_tsc *tsc) {
  if (!msp_tsc_trusted()) return msp_tsc_not_before(tsc, msp_now());
  if (tsc->failed == FAILED_MOST) {
    uint64_t now = msp_now();
    if (now < tsc->paused_ns) return msp_tsc_not_before(tsc, now);
  }
  const msp_tsc_pair pair = read_pair();
  return msp_tsc_begin(tsc, &pair);
}
