#include "thread.h"

#include <errno.h>
#include <signal.h>

bool msp_thread_start(pthread_t *thread, void *(*work)(void *), size_t stack, const char *name) {
  sigset_t all, before;
  sigfillset(&all);
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

bool msp_lock_soon(pthread_mutex_t *lock, unsigned seconds) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += seconds;
  return pthread_mutex_timedlock(lock, &until) == 0;
}

void msp_condition_init(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
}
