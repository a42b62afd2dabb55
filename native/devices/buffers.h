/* Buffers that a tracing interface fills with records. Buffers are given out on any thread, and one thread reads them.
 *
 * The number of buffers that are given out is bounded, and so is the number that wait to be read. Beyond these bounds,
 * records are lost and counted. No function makes its caller wait, because the caller is a thread of the job.
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
  MSP_SCRATCH_BYTES = 128 << 10, /* size of a further buffer, whose records are thrown away */
  MSP_SCRATCH_MOST = 64,         /* 8 MiB: an interface that has so many and returns none is stopped */
};

typedef struct msp_buffer {
  struct msp_buffer *next;
  uint8_t *memory;
  size_t size;
  size_t valid; /* bytes of records, once it is complete */
  bool scratch; /* a scratch buffer, whose records are counted and thrown away */
} msp_buffer;

/* refusable: whether msp_buffers_request may return NULL when too many buffers are given out.
 * memory: bytes that all buffers may take; their number is from MSP_BUFFERS_LEAST to MSP_BUFFERS_MOST. */
void msp_buffers_open(bool refusable, uint64_t memory);

/* Give out a buffer, aligned to a page; NULL if there is none. Called on any thread. */
uint8_t *msp_buffers_request(size_t *size);

/* Take a buffer back with `valid` bytes of records, to be read. Called on any thread. */
void msp_buffers_complete(uint8_t *memory, size_t valid);

/* Return the buffer that has waited longest to be read; NULL if none waits. Called on the one thread that reads. */
msp_buffer *msp_buffers_take(void);

/* Release a buffer from msp_buffers_take after it was read. */
void msp_buffers_return(msp_buffer *buffer);

/* Wait until a buffer is complete, too many are given out, msp_buffers_wake is called, or CLOCK_MONOTONIC reaches a
 * time. Called on the one thread that reads. */
void msp_buffers_wait(uint64_t until_ns);
void msp_buffers_wake(void);

/* Return whether any buffer is given out: it holds records that have not ended. */
bool msp_buffers_any_out(void);

/* Return whether so many buffers are given out that nothing more may be recorded. */
bool msp_buffers_overrun(void);

/* Free the buffers that are not given out. */
void msp_buffers_close(void);

/* Forget the parent's buffers, in a fork child. */
void msp_buffers_after_fork(void);

#endif
