/* The use of Huawei's msPTI: its activity interface, as CANN 8 and 9 export it.
 *
 * These facts shape this file. msPTI needs functions of several other libraries. When one is missing, loading msPTI
 * ends the process by an exception that cannot be caught. So this code loads those libraries first. Activities need a
 * subscription, and a process can have only one subscription. msPTI refuses some kinds of records, depending on its
 * version and on LD_PRELOAD. So this code tries each kind. A buffer that is not full comes back only by
 * msptiActivityFlushAll.
 *
 * A child that is forked after the subscription does not end: exit() hangs or crashes in destructors of msPTI. (We saw
 * this with msPTI built from its public source. After the process has unsubscribed, a child ends as it should.) One
 * could unsubscribe before each fork and subscribe again. But that would call msPTI while the job holds locks, lose
 * msPTI's records, and make every fork wait until msPTI's threads end. So the child ends without these destructors: at
 * the fork, the child registers a function that runs first in exit(). This function flushes C's streams, and ends the
 * child with the child's status. (If the parent registered the function, it would run after the destructors of objects
 * that msPTI makes later.) By then, Python's atexit callbacks have run and Python's streams are flushed, so only
 * destructors of libraries are skipped. Children that end by _exit() or exec notice nothing, for example those of
 * multiprocessing and subprocess.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"
#include "clock.h"
#include "markers.h"
#include "match.h"
#include "mspti_companions.h"
#include "mspti_records.h"
#include "store.h"
#include "thread.h"
#include "tracing.h"

#define PATIENCE_S 10

enum { SUCCESS = 0, OWNED = 2, NOT_PRELOADED = 6 };

typedef void (*request_function)(uint8_t **memory, size_t *size, size_t *most);
typedef void (*complete_function)(uint8_t *memory, size_t size, size_t valid);

static struct {
  void *library;
  int (*subscribe)(void **subscriber, void (*callback)(void *, int, uint32_t, const void *), void *data);
  int (*unsubscribe)(void *subscriber);
  int (*register_callbacks)(request_function request, complete_function complete);
  int (*enable)(int kind);
  int (*disable)(int kind);
  int (*flush_all)(uint32_t flag);

  pthread_mutex_t lock; /* for calls that change settings or flush, on threads of the job and on the drain thread */
  void *subscriber;
  bool taken; /* this process's profiler is the subscriber */
  bool was_taken;
  bool forked; /* this is a fork child of a process that had subscribed: the library does not work here */
  int enabled[16];
  uint32_t enabled_count;
  /* used only by the drain thread, once it exists */
  msp_matches matches;
  msp_markers markers;
  uint64_t uncertainty_ns; /* atomic */
} mspti = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool ready(void) {
  if (mspti.forked) return false;
  void *runtime = dlopen(MSPTI_RUNTIME, RTLD_LAZY | RTLD_NOLOAD);
  if (runtime == NULL) return false;
  dlclose(runtime); /* the runtime stays loaded as long as the job uses it */
  void *driver = dlopen(MSPTI_DRIVER, RTLD_LAZY | RTLD_NOLOAD);
  if (driver == NULL) return false;
  bool found = mspti_has_devices(driver);
  dlclose(driver);
  return found;
}

static void request(uint8_t **memory, size_t *size, size_t *most) {
  *most = 0; /* no limit: as many records as the buffer has room for */
  *memory = msp_buffers_request(size);
}

static void complete(uint8_t *memory, size_t size, size_t valid) {
  (void)size;
  msp_buffers_complete(memory, valid);
}

__attribute__((format(printf, 2, 3))) static int fail(msp_reason *why, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why->text, sizeof why->text, format, arguments);
  va_end(arguments);
  return MSP_TRACE_FAILED;
}

static bool find(void *function, const char *name) {
  *(void **)function = dlsym(mspti.library, name);
  return *(void **)function != NULL;
}

