#include "tracing.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "backend.h"
#include "buffers.h"
#include "device_format.h"
#include "drain.h"
#include "recorder.h"

#define SETTLE_PAUSE_NS 5000000
#define SETTLE_ROUNDS 100 /* longest delay of `detach`: half a second */

static struct {
  pthread_mutex_t lock; /* held during each call of the interface */
  bool forked;          /* this is a fork child, in which the parent's attached interface does not work */
  bool hangs;
  bool attached;
  const msp_backend *backend; /* the interface that was attached last */
} tracing = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const msp_backend *backend_of(uint32_t source) {
  switch (source) {
    case MSP_DEVICE_SOURCE_CUPTI:
      return &msp_cupti;
    case MSP_DEVICE_SOURCE_MSPTI:
      return &msp_mspti;
    default:
      return NULL;
  }
}

static void after_fork(void) {
  pthread_mutex_init(&tracing.lock, NULL);
  tracing.forked |= tracing.attached;
  tracing.attached = false;
  msp_buffers_after_fork();
  msp_drain_after_fork();
  if (tracing.backend != NULL && tracing.backend->after_fork != NULL) tracing.backend->after_fork();
}

static void lock(void) {
  msp_recorder_check_fork();
  pthread_mutex_lock(&tracing.lock);
}

static void copy_reason(const msp_reason *reason, char *why, uint32_t room) {
  if (room == 0) return;
  size_t length = strnlen(reason->text, room - 1);
  memcpy(why, reason->text, length);
  why[length] = 0;
}

bool msp_trace_ready(uint32_t source) {
  const msp_backend *backend = backend_of(source);
  msp_recorder_check_fork();
  if (__atomic_load_n(&tracing.forked, __ATOMIC_RELAXED) || __atomic_load_n(&tracing.hangs, __ATOMIC_RELAXED)) {
    return false;
  }
  return backend != NULL && backend->ready();
}

/* Note that the interface hangs, so that it is never called again. Called with the lock held. */
static int hang(void) {
  __atomic_store_n(&tracing.hangs, true, __ATOMIC_RELAXED);
  return MSP_TRACE_HANGS;
}

static int attach(const msp_backend *backend, const char *library, msp_reason *reason) {
  if (tracing.hangs) return MSP_TRACE_HANGS;
  if (tracing.forked || backend == NULL || !backend->ready()) return MSP_TRACE_IDLE;
  if (tracing.attached) {
    if (tracing.backend == backend) return MSP_TRACE_DONE;
    strcpy(reason->text, "a device of another vendor is traced in this process");
    return MSP_TRACE_FAILED;
  }
  msp_recorder_when_forked(after_fork);
  tracing.backend = backend; /* before the call, because another thread may fork during it */
  int outcome = backend->attach(library, reason);
  if (outcome != MSP_TRACE_DONE) return outcome;
  if (!msp_drain_start(backend)) {
    backend->detach();
    strcpy(reason->text, "no thread can be started");
    return MSP_TRACE_FAILED;
  }
  tracing.attached = true;
  return MSP_TRACE_DONE;
}

int msp_trace_attach(uint32_t source, const char *library, char *why, uint32_t room) {
  msp_reason reason = {""};
  lock();
  int outcome = attach(backend_of(source), library, &reason);
  pthread_mutex_unlock(&tracing.lock);
  copy_reason(&reason, why, room);
  return outcome;
}

int msp_trace_record(uint32_t kinds, char *why, uint32_t room) {
  msp_reason reason = {""};
  int outcome = MSP_TRACE_IDLE;
  lock();
  if (tracing.hangs) {
    outcome = MSP_TRACE_HANGS;
  } else if (tracing.attached) {
    outcome = tracing.backend->record(kinds, &reason);
    if (outcome == MSP_TRACE_HANGS) hang();
  }
  pthread_mutex_unlock(&tracing.lock);
  copy_reason(&reason, why, room);
  return outcome;
}

/* Write the complete records of the device to the store; with `everything`, write all. Called with the lock held. */
static int flush(bool everything) {
  if (tracing.hangs) return MSP_TRACE_HANGS;
  if (!tracing.attached) return MSP_TRACE_IDLE;
  return msp_drain_flush(everything) ? MSP_TRACE_DONE : hang();
}

int msp_trace_flush(void) {
  lock();
  int outcome = flush(false);
  pthread_mutex_unlock(&tracing.lock);
  return outcome;
}

/* Flush until the interface has returned all buffers, but for half a second at most. Tasks that still run on the device
 * hold buffers back, because their records have no end yet. Called with the lock held. */
static int settle(void) {
  const struct timespec pause = {0, SETTLE_PAUSE_NS};
  int outcome = flush(false);
  for (int round = 0; round < SETTLE_ROUNDS && outcome == MSP_TRACE_DONE && msp_buffers_any_out(); ++round) {
    nanosleep(&pause, NULL);
    outcome = flush(false);
  }
  return outcome;
}

int msp_trace_detach(void) {
  lock();
  int outcome = settle();
  if (outcome == MSP_TRACE_DONE) {
    msp_reason unused;
    outcome = tracing.backend->record(0, &unused);
    outcome = outcome == MSP_TRACE_HANGS ? hang() : flush(true);
  }
  if (outcome == MSP_TRACE_DONE && !msp_drain_stop()) outcome = hang();
  if (outcome == MSP_TRACE_DONE) {
    tracing.backend->detach();
    msp_buffers_close();
    tracing.attached = false;
  }
  pthread_mutex_unlock(&tracing.lock);
  return outcome;
}

void msp_trace_count(msp_trace_counts *counts) {
  msp_device_counts of;
  msp_drain_counts(&of);
  counts->records = of.records;
  counts->refused = of.refused;
  counts->unknown = of.unknown;
  counts->unfinished = of.unfinished;
  counts->unreadable = of.unreadable;
  counts->lost = of.lost;
  counts->dropped = of.dropped;
  counts->stopped = of.stopped;
  counts->uncertainty_ns = tracing.backend != NULL ? tracing.backend->uncertainty() : 0;
  counts->version = tracing.backend != NULL ? tracing.backend->version() : 0;
}
