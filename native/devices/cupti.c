/* The use of NVIDIA's CUPTI: its activity interface, as the versions 11.8 to 13.5 export it.
 *
 * These facts shape this file. CUPTI looks up functions of the driver. When there is no driver, or the driver lacks
 * such a function, CUPTI 13.2 crashes on any call, and later versions fail on every call. So this code checks the
 * driver first. CUPTI also accepts activity calls from tools that have not subscribed. So two tools could overwrite
 * each other's callbacks. But only one tool can subscribe, so this code subscribes before any activity call. Settings
 * also apply to the tool that uses CUPTI next, such as PyTorch's own profiler. So `detach` restores them.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend.h"
#include "clock.h"
#include "cupti_calls.h"
#include "cupti_records.h"
#include "match.h"
#include "store.h"
#include "thread.h"
#include "tracing.h"

#define DRIVER "libcuda.so.1"
#define OLDEST 18           /* CUDA 11.8, as cuptiGetVersion returns it */
#define REFUSABLE_SINCE 27  /* older versions may crash when a buffer is refused */
#define THREADS_BY_SYSTEM 1 /* numbers of threads are those of the operating system */
#define THREADS_BY_DEFAULT 0
#define PATIENCE_S 10
#define DRIVER_OF_13 13000 /* CUDA 13.0, as cuDriverGetVersion returns it */

enum { SUCCESS = 0, AT_END = 12, OWNED = 39 };

static struct {
  void *library;
  int (*get_version)(uint32_t *version);
  int (*get_result_string)(int result, const char **text);
  int (*get_callback_name)(uint32_t domain, uint32_t number, const char **name);
  int (*get_timestamp)(uint64_t *time);
  int (*subscribe)(void **subscriber, void (*callback)(void *, uint32_t, uint32_t, const void *), void *data);
  int (*unsubscribe)(void *subscriber);
  int (*register_timestamp)(uint64_t (*clock)(void));
  int (*set_thread_ids)(uint32_t type);
  int (*register_callbacks)(void (*request)(uint8_t **, size_t *, size_t *),
                            void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t));
  int (*enable)(uint32_t kind);
  int (*disable)(uint32_t kind);
  int (*next_record)(uint8_t *memory, size_t valid, void **record);
  int (*flush_all)(uint32_t flag);
  int (*count_dropped)(void *context, uint32_t stream, size_t *count);
  cupti_switch switch_driver, switch_runtime; /* since CUDA 12.6, otherwise NULL */

  pthread_mutex_t lock; /* for calls that change settings or flush, on threads of the job and on the drain thread */
  void *subscriber;
  bool taken; /* this process's profiler is the subscriber */
  uint32_t version;
  uint32_t enabled[16];
  uint32_t enabled_count;
  bool launches; /* the records of single calls of the driver are on */
  bool every_call;
  bool own_clock;
  bool wall_clock; /* the library reads the wall clock by default, otherwise CLOCK_MONOTONIC_RAW */
  msp_matches matches;
} cupti = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Call a function of NVIDIA's driver, if the job has loaded the driver. Returns the value that the function stores; 0
 * if the function fails, or if there is no driver. */
static int of_driver(const char *function) {
  void *driver = dlopen(DRIVER, RTLD_LAZY | RTLD_NOLOAD);
  if (driver == NULL) return 0;
  int (*ask)(int *value) = NULL;
  *(void **)&ask = dlsym(driver, function);
  int value = 0;
  if (ask == NULL || ask(&value) != 0) value = 0;
  dlclose(driver); /* the driver stays loaded as long as the job uses it */
  return value;
}

static bool ready(void) { return of_driver("cuDeviceGetCount") > 0; }

static uint64_t raw_clock(void) { return msp_now(); }

static uint64_t wall_clock(void) { return msp_clock_read(CLOCK_REALTIME); }

static bool their_clock(uint64_t *theirs) {
  return cupti.get_timestamp != NULL && cupti.get_timestamp(theirs) == SUCCESS;
}

