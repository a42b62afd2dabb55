/* Make, map, flush and release a segment: a file of the store with the records of a thread. A segment is mapped, or it
 * is "written": its records are in memory, and write(2) copies them to the file. */
#ifndef MSP_SEGMENT_H
#define MSP_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file_format.h"

typedef struct msp_segment {
  struct msp_segment *next;         /* in a list of spare or left-over segments */
  struct msp_segment *next_written; /* in the list of written segments, which write(2) copies to their files */
  msp_segment_header *header;       /* start of the memory */
  msp_slot *slots;                  /* after the header */
  size_t size;                      /* of the file and of the memory, in bytes */
  uint32_t capacity;                /* in slots */
  uint32_t used;                    /* slots that writers have used; current only while the segment is in a list */
  uint32_t index;                   /* number of the file */
  int32_t holders;                  /* number of users: the writer, and for a written segment also the list */
  bool mapped;                      /* true: the memory is a mapping of the file; false: a written segment */
  uint64_t lost;                    /* mapped: 1 + the offset of the first lost page, see ranges.h; 0: none */
  bool retired;                     /* written segments: no slot changes any more */
  bool complete;                    /* written segments: the segment was retired before `ready` was set */
  uint32_t flushed;                 /* written segments: slots in the file */
  uint32_t ready;                   /* written segments: slots that msp_segment_flush may copy */
  uint64_t flushed_lost;            /* written segments: header->dropped + header->unnamed, as the file has them */
  uint32_t *open;                   /* written segments: slots whose spans were open when they were copied */
  uint32_t open_count;
  uint32_t open_room;
} msp_segment;

static inline uint64_t msp_segment_size(uint32_t capacity) {
  return MSP_HEADER_SIZE + (uint64_t)capacity * MSP_SLOT_SIZE;
}

/* Return whether files in `folder` can be mapped without the risk of SIGBUS. On local file systems that write in place,
 * fallocate(2) guarantees the disk space. On network, FUSE and copy-on-write file systems, fallocate(2) may not
 * guarantee the space. */
bool msp_segment_mappable(const char *folder);

/* Make the file of segment `index` in `folder`, reserve its disk blocks and map the file. If `mapped` is false or the
 * file system cannot map files, the segment gets anonymous memory instead. Returns 0 or an errno; after a failure there
 * is no file. Raises no signal. */
int msp_segment_make(const char *folder, uint32_t index, uint32_t capacity, uint32_t flags, bool mapped,
                     msp_segment **made);

/* Truncate a segment's file after its first `used` slots. Returns the number of removed bytes. No thread may use later
 * slots.
 */
uint64_t msp_segment_trim(const char *folder, const msp_segment *segment, uint32_t used);

/* Return how many of a segment's first `used` slots are lost, because the file was truncated or its disk failed. */
uint32_t msp_segment_lost(const msp_segment *segment, uint32_t used);

/* Write to every page of a new segment, so that its first writer has no page faults. */
void msp_segment_touch(msp_segment *segment);

/* End one use of the segment. When its last use ends, the segment is unmapped and freed; the file stays. */
void msp_segment_release(msp_segment *segment);

/* Return the memory in bytes of all segments of this process. */
uint64_t msp_segment_memory(void);

/* Reset the count of memory in a fork child. */
void msp_segment_after_fork(void);

/* Remove the file of a segment without records. */
void msp_segment_unlink(const char *folder, uint32_t index);

/* Set `ready` to the number of committed slots of a written segment, and `complete` if no more slots will follow. The
 * strings of these slots are then committed, too, in the control stream. A record must not reach its file before its
 * string. So make all segments ready first, then flush the control stream, and then the other segments. */
void msp_segment_make_ready(msp_segment *segment);

/* Copy the slots of a written segment to its file: those that became ready since the last call, and those whose spans
 * ended since then. Only one thread may call this at a time. Returns 0 or an errno. */
int msp_segment_flush(msp_segment *segment, const char *folder);

#endif