static int load(const char *library, msp_reason *why) {
  if (mspti.library != NULL) return MSP_TRACE_DONE;
  if (!mspti_load_companions(library, why)) return MSP_TRACE_FAILED;
  mspti.library =
      dlopen(library, RTLD_LAZY | RTLD_LOCAL); /* local, because the runtime has functions of the same names */
  if (mspti.library == NULL) {
    fail(why, "%s", dlerror());
    return MSP_TRACE_MISSING;
  }
  const struct {
    void *function;
    const char *name;
  } needed[] = {{&mspti.subscribe, "msptiSubscribe"},
                {&mspti.unsubscribe, "msptiUnsubscribe"},
                {&mspti.register_callbacks, "msptiActivityRegisterCallbacks"},
                {&mspti.enable, "msptiActivityEnable"},
                {&mspti.disable, "msptiActivityDisable"},
                {&mspti.flush_all, "msptiActivityFlushAll"}};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; ++i) {
    if (find(needed[i].function, needed[i].name)) continue;
    fail(why, "%s has no %s", library, needed[i].name);
    mspti.library = NULL; /* not closed, because the library may have started threads */
    return MSP_TRACE_MISSING;
  }
  return MSP_TRACE_DONE;
}

static bool wall_clock(uint64_t *theirs) {
  *theirs = msp_clock_read(CLOCK_REALTIME);
  return true;
}

/* Read the wall clock and our clock as a pair. msPTI itself uses a pair of readings that is up to seven seconds old. So
 * its times are wrong by the drift of the clocks since then. The pairs stored here reach back twice as far. */
static void match(void) {
  msp_match_take(&mspti.matches, wall_clock);
  uint64_t now = mspti.matches.uncertainty_ns + msp_match_wander(&mspti.matches);
  if (now > __atomic_load_n(&mspti.uncertainty_ns, __ATOMIC_RELAXED)) {
    __atomic_store_n(&mspti.uncertainty_ns, now, __ATOMIC_RELAXED);
  }
}

/* Load msPTI, subscribe, and register our callbacks. Called with the lock held. */
static int take(const char *library, msp_reason *why) {
  int outcome = load(library, why);
  if (outcome != MSP_TRACE_DONE) return outcome;
  bool was_taken = mspti.was_taken;
  mspti.taken = mspti.was_taken = true; /* before the call, because another thread may fork during it */
  int result = mspti.subscribe(&mspti.subscriber, NULL, NULL);
  if (result != SUCCESS) {
    mspti.taken = false;
    mspti.was_taken = was_taken || result != OWNED;
    fail(why, "msptiSubscribe answered %d", result);
    return result == OWNED ? MSP_TRACE_OWNED : MSP_TRACE_FAILED;
  }
  mspti.matches.count = 0;
  msp_markers_clear(&mspti.markers);
  match();
  msp_buffers_open(false, msp_store_memory() / 2); /* never refuse: msPTI would log a line for each record */
  result = mspti.register_callbacks(request, complete);
  if (result == SUCCESS) return MSP_TRACE_DONE;
  mspti.unsubscribe(mspti.subscriber);
  mspti.taken = false;
  return fail(why, "msptiActivityRegisterCallbacks answered %d", result);
}

static int attach(const char *library, msp_reason *why) {
  pthread_mutex_lock(&mspti.lock);
  int outcome = take(library, why);
  pthread_mutex_unlock(&mspti.lock);
  return outcome;
}

/* Disable all kinds of records. Called with the lock held. */
static void disable_all(void) {
  while (mspti.enabled_count > 0) mspti.disable(mspti.enabled[--mspti.enabled_count]);
}

/* Enable one kind of records. Called with the lock held. */
static int enable_one(int kind) {
  int result = mspti.enable(kind);
  if (result == SUCCESS) mspti.enabled[mspti.enabled_count++] = kind;
  return result;
}

/* Enable the wanted kinds of records. Called with the lock held. */
static int enable_all(uint32_t kinds, msp_reason *why) {
  static const struct {
    int kind, otherwise; /* `otherwise`: kind with the same data in other versions, or 0 */
    uint32_t of;
    const char *name;
  } known[] = {{MSPTI_API, 0, MSP_TRACE_BASIC, "calls"},
               {MSPTI_COMMUNICATION, MSPTI_HCCL, MSP_TRACE_BASIC, "communication"},
               {MSPTI_MARKER, 0, MSP_TRACE_BASIC, "markers"},
               {MSPTI_MEMORY, 0, MSP_TRACE_MEMORY, "memory"},
               {MSPTI_MEMSET, 0, MSP_TRACE_MEMORY, "sets"},
               {MSPTI_MEMCPY, 0, MSP_TRACE_MEMORY, "copies"}};
  int result = enable_one(MSPTI_KERNEL); /* without kernels the other kinds are of no use */
  if (result != SUCCESS) {
    return fail(why, "msptiActivityEnable answered %d for kernels%s", result,
                result == NOT_PRELOADED ? "; start the job with `ms-profiler run`" : "");
  }
  size_t length = 0;
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    if (!(kinds & known[i].of)) continue;
    result = enable_one(known[i].kind);
    if (result != SUCCESS && known[i].otherwise != 0 && enable_one(known[i].otherwise) == SUCCESS) continue;
    if (result == SUCCESS) continue;
    char answer[32];
    snprintf(answer, sizeof answer, result == NOT_PRELOADED ? "not preloaded" : "answered %d", result);
    length += (size_t)snprintf(why->text + length, sizeof why->text - length, "%s%s (%s)", length > 0 ? ", " : "",
                               known[i].name, answer);
  }
  return MSP_TRACE_DONE;
}

