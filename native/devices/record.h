/* Records of devices in one form for all vendors, and the function that writes them to the store (device_format.h). */
#ifndef MSP_DEVICES_RECORD_H
#define MSP_DEVICES_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "device_format.h"

typedef struct {
  uint64_t start_ns; /* CLOCK_MONOTONIC_RAW */
  uint64_t end_ns;
  uint64_t amount;      /* its meaning depends on the type */
  const char *name;     /* ends with a zero; NULL if there is none */
  const char *detail;   /* a text as `name` */
  uint32_t correlation; /* the same number as in the record of the host's call that caused this one; wraps */
  uint32_t thread;      /* the operating system's number of the calling thread; 0 if unknown */
  uint32_t device, stream, context, graph;
  uint8_t type;   /* MSP_DEVICE_* */
  uint8_t source; /* MSP_DEVICE_SOURCE_* */
  bool placed;    /* whether the second slot is written, with the place on a device */
} msp_device_record;

/* Write a record with the calling thread's writer, also during a pause. Returns false if it was refused. */
bool msp_device_write(const msp_device_record *record);

#endif
