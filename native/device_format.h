/* Device slots: the records of an accelerator's tracing interface, in the segments of file_format.h.
 *
 * A record is an MSP_KIND_DEVICE slot, and where it ran on a device an MSP_KIND_DEVICE_PLACE slot behind it, in the
 * same segment. The second is committed first: a head that a reader sees is followed by the slots that its `extra`
 * announces. A place without a head is the record that was being written when the process died.
 *
 * Of both, the 64-bit words hold two 32-bit numbers, the first one in the low half:
 *
 * kind     start_ns         end_ns          arg                     name     category       flags
 * DEVICE   begin            end             correlation, thread     what     MSP_DEVICE_*   MSP_DEVICE_SOURCE_*
 * PLACE    device, stream   context, graph  amount (one number)     detail   MSP_DEVICE_*   MSP_DEVICE_SOURCE_*
 *
 * `correlation` ties a task to the call that launched it: both carry the same number, which wraps at 2^32, so that
 * the latest call before it counts. `thread` is the operating system's number of the thread that called, 0 where it is
 * not known. Times are CLOCK_MONOTONIC_RAW nanoseconds, as everywhere in the store.
 *
 * store/device_format.py mirrors this file and a test compares the two.
 */
#ifndef MSP_DEVICE_FORMAT_H
#define MSP_DEVICE_FORMAT_H

/* type                        amount             detail                                                          */
#define MSP_DEVICE_KERNEL 1        /* blocks of its grid  kind of core that ran it, where it is told               */
#define MSP_DEVICE_COPY 2          /* bytes              from where to where, "HtoD"                              */
#define MSP_DEVICE_SET 3           /* bytes                                                                       */
#define MSP_DEVICE_API 4           /* a call of the driver or its runtime, on the host                            */
#define MSP_DEVICE_COMMUNICATION 5 /* bytes              group of ranks                                           */
#define MSP_DEVICE_MEMORY 6        /* bytes              "allocate" or "release"; name: kind of memory            */
#define MSP_DEVICE_SYNC 7          /* the host, or a stream, waited                                               */
#define MSP_DEVICE_MARKER 8        /*                    domain; of the host it has a thread, else device, stream */
#define MSP_DEVICE_OVERHEAD 9      /* time that tracing itself, or loading of code, took                          */
#define MSP_DEVICE_GRAPH 10        /* a launch of a whole graph                                                   */

#define MSP_DEVICE_SOURCE_CUPTI 1
#define MSP_DEVICE_SOURCE_MSPTI 2

#endif
