#include "helper.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "store.h"
#include "thread.h"

#define ANCHOR_NS 5000000000u /* clocks drift apart by less than 1 us in 5 s */
#define FLUSH_NS 200000000u   /* what a kill may lose where the store cannot be mapped */
#define STACK_BYTES (256 << 10)

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2u
#endif

static struct {
  pthread_mutex_t lock; /* held for a few instructions at a time */
  pthread_cond_t wake;  /* waits on CLOCK_MONOTONIC; never destroyed, somebody may be about to signal it */
  bool has_wake;
  pthread_t thread;
  bool runs;
  bool awake; /* there is something to do */
  bool stop;
} helper = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Use descriptors of our own from here on. A job that closes all it does not know, and opens its own files under their
 * numbers, would else meet this thread in the middle of making a segment. Before Linux 5.9 it may. */
static void part_with_descriptors(void) { syscall(SYS_close_range, 0u, UINT_MAX, CLOSE_RANGE_UNSHARE); }

/* Never run at once in place of the thread that woke us: it would wait 3 ms for the segment that it has no need of yet.
 * (SCHED_IDLE would leave us none of a machine that is busy, and the job to make its segments itself.) */
static void give_way(void) {
  const struct sched_param none = {0};
  sched_setscheduler(0, SCHED_BATCH, &none);
}

static void *work(void *unused) {
  (void)unused;
  part_with_descriptors();
  give_way();
  uint64_t next_anchor = msp_clock_read(CLOCK_MONOTONIC) + ANCHOR_NS;
  for (;;) {
    msp_store_prepare_spare();
    msp_control_prepare_spare();
    msp_store_unmap_full();
    uint64_t now = msp_clock_read(CLOCK_MONOTONIC);
    if (now >= next_anchor) {
      msp_control_anchor();
      next_anchor = now + ANCHOR_NS;
    }
    uint64_t until = next_anchor;
    if (msp_store_has_written()) {
      msp_store_flush();
      if (now + FLUSH_NS < until) until = now + FLUSH_NS;
    }
    struct timespec when = msp_deadline(until);
    pthread_mutex_lock(&helper.lock);
    int waited = 0;
    while (!helper.stop && !helper.awake && waited != ETIMEDOUT) {
      waited = pthread_cond_timedwait(&helper.wake, &helper.lock, &when);
    }
    helper.awake = false;
    bool stop = helper.stop;
    pthread_mutex_unlock(&helper.lock);
    if (stop) return NULL;
  }
}

static void init_wake(void) {
  if (helper.has_wake) return;
  helper.has_wake = true;
  msp_condition_init(&helper.wake);
}

void msp_helper_start(void) {
  init_wake();
  pthread_mutex_lock(&helper.lock);
  helper.stop = false;
  pthread_mutex_unlock(&helper.lock);
  bool runs = msp_thread_start(&helper.thread, work, STACK_BYTES, "ms-profiler");
  __atomic_store_n(&helper.runs, runs, __ATOMIC_RELEASE);
}

void msp_helper_stop(void) {
  if (!helper.runs) return;
  pthread_mutex_lock(&helper.lock);
  helper.stop = true;
  pthread_cond_signal(&helper.wake);
  pthread_mutex_unlock(&helper.lock);
  pthread_join(helper.thread, NULL);
  __atomic_store_n(&helper.runs, false, __ATOMIC_RELEASE);
}

bool msp_helper_runs(void) { return __atomic_load_n(&helper.runs, __ATOMIC_ACQUIRE); }

void msp_helper_wake(void) {
  if (!msp_helper_runs()) return;
  pthread_mutex_lock(&helper.lock);
  helper.awake = true;
  pthread_cond_signal(&helper.wake);
  pthread_mutex_unlock(&helper.lock);
}

void msp_helper_after_fork(void) {
  pthread_mutex_init(&helper.lock, NULL);
  helper.has_wake = false;
  helper.runs = false;
}
