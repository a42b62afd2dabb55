/* Functions of the fake msPTI that a program calls in place of CANN: launches, exchanges, markers and others. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mspti.h"

static uint32_t thread_id(void) { return (uint32_t)syscall(SYS_gettid); }

/* With the lock held: add a record of a call on the host. */
static void emit_call(const char *name, uint64_t start, uint64_t end) {
  call_activity call = {API, start, end, (uint32_t)getpid(), thread_id(), fake.correlation, name};
  fake_put(&call, sizeof call);
}

/* With the lock held: occupy a stream with a task, and return when the task begins. */
static uint64_t begin(uint32_t stream, uint64_t start_ns, uint64_t duration_ns) {
  uint64_t *busy = &fake.busy_until[stream % 256];
  if (start_ns == 0) start_ns = fake_now() + 2000;
  if (start_ns < *busy) start_ns = *busy;
  *busy = start_ns + duration_ns;
  return start_ns;
}

uint64_t fake_kernel(const char *name, const char *type, uint32_t stream, uint64_t start_ns, uint64_t duration_ns) {
  pthread_mutex_lock(&fake.lock);
  uint64_t begun = fake_now();
  uint64_t start = begin(stream, start_ns, duration_ns);
  kernel_activity kernel = {KERNEL, start, start + duration_ns, 0, stream, ++fake.correlation, type, name};
  fake_run(&kernel, sizeof kernel, kernel.end);
  emit_call("LaunchKernel", begun, fake_now());
  uint64_t correlation = fake.correlation;
  pthread_mutex_unlock(&fake.lock);
  return correlation;
}

void fake_exchange(const char *name, const char *group, uint64_t count, uint32_t stream, uint64_t start_ns,
                   uint64_t duration_ns) {
  pthread_mutex_lock(&fake.lock);
  uint64_t begun = fake_now();
  uint64_t start = begin(stream, start_ns, duration_ns);
  if (fake.enabled[HCCL]) {
    hccl_activity exchange = {HCCL, start, start + duration_ns, 0, stream, 12.5, name, group};
    fake_run(&exchange, sizeof exchange, exchange.end);
  } else {
    exchange_activity exchange = {
        COMMUNICATION, 4, count, 0, stream, start, start + duration_ns, "RING", name, group, ++fake.correlation};
    fake_run(&exchange, sizeof exchange, exchange.end);
  }
  emit_call("HcclAllReduce", begun, fake_now());
  pthread_mutex_unlock(&fake.lock);
}

void fake_copy(uint32_t direction, uint64_t bytes, uint32_t stream, uint64_t duration_ns) {
  pthread_mutex_lock(&fake.lock);
  uint64_t begun = fake_now();
  uint64_t start = begin(stream, 0, duration_ns);
  copy_activity copy = {MEMCPY, direction, bytes, start, start + duration_ns, 0, stream, ++fake.correlation, 1};
  fake_run(&copy, sizeof copy, copy.end);
  copy_activity set = {MEMSET, 0, bytes, start, start + duration_ns, 0, stream, fake.correlation, 1};
  fake_run(&set, sizeof set, set.end);
  memory_activity memory = {MEMORY, 0,         1, fake.correlation, begun, fake_now(), 4096, bytes, (uint32_t)getpid(),
                            0,      UINT32_MAX};
  fake_put(&memory, sizeof memory);
  emit_call("MemcpyAsync", begun, fake_now());
  pthread_mutex_unlock(&fake.lock);
}

/* Add a marker of a moment (1), a begin (2) or an end (4). Unless `stream` is negative, also add a marker of the
 * stream, later and without names. */
void fake_marker(uint32_t flag, uint64_t id, const char *name, const char *domain, int stream) {
  pthread_mutex_lock(&fake.lock);
  if (stream >= 0) flag <<= 3;
  marker_activity marker = {MARKER, flag, 0, fake_now(), id, (uint32_t)getpid(), thread_id(), name, domain};
  fake_put(&marker, sizeof marker);
  if (stream >= 0) {
    marker_activity later = {MARKER, flag, 1, fake_now() + 2000, id, 0, (uint32_t)stream, "", ""};
    fake_run(&later, sizeof later, later.time);
  }
  pthread_mutex_unlock(&fake.lock);
}

/* Wait until all launched work has ended, like aclrtSynchronizeDevice. */
void fake_synchronize(void) {
  uint64_t until = 0;
  pthread_mutex_lock(&fake.lock);
  for (int stream = 0; stream < 256; ++stream) {
    if (fake.busy_until[stream] > until) until = fake.busy_until[stream];
  }
  pthread_mutex_unlock(&fake.lock);
  while (fake_now() <= until) usleep(20);
}

/* Wait like `fake_synchronize`, and add a record of this call. */
void fake_wait(void) {
  uint64_t begun = fake_now();
  fake_synchronize();
  pthread_mutex_lock(&fake.lock);
  ++fake.correlation;
  emit_call("StreamSynchronize", begun, fake_now());
  pthread_mutex_unlock(&fake.lock);
}

/* Put a record's bytes unchanged into a buffer. */
void fake_emit(const void *record, size_t size) {
  pthread_mutex_lock(&fake.lock);
  fake_put(record, size);
  pthread_mutex_unlock(&fake.lock);
}

/* Request a buffer and give it back empty. */
void fake_return_empty(void) {
  uint8_t *memory = NULL;
  size_t size = 0, most = 0;
  fake.request(&memory, &size, &most);
  if (memory != NULL) fake.complete(memory, size, 0);
}

/* From now on keep the current buffer, even in a flush; with 0, give it back, on the thread that calls this. */
void fake_keep(int keeps) {
  pthread_mutex_lock(&fake.lock);
  fake.keeps = keeps != 0;
  uint8_t *memory = fake.current;
  if (!keeps && memory != NULL) {
    fake.current = NULL;
    fake.complete(memory, fake.size, fake.used);
  }
  pthread_mutex_unlock(&fake.lock);
}

/* Wait until all full buffers have been given back. */
void fake_settle(void) {
  for (;;) {
    pthread_mutex_lock(&fake.lock);
    int handing = fake.handing;
    pthread_mutex_unlock(&fake.lock);
    if (handing == 0) return;
    usleep(100);
  }
}

/* Let the fake library's clock jump. */
void fake_jump(int64_t nanoseconds) {
  pthread_mutex_lock(&fake.lock);
  fake.shift += nanoseconds;
  pthread_mutex_unlock(&fake.lock);
}

void fake_count_from(uint64_t correlation) { fake.correlation = correlation - 1; }

int fake_flushes(void) {
  pthread_mutex_lock(&fake.lock);
  int flushes = fake.flushes;
  pthread_mutex_unlock(&fake.lock);
  return flushes;
}

uint64_t fake_dropped(void) { return fake.dropped; }

int fake_is_subscribed(void) { return fake.subscribed; }

void fake_somebody_subscribes(int subscribes) { fake.subscribed = subscribes != 0; }

uint64_t fake_busy_until(uint32_t stream) { return fake.busy_until[stream % 256]; }
