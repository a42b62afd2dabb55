#include "buffers.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "thread.h"

static struct {
  pthread_mutex_t lock; /* held for a few instructions at a time */
  pthread_cond_t wake;  /* waits on CLOCK_MONOTONIC */
  bool has_wake;
  bool woken;
  bool refusable;
  uint32_t most;    /* largest number of buffers at a time, without scratch buffers */
  uint32_t made;    /* number of buffers, without scratch buffers */
  uint32_t scratch; /* number of scratch buffers */
  msp_buffer *empty;
  msp_buffer *out; /* buffers that the interface has */
  msp_buffer *complete, **last;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .last = &pool.complete};

static void destroy(msp_buffer *buffer) {
  if (buffer == NULL) return;
  if (buffer->memory != NULL) munmap(buffer->memory, buffer->size);
  free(buffer);
}

static msp_buffer *make(size_t size, bool scratch) {
  msp_buffer *buffer = calloc(1, sizeof *buffer);
  if (buffer == NULL) return NULL;
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    free(buffer);
    return NULL;
  }
  buffer->memory = memory;
  buffer->size = size;
  buffer->scratch = scratch;
  return buffer;
}

void msp_buffers_open(bool refusable, uint64_t memory) {
  pthread_mutex_lock(&pool.lock);
  if (!pool.has_wake) {
    pool.has_wake = true;
    msp_condition_init(&pool.wake);
  }
  pool.refusable = refusable;
  uint64_t most = memory / MSP_BUFFER_BYTES;
  pool.most = most < MSP_BUFFERS_LEAST  ? MSP_BUFFERS_LEAST
              : most < MSP_BUFFERS_MOST ? (uint32_t)most
                                        : MSP_BUFFERS_MOST;
  pthread_mutex_unlock(&pool.lock);
}

uint8_t *msp_buffers_request(size_t *size) {
  pthread_mutex_lock(&pool.lock);
  msp_buffer *buffer = pool.empty;
  if (buffer != NULL) {
    pool.empty = buffer->next;
  } else if (pool.made < pool.most) {
    buffer = make(MSP_BUFFER_BYTES, false);
    pool.made += buffer != NULL;
  } else if (!pool.refusable) {
    buffer = make(MSP_SCRATCH_BYTES, true);
    pool.scratch += buffer != NULL;
    if (pool.scratch == MSP_SCRATCH_MOST && pool.has_wake) {
      pool.woken = true;
      pthread_cond_signal(&pool.wake);
    }
  }
  if (buffer != NULL) {
    buffer->next = pool.out;
    pool.out = buffer;
  }
  pthread_mutex_unlock(&pool.lock);
  *size = buffer != NULL ? buffer->size : 0;
  return buffer != NULL ? buffer->memory : NULL;
}

void msp_buffers_complete(uint8_t *memory, size_t valid) {
  pthread_mutex_lock(&pool.lock);
  msp_buffer **link = &pool.out;
  while (*link != NULL && (*link)->memory != memory) link = &(*link)->next;
  msp_buffer *buffer = *link;
  if (buffer != NULL) {
    *link = buffer->next;
    buffer->next = NULL;
    buffer->valid = valid < buffer->size ? valid : buffer->size;
    *pool.last = buffer;
    pool.last = &buffer->next;
    if (pool.has_wake) pthread_cond_signal(&pool.wake);
  }
  pthread_mutex_unlock(&pool.lock);
}

msp_buffer *msp_buffers_take(void) {
  pthread_mutex_lock(&pool.lock);
  msp_buffer *buffer = pool.complete;
  if (buffer != NULL) {
    pool.complete = buffer->next;
    if (pool.complete == NULL) pool.last = &pool.complete;
    buffer->next = NULL;
  }
  pthread_mutex_unlock(&pool.lock);
  return buffer;
}

void msp_buffers_return(msp_buffer *buffer) {
  pthread_mutex_lock(&pool.lock);
  if (buffer->scratch) {
    --pool.scratch;
  } else {
    buffer->next = pool.empty;
    pool.empty = buffer;
  }
  pthread_mutex_unlock(&pool.lock);
  if (buffer->scratch) destroy(buffer);
}

void msp_buffers_wait(uint64_t until_ns) {
  const struct timespec when = msp_deadline(until_ns);
  pthread_mutex_lock(&pool.lock);
  int waited = 0;
  while (!pool.woken && pool.complete == NULL && waited == 0) {
    waited = pthread_cond_timedwait(&pool.wake, &pool.lock, &when);
  }
  pool.woken = false;
  pthread_mutex_unlock(&pool.lock);
}

void msp_buffers_wake(void) {
  pthread_mutex_lock(&pool.lock);
  pool.woken = true;
  if (pool.has_wake) pthread_cond_signal(&pool.wake);
  pthread_mutex_unlock(&pool.lock);
}

bool msp_buffers_any_out(void) {
  pthread_mutex_lock(&pool.lock);
  bool any = pool.out != NULL;
  pthread_mutex_unlock(&pool.lock);
  return any;
}

bool msp_buffers_overrun(void) {
  pthread_mutex_lock(&pool.lock);
  bool overrun = pool.scratch >= MSP_SCRATCH_MOST;
  pthread_mutex_unlock(&pool.lock);
  return overrun;
}

void msp_buffers_close(void) {
  pthread_mutex_lock(&pool.lock);
  while (pool.empty != NULL) {
    msp_buffer *buffer = pool.empty;
    pool.empty = buffer->next;
    destroy(buffer);
    --pool.made;
  }
  pthread_mutex_unlock(&pool.lock);
}

void msp_buffers_after_fork(void) {
  pthread_mutex_init(&pool.lock, NULL);
  pool.has_wake = false;
  pool.empty = pool.out = pool.complete = NULL;
  pool.last = &pool.complete;
  pool.made = pool.scratch = 0;
}
