/* Functions of the fake CUPTI that a program calls in place of CUDA: launches, copies, waits and others. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cupti.h"

int cuptiActivityEnable(uint32_t kind);
int cuptiActivityRegisterCallbacks(request_function request, complete_function complete);

static uint32_t thread_id(void) {
  return fake.threads_by_system ? (uint32_t)syscall(SYS_gettid) : (uint32_t)(uintptr_t)pthread_self();
}

/* With the lock held: add a record of a call on the host. */
static void emit_call(uint32_t kind, uint32_t number, uint64_t start, uint64_t end) {
  call_activity call = {kind, number, start, end, (uint32_t)getpid(), thread_id(), fake.correlation, 0};
  fake_put(&call, sizeof call, end);
}

/* Add records of a kernel and its call. The kernel begins at `start_ns`, or `lead_ns` after the call if that is 0. */
static uint32_t launch(const char *name, uint32_t stream, uint64_t start_ns, uint64_t lead_ns, uint64_t duration_ns,
                       int driver) {
  pthread_mutex_lock(&fake.lock);
  uint64_t begun = fake_now();
  uint64_t *busy = &fake.busy_until[stream % 256];
  if (start_ns == 0) start_ns = begun + lead_ns;
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
  fake_put(&record, sizeof record, *busy);
  if (driver) {
    emit_call(4, 307, begun, fake_now());
  } else {
    emit_call(5, 211, begun, fake_now());
  }
  pthread_mutex_unlock(&fake.lock);
  return correlation;
}

uint32_t fake_launch(const char *name, uint32_t stream, uint64_t start_ns, uint64_t duration_ns, int driver) {
  return launch(name, stream, start_ns, 2000, duration_ns, driver);
}

/* The kernel begins `lead_ns` after its launch, also if the caller is interrupted before the launch. */
uint32_t fake_launch_later(const char *name, uint32_t stream, uint64_t lead_ns, uint64_t duration_ns) {
  return launch(name, stream, 0, lead_ns, duration_ns, 0);
}

/* Add records of a copy and its call. If `waits`, return after the copy's end, as for a copy from pageable memory. */
static uint32_t copy(uint8_t kind, uint64_t bytes, uint32_t stream, uint64_t duration_ns, bool waits) {
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
  uint64_t until = *busy;
  fake_put(&record, sizeof record, until);
  while (waits && fake_now() < until) {
    pthread_mutex_unlock(&fake.lock);
    usleep(20);
    pthread_mutex_lock(&fake.lock);
  }
  emit_call(5, 41, begun, fake_now());
  pthread_mutex_unlock(&fake.lock);
  return correlation;
}

uint32_t fake_copy(uint8_t kind, uint64_t bytes, uint32_t stream, uint64_t duration_ns) {
  return copy(kind, bytes, stream, duration_ns, false);
}

uint32_t fake_copy_and_wait(uint8_t kind, uint64_t bytes, uint32_t stream, uint64_t duration_ns) {
  return copy(kind, bytes, stream, duration_ns, true);
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
  fake_put(&wait, sizeof wait, end);
  pthread_mutex_unlock(&fake.lock);
}

/* Put a record unchanged into a buffer; it has to have the size of its kind. */
void fake_emit(const void *record) {
  pthread_mutex_lock(&fake.lock);
  fake_put(record, fake_size_of(*(const uint32_t *)record), 0);
  pthread_mutex_unlock(&fake.lock);
}

void fake_strange(void) {
  uint32_t strange[STRANGE_BYTES / 4] = {77};
  pthread_mutex_lock(&fake.lock);
  fake_put(strange, sizeof strange, 0);
  pthread_mutex_unlock(&fake.lock);
}

void fake_damage(void) {
  uint32_t nothing[STRANGE_BYTES / 4] = {0};
  pthread_mutex_lock(&fake.lock);
  bool before = fake.enabled[0];
  fake.enabled[0] = true;
  fake_put(nothing, sizeof nothing, 0);
  fake.enabled[0] = before;
  if (fake.current != NULL) fake_retire();
  pthread_mutex_unlock(&fake.lock);
}

void fake_keep(int keeps) { fake.keeps = keeps != 0; }

void fake_count_from(uint32_t correlation) { fake.correlation = correlation - 1; }

/* Return the number of flushes so far. */
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
  thrown_away = memory; /* if several buffers come at once, all but one leak, which is enough for measurements */
}

/* Record calls and kernels and drop the records, until a recorder registers its callbacks. */
void fake_throw_away(void) {
  cuptiActivityRegisterCallbacks(request_any, complete_any);
  cuptiActivityEnable(5);
  cuptiActivityEnable(10);
}

void fake_generate(uint64_t records, uint64_t each_second) {
  uint64_t begun = fake_clock(CLOCK_MONOTONIC);
  for (uint64_t made = 0; made < records; made += 2) {
    if (made % 1024 == 0 && each_second != 0) {
      uint64_t due = begun + made * 1000000000u / each_second;
      while (fake_clock(CLOCK_MONOTONIC) < due) usleep(100);
    }
    fake_launch("a kernel of the generator", 7, 0, 500, 0);
  }
}

uint64_t fake_busy_until(uint32_t stream) { return fake.busy_until[stream % 256]; }
