/* msPTI's activity records, as far as they are read, and their conversion.
 *
 * A record is as long as its kind is, packed and padded to 8 bytes, so that its 64-bit fields stand at multiples of 4.
 * msPTI's own function that steps from one record to the next keeps its place per thread until the end, and does not
 * advance past an unknown kind; so this code steps by itself, by this table. Times are nanoseconds of CLOCK_REALTIME.
 * Names live as long as the library.
 */
#ifndef MSP_DEVICES_MSPTI_RECORDS_H
#define MSP_DEVICES_MSPTI_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"

/* numbers of kinds */
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
  MSPTI_BEGINS, /* of a range of markers: it has no end yet */
  MSPTI_ENDS,   /* of such a range: it has neither a begin nor names */
  MSPTI_UNASKED,
  MSPTI_UNFINISHED,
} mspti_outcome;

/* The length of a record of a kind; 0 for an unknown kind. */
size_t mspti_size_of(uint32_t kind);

/* Return whether a record is a marker of the host that a stream will report, too, by its number and without its
 * name. */
bool mspti_marks_stream(const void *activity);

/* Describe a record of a known kind; its times are msPTI's. */
mspti_outcome mspti_describe(const void *activity, msp_device_record *record);

#endif
