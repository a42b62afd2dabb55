/* The segments of the open session. A segment is a file of the store, with the records of a thread. This code has the
 * folder, the limits on disk space and memory, and lists of segments that new threads can use.
 *
 * Each function except `open` and `close` may run only while the session stays open, so its caller must hold the
 * session (msp_gate_hold). The helper thread need not do so, because it ends before `close`.
 */
#ifndef MSP_STORE_H
#define MSP_STORE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "account.h"
#include "segment.h"

enum {
  MSP_SLOTS_LEAST = 8,
  MSP_SLOTS_MOST = 131072, /* 4 MiB */
  MSP_FAILURE_MEMORY = -1, /* instead of an errno: the limit of memory is reached */
};

typedef enum {
  MSP_TAKEN,
  MSP_REFUSED_BY_LIMIT,
  MSP_REFUSED_BY_DISK,
  MSP_REFUSED_BY_MEMORY,
} msp_outcome;

typedef struct {
  const char *folder;
  uint32_t first_slots; /* number of slots of a thread's first segment */
  const char *account;  /* the file that counts the disk space of all processes; "": this process counts alone */
  uint64_t limit;       /* limit of the account in bytes, if this process makes it */
  uint64_t memory;      /* most bytes that all segments of this process may take at a time */
  bool mapped;          /* false: copy with write(2), also on file systems where mapped files are safe */
} msp_store_settings;

/* Open a store without segments. Returns 0 or an errno. EDQUOT means that the limit of disk space leaves no room. */
int msp_store_open(const msp_store_settings *settings);

/* Close the store: copy the remaining slots to their files, unmap the segments that no thread uses, remove the spare
 * segment, and truncate files after their last slot. Returns the number of lost slots. */
uint64_t msp_store_close(void);

/* Undo msp_store_open, because no segment could be made. `refused`: the limit of disk space was the reason. */
void msp_store_abandon(bool refused);

/* Reset the inherited state of the store in a fork child. */
void msp_store_after_fork(void);

/* Send the file system of the store a request that no cache can answer, and wait for the answer. */
void msp_store_ask(void);

uint32_t msp_store_first_slots(void);
uint64_t msp_store_memory(void);

/* Return the largest number of slots that a segment may have: it takes at most a sixteenth of the limit of disk space,
 * and at most a sixteenth of the limit of memory. */
uint32_t msp_store_most_slots(void);

/* Get a segment of `slots` slots, or of fewer if a limit is near. Fine-grained events get at most three quarters of the
 * memory.
 *
 * first: the caller has no segment yet, so it may get the unused rest of a segment of another thread, of any size.
 * taken: the segment; its slots from `used` on are free.
 */
msp_outcome msp_store_take(uint32_t slots, msp_worth worth, bool first, msp_segment **taken);

/* Get a segment of the control stream, of `slots` slots, or of at least `least` if a limit is near. If it is `needed`
 * at once and the disk is full, the spare segment makes room for it. */
msp_outcome msp_store_take_control(uint32_t slots, uint32_t least, bool needed, msp_segment **taken);

/* Make the unused rest of a segment available to the next new thread. */
void msp_store_leave_over(msp_segment *segment, uint32_t used);

/* Release a segment to which no thread writes any more, and truncate its file after `used` slots. Called while the
 * session is closed. */
void msp_store_end(msp_segment *segment, uint32_t used);

/* Release a full segment whose slots do not change any more. The helper thread unmaps the segment, because unmapping 4
 * MiB takes 0.3 ms.
 */
void msp_store_retire(msp_segment *segment);

/* Remove a segment without records, and its file. Called on the helper thread, or after this thread has ended. */
void msp_store_discard(msp_segment *segment);

/* Work of the helper thread: make the next spare segment, unmap full segments, and copy written segments to their
 * files.
 */
void msp_store_prepare_spare(void);
void msp_store_unmap_full(void);
void msp_store_flush(void);
bool msp_store_has_written(void);

uint64_t msp_store_bytes(void);

/* Return the errno of the last failure to make or copy a segment, or MSP_FAILURE_MEMORY; 0: there was none. */
int msp_store_failure(void);

#endif
