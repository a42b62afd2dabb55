/* The recorder of this process: append events of any thread to a store folder, harmlessly.
 *
 * What a hot path calls (msp_begin, msp_end, ...) is in writer.h and strings.h.
 */
#ifndef MSP_RECORDER_H
#define MSP_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

/* cffi:begin */

/* Copy to the files with write(2) even where shared mappings can be relied on. */
#define MSP_OPEN_WRITTEN 1

/* Start recording into the existing directory `folder`, closing what was open.
 *
 * first_slots: slots of a thread's first segment; later ones double.
 * limit_fine, limit_all: bytes on disk from which fine-grained events, and all events but steps, are refused; 0: none.
 * Returns 0, or the errno with which the first segment could not be made.
 */
int msp_open(const char *folder, uint32_t first_slots, uint64_t limit_fine, uint64_t limit_all, uint32_t flags);

/* End the calling thread's open spans, write a last anchor, and record nothing from here on. Other threads let go of
 * their segments when they next pass by, or end. */
void msp_close(void);

/* cffi:end */

/* Once per process, while it has one thread that knows of us; `msp_open` does it if need be. Returns 0 or an errno. */
int msp_recorder_init(void);

typedef struct {
  uint64_t records;       /* events committed */
  uint64_t dropped;       /* events and strings refused, all reasons */
  uint64_t dropped_limit; /* of these, refused by a budget */
  uint64_t bytes;         /* size on disk of all segments */
  uint32_t threads;       /* that recorded */
  int failure;            /* errno of the last segment that could not be made or copied */
} msp_stats;

/* Of the session that is open, or was last. */
void msp_get_stats(msp_stats *stats);

/* Refuse spans, instants and counters that begin from here on; of fine-grained categories only. */
void msp_pause(bool paused);
void msp_fine(bool on);

/* In a fork child, forget what was inherited; does nothing otherwise. */
void msp_recorder_check_fork(void);

#endif