static void request(uint8_t **memory, size_t *size, size_t *most) {
  *most = 0; /* no limit: as many records as the buffer has room for */
  *memory = msp_buffers_request(size);
}

static void complete(void *context, uint32_t stream, uint8_t *memory, size_t size, size_t valid) {
  (void)context;
  (void)stream;
  (void)size;
  msp_buffers_complete(memory, valid);
}

static void called_back(void *data, uint32_t domain, uint32_t number, const void *what) {
  (void)data;
  (void)domain;
  (void)number;
  (void)what;
}

static int fail(msp_reason *why, const char *call, int result) {
  const char *text = NULL;
  if (cupti.get_result_string != NULL) cupti.get_result_string(result, &text);
  snprintf(why->text, sizeof why->text, "%s answered %d%s%s", call, result, text != NULL ? ", " : "",
           text != NULL ? text : "");
  return result == OWNED ? MSP_TRACE_OWNED : MSP_TRACE_FAILED;
}

/* Describe why CUPTI refuses the first call. If no other tool owns CUPTI, the driver is the reason. */
static int refuse(msp_reason *why, const char *call, int result) {
  int outcome = fail(why, call, result);
  if (result == OWNED) return outcome;
  size_t length = strlen(why->text);
  snprintf(why->text + length, sizeof why->text - length, "; see that the driver is as new as the library");
  return outcome;
}

static bool find(void *function, const char *name) {
  *(void **)function = dlsym(cupti.library, name);
  return *(void **)function != NULL;
}

static int load(const char *library, msp_reason *why) {
  if (cupti.library != NULL) return MSP_TRACE_DONE;
  cupti.library = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (cupti.library == NULL) {
    snprintf(why->text, sizeof why->text, "%s", dlerror());
    return MSP_TRACE_MISSING;
  }
  const struct {
    void *function;
    const char *name;
  } needed[] = {{&cupti.get_version, "cuptiGetVersion"},
                {&cupti.subscribe, "cuptiSubscribe"},
                {&cupti.unsubscribe, "cuptiUnsubscribe"},
                {&cupti.register_callbacks, "cuptiActivityRegisterCallbacks"},
                {&cupti.enable, "cuptiActivityEnable"},
                {&cupti.disable, "cuptiActivityDisable"},
                {&cupti.next_record, "cuptiActivityGetNextRecord"},
                {&cupti.flush_all, "cuptiActivityFlushAll"},
                {&cupti.count_dropped, "cuptiActivityGetNumDroppedRecords"}};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; ++i) {
    if (find(needed[i].function, needed[i].name)) continue;
    snprintf(why->text, sizeof why->text, "%s has no %s", library, needed[i].name);
    dlclose(cupti.library);
    cupti.library = NULL;
    return MSP_TRACE_MISSING;
  }
  find(&cupti.get_result_string, "cuptiGetResultString");
  find(&cupti.get_callback_name, "cuptiGetCallbackName");
  find(&cupti.get_timestamp, "cuptiGetTimestamp");
  find(&cupti.register_timestamp, "cuptiActivityRegisterTimestampCallback");
  find(&cupti.set_thread_ids, "cuptiSetThreadIdType");
  find(&cupti.switch_driver, "cuptiActivityEnableDriverApi");
  find(&cupti.switch_runtime, "cuptiActivityEnableRuntimeApi");
  return MSP_TRACE_DONE;
}

/* Return whether CUPTI would crash: it is version 13.2, and the driver is too old. When the driver lacks a function,
 * CUPTI 13.2 recurses without end on any call. CUPTI 13.2 is the only version that has cuptiActivityEnable_v2, but no
 * cuptiGetTimestamp_v2. */
