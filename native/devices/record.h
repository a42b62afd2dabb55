/* The record of a device in one form for all vendors, and the function that writes a record to the store.
 * device_format.h describes the form in the store. */
#ifndef MSP_DEVICES_RECORD_H
#define MSP_DEVICES_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "device_format.h"

typedef struct {
  uint64_t start_ns; /* CLOCK_MONOTONIC_RAW */
  uint64_t end_ns;
  uint64_t amount;      /* bytes or blocks, by the type; device_format.h has the table */
  const char *name;     /* ends with a zero; NULL if there is none */
  const char *detail;   /* a text as `name` */
  uint32_t correlation; /* the same number as in the record of the host's call that caused this one; wraps */
  uint32_t thread;      /* the operating system's number of the calling thread; 0 if unknown */
  uint32_t device, stream, context, graph;
  uint8_t type;   /* MSP_DEVICE_* */
  uint8_t source; /* MSP_DEVICE_SOURCE_* */
  bool placed;    /* true: write the second slot, which has the place on a device */
} msp_device_record;

/* Write a record with the calling thread's writer, even while recording is paused. Returns false if the record was
 * refused. */
bool msp_device_write(const msp_device_record *record);

#endif
