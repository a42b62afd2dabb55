/* Declarations for both files of the fake msPTI: records, callbacks, buffers. */
#ifndef FAKE_MSPTI_H
#define FAKE_MSPTI_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD __attribute__((packed, aligned(8)))

typedef void (*request_function)(uint8_t **memory, size_t *size, size_t *most);
typedef void (*complete_function)(uint8_t *memory, size_t size, size_t valid);

typedef struct RECORD {
  uint32_t kind, flag, source;
  uint64_t time, id;
  uint32_t process, thread;
  const char *name, *domain;
} marker_activity;

typedef struct RECORD {
  uint32_t kind;
  uint64_t start, end;
  uint32_t process, thread;
  uint64_t correlation;
  const char *name;
} call_activity;

typedef struct RECORD {
  uint32_t kind;
  uint64_t start, end;
  uint32_t device, stream;
  uint64_t correlation;
  const char *type, *name;
} kernel_activity;

typedef struct RECORD {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, stream;
  uint64_t correlation;
  uint8_t asynchronous;
} copy_activity;

typedef struct RECORD {
  uint32_t kind, operation, memory;
  uint64_t correlation, start, end, address, bytes;
  uint32_t process, device, stream;
} memory_activity;

typedef struct RECORD {
  uint32_t kind, type;
  uint64_t count;
  uint32_t device, stream;
  uint64_t start, end;
  const char *algorithm, *name, *group;
  uint64_t correlation;
} exchange_activity;

typedef struct RECORD {
  uint32_t kind;
  uint64_t start, end;
  uint32_t device, stream;
  double bandwidth;
  const char *name, *group;
} hccl_activity;

_Static_assert(sizeof(marker_activity) == 56 && sizeof(call_activity) == 48, "sizes");
_Static_assert(sizeof(kernel_activity) == 56 && sizeof(copy_activity) == 56, "sizes");
_Static_assert(sizeof(memory_activity) == 64 && sizeof(exchange_activity) == 72, "sizes");
_Static_assert(sizeof(hccl_activity) == 56, "sizes");

enum { SUCCESS = 0, INVALID = 1, OWNED = 2, AT_END = 3, EMPTY = 5, NOT_PRELOADED = 6, INNER = 999 };
enum { MARKER = 1, KERNEL, API, HCCL, MEMORY, MEMSET, MEMCPY, EXTERNAL, COMMUNICATION, KINDS = 13 };

/* The record of work that has not ended on the device, and so is in no buffer yet. */
typedef struct waiting {
  struct waiting *next;
  uint64_t end;
  size_t size;
  uint8_t record[72];
} waiting;

typedef struct {
  pthread_mutex_t lock;
  bool subscribed, keeps;
  int subscriber; /* process that subscribed, or 0 */
  int flushes, handing;
  bool enabled[KINDS];
  request_function request;
  complete_function complete;
  uint64_t correlation;
  int64_t shift; /* ns by which the fake library's clock differs from the wall clock */
  uint64_t dropped;
  uint8_t *current;
  size_t size, used;
  waiting *first, **last;
  uint64_t busy_until[256]; /* end of the last work on each stream */
} fake_state;

extern fake_state fake;

/* Return the time of the fake library's clock: wall-clock time with an offset. */
uint64_t fake_now(void);

/* With the lock held: put a record into a buffer, after the records of all work that the device has ended by now. */
void fake_put(const void *record, size_t size);

/* With the lock held: let the device run a task until `end`; its record goes to a buffer after that time. */
void fake_run(const void *record, size_t size, uint64_t end);

/* Return the size of a kind's records; 0 if there is no such kind. */
size_t fake_size_of(uint32_t kind);

#endif
