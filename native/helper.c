#include "helper.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "hot.h"
#include "metrics.h"
#include "store.h"
#include "thread.h"

#define ANCHOR_NS 5000000000u /* clocks drift apart by less than 1 us in 5 s */
#define FLUSH_NS 200000000u   /* how often records go to unmapped files: a kill loses at most those of this time */
#define STACK_BYTES (256 << 10)
#define STOP_NS 10000000000u /* longest wait for the helper's end when the job ends */
#define FORK_NS 200000000u   /* longest wait for the helper's end before a fork */

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2u
#endif

static struct {
  pthread_mutex_t lock; /* held for a few instructions at a time */
  pthread_cond_t wake;  /* waits on CLOCK_MONOTONIC; never destroyed, because a thread may still signal it */
  pthread_cond_t reply; /* signalled when the helper has ended or answered */
  bool has_wake;
  pthread_t thread;
  bool runs;
  bool awake; /* there is something to do */
  bool stop;
  bool rests;        /* the thread is stopped for a fork; it starts again when there is work */
  bool ended;        /* the thread has seen `stop`, and ends a moment later */
  uint32_t asked;    /* number of the last request to check whether the file system answers */
  uint32_t answered; /* number of the last request that was answered */
  uint64_t ran_ns;   /* processor time of this thread, and of those before it */
} helper = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Give this thread a table of file descriptors of its own. Some jobs close all descriptors that they do not know, and
 * then open files under the same numbers. With a common table, such a job could close or replace a file that this
 * thread is about to fill. Before Linux 5.9, a thread cannot get a table of its own, and the job can interfere. */
static void unshare_descriptors(void) { syscall(SYS_close_range, 0u, UINT_MAX, CLOSE_RANGE_UNSHARE); }

/* Use SCHED_BATCH: with this policy, a thread that wakes up does not preempt the thread that woke it. With the usual
 * policy, the job would wait 3 ms while the helper makes a file that the job does not need yet. With SCHED_IDLE, the
 * helper would not run on a busy machine, and the job would have to make its files itself. */
static void avoid_preemption(void) {
  const struct sched_param none = {0};
  sched_setscheduler(0, SCHED_BATCH, &none);
}

static void *work(void *unused) {
  (void)unused;
  unshare_descriptors();
  avoid_preemption();
  uint64_t next_anchor = msp_clock_read(CLOCK_MONOTONIC) + ANCHOR_NS, counted = 0;
  for (;;) {
    msp_store_prepare_spare();
    msp_control_prepare_spare();
    msp_store_unmap_full();
    uint64_t now = msp_clock_read(CLOCK_MONOTONIC);
    if (now >= next_anchor) {
      msp_control_anchor();
      next_anchor = now + ANCHOR_NS;
    }
    uint64_t until = next_anchor, due = msp_metrics_sample(now);
    if (due < until) until = due;
    if (msp_store_has_written()) {
      msp_store_flush();
      if (now + FLUSH_NS < until) until = now + FLUSH_NS;
    }
    struct timespec when = msp_deadline(until);
    uint64_t ran = msp_clock_read(CLOCK_THREAD_CPUTIME_ID);
    __atomic_add_fetch(&helper.ran_ns, ran - counted, __ATOMIC_RELAXED);
    counted = ran;
    pthread_mutex_lock(&helper.lock);
    int waited = 0;
    while (!helper.stop && !helper.awake && helper.asked == helper.answered && waited != ETIMEDOUT) {
      waited = pthread_cond_timedwait(&helper.wake, &helper.lock, &when);
    }
    helper.awake = false;
    uint32_t asked = helper.asked;
    bool stop = helper.stop;
    if (stop) helper.ended = true;
    if (asked != helper.answered && !stop) {
      pthread_mutex_unlock(&helper.lock);
      msp_store_ask();
      pthread_mutex_lock(&helper.lock);
      helper.answered = asked;
    }
    pthread_cond_broadcast(&helper.reply);
    pthread_mutex_unlock(&helper.lock);
    if (stop) return NULL;
  }
}

static void init_conditions(void) {
  if (helper.has_wake) return;
  helper.has_wake = true;
  msp_condition_init(&helper.wake);
  msp_condition_init(&helper.reply);
}

