/* A fake of msPTI that needs no device. It has msPTI's 15 functions, hands over buffers through callbacks as msPTI
 * does, and makes the records that a program orders with the functions in ascend_launches.c. Like the real msPTI, it
 * ends the process if one of the three libraries that it needs is missing, and a fork child of a process that has
 * subscribed hangs when it exits. With the macro OLD, it needs one function less of the driver.
 *
 * The variable FAKE_MSPTI holds words for failures: "owned" (another tool has subscribed), "fails" (the subscription
 * does), "old" (the kinds from COMMUNICATION on are unknown), "no-kernels" and "no-calls" (these records are refused),
 * "all-preloaded" (each kind needs LD_PRELOAD), "hangs" (a flush never returns). FAKE_MSPTI_LOG names a file to which
 * each call adds a line.
 */
#include "mspti.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .last = &fake.first};
static __thread bool inside; /* whether this thread runs a callback of the recorder */

static bool is(const char *word) {
  const char *words = getenv("FAKE_MSPTI");
  return words != NULL && strstr(words, word) != NULL;
}

static void *companion(const char *name) {
  const char *home = getenv("ASCEND_HOME_PATH");
  char path[512];
  snprintf(path, sizeof path, "%s/lib64/%s", home != NULL ? home : "", name);
  void *library = home != NULL ? dlopen(path, RTLD_LAZY) : NULL;
  return library != NULL ? library : dlopen(name, RTLD_LAZY);
}

static void need(const char *name, const char *function) {
  void *library = companion(name);
  if (library != NULL && dlsym(library, function) != NULL) return;
  printf("terminate called after throwing an instance of 'std::runtime_error'\n");
  abort();
}

/* Fail without the needed libraries, as the real library's static initialiser does with an exception. */
__attribute__((constructor)) static void load(void) {
  need("libascendalog.so", "CheckLogLevelForC");
  need("libascendalog.so", "DlogInnerForC");
  need("libprofapi.so", "MsprofRegisterProfileCallback");
}

/* Look up the functions that the real library needs for its threads and for a device. */
static void use_driver(void) {
  static const char *const needed[] = {"drvGetDevNum",     "drvGetDevIDs",          "halGetDeviceInfo",
                                       "halGetAPIVersion", "prof_drv_get_channels", "prof_drv_start",
                                       "prof_stop",        "prof_channel_read",     "prof_channel_poll",
#ifndef OLD
                                       "halProfDataFlush"
#endif
  };
  for (size_t i = 0; i < sizeof needed / sizeof *needed; ++i) need("libascend_hal.so", needed[i]);
  need("libprofapi.so", "profSetProfCommand");
}

/* Hang in a fork child, as the real library's destructors do, which wait for threads of the process that subscribed. */
__attribute__((destructor)) static void unload(void) {
  while (fake.subscriber != 0 && fake.subscriber != getpid()) pause();
}

/* Called first by each function: write a line of the log. End the process if a callback of the recorder made the
 * call: the real library holds a lock there. */
static void enter(const char *call, long argument) {
  if (inside) abort();
  const char *path = getenv("FAKE_MSPTI_LOG");
  FILE *log = path != NULL && *path != 0 ? fopen(path, "a") : NULL;
  if (log == NULL) return;
  fprintf(log, "%d %s %ld\n", getpid(), call, argument);
  fclose(log);
}

uint64_t fake_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (uint64_t)((int64_t)time.tv_sec * 1000000000 + time.tv_nsec + fake.shift);
}

typedef struct {
  uint8_t *memory;
  size_t size, used;
} full;

static void hand_over(full *done) {
  complete_function complete = fake.complete;
  inside = true;
  complete(done->memory, done->size, done->used);
  inside = false;
}

/* Give back a full buffer, on a thread for this buffer alone. */
static void *work(void *buffer) {
  hand_over(buffer);
  free(buffer);
  pthread_mutex_lock(&fake.lock);
  --fake.handing;
  pthread_mutex_unlock(&fake.lock);
  return NULL;
}

/* With the lock held: have the current buffer given back. */
static void retire(void) {
  full *done = malloc(sizeof *done);
  *done = (full){fake.current, fake.size, fake.used};
  fake.current = NULL;
  pthread_t thread;
  ++fake.handing;
  if (pthread_create(&thread, NULL, work, done) == 0) pthread_detach(thread);
}

static void append(const void *record, size_t size) {
  uint32_t kind;
  memcpy(&kind, record, sizeof kind);
  if (kind < KINDS && !fake.enabled[kind]) return;
  if (fake.current == NULL && fake.request != NULL) {
    size_t most = 0;
    inside = true;
    fake.request(&fake.current, &fake.size, &most);
    inside = false;
    fake.used = 0;
  }
  if (fake.current == NULL || fake.size < size) {
    ++fake.dropped;
    return;
  }
  memcpy(fake.current + fake.used, record, size);
  fake.used += size;
  if (fake.used * 5 >= fake.size * 4 && !fake.keeps) retire(); /* it is 80 % full */
}