static bool crashes(msp_reason *why) {
  int driver = of_driver("cuDriverGetVersion");
  bool is_13_2 =
      dlsym(cupti.library, "cuptiActivityEnable_v2") != NULL && dlsym(cupti.library, "cuptiGetTimestamp_v2") == NULL;
  if (!is_13_2 || driver >= DRIVER_OF_13) return false;
  snprintf(why->text, sizeof why->text,
           "it is that of CUDA 13.2, which crashes beside a driver before 13.0, and this one is of CUDA %d.%d; use "
           "another version of it",
           driver / 1000, driver % 1000 / 10);
  return true;
}

static uint64_t distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

/* Make CUPTI use our clock, CLOCK_MONOTONIC_RAW. If CUPTI refuses, take the first pair of readings of CUPTI's clock and
 * ours. */
static void set_clock(void) {
  uint64_t theirs = 0;
  cupti.wall_clock = !their_clock(&theirs) || distance(theirs, wall_clock()) < distance(theirs, raw_clock());
  cupti.own_clock = cupti.register_timestamp != NULL && cupti.register_timestamp(raw_clock) == SUCCESS;
  cupti.matches = (msp_matches){.count = 0};
  if (!cupti.own_clock) msp_match_take(&cupti.matches, their_clock);
}

static void restore(void) {
  if (cupti.own_clock) cupti.register_timestamp(cupti.wall_clock ? wall_clock : raw_clock);
  if (cupti.set_thread_ids != NULL) cupti.set_thread_ids(THREADS_BY_DEFAULT);
  cupti.unsubscribe(cupti.subscriber);
  cupti.taken = false;
}

/* Load CUPTI, subscribe, and register our callbacks. Called with the lock held. */
static int take(const char *library, msp_reason *why) {
  int outcome = load(library, why);
  if (outcome != MSP_TRACE_DONE) return outcome;
  if (crashes(why)) return MSP_TRACE_FAILED;
  int result = cupti.get_version(&cupti.version);
  if (result != SUCCESS) return refuse(why, "cuptiGetVersion", result);
  if (cupti.version < OLDEST) {
    snprintf(why->text, sizeof why->text, "%s is of version %u, and 11.8 is the oldest that is known", library,
             cupti.version);
    return MSP_TRACE_FAILED;
  }
  result = cupti.subscribe(&cupti.subscriber, called_back, NULL);
  if (result != SUCCESS) return refuse(why, "cuptiSubscribe", result);
  cupti.taken = true;
  set_clock();
  if (cupti.set_thread_ids != NULL) cupti.set_thread_ids(THREADS_BY_SYSTEM);
  msp_buffers_open(cupti.version >= REFUSABLE_SINCE, msp_store_memory() / 2);
  result = cupti.register_callbacks(request, complete);
  if (result == SUCCESS) return MSP_TRACE_DONE;
  restore();
  return fail(why, "cuptiActivityRegisterCallbacks", result);
}

static int attach(const char *library, msp_reason *why) {
  pthread_mutex_lock(&cupti.lock);
  int outcome = take(library, why);
  pthread_mutex_unlock(&cupti.lock);
  return outcome;
}

/* Disable all kinds of records. Called with the lock held. */
static void disable_all(void) {
  if (cupti.launches) cupti_switch_launches(cupti.switch_driver, false);
  cupti.launches = false;
  while (cupti.enabled_count > 0) cupti.disable(cupti.enabled[--cupti.enabled_count]);
}

