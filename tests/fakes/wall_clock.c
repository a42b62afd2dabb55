/* A library for LD_PRELOAD that sets the wall clock again and again: a day back, a year ahead, an hour back, 7 s ahead,
 * and right. The other clocks do not change.
 *
 * CLOCK_EVERY: the number of readings between two changes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static atomic_long readings;

static time_t shift(void) {
  static const time_t shifts[] = {0, -86400, 365 * 86400, -3600, 7};
  const char *every = getenv("CLOCK_EVERY");
  long period = every == NULL ? 0 : atol(every);
  if (period <= 0) return 0;
  return shifts[atomic_fetch_add(&readings, 1) / period % 5];
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int error = ((__typeof__(&clock_gettime))dlsym(RTLD_NEXT, "clock_gettime"))(clock, time);
  if (error == 0 && clock == CLOCK_REALTIME) time->tv_sec += shift();
  return error;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  int error = ((__typeof__(&gettimeofday))dlsym(RTLD_NEXT, "gettimeofday"))(time, zone);
  if (error == 0) time->tv_sec += shift();
  return error;
}
