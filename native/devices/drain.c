#include "drain.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "clock.h"
#include "thread.h"

#define FLUSH_NS 1000000000u
#define PATIENCE_NS 10000000000u /* longest delay of the end of a job */
#define STACK_BYTES (512 << 10)  /* the vendor's code runs on it, too */

static struct {
  pthread_mutex_t lock;  /* held for a few instructions at a time */
  pthread_cond_t answer; /* waits on CLOCK_MONOTONIC */
  bool has_answer;
  pthread_t thread;
  const msp_backend *backend;
  bool runs;
  bool stop;
  bool ended;               /* the thread has seen `stop` and is about to end */
  bool everything;          /* a flush of all buffers was requested */
  uint64_t asked, answered; /* number of requested flushes, and of finished ones */
  msp_device_counts counts; /* counts after the last pass */
} drain = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t monotonic(void) { return msp_clock_read(CLOCK_MONOTONIC); }

static void read_all(msp_device_counts *counts) {
  for (msp_buffer *buffer = msp_buffers_take(); buffer != NULL; buffer = msp_buffers_take()) {
    drain.backend->read(buffer, counts);
    msp_buffers_return(buffer);
  }
}

static void *work(void *unused) {
  (void)unused;
  const struct sched_param none = {0};
  sched_setscheduler(0, SCHED_BATCH, &none); /* never preempt the thread that completed a buffer */
  msp_device_counts counts = drain.counts;
  bool overrun = false;
  uint64_t next = monotonic() + FLUSH_NS;
  for (;;) {
    msp_buffers_wait(next);
    pthread_mutex_lock(&drain.lock);
    bool stop = drain.stop;
    uint64_t asked = drain.asked;
    bool due = asked != drain.answered;
    bool everything = due && drain.everything;
    pthread_mutex_unlock(&drain.lock);
    read_all(&counts);
    bool was = overrun;
    overrun = msp_buffers_overrun();
    if (overrun && !was) {
      msp_reason unused;
      drain.backend->record(0, &unused);
      ++counts.stopped;
    }
    if (due || monotonic() >= next) {
      drain.backend->flush(everything, &counts);
      read_all(&counts);
      next = monotonic() + FLUSH_NS;
    }
    pthread_mutex_lock(&drain.lock);
    drain.counts = counts;
    if (due) {
      drain.answered = asked;
      drain.everything = false;
      pthread_cond_broadcast(&drain.answer);
    }
    if (stop) {
      drain.ended = true;
      pthread_cond_broadcast(&drain.answer);
    }
    pthread_mutex_unlock(&drain.lock);
    if (stop) return NULL;
  }
}

static void init_answer(void) {
  if (drain.has_answer) return;
  drain.has_answer = true;
  msp_condition_init(&drain.answer);
}

bool msp_drain_start(const msp_backend *backend) {
  init_answer();
  pthread_mutex_lock(&drain.lock);
  if (drain.backend != backend) drain.counts = (msp_device_counts){.records = 0};
  pthread_mutex_unlock(&drain.lock);
  drain.backend = backend;
  drain.stop = drain.ended = false;
  drain.runs = msp_thread_start(&drain.thread, work, STACK_BYTES, "ms-profiler-dev");
  return drain.runs;
}

bool msp_drain_flush(bool everything) {
  if (!drain.runs) return true;
  const struct timespec when = msp_deadline(monotonic() + PATIENCE_NS);
  pthread_mutex_lock(&drain.lock);
  uint64_t mine = ++drain.asked;
  drain.everything |= everything;
  pthread_mutex_unlock(&drain.lock);
  msp_buffers_wake();
  pthread_mutex_lock(&drain.lock);
  int waited = 0;
  while (drain.answered < mine && waited == 0) waited = pthread_cond_timedwait(&drain.answer, &drain.lock, &when);
  bool answered = drain.answered >= mine;
  pthread_mutex_unlock(&drain.lock);
  return answered;
}

bool msp_drain_stop(void) {
  if (!drain.runs) return true;
  const struct timespec when = msp_deadline(monotonic() + PATIENCE_NS);
  pthread_mutex_lock(&drain.lock);
  drain.stop = true;
  pthread_mutex_unlock(&drain.lock);
  msp_buffers_wake();
  pthread_mutex_lock(&drain.lock);
  int waited = 0;
  while (!drain.ended && waited == 0) waited = pthread_cond_timedwait(&drain.answer, &drain.lock, &when);
  bool ended = drain.ended;
  pthread_mutex_unlock(&drain.lock);
  if (!ended) return false; /* the thread hangs in the vendor's code, or in a write to a disk that does not answer */
  pthread_join(drain.thread, NULL);
  drain.runs = false;
  return true;
}

void msp_drain_counts(msp_device_counts *counts) {
  pthread_mutex_lock(&drain.lock);
  *counts = drain.counts;
  pthread_mutex_unlock(&drain.lock);
}

void msp_drain_after_fork(void) {
  pthread_mutex_init(&drain.lock, NULL);
  drain.has_answer = false;
  drain.runs = false;
}
