#include "thread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

bool msp_thread_start(pthread_t *thread, void *(*work)(void *), size_t stack, const char *name) {
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS); /* our handler must run when a mapped file is lost, see ranges.h */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  int error = pthread_create(thread, &attributes, work, NULL);
  if (error == EINVAL) error = pthread_create(thread, NULL, work, NULL);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error == 0) pthread_setname_np(*thread, name);
  return error == 0;
}

/* Try to take the lock once a millisecond. A timed wait is no alternative: with the monotonic clock it needs glibc
 * 2.30, and pthread_mutex_timedlock uses a clock that somebody may set to another time meanwhile. */
bool msp_lock_soon(pthread_mutex_t *lock, unsigned seconds) {
  const struct timespec pause = {0, 1000000};
  const uint64_t end = msp_clock_read(CLOCK_MONOTONIC) + seconds * 1000000000ull;
  while (pthread_mutex_trylock(lock) != 0) {
    if (msp_clock_read(CLOCK_MONOTONIC) >= end) return false;
    nanosleep(&pause, NULL);
  }
  return true;
}

bool msp_thread_sleeps(int tid) {
  char text[256];
  snprintf(text, sizeof text, "/proc/self/task/%d/stat", tid);
  int descriptor = open(text, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return true;
  ssize_t length = read(descriptor, text, sizeof text - 1);
  close(descriptor);
  if (length <= 0) return true;
  text[length] = 0;
  const char *state = strrchr(text, ')'); /* the end of the thread's name */
  return state == NULL || state[1] == 0 || (state[2] != 'R' && state[2] != 'D');
}

void msp_condition_init(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
}
