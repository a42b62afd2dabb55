/* A library for LD_PRELOAD with which reading a thread's processor time takes 5 ms, as when the thread loses its
 * processor in that system call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (clock == CLOCK_THREAD_CPUTIME_ID) nanosleep(&(struct timespec){0, 5000000}, NULL);
  return ((__typeof__(&clock_gettime))dlsym(RTLD_NEXT, "clock_gettime"))(clock, time);
}
