/* Threads that the profiler starts in the job, and their locks and conditions. */
#ifndef MSP_THREAD_H
#define MSP_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Start a thread that blocks all signals except SIGBUS. `stack` is the size of its stack in bytes. If this size is too
 * small for the job's static thread-local storage, the stack has the default size. Returns false if no thread can be
 * started.
 */
bool msp_thread_start(pthread_t *thread, void *(*work)(void *), size_t stack, const char *name);

/* Take a lock, but wait no longer than `seconds`. Returns false if another thread still holds the lock. */
bool msp_lock_soon(pthread_mutex_t *lock, unsigned seconds);

/* Return whether a thread of this process sleeps or has ended, by the state that the system reports. A thread that
 * waits for a page or for a processor does not count as sleeping. */
bool msp_thread_sleeps(int tid);

/* Make a condition variable whose timed waits use CLOCK_MONOTONIC. */
void msp_condition_init(pthread_cond_t *condition);

/* Convert a time of CLOCK_MONOTONIC in nanoseconds into the form that a timed wait takes. */
static inline struct timespec msp_deadline(uint64_t monotonic_ns) {
  return (struct timespec){(time_t)(monotonic_ns / 1000000000u), (long)(monotonic_ns % 1000000000u)};
}

#endif
