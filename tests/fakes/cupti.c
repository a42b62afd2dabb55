/* A CUPTI without a device: its exported names, its contract of buffers and callbacks, and records that a program asks
 * for. Sizes of records are those of version 12.8.
 *
 * FAKE_CUPTI holds words for what goes wrong: "owned" (somebody has subscribed), "segfaults" (any call), "crashes"
 * (any call without a driver, as 13.2), "fails" (every call, as 13.3 without a driver), "own-clock" (ours is refused),
 * "ancient" (version 11.0), "new" (version 13.0), "no-kernels" (their kind is refused), "hangs" (a flush never
 * returns). FAKE_CUPTI_LOG names a file that receives a line a call. The functions that begin with fake_ are what a
 * program calls.
 */
#include "cupti.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_KIND = 21, AT_END = 12, NOT_INITIALIZED = 15, OWNED = 39, UNKNOWN = 999 };
enum {
  KINDS = 64,
  KERNEL_BYTES = 208,
  COPY_BYTES = 96,
  CALL_BYTES = 40,
  WAIT_BYTES = 56,
  MEMORY_BYTES = 128,
  STRANGE_BYTES = 24
};

typedef struct buffer {
  struct buffer *next;
  uint8_t *memory;
  size_t size, used;
  uint64_t ready_ns; /* when the last of its records has ended */
} buffer;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t work;
  pthread_t worker;
  bool works, subscribed, threads_by_system;
  int flushes;
  bool keeps; /* buffers come back only when a program lets them */
  bool enabled[KINDS];
  request_function request;
  complete_function complete;
  clock_function clock;
  uint32_t correlation;
  size_t dropped;
  buffer *current;
  buffer *full, **last;
  uint64_t busy_until[256]; /* by stream */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .last = &fake.full};

static bool is(const char *word) {
  const char *words = getenv("FAKE_CUPTI");
  return words != NULL && strstr(words, word) != NULL;
}

/* What every call does first: a line of the log, and what goes wrong with all of them. */
static int enter(const char *call, long argument) {
  const char *path = getenv("FAKE_CUPTI_LOG");
  FILE *log = path != NULL ? fopen(path, "a") : NULL;
  if (log != NULL) {
    fprintf(log, "%d %s %ld\n", getpid(), call, argument);
    fclose(log);
  }
  if (is("segfaults")) raise(SIGSEGV);
  if (is("crashes") && dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) == NULL) raise(SIGSEGV);
  return is("fails") ? UNKNOWN : SUCCESS;
}

static uint64_t read_clock(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t fake_now(void) { return fake.clock != NULL ? fake.clock() : read_clock(CLOCK_REALTIME); }

/* In the lock. */
static void retire(void) {
  *fake.last = fake.current;
  fake.last = &fake.current->next;
  fake.current = NULL;
  pthread_cond_signal(&fake.work);
}

/* Put a record into a buffer. In the lock, which is the kind of lock that is held while a real one asks for a buffer.
 */
static void emit(const void *record, size_t size, uint64_t ready_ns) {
  uint32_t kind;
  memcpy(&kind, record, sizeof kind);
  if (kind < KINDS && !fake.enabled[kind]) return;
  if (fake.current != NULL && fake.current->used + size > fake.current->size) retire();
  if (fake.current == NULL) {
    uint8_t *memory = NULL;
    size_t room = 0, most = 0;
    if (fake.request != NULL) fake.request(&memory, &room, &most);
    if (memory == NULL || room < size) {
      ++fake.dropped;
      return;
    }
    fake.current = calloc(1, sizeof *fake.current);
    fake.current->memory = memory;
    fake.current->size = room;
  }
  memcpy(fake.current->memory + fake.current->used, record, size);
  fake.current->used += size;
  if (ready_ns > fake.current->ready_ns) fake.current->ready_ns = ready_ns;
}

static void hand_over(buffer *done) {
  fake.complete(NULL, 0, done->memory, done->size, done->used);
  free(done);
}

/* Take the first full buffer if its records have ended, or in any case. In the lock. */
static buffer *take_full(bool everything) {
  buffer *first = fake.full;
  if (first == NULL || fake.keeps || (!everything && first->ready_ns > fake_now())) return NULL;
  fake.full = first->next;
  if (fake.full == NULL) fake.last = &fake.full;
  return first;
}

/* Buffers come back late, and on a thread that nobody else knows. */
static void *work(void *unused) {
  (void)unused;
  pthread_mutex_lock(&fake.lock);
  for (;;) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 2000000;
    if (until.tv_nsec >= 1000000000) until = (struct timespec){until.tv_sec + 1, until.tv_nsec - 1000000000};
    pthread_cond_timedwait(&fake.work, &fake.lock, &until);
    buffer *done = take_full(false);
    if (done == NULL) continue;
    pthread_mutex_unlock(&fake.lock);
    hand_over(done);
    pthread_mutex_lock(&fake.lock);
  }
  return NULL;
}

