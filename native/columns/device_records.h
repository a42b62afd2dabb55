/* Decode an accelerator's records in a store into columns. Does not use Python's API. */
#ifndef MSP_DEVICE_RECORDS_H
#define MSP_DEVICE_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "slots.h"

/* Calls of the driver or runtime on the host. */
typedef struct {
  int64_t *start_ns, *end_ns;
  uint32_t *name, *correlation, *native_tid;
} msp_device_calls;

typedef struct {
  int64_t *start_ns, *end_ns;
  uint64_t *amount;
  uint32_t *name, *detail, *correlation, *device, *stream, *context, *graph;
  uint32_t *native_tid;   /* NULL if it is not needed */
  uint8_t *type, *source; /* MSP_DEVICE_*, MSP_DEVICE_SOURCE_* */
} msp_device_rows;

/* For each kind of device record: the number of records, or the next free row of its columns. */
typedef struct {
  size_t calls, ran, others;
} msp_device_counts;

/* Count the device records of each kind among `count` slots of a store, and add the numbers to `of`. */
void msp_device_count(const char *slots, size_t count, msp_device_counts *of);

/* Fill the columns with the device records among `count` slots of a store: `calls` of the driver, tasks that compute or
 * exchange data (`ran`), and all `others`. `wanted` says how to convert names and times; its bounds are ignored. A
 * record may have two slots. If the second slot is missing, its fields are 0. A second slot without a first one is
 * ignored. */
void msp_device_read(const char *slots, size_t count, const msp_wanted *wanted, const msp_device_calls *calls,
                     const msp_device_rows *ran, const msp_device_rows *others, msp_device_counts *at);

#endif
