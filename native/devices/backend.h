/* The adapter between a vendor's tracing interface and tracing.h: one for each interface.
 *
 * No library of a vendor is loaded before `attach`, and none is called in a fork child. Callbacks of an interface come
 * on any thread, the job's own among them, with locks of the vendor's held: they may take and give buffers (buffers.h)
 * and nothing else.
 */
#ifndef MSP_DEVICES_BACKEND_H
#define MSP_DEVICES_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "buffers.h"

/* The reason why something is impossible: one line without a newline. */
typedef struct {
  char text[256];
} msp_reason;

/* The counts of records so far, by outcome. */
typedef struct {
  uint64_t records;    /* written */
  uint64_t refused;    /* not written: a budget, or no disk */
  uint64_t unknown;    /* of a kind that was not requested */
  uint64_t unfinished; /* had no end yet when they had to be taken */
  uint64_t unreadable; /* ends of buffers that make no sense */
  uint64_t lost;       /* thrown away, because too many waited to be read */
  uint64_t dropped;    /* by the interface itself, by its own count */
  uint64_t stopped;    /* times that recording was ended, because buffers did not come back */
} msp_device_counts;

typedef struct {
  /* Return whether the job uses the device's driver; calls only libraries that are loaded already. */
  bool (*ready)(void);
  /* Load the library and attach the interface, without recording yet. Returns an MSP_TRACE_*. */
  int (*attach)(const char *library, msp_reason *why);
  /* Begin to record kinds of MSP_TRACE_*, or stop (0). Returns an MSP_TRACE_*; after a failure nothing is recorded,
   * and otherwise `why` says which kinds are left out. */
  int (*record)(uint32_t kinds, msp_reason *why);
  /* Make the interface return buffers: those with complete records, or (everything) all of them; count dropped
   * records. */
  void (*flush)(bool everything, msp_device_counts *counts);
  /* Read a buffer, and write its records to the store. On one thread. */
  void (*read)(const msp_buffer *buffer, msp_device_counts *counts);
  /* Detach the interface and restore its state. */
  void (*detach)(void);
  /* The uncertainty of the records' clock, ns; 0 if it is ours. */
  uint64_t (*uncertainty)(void);
  uint32_t (*version)(void);
  /* In a fork child: make sure that it can end. NULL if nothing has to be done. */
  void (*after_fork)(void);
} msp_backend;

extern const msp_backend msp_cupti;
extern const msp_backend msp_mspti;

#endif
