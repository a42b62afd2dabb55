/* One segment file: made, reserved on disk, mapped, and released. */
#ifndef MSP_SEGMENT_H
#define MSP_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file_format.h"

typedef struct msp_segment {
  struct msp_segment *next;         /* in a list of spare or left-over segments */
  struct msp_segment *next_written; /* in the list of segments that have to be copied to their files */
  msp_segment_header *header;       /* start of the memory */
  msp_slot *slots;                  /* behind the header */
  size_t size;                      /* of the file and of the memory, in bytes */
  uint32_t capacity;                /* in slots */
  uint32_t used;                    /* slots given out; kept only while the segment is in a list */
  uint32_t index;                   /* number of the file */
  int32_t holders;                  /* the writer, and for written segments the list; the last one frees */
  bool mapped;                      /* the memory is the file; otherwise msp_segment_flush copies it */
  uint64_t lost;                    /* mapped: 1 + the offset from which on the file was lost, see ranges.h */
  bool retired;                     /* written segments: no slot of it changes any more */
  bool complete;                    /* written segments: it was retired before `ready` was set */
  uint32_t flushed;                 /* written segments: slots in the file */
  uint32_t ready;                   /* written segments: slots that msp_segment_flush may copy */
  uint64_t flushed_lost;            /* written segments: header->dropped and unnamed in the file */
  uint32_t *open;                   /* written segments: slots that were open when they were copied */
  uint32_t open_count;
  uint32_t open_room;
} msp_segment;

static inline uint64_t msp_segment_size(uint32_t capacity) {
  return MSP_HEADER_SIZE + (uint64_t)capacity * MSP_SLOT_SIZE;
}

/* Return whether a mapping of a file in `folder` can be relied on never to raise SIGBUS. Local file systems that
 * write in place keep what fallocate(2) promised; network, FUSE and copy-on-write ones may not. */
bool msp_segment_mappable(const char *folder);

/* Make segment `index` in `folder`, reserve its blocks and map it, or give it plain memory where mapping is refused
 * or `mapped` is false. Returns 0 or an errno; nothing is left behind on failure. Raises no signal. */
int msp_segment_make(const char *folder, uint32_t index, uint32_t capacity, uint32_t flags, bool mapped,
                     msp_segment **made);

/* Cut the file behind its first `used` slots; returns the bytes that this gives back. Nobody may write behind them. */
uint64_t msp_segment_trim(const char *folder, const msp_segment *segment, uint32_t used);

/* Return how many of the first `used` slots are in no file, because it was truncated or its disk failed. */
uint32_t msp_segment_lost(const msp_segment *segment, uint32_t used);

/* Touch every page of a fresh segment, so that its first writer takes no page faults. */
void msp_segment_touch(msp_segment *segment);

/* Give up one hold; the last one unmaps. The file stays. */
void msp_segment_release(msp_segment *segment);

/* Bytes of memory of all segments of this process. */
uint64_t msp_segment_memory(void);

/* Forget the segments that the parent had; in a fork child. */
void msp_segment_after_fork(void);

/* Remove the file of a segment that nothing was written to. */
void msp_segment_unlink(const char *folder, uint32_t index);

/* Note how far the slots are committed, and whether that is all. The strings that they name are committed too, but
 * perhaps not yet copied: of a store, first all segments are made ready, then the control stream is copied, then the
 * rest. */
void msp_segment_make_ready(msp_segment *segment);

/* Copy to the file the slots that became ready, or ended, since the last call. One caller at a time. Returns 0 or an
 * errno. */
int msp_segment_flush(msp_segment *segment, const char *folder);

#endif
