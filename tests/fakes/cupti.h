/* Records and callbacks of the fake CUPTI. */
#ifndef FAKE_CUPTI_H
#define FAKE_CUPTI_H

#include <stddef.h>
#include <stdint.h>

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

#endif
