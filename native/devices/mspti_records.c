#include "mspti_records.h"

#include <stddef.h>

#define PACKED __attribute__((packed))
/* Largest time by which a record may seem to end before it begins. msPTI reads the clocks every seven seconds, and
 * converts times of host and device to the wall clock by these readings. When a reading falls between the begin and the
 * end of a record, the end may get an earlier time than the begin. */
#define BACKWARDS_NS 1000000u

typedef struct PACKED {
  uint32_t kind, flag, source;
  uint64_t time, id;
  uint32_t process_or_device, thread_or_stream;
  const char *name, *domain;
} marker_record;

typedef struct PACKED {
  uint32_t kind;
  uint64_t start, end;
  uint32_t process, thread;
  uint64_t correlation;
  const char *name;
} call_record;

typedef struct PACKED {
  uint32_t kind;
  uint64_t start, end;
  uint32_t device, stream;
  uint64_t correlation;
  const char *type, *name;
} kernel_record;

typedef struct PACKED {
  uint32_t kind;
  uint64_t start, end;
  uint32_t device, stream;
  double bandwidth;
  const char *name, *group;
} hccl_record;

typedef struct PACKED {
  uint32_t kind, operation, memory;
  uint64_t correlation, start, end, address, bytes;
  uint32_t process, device, stream;
} memory_record;

typedef struct PACKED {
  uint32_t kind, copy;
  uint64_t bytes, start, end;
  uint32_t device, stream;
  uint64_t correlation;
  uint8_t asynchronous;
} copy_record; /* the record of a set has this layout, too, with the set's value in place of the kind of copy */

typedef struct PACKED {
  uint32_t kind, type;
  uint64_t count;
  uint32_t device, stream;
  uint64_t start, end;
  const char *algorithm, *name, *group;
  uint64_t correlation;
} exchange_record;

/* Check the offsets of fields, as compiled from msPTI's header. */
_Static_assert(offsetof(marker_record, time) == 12 && offsetof(marker_record, id) == 20, "marker");
_Static_assert(offsetof(marker_record, name) == 36 && offsetof(marker_record, domain) == 44, "marker");
_Static_assert(offsetof(call_record, thread) == 24 && offsetof(call_record, correlation) == 28, "call");
_Static_assert(offsetof(call_record, name) == 36 && offsetof(kernel_record, device) == 20, "call, kernel");
_Static_assert(offsetof(kernel_record, type) == 36 && offsetof(kernel_record, name) == 44, "kernel");
_Static_assert(offsetof(hccl_record, name) == 36 && offsetof(hccl_record, group) == 44, "HCCL");
_Static_assert(offsetof(memory_record, correlation) == 12 && offsetof(memory_record, bytes) == 44, "memory");
_Static_assert(offsetof(memory_record, device) == 56 && offsetof(memory_record, stream) == 60, "memory");
_Static_assert(offsetof(copy_record, start) == 16 && offsetof(copy_record, correlation) == 40, "copy");
_Static_assert(offsetof(exchange_record, start) == 24 && offsetof(exchange_record, name) == 48, "exchange");
_Static_assert(offsetof(exchange_record, group) == 56 && offsetof(exchange_record, correlation) == 64, "exchange");

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* tables of lengths and texts for the numbers of msPTI's enumerations */
static const uint8_t sizes[] = {0, 56, 56, 48, 56, 64, 56, 56, 24, 72, 48, 48, 48};
static const char *const copies[] = {NULL, "HtoH", "HtoD", "DtoH", "DtoD", NULL};
static const char *const memories[] = {"memory", "device memory"};
static const char *const operations[] = {"allocate", "release"};
static const uint8_t element_bytes[] = {1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2, 16, 0, 1, 1, 1, 1};

/* Flags of markers, in pairs. The first flag of a pair is for a marker of the host only. The second flag is for a
 * marker on a stream: the host reports this marker, and later the stream reports it again. */
enum { AT_ONCE = 1 | 8, BEGIN = 2 | 16, END = 4 | 32, ON_STREAM = 8 | 16 | 32 };
enum { HOST = 0, DEVICE = 1 };

static const char *entry(const char *const *table, size_t count, uint32_t number) {
  return number < count ? table[number] : NULL;
}

static mspti_outcome timed(msp_device_record *record, uint64_t start, uint64_t end) {
  if (end < start && end != 0 && start - end <= BACKWARDS_NS) end = start;
  record->start_ns = start;
  record->end_ns = end;
  return start != 0 && end >= start ? MSPTI_TAKEN : MSPTI_UNFINISHED;
}

