/* The parts of msPTI's activity records that ms-profiler uses, and their conversion to ms-profiler's records.
 *
 * All records of a kind have the same length. They are packed and padded to 8 bytes, so the offset of a 64-bit field is
 * a multiple of 4. msPTI has a function that returns the next record, but it stores a position for each thread, and
 * stops at an unknown kind. So this code finds the next record by a table of lengths. Times are nanoseconds of
 * CLOCK_REALTIME. Names are valid as long as the library is loaded.
 */
#ifndef MSP_DEVICES_MSPTI_RECORDS_H
#define MSP_DEVICES_MSPTI_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"

/* msPTI's numbers of the kinds of records */
enum {
  MSPTI_MARKER = 1,
  MSPTI_KERNEL = 2,
  MSPTI_API = 3,
  MSPTI_HCCL = 4,
  MSPTI_MEMORY = 5,
  MSPTI_MEMSET = 6,
  MSPTI_MEMCPY = 7,
  MSPTI_EXTERNAL_CORRELATION = 8,
  MSPTI_COMMUNICATION = 9,
  MSPTI_ACL_API = 10,
  MSPTI_NODE_API = 11,
  MSPTI_RUNTIME_API = 12,
};

typedef enum {
  MSPTI_TAKEN,
  MSPTI_BEGINS, /* the begin of a range of markers, without an end */
  MSPTI_ENDS,   /* the end of a range of markers, without a begin and names */
  MSPTI_UNASKED,
  MSPTI_UNFINISHED,
} mspti_outcome;

/* Return the length in bytes of msPTI's records of a kind; 0 for an unknown kind. */
size_t mspti_size_of(uint32_t kind);

/* Return whether a record is a marker of the host that a stream will report again. The stream's record has the number
 * of the marker, but not its name. */
bool mspti_marks_stream(const void *activity);

/* Convert a record of a known kind to ms-profiler's form. Its times stay those of msPTI. */
mspti_outcome mspti_describe(const void *activity, msp_device_record *record);

#endif