static int record(uint32_t kinds, msp_reason *why) {
  /* wait for a limited time: the calling thread is the job's, and the drain thread may hang in the library with the
   * lock */
  if (!msp_lock_soon(&mspti.lock, PATIENCE_S)) return MSP_TRACE_HANGS;
  int outcome = MSP_TRACE_DONE;
  if (kinds == 0) {
    disable_all();
  } else if (mspti.enabled_count == 0) {
    outcome = enable_all(kinds, why);
  }
  pthread_mutex_unlock(&mspti.lock);
  return outcome;
}

static void flush(bool everything, msp_device_counts *counts) {
  (void)everything; /* msPTI returns all its buffers in any case, and counts no dropped records */
  (void)counts;
  pthread_mutex_lock(&mspti.lock);
  if (mspti.taken) {
    mspti.flush_all(0);
    match();
  }
  pthread_mutex_unlock(&mspti.lock);
}

static void write_record(const msp_device_record *record, msp_device_counts *counts) {
  if (msp_device_write(record)) {
    ++counts->records;
  } else {
    ++counts->refused;
  }
}

static void take_in(const void *activity, msp_device_counts *counts) {
  msp_device_record record;
  mspti_outcome outcome = mspti_describe(activity, &record);
  record.start_ns = msp_match_convert(&mspti.matches, record.start_ns);
  record.end_ns = msp_match_convert(&mspti.matches, record.end_ns);
  if (mspti_marks_stream(activity)) msp_markers_name(&mspti.markers, &record);
  if (record.type == MSP_DEVICE_MARKER && record.thread == 0) msp_markers_find(&mspti.markers, &record);
  switch (outcome) {
    case MSPTI_TAKEN:
      write_record(&record, counts);
      return;
    case MSPTI_BEGINS:
      msp_markers_begin(&mspti.markers, &record);
      ++counts->unfinished; /* counted until its end is reported */
      return;
    case MSPTI_ENDS:
      if (!msp_markers_end(&mspti.markers, &record)) return; /* the range began before recording */
      --counts->unfinished;
      write_record(&record, counts);
      return;
    case MSPTI_UNASKED:
      ++counts->unknown;
      return;
    case MSPTI_UNFINISHED:
      ++counts->unfinished;
      return;
  }
}

static void read_buffer(const msp_buffer *buffer, msp_device_counts *counts) {
  size_t at = 0, size = 0;
  for (; at + sizeof(uint32_t) <= buffer->valid; at += size) {
    const uint8_t *activity = buffer->memory + at;
    size = mspti_size_of(*(const uint32_t *)(const void *)activity);
    if (size == 0 || size > buffer->valid - at) break;
    if (buffer->scratch) {
      ++counts->lost;
    } else {
      take_in(activity, counts);
    }
  }
  if (at != buffer->valid) ++counts->unreadable;
}

static void detach(void) {
  pthread_mutex_lock(&mspti.lock);
  disable_all();
  mspti.unsubscribe(mspti.subscriber);
  mspti.taken = false;
  pthread_mutex_unlock(&mspti.lock);
}

static uint64_t uncertainty(void) { return __atomic_load_n(&mspti.uncertainty_ns, __ATOMIC_RELAXED); }

static uint32_t version(void) { return 0; /* the library reports none */ }

static void leave(int status, void *unused) {
  (void)unused;
  fflush(NULL);
  _exit(status);
}

static void after_fork(void) {
  if (!mspti.was_taken) return;
  mspti.forked = true;
  if (mspti.taken) on_exit(leave, NULL);
}

const msp_backend msp_mspti = {ready, attach, record, flush, read_buffer, detach, uncertainty, version, after_fork};
