/* Device slots: the format in which the store holds the records of an accelerator's tracing interface. A slot is a
 * record of 32 bytes, as file_format.h defines it.
 *
 * A device record is an MSP_KIND_DEVICE slot. If the record belongs to a device, an MSP_KIND_DEVICE_PLACE slot follows
 * in the same file. The writer commits the second slot before the first one. So a committed first slot is always
 * followed by as many slots as its `extra` says. A second slot without a first one is left over when the process dies
 * while it writes a record.
 *
 * The table has the fields of both slots. Where it names two numbers for a field, each number has 32 bits, and the
 * first one is in the low half:
 *
 * kind     start_ns         end_ns          arg                     name     category       flags
 * DEVICE   begin            end             correlation, thread     what     MSP_DEVICE_*   MSP_DEVICE_SOURCE_*
 * PLACE    device, stream   context, graph  amount (one number)     detail   MSP_DEVICE_*   MSP_DEVICE_SOURCE_*
 *
 * A task (for example a kernel) and the call that launched it have the same `correlation`. This number wraps at 2^32,
 * so several calls may have it; the task belongs to the latest call before it. `thread` is the operating system's
 * number of the calling thread, 0 if unknown. Times are CLOCK_MONOTONIC_RAW nanoseconds, as everywhere in the store.
 *
 * store/device_format.py declares the same format, and a test compares the two files.
 */
#ifndef MSP_DEVICE_FORMAT_H
#define MSP_DEVICE_FORMAT_H

/* type                        amount             detail                                                          */
#define MSP_DEVICE_KERNEL 1        /* blocks of its grid  kind of core that ran it, if it is known                 */
#define MSP_DEVICE_COPY 2          /* bytes              direction, "HtoD"                                        */
#define MSP_DEVICE_SET 3           /* bytes                                                                       */
#define MSP_DEVICE_API 4           /* a call of the driver or its runtime, on the host                            */
#define MSP_DEVICE_COMMUNICATION 5 /* bytes              group of ranks                                           */
#define MSP_DEVICE_MEMORY 6        /* bytes              "allocate" or "release"; name: kind of memory            */
#define MSP_DEVICE_SYNC 7          /* the host, or a stream, waited                                               */
#define MSP_DEVICE_MARKER 8        /*                    domain; a host's marker has a thread, others a device    */
#define MSP_DEVICE_OVERHEAD 9      /* time that tracing itself, or loading of code, took                          */
#define MSP_DEVICE_GRAPH 10        /* a launch of a whole graph                                                   */

#define MSP_DEVICE_SOURCE_CUPTI 1
#define MSP_DEVICE_SOURCE_MSPTI 2

#endif
