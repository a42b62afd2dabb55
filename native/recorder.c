#include "recorder.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "control.h"
#include "gate.h"
#include "helper.h"
#include "store.h"
#include "strings.h"
#include "tsc.h"
#include "writer.h"

static struct {
  pthread_mutex_t lock; /* open and close, one at a time */
  bool initialised;
  uint32_t session;
  msp_stats last; /* of the session closed last; what is counted elsewhere left out */
} recorder = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void after_fork(void) {
  pthread_mutex_init(&recorder.lock, NULL);
  recorder.session = 0;
  recorder.last = (msp_stats){0};
  msp_gate_after_fork();
  msp_helper_after_fork();
  msp_control_after_fork();
  msp_store_after_fork();
  msp_strings_after_fork();
  msp_tsc_after_fork();
  msp_writer_after_fork();
}

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

/* In the lock. */
static void close_session(void) {
  if (recorder.session == 0) return;
  recorder.session = 0;
  msp_writer_end_all();
  msp_control_anchor();
  msp_gate_close();
  msp_helper_stop();
  recorder.last.dropped_limit = msp_control_dropped_by_limit();
  recorder.last.dropped = msp_control_dropped();
  msp_control_close();
  recorder.last.dropped += msp_store_close();
  recorder.last.bytes = msp_store_bytes();
  recorder.last.failure = msp_store_failure();
  msp_writer_leave();
}

/* In the lock. */
static int open_session(const msp_store_settings *settings) {
  struct stat info;
  if (stat(settings->folder, &info) != 0) return errno;
  if (!S_ISDIR(info.st_mode)) return ENOTDIR;
  int error = msp_store_open(settings);
  if (error != 0) return error;
  uint32_t session = msp_gate_next();
  msp_writer_reset(session);
  error = msp_control_open(session);
  if (error != 0) return error;
  msp_control_anchor();
  msp_helper_start();
  recorder.session = session;
  msp_gate_open(session);
  return 0;
}

int msp_open(const char *folder, uint32_t first_slots, uint64_t limit_fine, uint64_t limit_all, uint32_t flags) {
  msp_recorder_check_fork();
  char *path = realpath(folder, NULL); /* a job may change its directory, and may close descriptors it does not know */
  if (path == NULL) return errno;
  if (first_slots < MSP_SLOTS_LEAST) first_slots = MSP_SLOTS_LEAST;
  if (first_slots > MSP_SLOTS_MOST) first_slots = MSP_SLOTS_MOST;
  const msp_store_settings settings = {path, first_slots, limit_fine, limit_all, (flags & MSP_OPEN_WRITTEN) == 0};
  pthread_mutex_lock(&recorder.lock);
  int error = msp_recorder_init();
  if (error == 0) {
    close_session();
    error = open_session(&settings);
  }
  pthread_mutex_unlock(&recorder.lock);
  free(path);
  return error;
}

void msp_close(void) {
  msp_recorder_check_fork();
  pthread_mutex_lock(&recorder.lock);
  close_session();
  pthread_mutex_unlock(&recorder.lock);
}

void msp_get_stats(msp_stats *stats) {
  msp_recorder_check_fork();
  bool open = msp_gate_hold(msp_gate_load(&msp_gate_page->session));
  *stats = recorder.last;
  if (open) {
    stats->dropped_limit = msp_control_dropped_by_limit(); /* first: it is counted last */
    stats->dropped = msp_control_dropped();
    stats->bytes = msp_store_bytes();
    stats->failure = msp_store_failure();
    msp_gate_let_go();
  }
  stats->records = msp_writer_records();
  stats->threads = msp_writer_threads();
}

void msp_pause(bool paused) { msp_gate_set_refused(MSP_REFUSE_PAUSED, paused); }
void msp_fine(bool on) { msp_gate_set_refused(MSP_REFUSE_FINE, !on); }
