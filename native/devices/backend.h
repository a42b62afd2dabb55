/* What stands between a vendor's tracing interface and tracing.h: one of these for each interface.
 *
 * Nothing of a vendor's is loaded before `attach`, and nothing of it is called in a fork child. Callbacks of an
 * interface come on any thread, the job's own among them, with locks of the vendor's held: they may take and give
 * buffers (buffers.h) and nothing else.
 */
#ifndef MSP_DEVICES_BACKEND_H
#define MSP_DEVICES_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "buffers.h"

/* Why something cannot be: one line without its end. */
typedef struct {
  char text[256];
} msp_reason;

/* What became of the records so far. */
typedef struct {
  uint64_t records;    /* written */
  uint64_t refused;    /* not written: a budget, or no disk */
  uint64_t unknown;    /* of a kind that nobody asked for */
  uint64_t unfinished; /* had no end yet when they had to be taken */
  uint64_t unreadable; /* ends of buffers that make no sense */
  uint64_t lost;       /* thrown away, because too many waited to be read */
  uint64_t dropped;    /* by the interface itself, as it says */
  uint64_t stopped;    /* times that recording was ended, because buffers did not come back */
} msp_device_counts;

typedef struct {
  /* Tell whether the job has the device's driver in use: nobody else's code is asked that is not loaded anyway. */
  bool (*ready)(void);
  /* Load the library and take the interface for us, with nothing recorded yet. Returns an MSP_TRACE_*. */
  int (*attach)(const char *library, msp_reason *why);
  /* Begin to record kinds of MSP_TRACE_*, or end it (0). Returns an MSP_TRACE_*; on failure nothing is recorded, and
   * otherwise `why` tells what is left out. */
  int (*record)(uint32_t kinds, msp_reason *why);
  /* Have buffers completed: those whose records are, or (everything) all of them; and count what was dropped. */
  void (*flush)(bool everything, msp_device_counts *counts);
  /* Read a buffer, and write what is in it. On one thread. */
  void (*read)(const msp_buffer *buffer, msp_device_counts *counts);
  /* Give the interface back as it was found. */
  void (*detach)(void);
  /* What the clock of the records is uncertain by, ns; 0 where it is ours. */
  uint64_t (*uncertainty)(void);
  uint32_t (*version)(void);
  /* In a fork child: see to it that this one can end. NULL where nothing is to be done. */
  void (*after_fork)(void);
} msp_backend;

extern const msp_backend msp_cupti;
extern const msp_backend msp_mspti;

#endif
