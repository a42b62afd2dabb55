/* Declarations for both files of the fake CUPTI: records, callbacks, buffers. */
#ifndef FAKE_CUPTI_H
#define FAKE_CUPTI_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef void (*request_function)(uint8_t **memory, size_t *size, size_t *most);
typedef void (*complete_function)(void *context, uint32_t stream, uint8_t *memory, size_t size, size_t valid);
typedef uint64_t (*clock_function)(void);

typedef struct {
  uint32_t kind;
  uint8_t configuration[12];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3], shared[2];
  uint32_t local[2], correlation;
  int64_t grid_id;
  const char *name;
} kernel_activity;

typedef struct {
  uint32_t kind;
  uint8_t copy, source, destination, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
} copy_activity;

typedef struct {
  uint32_t kind, number;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
} call_activity;

typedef struct {
  uint32_t kind, what;
  uint64_t start, end;
  uint32_t correlation, context, stream, event, more[4];
} wait_activity;

enum { SUCCESS = 0, INVALID_KIND = 21, AT_END = 12, NOT_INITIALIZED = 15, OWNED = 39, UNKNOWN = 999 };
enum {
  KINDS = 64,
  CALLS = 1024,
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
  uint64_t ready_ns; /* when the work of all its records has ended */
} buffer;

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t work;
  pthread_t worker;
  bool works, subscribed, threads_by_system;
  int flushes;
  bool keeps; /* buffers are kept until a program has them given back */
  bool enabled[KINDS];
  bool driver_on[CALLS], runtime_off[CALLS]; /* by the number of the call */
  request_function request;
  complete_function complete;
  clock_function clock;
  uint32_t correlation;
  size_t dropped;
  buffer *current;
  buffer *full, **last;
  uint64_t busy_until[256]; /* end of the last work on each stream */
} fake_state;

extern fake_state fake;

uint64_t fake_clock(clockid_t clock);

/* Return the time of the recorder's clock if there is one, else of the wall clock. */
uint64_t fake_now(void);

/* With the lock held: put a record into a buffer, which is not given back before `ready_ns` except by force. */
void fake_put(const void *record, size_t size, uint64_t ready_ns);

/* With the lock held: append the current buffer to the full ones. */
void fake_retire(void);

/* Return the size of a kind's records; 0 if there is no such kind. */
size_t fake_size_of(uint32_t kind);

#endif
