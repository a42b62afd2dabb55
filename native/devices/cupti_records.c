#include "cupti_records.h"

#include <stddef.h>

#include "cupti_calls.h"

typedef struct {
  uint32_t kind;
  uint8_t before[12];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3], static_shared, dynamic_shared;
  uint32_t local_thread, local_total, correlation;
  int64_t grid_id;
  const char *name;
  uint8_t between[44];
  uint32_t graph;
} kernel_record;

typedef struct {
  uint32_t kind;
  uint8_t copy, source, destination, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint8_t between[24];
  uint32_t graph;
} copy_record; /* the record of a set has this layout, too, with the set's value in place of the four kinds */

typedef struct {
  uint32_t kind;
  uint8_t copy, source, destination, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, other[4], correlation;
} peer_record;

typedef struct {
  uint32_t kind, number;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
} call_record;

typedef struct {
  uint32_t kind, operation, memory, correlation;
  uint64_t address, bytes, time, counter;
  uint32_t process, device, context, stream;
} memory_record;

typedef struct {
  uint32_t kind, what, object, identity[3];
  uint64_t start, end;
} overhead_record;

typedef struct {
  uint32_t kind, what;
  uint64_t start, end;
  uint32_t correlation, context, stream, event;
} wait_record;

typedef struct {
  uint32_t kind, correlation;
  uint64_t start, end;
  uint32_t device, graph, context, stream;
} graph_record;

/* Check the offsets of fields. They are the same in all versions from CUPTI 11.8 to 13.5, compiled from their
 * headers. */
