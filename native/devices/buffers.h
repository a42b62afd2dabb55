/* Buffers that a vendor's tracing interface fills with records. The interface gets empty buffers on any thread, and one
 * thread of ours reads the full ones.
 *
 * Two numbers are bounded: that of buffers which the interface has, and that of buffers which wait to be read. Beyond
 * these bounds, records are lost, and counted as lost. No function makes its caller wait, because the caller is a
 * thread of the job.
 */
#ifndef MSP_DEVICES_BUFFERS_H
#define MSP_DEVICES_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  MSP_BUFFER_BYTES = 4 << 20,    /* as large as Kineto's: 20000 kernels */
  MSP_BUFFERS_LEAST = 2,         /* one is filled while the other is read */
  MSP_BUFFERS_MOST = 10,         /* 40 MiB: largest growth of the job's memory */
  MSP_SCRATCH_BYTES = 128 << 10, /* size of a scratch buffer, whose records are thrown away */
  MSP_SCRATCH_MOST = 64,         /* 8 MiB: recording stops when the interface has so many and returns none */
};

typedef struct msp_buffer {
  struct msp_buffer *next;
  uint8_t *memory;
  size_t size;
  size_t valid; /* bytes of records, once it is complete */
  bool scratch; /* the records in this buffer are counted as lost and thrown away */
} msp_buffer;

/* Set up the buffers.
 *
 * refusable: whether msp_buffers_request may return NULL when the interface has too many buffers.
 * memory: bytes that all buffers together may take; their number is from MSP_BUFFERS_LEAST to MSP_BUFFERS_MOST. */
void msp_buffers_open(bool refusable, uint64_t memory);

/* Give the interface an empty buffer, aligned to a page; NULL if there is none. Called on any thread. */
uint8_t *msp_buffers_request(size_t *size);

/* Take a buffer with `valid` bytes of records back from the interface, to be read later. Called on any thread. */
void msp_buffers_complete(uint8_t *memory, size_t valid);

/* Return the buffer that has waited longest to be read; NULL if none waits. Called on the one thread that reads. */
msp_buffer *msp_buffers_take(void);

/* Release a buffer from msp_buffers_take after it was read. */
void msp_buffers_return(msp_buffer *buffer);

/* Wait until one of these happens: a buffer is complete, the interface has too many buffers, msp_buffers_wake is
 * called, or CLOCK_MONOTONIC reaches `until_ns`. Called on the one thread that reads. */
void msp_buffers_wait(uint64_t until_ns);
void msp_buffers_wake(void);

/* Return whether the interface still has a buffer. It keeps a buffer while tasks with records in this buffer still
 * run. */
bool msp_buffers_any_out(void);

/* Return whether the interface has so many buffers that recording must stop. */
bool msp_buffers_overrun(void);

/* Free all buffers except those that the interface has. */
void msp_buffers_close(void);

/* In a fork child, forget the parent's buffers. */
void msp_buffers_after_fork(void);

#endif
