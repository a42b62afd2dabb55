/* The set of functions through which tracing.h uses the tracing interface of one vendor. Each vendor's interface has
 * such a set.
 *
 * No library of a vendor is loaded before `attach`, and none is called in a fork child. An interface may call our
 * callbacks on any thread, also on threads of the job, while it holds locks of its own. So our callbacks do very
 * little: they only give out empty buffers and take full ones (buffers.h).
 */
#ifndef MSP_DEVICES_BACKEND_H
#define MSP_DEVICES_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "buffers.h"

/* Room for a reason why something is impossible: one line of text without a newline. */
typedef struct {
  char text[256];
} msp_reason;

/* How many records of a device were written or lost so far, by reason. */
typedef struct {
  uint64_t records;    /* written records */
  uint64_t refused;    /* records that a budget or a full disk refused */
  uint64_t unknown;    /* records of a kind that was not requested */
  uint64_t unfinished; /* records without an end when they had to be read */
  uint64_t unreadable; /* buffers with an invalid end */
  uint64_t lost;       /* records that were deleted because too many waited to be read */
  uint64_t dropped;    /* records that the interface itself dropped, as it reports */
  uint64_t stopped;    /* number of times that recording was stopped because the interface did not return buffers */
} msp_device_counts;

typedef struct {
  /* Return whether the job uses the device's driver; calls only libraries that are loaded already. */
  bool (*ready)(void);
  /* Load the library and attach the interface, without recording yet. Returns an outcome such as MSP_TRACE_DONE. */
  int (*attach)(const char *library, msp_reason *why);
  /* Begin to record these kinds of records (MSP_TRACE_BASIC and others), or stop recording (0). Returns an outcome,
   * MSP_TRACE_DONE or another one. After a failure, nothing is recorded. After success, `why` names the kinds that the
   * interface refuses. */
  int (*record)(uint32_t kinds, msp_reason *why);
  /* Make the interface return the buffers whose records are complete, or with `everything` all buffers. Also count the
   * records that the interface has dropped. */
  void (*flush)(bool everything, msp_device_counts *counts);
  /* Read a buffer, and write its records to the store. Called on one thread only. */
  void (*read)(const msp_buffer *buffer, msp_device_counts *counts);
  /* Detach the interface and restore its state. */
  void (*detach)(void);
  /* Return the uncertainty of the records' times in ns; 0 if the interface reads CLOCK_MONOTONIC_RAW. */
  uint64_t (*uncertainty)(void);
  uint32_t (*version)(void);
  /* Called in a fork child, so that the child can end in spite of the vendor's library. NULL if nothing has to be
   * done. */
  void (*after_fork)(void);
} msp_backend;

extern const msp_backend msp_cupti;
extern const msp_backend msp_mspti;

#endif