/* Set whether the helper thread rests for a fork. Called with the lock held; other threads read this flag without the
 * lock. */
static void set_rests(bool rests) { __atomic_store_n(&helper.rests, rests, __ATOMIC_RELAXED); }

/* Start the helper thread. Called with the lock held. */
static void start(void) {
  helper.stop = helper.ended = false;
  set_rests(false);
  helper.answered = helper.asked;
  bool runs = msp_thread_start(&helper.thread, work, STACK_BYTES, "ms-profiler");
  __atomic_store_n(&helper.runs, runs, __ATOMIC_RELEASE);
}

void msp_helper_start(void) {
  init_conditions();
  pthread_mutex_lock(&helper.lock);
  start();
  pthread_mutex_unlock(&helper.lock);
}

/* Wait until the helper thread has ended (if `end`), or has answered request `asked`. Returns false if it has not done
 * so within `patience_ns`. Called with the lock held. */
static bool wait_for_reply(bool end, uint32_t asked, uint64_t patience_ns) {
  const struct timespec when = msp_deadline(msp_clock_read(CLOCK_MONOTONIC) + patience_ns);
  pthread_cond_signal(&helper.wake);
  int waited = 0;
  while (waited == 0 && !(end ? helper.ended : helper.answered == asked)) {
    waited = pthread_cond_timedwait(&helper.reply, &helper.lock, &when);
  }
  return end ? helper.ended : helper.answered == asked;
}

static bool stop_within(uint64_t patience_ns, bool rests) {
  pthread_mutex_lock(&helper.lock);
  helper.stop = true;
  const pthread_t thread = helper.thread;
  bool ended = wait_for_reply(true, 0, patience_ns);
  if (ended) {
    __atomic_store_n(&helper.runs, false, __ATOMIC_RELEASE);
    set_rests(rests);
  } else if (rests) {
    helper.stop = false;
  }
  pthread_mutex_unlock(&helper.lock);
  if (ended) pthread_join(thread, NULL);
  return ended;
}

bool msp_helper_stop(void) {
  if (msp_helper_runs()) return stop_within(STOP_NS, false);
  set_rests(false);
  return true;
}

bool msp_helper_answers(uint32_t patience_ms) {
  msp_helper_revive();
  if (!msp_helper_runs()) return true;
  pthread_mutex_lock(&helper.lock);
  bool answers = wait_for_reply(false, ++helper.asked, (uint64_t)patience_ms * 1000000u);
  pthread_mutex_unlock(&helper.lock);
  return answers;
}

/* Count the threads of this process; 0 if the system does not report them. */
static unsigned count_threads(void) {
  struct stat info; /* this folder has two more links than the process has threads */
  return stat("/proc/self/task", &info) == 0 && info.st_nlink > 2 ? (unsigned)info.st_nlink - 2 : 0;
}

void msp_helper_rest(void) {
  if (!msp_helper_runs() || count_threads() != 2 || !stop_within(FORK_NS, true)) return;
  const struct timespec pause = {0, 50000};
  /* pthread_join returns shortly before the thread disappears from /proc/self/task: wait until it has */
  for (int i = 0; i < 200 && count_threads() > 1; ++i) nanosleep(&pause, NULL);
}

MSP_HOT void msp_helper_revive(void) {
  if (!__atomic_load_n(&helper.rests, __ATOMIC_RELAXED)) return;
  pthread_mutex_lock(&helper.lock);
  if (helper.rests) start();
  pthread_mutex_unlock(&helper.lock);
}

uint64_t msp_helper_ran(void) { return __atomic_load_n(&helper.ran_ns, __ATOMIC_RELAXED); }

bool msp_helper_runs(void) { return __atomic_load_n(&helper.runs, __ATOMIC_ACQUIRE); }

void msp_helper_wake(void) {
  msp_helper_revive();
  if (!msp_helper_runs()) return;
  pthread_mutex_lock(&helper.lock);
  helper.awake = true;
  pthread_cond_signal(&helper.wake);
  pthread_mutex_unlock(&helper.lock);
}

void msp_helper_after_fork(void) {
  pthread_mutex_init(&helper.lock, NULL);
  helper.has_wake = false;
  helper.runs = helper.rests = false;
  helper.ran_ns = 0;
}