/* With the lock held: put the records of all work that has ended by now into buffers. */
static void read_device(void) {
  uint64_t now = fake_now();
  for (waiting **link = &fake.first; *link != NULL;) {
    waiting *ran = *link;
    if (ran->end > now) {
      link = &ran->next;
      continue;
    }
    *link = ran->next;
    if (*link == NULL) fake.last = link;
    append(ran->record, ran->size);
    free(ran);
  }
}

void fake_put(const void *record, size_t size) {
  read_device();
  append(record, size);
}

void fake_run(const void *record, size_t size, uint64_t end) {
  waiting *ran = calloc(1, sizeof *ran);
  ran->end = end;
  ran->size = size;
  memcpy(ran->record, record, size);
  *fake.last = ran;
  fake.last = &ran->next;
}

size_t fake_size_of(uint32_t kind) {
  static const size_t sizes[KINDS] = {0, 56, 56, 48, 56, 64, 56, 56, 24, 72, 48, 48, 48};
  return kind < KINDS ? sizes[kind] : 0;
}

int msptiSubscribe(void **subscriber, void *callback, void *data) {
  enter("Subscribe", callback != NULL || data != NULL);
  if (is("fails")) return INNER;
  if (is("owned") || fake.subscribed) return OWNED;
  use_driver();
  fake.subscribed = true;
  fake.subscriber = getpid();
  *subscriber = &fake;
  return SUCCESS;
}

int msptiUnsubscribe(void *subscriber) {
  enter("Unsubscribe", subscriber == &fake);
  fake.subscribed = false;
  fake.subscriber = 0;
  return SUCCESS;
}

int msptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t number) {
  enter("EnableCallback", number);
  return subscriber == NULL || enable > 1 || domain < 1 ? INVALID : NOT_PRELOADED;
}

int msptiEnableDomain(uint32_t enable, void *subscriber, int domain) {
  enter("EnableDomain", domain);
  return subscriber == NULL || enable > 1 ? INVALID : NOT_PRELOADED;
}

int msptiActivityRegisterCallbacks(request_function request, complete_function complete) {
  enter("RegisterCallbacks", 0);
  pthread_mutex_lock(&fake.lock);
  fake.request = request;
  fake.complete = complete;
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

int msptiActivityEnable(int kind) {
  enter("Enable", kind);
  const char *preload = getenv("LD_PRELOAD");
  bool preloaded = preload != NULL && strstr(preload, "libmspti.so") != NULL;
  if (kind <= 0 || kind >= (is("old") ? COMMUNICATION : KINDS)) return INVALID;
  if ((is("no-kernels") && kind == KERNEL) || (is("no-calls") && kind == API)) return INNER;
  if (((kind >= HCCL && kind <= MEMCPY) || is("all-preloaded")) && !preloaded) return NOT_PRELOADED;
  pthread_mutex_lock(&fake.lock);
  fake.enabled[kind] = true;
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

int msptiActivityDisable(int kind) {
  enter("Disable", kind);
  if (kind <= 0 || kind >= KINDS) return INVALID;
  pthread_mutex_lock(&fake.lock);
  read_device();
  fake.enabled[kind] = false;
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

bool msptiActivityIsEnabled(int kind) { return kind > 0 && kind < KINDS && fake.enabled[kind]; }

int msptiActivityEnableMarkerDomain(const char *name) { return name != NULL ? SUCCESS : INVALID; }

int msptiActivityDisableMarkerDomain(const char *name) { return name != NULL ? SUCCESS : INVALID; }

/* Return the next record; each thread keeps its place until the end of the buffer. */
int msptiActivityGetNextRecord(uint8_t *memory, size_t valid, void **record) {
  static __thread size_t place;
  enter("GetNextRecord", (long)place);
  if (memory == NULL || place >= valid) {
    place = 0;
    return AT_END;
  }
  size_t size = fake_size_of(*(uint32_t *)(void *)(memory + place));
  if (size == 0) return INNER;
  *record = memory + place;
  place += size;
  return SUCCESS;
}

int msptiActivityFlushAll(uint32_t flag) {
  enter("FlushAll", flag);
  while (is("hangs")) pause();
  pthread_mutex_lock(&fake.lock);
  ++fake.flushes;
  read_device();
  if (fake.current != NULL && !fake.keeps) {
    full done = {fake.current, fake.size, fake.used};
    fake.current = NULL;
    hand_over(&done);
  }
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

int msptiActivityFlushPeriod(uint32_t milliseconds) {
  enter("FlushPeriod", milliseconds);
  return SUCCESS;
}

int msptiActivityPushExternalCorrelationId(int kind, uint64_t id) {
  enter("PushExternalCorrelationId", (long)id);
  return kind >= 2 && kind <= 4 ? SUCCESS : INVALID;
}

int msptiActivityPopExternalCorrelationId(int kind, uint64_t *last) {
  enter("PopExternalCorrelationId", kind);
  return last == NULL ? INVALID : EMPTY;
}
