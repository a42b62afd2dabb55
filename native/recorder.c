#include "recorder.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "blocks.h"
#include "clock.h"
#include "control.h"
#include "gate.h"
#include "helper.h"
#include "metrics.h"
#include "ranges.h"
#include "store.h"
#include "strings.h"
#include "tsc.h"
#include "writer.h"

enum { RESTFUL_LOOKS = 10 };

static struct {
  pthread_mutex_t lock; /* held while a session is opened or closed */
  bool initialised;
  uint32_t session;
  uint64_t refused;   /* names refused before this session */
  bool left;          /* a session was left open, because its file system does not answer */
  void (*also)(void); /* function of another module to call in a fork child */
  msp_stats last;     /* statistics of the last closed session; only those that msp_get_stats does not compute */
} recorder = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void after_fork(void) {
  pthread_mutex_init(&recorder.lock, NULL);
  recorder.session = 0;
  recorder.left = false;
  recorder.last = (msp_stats){0};
  msp_gate_after_fork();
  msp_helper_after_fork();
  msp_metrics_after_fork();
  msp_blocks_after_fork();
  msp_control_after_fork();
  msp_account_after_fork();
  msp_ranges_after_fork();
  msp_store_after_fork();
  msp_strings_after_fork();
  msp_tsc_after_fork();
  msp_writer_after_fork();
  void (*also)(void) = __atomic_load_n(&recorder.also, __ATOMIC_RELAXED);
  if (also != NULL) also();
}

void msp_recorder_when_forked(void (*also)(void)) { __atomic_store_n(&recorder.also, also, __ATOMIC_RELAXED); }

void msp_recorder_check_fork(void) {
  if (msp_gate_load(&msp_gate_page->alive) == 0) after_fork();
}

int msp_recorder_init(void) {
  if (recorder.initialised) return 0;
  int error = msp_writer_init();
  if (error == 0) error = pthread_atfork(NULL, NULL, after_fork);
  if (error != 0) return error;
  msp_gate_init();
  msp_tsc_init();
  recorder.initialised = true;
  return 0;
}

/* Close the open session. Called with the lock held. When a file system does not answer, a thread may still use the
 * session. Then the session's memory is not freed, and this process stops recording altogether. */
static void close_session(void) {
  if (recorder.session == 0) return;
  recorder.session = 0;
  msp_writer_end_all();
  msp_control_anchor();
  recorder.left = !msp_gate_close() || !msp_helper_stop();
  if (recorder.left) return;
  recorder.last.dropped_limit = msp_control_dropped_by_limit();
  recorder.last.dropped = msp_control_dropped();
  msp_control_close();
  msp_writer_leave();
  recorder.last.dropped += msp_store_close();
  recorder.last.bytes = msp_store_bytes();
  recorder.last.failure = msp_store_failure();
  msp_ranges_unguard();
}

/* Open a session and its store. Returns 0 or an errno. Called with the lock held. */
static int open_session(const msp_store_settings *settings) {
  struct stat info;
  if (stat(settings->folder, &info) != 0) return errno;
  if (!S_ISDIR(info.st_mode)) return ENOTDIR;
  msp_ranges_guard();
  int error = msp_store_open(settings);
  if (error != 0) {
    msp_ranges_unguard();
    return error;
  }
  uint32_t session = msp_gate_next();
  msp_writer_reset(session);
  recorder.refused = msp_strings_refused();
  error = msp_control_open(session);
  if (error != 0) {
    msp_ranges_unguard();
    return error;
  }
  msp_control_anchor();
  msp_helper_start();
  recorder.session = session;
  msp_gate_open(session);
  return 0;
}

int msp_open(const char *folder, uint32_t first_slots, const char *account, uint64_t limit, uint64_t memory,
             uint32_t flags) {
  msp_recorder_check_fork();
  char *path = realpath(folder, NULL); /* absolute, because the job may change its working directory */
  if (path == NULL) return errno;
  if (first_slots < MSP_SLOTS_LEAST) first_slots = MSP_SLOTS_LEAST;
  if (first_slots > MSP_SLOTS_MOST) first_slots = MSP_SLOTS_MOST;
  const msp_store_settings settings = {path, first_slots, account, limit, memory, (flags & MSP_OPEN_WRITTEN) == 0};
  pthread_mutex_lock(&recorder.lock);
  int error = msp_recorder_init();
  if (error == 0) {
    close_session();
    error = recorder.left ? ETIMEDOUT : open_session(&settings);
  }
  pthread_mutex_unlock(&recorder.lock);
  free(path);
  return error;
}

int msp_close(void) {
  msp_recorder_check_fork();
  pthread_mutex_lock(&recorder.lock);
  close_session();
  int error = recorder.left ? ETIMEDOUT : 0;
  pthread_mutex_unlock(&recorder.lock);
  return error;
}

void msp_get_stats(msp_stats *stats) {
  msp_recorder_check_fork();
  bool open = msp_gate_hold(msp_gate_load(&msp_gate_page->session));
  *stats = recorder.last;
  if (open) {
    stats->dropped_limit = msp_control_dropped_by_limit(); /* read first, so that it is never above `dropped` */
    stats->dropped = msp_control_dropped();
    stats->bytes = msp_store_bytes();
    stats->failure = msp_store_failure();
    msp_gate_let_go();
  }
  stats->records = msp_writer_records(NULL);
  stats->unnamed = msp_strings_refused() - recorder.refused;
  stats->threads = msp_writer_threads();
  stats->helper_ns = msp_helper_ran();
}

/* Wait until the other threads rest. A thread may also sleep for a moment between two records, for example while it
 * waits for a lock. So the threads must sleep, without new records, at several checks in a row. */
void msp_await_rest(uint64_t most_ns) {
  msp_recorder_check_fork();
  const struct timespec pause = {0, 500000};
  const uint64_t end = msp_clock_read(CLOCK_MONOTONIC) + most_ns;
  uint64_t before = UINT64_MAX;
  for (int looks = 0; looks < RESTFUL_LOOKS;) {
    bool rest;
    uint64_t records = msp_writer_records(&rest);
    looks = rest && records == before ? looks + 1 : 0;
    before = records;
    if (looks == 0 && msp_clock_read(CLOCK_MONOTONIC) >= end) return;
    nanosleep(&pause, NULL);
  }
}

void msp_spend(int64_t bytes) {
  msp_recorder_check_fork();
  if (!msp_gate_hold(msp_gate_load(&msp_gate_page->session))) return;
  msp_account_add(bytes);
  msp_gate_let_go();
}

void msp_set_aside(int64_t bytes) {
  msp_recorder_check_fork();
  if (!msp_gate_hold(msp_gate_load(&msp_gate_page->session))) return;
  msp_account_set_aside(bytes);
  msp_gate_let_go();
}

uint64_t msp_room(void) {
  msp_recorder_check_fork();
  if (!msp_gate_hold(msp_gate_load(&msp_gate_page->session))) return 0;
  uint64_t room = msp_account_left(MSP_WORTH_FINE);
  msp_gate_let_go();
  return room;
}

void msp_pause(bool paused) { msp_gate_set_refused(MSP_REFUSE_PAUSED, paused); }
void msp_fine(bool on) { msp_gate_set_refused(MSP_REFUSE_FINE, !on); }
