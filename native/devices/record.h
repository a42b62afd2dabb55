/* Records of devices, in one form for all vendors, and how they are written to the store (device_format.h). */
#ifndef MSP_DEVICES_RECORD_H
#define MSP_DEVICES_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "device_format.h"

typedef struct {
  uint64_t start_ns; /* CLOCK_MONOTONIC_RAW */
  uint64_t end_ns;
  uint64_t amount;      /* meaning by type */
  const char *name;     /* ends with a zero; NULL where there is none */
  const char *detail;   /* likewise */
  uint32_t correlation; /* shared with the call of the host that caused it; wraps */
  uint32_t thread;      /* the operating system's number of the calling thread; 0 where not known */
  uint32_t device, stream, context, graph;
  uint8_t type;   /* MSP_DEVICE_* */
  uint8_t source; /* MSP_DEVICE_SOURCE_* */
  bool placed;    /* it ran on a device: the second slot is written */
} msp_device_record;

/* Write a record with the calling thread's writer; a pause does not refuse it. Returns false when it was refused. */
bool msp_device_write(const msp_device_record *record);

#endif