static void place(msp_device_record *record, uint32_t device, uint32_t stream) {
  record->placed = true;
  record->device = device;
  record->stream = stream;
}

static mspti_outcome of_kernel(const kernel_record *from, msp_device_record *record) {
  record->type = MSP_DEVICE_KERNEL;
  record->name = from->name;
  record->detail = from->type;
  record->correlation = (uint32_t)from->correlation;
  place(record, from->device, from->stream);
  return timed(record, from->start, from->end);
}

static mspti_outcome of_call(const call_record *from, msp_device_record *record) {
  record->type = MSP_DEVICE_API;
  record->name = from->name != NULL ? from->name : "call without a name";
  record->correlation = (uint32_t)from->correlation;
  record->thread = from->thread;
  return timed(record, from->start, from->end);
}

static mspti_outcome of_exchange(const exchange_record *from, msp_device_record *record) {
  record->type = MSP_DEVICE_COMMUNICATION;
  record->name = from->name;
  record->detail = from->group;
  record->correlation = (uint32_t)from->correlation;
  record->amount = from->type < COUNT(element_bytes) ? from->count * element_bytes[from->type] : 0;
  place(record, from->device, from->stream);
  return timed(record, from->start, from->end);
}

static mspti_outcome of_hccl(const hccl_record *from, msp_device_record *record) {
  record->type = MSP_DEVICE_COMMUNICATION;
  record->name = from->name;
  record->detail = from->group;
  place(record, from->device, from->stream);
  return timed(record, from->start, from->end);
}

static mspti_outcome of_memory(const memory_record *from, msp_device_record *record) {
  const char *kind = entry(memories, COUNT(memories), from->memory);
  record->type = MSP_DEVICE_MEMORY;
  record->name = kind != NULL ? kind : memories[0];
  record->detail = entry(operations, COUNT(operations), from->operation);
  record->correlation = (uint32_t)from->correlation;
  record->amount = from->bytes;
  place(record, from->device, from->stream);
  return timed(record, from->start, from->end);
}

static mspti_outcome of_copy(const copy_record *from, msp_device_record *record) {
  bool sets = from->kind == MSPTI_MEMSET;
  record->type = sets ? MSP_DEVICE_SET : MSP_DEVICE_COPY;
  record->name = sets ? "Memset" : "Memcpy";
  record->detail = sets ? NULL : entry(copies, COUNT(copies), from->copy);
  record->correlation = (uint32_t)from->correlation;
  record->amount = from->bytes;
  place(record, from->device, from->stream);
  return timed(record, from->start, from->end);
}

static mspti_outcome of_marker(const marker_record *from, msp_device_record *record) {
  record->type = MSP_DEVICE_MARKER;
  record->name = from->name;
  record->detail = from->domain;
  record->correlation = (uint32_t)from->id;
  /* a marker always has a second slot, which holds the domain */
  bool on_device = from->source == DEVICE;
  place(record, on_device ? from->process_or_device : 0, on_device ? from->thread_or_stream : 0);
  record->thread = on_device ? 0 : from->thread_or_stream;
  if (timed(record, from->time, from->time) != MSPTI_TAKEN) return MSPTI_UNFINISHED;
  if (from->flag & AT_ONCE) return MSPTI_TAKEN;
  return from->flag & BEGIN ? MSPTI_BEGINS : from->flag & END ? MSPTI_ENDS : MSPTI_UNASKED;
}

bool mspti_marks_stream(const void *activity) {
  const marker_record *from = activity;
  return from->kind == MSPTI_MARKER && from->source == HOST && from->flag & ON_STREAM && !(from->flag & END);
}

size_t mspti_size_of(uint32_t kind) { return kind < COUNT(sizes) ? sizes[kind] : 0; }

mspti_outcome mspti_describe(const void *activity, msp_device_record *record) {
  *record = (msp_device_record){.source = MSP_DEVICE_SOURCE_MSPTI};
  switch (*(const uint32_t *)activity) {
    case MSPTI_MARKER:
      return of_marker(activity, record);
    case MSPTI_KERNEL:
      return of_kernel(activity, record);
    case MSPTI_API:
      return of_call(activity, record);
    case MSPTI_HCCL:
      return of_hccl(activity, record);
    case MSPTI_MEMORY:
      return of_memory(activity, record);
    case MSPTI_MEMSET:
    case MSPTI_MEMCPY:
      return of_copy(activity, record);
    case MSPTI_COMMUNICATION:
      return of_exchange(activity, record);
    default:
      return MSPTI_UNASKED;
  }
}