_Static_assert(offsetof(kernel_record, start) == 16 && offsetof(kernel_record, device) == 40, "kernel");
_Static_assert(offsetof(kernel_record, grid) == 52 && offsetof(kernel_record, correlation) == 92, "kernel");
_Static_assert(offsetof(kernel_record, name) == 104 && offsetof(kernel_record, graph) == 156, "kernel");
_Static_assert(offsetof(copy_record, start) == 16 && offsetof(copy_record, correlation) == 44, "copy");
_Static_assert(offsetof(copy_record, graph) == 72 && offsetof(peer_record, correlation) == 60, "copy");
_Static_assert(offsetof(call_record, process) == 24 && offsetof(call_record, correlation) == 32, "call");
_Static_assert(offsetof(memory_record, time) == 32 && offsetof(memory_record, device) == 52, "memory");
_Static_assert(offsetof(overhead_record, start) == 24, "overhead");
_Static_assert(offsetof(wait_record, correlation) == 24 && offsetof(wait_record, stream) == 32, "wait");
_Static_assert(offsetof(graph_record, device) == 24 && offsetof(graph_record, stream) == 36, "graph");

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* texts for the numbers of CUPTI's enumerations */
static const char *const copies[] = {NULL,   "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                     "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
static const char *const waits[] = {"synchronize", "event synchronize", "stream waits for event", "stream synchronize",
                                    "context synchronize"};
static const char *const memories[] = {
    "memory",       "pageable memory", "pinned memory",        "device memory",
    "array memory", "managed memory",  "static device memory", "static managed memory"};
static const char *const operations[] = {NULL, "allocate", "release"};
/* texts for the high half of an overhead's number; the low half is the number of a compiler */
static const char *const overheads[] = {
    "driver compiler",    "buffer flush",        "instrumentation",         "resource",      "module load",
    "lazy function load", "command buffer full", "activity buffer request", "unified memory"};

static const char *entry(const char *const *table, size_t count, uint32_t number) {
  return number < count ? table[number] : NULL;
}

static cupti_outcome timed(msp_device_record *record, uint64_t start, uint64_t end) {
  record->start_ns = start;
  record->end_ns = end;
  return start != 0 && end >= start ? CUPTI_TAKEN : CUPTI_UNFINISHED;
}

static void place(msp_device_record *record, uint32_t device, uint32_t stream, uint32_t context, uint32_t graph) {
  record->placed = true;
  record->device = device;
  record->stream = stream;
  record->context = context;
  record->graph = graph;
}

static cupti_outcome of_kernel(const kernel_record *from, msp_device_record *record) {
  record->type = MSP_DEVICE_KERNEL;
  record->name = from->name;
  record->correlation = from->correlation;
  record->amount = (uint64_t)(uint32_t)from->grid[0] * (uint32_t)from->grid[1] * (uint32_t)from->grid[2];
  place(record, from->device, from->stream, from->context, from->graph);
  return timed(record, from->start, from->end);
}

static cupti_outcome of_copy(const copy_record *from, msp_device_record *record) {
  bool sets = from->kind == CUPTI_MEMSET;
  record->type = sets ? MSP_DEVICE_SET : MSP_DEVICE_COPY;
  record->name = sets ? "Memset" : "Memcpy";
  record->detail = sets ? NULL : entry(copies, COUNT(copies), from->copy);
  record->correlation = from->correlation;
  record->amount = from->bytes;
  place(record, from->device, from->stream, from->context, from->graph);
  return timed(record, from->start, from->end);
}

static cupti_outcome of_peer(const peer_record *from, msp_device_record *record) {
  record->type = MSP_DEVICE_COPY;
  record->name = "Memcpy";
  record->detail = entry(copies, COUNT(copies), from->copy);
  record->correlation = from->correlation;
  record->amount = from->bytes;
  place(record, from->device, from->stream, from->context, 0);
  return timed(record, from->start, from->end);
}

static cupti_outcome of_call(const call_record *from, cupti_call_name name, msp_device_record *record) {
  bool driver = from->kind == CUPTI_DRIVER;
  record->type = MSP_DEVICE_API;
  record->name = name(driver ? CUPTI_DOMAIN_DRIVER : CUPTI_DOMAIN_RUNTIME, from->number);
  if (record->name == NULL) record->name = driver ? "call of the driver" : "call of the runtime";
  record->correlation = from->correlation;
  record->thread = from->thread;
  return timed(record, from->start, from->end);
}

static cupti_outcome of_memory(const memory_record *from, msp_device_record *record) {
  record->type = MSP_DEVICE_MEMORY;
  record->name = entry(memories, COUNT(memories), from->memory);
  record->detail = entry(operations, COUNT(operations), from->operation);
  record->correlation = from->correlation;
  record->amount = from->bytes;
  place(record, from->device, from->stream, from->context, 0);
  return timed(record, from->time, from->time);
}

static cupti_outcome of_overhead(const overhead_record *from, msp_device_record *record) {
  record->type = MSP_DEVICE_OVERHEAD;
  record->name = entry(overheads, COUNT(overheads), from->what >> 16);
  return timed(record, from->start, from->end);
}

static cupti_outcome of_wait(const wait_record *from, msp_device_record *record) {
  record->type = MSP_DEVICE_SYNC;
  record->name = entry(waits, COUNT(waits), from->what);
  record->correlation = from->correlation;
  place(record, 0, from->stream, from->context, 0);
  return timed(record, from->start, from->end);
}

static cupti_outcome of_graph(const graph_record *from, msp_device_record *record) {
  record->type = MSP_DEVICE_GRAPH;
  record->name = "CUDA graph";
  record->correlation = from->correlation;
  place(record, from->device, from->stream, from->context, from->graph);
  return timed(record, from->start, from->end);
}

cupti_outcome cupti_describe(const void *activity, cupti_call_name name, msp_device_record *record) {
  *record = (msp_device_record){.source = MSP_DEVICE_SOURCE_CUPTI};
  switch (*(const uint32_t *)activity) {
    case CUPTI_KERNEL:
    case CUPTI_CONCURRENT_KERNEL:
      return of_kernel(activity, record);
    case CUPTI_MEMCPY:
    case CUPTI_MEMSET:
      return of_copy(activity, record);
    case CUPTI_MEMCPY_PEER:
      return of_peer(activity, record);
    case CUPTI_DRIVER:
    case CUPTI_RUNTIME:
      return of_call(activity, name, record);
    case CUPTI_MEMORY:
      return of_memory(activity, record);
    case CUPTI_OVERHEAD:
      return of_overhead(activity, record);
    case CUPTI_SYNCHRONIZATION:
      return of_wait(activity, record);
    case CUPTI_GRAPH_TRACE:
      return of_graph(activity, record);
    default:
      return CUPTI_UNKNOWN;
  }
}

bool cupti_left_out(const void *activity) {
  const call_record *call = activity;
  if (call->kind == CUPTI_DRIVER) return !cupti_launches(call->number);
  return call->kind == CUPTI_RUNTIME && cupti_asks(call->number);
}