/* Enable the wanted kinds of records. Called with the lock held. */
static int enable_all(uint32_t kinds, msp_reason *why) {
  /* Enable kernels first: without them, the other kinds are of no use. The kind is CUPTI_CONCURRENT_KERNEL, because
   * CUPTI_KERNEL would make kernels run one after the other. */
  static const uint32_t basic[] = {CUPTI_CONCURRENT_KERNEL, CUPTI_RUNTIME,         CUPTI_MEMCPY, CUPTI_MEMSET,
                                   CUPTI_MEMCPY_PEER,       CUPTI_SYNCHRONIZATION, CUPTI_MEMORY, CUPTI_OVERHEAD};
  uint32_t wanted[sizeof basic / sizeof *basic + 2];
  uint32_t count = sizeof basic / sizeof *basic;
  memcpy(wanted, basic, sizeof basic);
  cupti.every_call = (kinds & MSP_TRACE_DRIVER) != 0;
  cupti.launches = !cupti.every_call && cupti_switch_launches(cupti.switch_driver, true);
  /* an older CUPTI makes records of all calls of the driver or of none; `take_in` selects the launches */
  if (!cupti.launches) wanted[count++] = CUPTI_DRIVER;
  if (kinds & MSP_TRACE_GRAPHS) wanted[count++] = CUPTI_GRAPH_TRACE;
  for (uint32_t i = 0; i < count; ++i) {
    int result = cupti.enable(wanted[i]);
    if (result == SUCCESS) {
      cupti.enabled[cupti.enabled_count++] = wanted[i];
    } else if (i < 2) {
      disable_all();
      return fail(why, "cuptiActivityEnable", result);
    }
  }
  /* after the kind, because enabling a kind enables each of its calls */
  if (!cupti.every_call) cupti_leave_out_questions(cupti.switch_runtime);
  return MSP_TRACE_DONE;
}

static int record(uint32_t kinds, msp_reason *why) {
  /* wait for a limited time: the calling thread is the job's, and the drain thread may hang in the library with the
   * lock */
  if (!msp_lock_soon(&cupti.lock, PATIENCE_S)) return MSP_TRACE_HANGS;
  int outcome = MSP_TRACE_DONE;
  if (kinds == 0) {
    disable_all();
  } else if (cupti.enabled_count == 0) {
    outcome = enable_all(kinds, why);
  }
  pthread_mutex_unlock(&cupti.lock);
  return outcome;
}

static void flush(bool everything, msp_device_counts *counts) {
  pthread_mutex_lock(&cupti.lock);
  if (cupti.taken) {
    cupti.flush_all(everything ? 1 : 0);
    size_t dropped = 0; /* number of records since the last call */
    if (cupti.count_dropped(NULL, 0, &dropped) == SUCCESS) counts->dropped += dropped;
    if (!cupti.own_clock) msp_match_take(&cupti.matches, their_clock);
  }
  pthread_mutex_unlock(&cupti.lock);
}

static const char *call_name(uint32_t domain, uint32_t number) {
  const char *name = NULL;
  if (cupti.get_callback_name == NULL || cupti.get_callback_name(domain, number, &name) != SUCCESS) return NULL;
  return name;
}

static void take_in(const void *activity, msp_device_counts *counts) {
  if (!cupti.every_call && cupti_left_out(activity)) return;
  msp_device_record record;
  switch (cupti_describe(activity, call_name, &record)) {
    case CUPTI_UNKNOWN:
      ++counts->unknown;
      return;
    case CUPTI_UNFINISHED:
      ++counts->unfinished;
      return;
    case CUPTI_TAKEN:
      break;
  }
  if (!cupti.own_clock) {
    record.start_ns = msp_match_convert(&cupti.matches, record.start_ns);
    record.end_ns = msp_match_convert(&cupti.matches, record.end_ns);
  }
  if (msp_device_write(&record)) {
    ++counts->records;
  } else {
    ++counts->refused;
  }
}

static void read_buffer(const msp_buffer *buffer, msp_device_counts *counts) {
  void *activity = NULL;
  int result;
  while ((result = cupti.next_record(buffer->memory, buffer->valid, &activity)) == SUCCESS) {
    if (buffer->scratch) {
      ++counts->lost;
    } else {
      take_in(activity, counts);
    }
  }
  if (result != AT_END) ++counts->unreadable;
}

static void detach(void) {
  pthread_mutex_lock(&cupti.lock);
  disable_all();
  restore();
  pthread_mutex_unlock(&cupti.lock);
}

static uint64_t uncertainty(void) { return cupti.own_clock ? 0 : cupti.matches.uncertainty_ns; }

static uint32_t version(void) { return cupti.version; }

const msp_backend msp_cupti = {ready, attach, record, flush, read_buffer, detach, uncertainty, version, NULL};