int cuptiGetVersion(uint32_t *version) {
  int result = enter("GetVersion", 0);
  *version = is("new") ? 130001 : is("ancient") ? 14 : 26;
  return result;
}

int cuptiGetResultString(int result, const char **text) {
  if (is("fails")) return UNKNOWN;
  *text = result == OWNED ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR_OF_THE_FAKE";
  return SUCCESS;
}

int cuptiGetCallbackName(uint32_t domain, uint32_t number, const char **name) {
  *name = domain == 1 ? "cuLaunchKernel" : number == 211 ? "cudaLaunchKernel_v7000" : "cudaStreamSynchronize_v3020";
  return SUCCESS;
}

int cuptiGetTimestamp(uint64_t *time) {
  int result = enter("GetTimestamp", 0);
  *time = fake_now();
  return result;
}

int cuptiSubscribe(void **subscriber, void *callback, void *data) {
  (void)callback;
  (void)data;
  int result = enter("Subscribe", 0);
  if (result != SUCCESS) return result;
  if (is("owned") || fake.subscribed) return OWNED;
  fake.subscribed = true;
  *subscriber = &fake;
  return SUCCESS;
}

int cuptiUnsubscribe(void *subscriber) {
  int result = enter("Unsubscribe", subscriber == &fake);
  fake.subscribed = false;
  return result;
}

