/* The parts of CUPTI's activity records that ms-profiler uses, and their conversion to ms-profiler's records.
 *
 * The layouts are the first parts of the records of CUPTI 11.8 to 13.5. In all these versions, the used fields have the
 * same offsets, and newer fields follow them. CUPTI itself returns the begin of the next record. Times are those of the
 * clock that CUPTI reads.
 */
#ifndef MSP_DEVICES_CUPTI_RECORDS_H
#define MSP_DEVICES_CUPTI_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"

/* CUPTI's numbers of the kinds of records */
enum {
  CUPTI_MEMCPY = 1,
  CUPTI_MEMSET = 2,
  CUPTI_KERNEL = 3,
  CUPTI_DRIVER = 4,
  CUPTI_RUNTIME = 5,
  CUPTI_CONCURRENT_KERNEL = 10,
  CUPTI_OVERHEAD = 17,
  CUPTI_MEMCPY_PEER = 22,
  CUPTI_SYNCHRONIZATION = 38,
  CUPTI_MEMORY = 49,
  CUPTI_GRAPH_TRACE = 51,
};

/* CUPTI's numbers of the domains of calls */
enum { CUPTI_DOMAIN_DRIVER = 1, CUPTI_DOMAIN_RUNTIME = 2 };

/* A function that returns the name of a call by its domain and number; NULL if it is unknown. */
typedef const char *(*cupti_call_name)(uint32_t domain, uint32_t number);

typedef enum { CUPTI_TAKEN, CUPTI_UNKNOWN, CUPTI_UNFINISHED } cupti_outcome;

/* Convert a record of CUPTI to ms-profiler's form. Its times stay those of CUPTI's clock. */
cupti_outcome cupti_describe(const void *activity, cupti_call_name name, msp_device_record *record);

/* Return whether a record is of a call that a recording at the usual level leaves out (cupti_calls.h). */
bool cupti_left_out(const void *activity);

#endif
