/* Our own threads in the job, and their locks and conditions. */
#ifndef MSP_THREAD_H
#define MSP_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Start a thread that blocks all signals but SIGBUS. `stack` is in bytes; where the job's static TLS takes more, the
 * thread gets a stack of the usual size. False: no thread can be made. */
bool msp_thread_start(pthread_t *thread, void *(*work)(void *), size_t stack, const char *name);

/* Take a lock, but wait no longer than the given seconds. False: another thread still has it. */
bool msp_lock_soon(pthread_mutex_t *lock, unsigned seconds);

/* Make a condition that is waited for by CLOCK_MONOTONIC. */
void msp_condition_init(pthread_cond_t *condition);

/* Return nanoseconds of CLOCK_MONOTONIC as such a wait takes them. */
static inline struct timespec msp_deadline(uint64_t monotonic_ns) {
  return (struct timespec){(time_t)(monotonic_ns / 1000000000u), (long)(monotonic_ns % 1000000000u)};
}

#endif