int cuptiActivityRegisterTimestampCallback(clock_function clock) {
  int result = enter("RegisterTimestampCallback", 0);
  if (result != SUCCESS || is("own-clock")) return UNKNOWN;
  pthread_mutex_lock(&fake.lock);
  fake.clock = clock;
  memset(fake.busy_until, 0, sizeof fake.busy_until); /* times of another clock */
  if (fake.current != NULL) fake.current->ready_ns = 0;
  for (buffer *waiting = fake.full; waiting != NULL; waiting = waiting->next) waiting->ready_ns = 0;
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

int cuptiSetThreadIdType(uint32_t type) {
  int result = enter("SetThreadIdType", type);
  fake.threads_by_system = type == 1;
  return result;
}

int cuptiActivityRegisterCallbacks(request_function request, complete_function complete) {
  int result = enter("RegisterCallbacks", 0);
  if (result != SUCCESS) return result;
  fake.request = request;
  fake.complete = complete;
  if (!fake.works) fake.works = pthread_create(&fake.worker, NULL, work, NULL) == 0;
  return SUCCESS;
}

int cuptiActivityEnable(uint32_t kind) {
  int result = enter("Enable", kind);
  if (result != SUCCESS) return result;
  if (is("no-kernels") && kind == 10) return NOT_INITIALIZED;
  pthread_mutex_lock(&fake.lock);
  fake.enabled[kind % KINDS] = true;
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

int cuptiActivityDisable(uint32_t kind) {
  int result = enter("Disable", kind);
  pthread_mutex_lock(&fake.lock);
  fake.enabled[kind % KINDS] = false;
  pthread_mutex_unlock(&fake.lock);
  return result;
}

static size_t size_of(uint32_t kind) {
  switch (kind) {
    case 3:
    case 10:
      return KERNEL_BYTES;
    case 1:
    case 2:
      return COPY_BYTES;
    case 4:
    case 5:
      return CALL_BYTES;
    case 17:
    case 38:
    case 51:
      return WAIT_BYTES;
    case 22:
      return COPY_BYTES;
    case 49:
      return MEMORY_BYTES;
    case 0:
      return 0;
    default:
      return STRANGE_BYTES;
  }
}

int cuptiActivityGetNextRecord(uint8_t *memory, size_t valid, void **record) {
  uint8_t *next = memory;
  if (*record != NULL) next = (uint8_t *)*record + size_of(*(uint32_t *)*record);
  if (next >= memory + valid) return AT_END;
  if (size_of(*(uint32_t *)(void *)next) == 0) return INVALID_KIND;
  *record = next;
  return SUCCESS;
}

/* What has not ended yet has no times. */
static void cut(buffer *of, uint64_t now) {
  for (size_t at = 0; at < of->used; at += size_of(*(uint32_t *)(void *)(of->memory + at))) {
    kernel_activity *kernel = (void *)(of->memory + at);
    if (size_of(kernel->kind) == 0) return;
    if (kernel->kind == 10 && kernel->end > now) kernel->start = kernel->end = 0;
  }
}

int cuptiActivityFlushAll(uint32_t flag) {
  int result = enter("FlushAll", flag);
  if (result != SUCCESS) return result;
  while (is("hangs")) pause();
  pthread_mutex_lock(&fake.lock);
  ++fake.flushes;
  uint64_t now = fake_now();
  if (fake.current != NULL && (flag == 1 || fake.current->ready_ns <= now)) retire();
  for (buffer *done = take_full(flag == 1); done != NULL; done = take_full(flag == 1)) {
    cut(done, now);
    pthread_mutex_unlock(&fake.lock);
    hand_over(done);
    pthread_mutex_lock(&fake.lock);
  }
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
  (void)context;
  (void)stream;
  pthread_mutex_lock(&fake.lock);
  *count = fake.dropped;
  fake.dropped = 0;
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

static uint32_t thread_id(void) {
  return fake.threads_by_system ? (uint32_t)syscall(SYS_gettid) : (uint32_t)(uintptr_t)pthread_self();
}

/* In the lock. */
static void emit_call(uint32_t kind, uint32_t number, uint64_t start, uint64_t end) {
  call_activity call = {kind, number, start, end, (uint32_t)getpid(), thread_id(), fake.correlation, 0};
  emit(&call, sizeof call, end);
}

uint32_t fake_launch(const char *name, uint32_t stream, uint64_t start_ns, uint64_t duration_ns, int driver) {
  pthread_mutex_lock(&fake.lock);
  uint64_t begun = fake_now();
  uint64_t *busy = &fake.busy_until[stream % 256];
  if (start_ns == 0) start_ns = begun + 2000;
  if (start_ns < *busy) start_ns = *busy;
  *busy = start_ns + duration_ns;
  uint32_t correlation = ++fake.correlation;
  union {
    kernel_activity kernel;
    uint8_t bytes[KERNEL_BYTES];
  } record = {.bytes = {0}};
  record.kernel = (kernel_activity){.kind = 10,
                                    .start = start_ns,
                                    .end = *busy,
                                    .context = 1,
                                    .stream = stream,
                                    .grid = {4, 2, 1},
                                    .block = {256, 1, 1},
                                    .correlation = correlation,
                                    .name = name};
  emit(&record, sizeof record, *busy);
  if (driver) {
    emit_call(4, 307, begun, fake_now());
  } else {
    emit_call(5, 211, begun, fake_now());
  }
  pthread_mutex_unlock(&fake.lock);
  return correlation;
}

uint32_t fake_copy(uint8_t kind, uint64_t bytes, uint32_t stream, uint64_t duration_ns) {
  pthread_mutex_lock(&fake.lock);
  uint64_t begun = fake_now();
  uint64_t *busy = &fake.busy_until[stream % 256];
  uint64_t start = begun + 2000 < *busy ? *busy : begun + 2000;
  *busy = start + duration_ns;
  uint32_t correlation = ++fake.correlation;
  union {
    copy_activity copy;
    uint8_t bytes[COPY_BYTES];
  } record = {.bytes = {0}};
  record.copy = (copy_activity){.kind = 1,
                                .copy = kind,
                                .bytes = bytes,
                                .start = start,
                                .end = *busy,
                                .context = 1,
                                .stream = stream,
                                .correlation = correlation};
  emit(&record, sizeof record, *busy);
  emit_call(5, 41, begun, fake_now());
  pthread_mutex_unlock(&fake.lock);
  return correlation;
}

void fake_synchronize(uint32_t stream) {
  pthread_mutex_lock(&fake.lock);
  uint64_t begun = fake_now();
  uint64_t until = fake.busy_until[stream % 256];
  ++fake.correlation;
  pthread_mutex_unlock(&fake.lock);
  while (fake_now() < until) usleep(20);
  pthread_mutex_lock(&fake.lock);
  uint64_t end = fake_now();
  emit_call(5, 131, begun, end);
  wait_activity wait = {.kind = 38, .what = 3, .start = begun, .end = end, .context = 1, .stream = stream};
  emit(&wait, sizeof wait, end);
  pthread_mutex_unlock(&fake.lock);
}

/* Put a record as it is into a buffer; it is as long as its kind is. */
void fake_emit(const void *record) {
  pthread_mutex_lock(&fake.lock);
  emit(record, size_of(*(const uint32_t *)record), 0);
  pthread_mutex_unlock(&fake.lock);
}

void fake_strange(void) {
  uint32_t strange[STRANGE_BYTES / 4] = {77};
  pthread_mutex_lock(&fake.lock);
  emit(strange, sizeof strange, 0);
  pthread_mutex_unlock(&fake.lock);
}

void fake_damage(void) {
  uint32_t nothing[STRANGE_BYTES / 4] = {0};
  pthread_mutex_lock(&fake.lock);
  bool before = fake.enabled[0];
  fake.enabled[0] = true;
  emit(nothing, sizeof nothing, 0);
  fake.enabled[0] = before;
  if (fake.current != NULL) retire();
  pthread_mutex_unlock(&fake.lock);
}

void fake_keep(int keeps) { fake.keeps = keeps != 0; }

void fake_count_from(uint32_t correlation) { fake.correlation = correlation - 1; }

/* How often buffers were asked for so far. */
int fake_flushes(void) {
  pthread_mutex_lock(&fake.lock);
  int flushes = fake.flushes;
  pthread_mutex_unlock(&fake.lock);
  return flushes;
}

int fake_is_subscribed(void) { return fake.subscribed; }

void fake_somebody_subscribes(int subscribes) { fake.subscribed = subscribes != 0; }

static uint8_t *thrown_away;

static void request_any(uint8_t **memory, size_t *size, size_t *most) {
  *most = 0;
  *size = 4 << 20;
  *memory = thrown_away != NULL ? thrown_away : malloc(*size);
  thrown_away = NULL;
}

static void complete_any(void *context, uint32_t stream, uint8_t *memory, size_t size, size_t valid) {
  (void)context;
  (void)stream;
  (void)size;
  (void)valid;
  thrown_away = memory; /* one of several that come at once is lost: this is a measurement */
}

/* Have records made for nobody, until somebody registers. */
void fake_throw_away(void) {
  cuptiActivityRegisterCallbacks(request_any, complete_any);
  cuptiActivityEnable(5);
  cuptiActivityEnable(10);
}

void fake_generate(uint64_t records, uint64_t each_second) {
  uint64_t begun = read_clock(CLOCK_MONOTONIC);
  for (uint64_t made = 0; made < records; made += 2) {
    if (made % 1024 == 0 && each_second != 0) {
      uint64_t due = begun + made * 1000000000u / each_second;
      while (read_clock(CLOCK_MONOTONIC) < due) usleep(100);
    }
    fake_launch("a kernel of the generator", 7, 0, 500, 0);
  }
}

uint64_t fake_busy_until(uint32_t stream) { return fake.busy_until[stream % 256]; }
