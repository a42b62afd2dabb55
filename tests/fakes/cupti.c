/* A fake of CUPTI that needs no device. It has CUPTI's functions, hands over buffers through callbacks as CUPTI does,
 * and makes the records that a program orders with the functions in launches.c. Records have the sizes of CUPTI 12.8.
 *
 * The variable FAKE_CUPTI holds words for failures: "owned" (another tool has subscribed), "segfaults" (each call
 * does), "crashes" (each call without a driver does, as in 13.2), "fails" (each call does, as in 13.3 without a
 * driver), "own-clock" (the recorder's clock is refused), "ancient" (version 11.0), "new" (version 13.0, which can
 * record single calls), "no-kernels" (records of kernels are refused), "hangs" (a flush never returns). FAKE_CUPTI_LOG
 * names a file to which each call adds a line.
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

fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .last = &fake.full};

static bool is(const char *word) {
  const char *words = getenv("FAKE_CUPTI");
  return words != NULL && strstr(words, word) != NULL;
}

/* Called first by each function: write a line of the log, and fail if all calls are to fail. */
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

uint64_t fake_clock(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t fake_now(void) { return fake.clock != NULL ? fake.clock() : fake_clock(CLOCK_REALTIME); }

/* With the lock held: append the current buffer to the full ones. */
void fake_retire(void) {
  *fake.last = fake.current;
  fake.last = &fake.current->next;
  fake.current = NULL;
  pthread_cond_signal(&fake.work);
}

/* Return the number of a record's call. */
static uint32_t number_of(const void *record) { return ((const call_activity *)record)->number % CALLS; }

/* Put a record into a buffer. The lock is held, because the real CUPTI also requests a buffer while it holds a lock. */
void fake_put(const void *record, size_t size, uint64_t ready_ns) {
  uint32_t kind;
  memcpy(&kind, record, sizeof kind);
  if (kind < KINDS && !fake.enabled[kind] && !(kind == 4 && fake.driver_on[number_of(record)])) return;
  if (kind == 5 && fake.runtime_off[number_of(record)]) return;
  if (fake.current != NULL && fake.current->used + size > fake.current->size) fake_retire();
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

/* With the lock held: take the first full buffer; unless `everything`, only if the work of its records has ended. */
static buffer *take_full(bool everything) {
  buffer *first = fake.full;
  if (first == NULL || fake.keeps || (!everything && first->ready_ns > fake_now())) return NULL;
  fake.full = first->next;
  if (fake.full == NULL) fake.last = &fake.full;
  return first;
}

/* Give back full buffers, with a delay and on a thread of the library's own. */
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
  *name = "cudaStreamSynchronize_v3020";
  if (number == 41) *name = "cudaMemcpyAsync_v3020";
  if (number == 211) *name = "cudaLaunchKernel_v7000";
  if (domain == 1) *name = "cuLaunchKernel";
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
  memset(fake.busy_until, 0, sizeof fake.busy_until); /* these are times of the previous clock */
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
  if (kind == 5) memset(fake.runtime_off, 0, sizeof fake.runtime_off);
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

/* Note in a table whether the records of one call are wanted; only a new CUPTI can do so. */
static int note_call(const char *function, bool *table, uint32_t number, bool value) {
  int result = enter(function, number);
  if (result != SUCCESS || !is("new")) return NOT_INITIALIZED;
  pthread_mutex_lock(&fake.lock);
  table[number % CALLS] = value;
  pthread_mutex_unlock(&fake.lock);
  return SUCCESS;
}

int cuptiActivityEnableDriverApi(uint32_t number, uint8_t on) {
  return note_call(on ? "EnableDriverApi" : "DisableDriverApi", fake.driver_on, number, on);
}

int cuptiActivityEnableRuntimeApi(uint32_t number, uint8_t on) {
  return note_call(on ? "EnableRuntimeApi" : "DisableRuntimeApi", fake.runtime_off, number, !on);
}

int cuptiActivityDisable(uint32_t kind) {
  int result = enter("Disable", kind);
  pthread_mutex_lock(&fake.lock);
  fake.enabled[kind % KINDS] = false;
  pthread_mutex_unlock(&fake.lock);
  return result;
}

size_t fake_size_of(uint32_t kind) {
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
  if (*record != NULL) next = (uint8_t *)*record + fake_size_of(*(uint32_t *)*record);
  if (next >= memory + valid) return AT_END;
  if (fake_size_of(*(uint32_t *)(void *)next) == 0) return INVALID_KIND;
  *record = next;
  return SUCCESS;
}

/* Set the times of kernels that have not ended to 0. */
static void cut(buffer *of, uint64_t now) {
  for (size_t at = 0; at < of->used; at += fake_size_of(*(uint32_t *)(void *)(of->memory + at))) {
    kernel_activity *kernel = (void *)(of->memory + at);
    if (fake_size_of(kernel->kind) == 0) return;
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
  if (fake.current != NULL && (flag == 1 || fake.current->ready_ns <= now)) fake_retire();
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
