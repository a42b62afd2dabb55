/* The segments of the open session: their folder, their budget, and the spare and left-over ones.
 *
 * Everything but `open` and `close` needs the session to be held (gate.h), or is called by the helper thread, which
 * ends before `close`.
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
  MSP_FAILURE_MEMORY = -1, /* in place of an errno: the memory was used up */
};

typedef enum {
  MSP_TAKEN,
  MSP_REFUSED_BY_LIMIT,
  MSP_REFUSED_BY_DISK,
  MSP_REFUSED_BY_MEMORY,
} msp_outcome;

typedef struct {
  const char *folder;
  uint32_t first_slots; /* slots of a thread's first segment */
  const char *account;  /* the file that counts the disk space of all processes; "": this process counts alone */
  uint64_t limit;       /* limit of the account in bytes, if this process makes it */
  uint64_t memory;      /* bytes of all segments of this process at a time */
  bool mapped;          /* false: write(2) even where shared mappings work */
} msp_store_settings;

/* Start with no segments. Returns 0 or an errno, EDQUOT where the account has no room to begin. */
int msp_store_open(const msp_store_settings *settings);

/* Copy the remaining slots, unmap everything that no thread holds, remove the spare segment, and cut off unused
 * space. Returns the number of slots that are not in their files. */
uint64_t msp_store_close(void);

/* Undo `open`, if no segment was made since; `refused`: the account had no room. */
void msp_store_abandon(bool refused);

/* Forget everything inherited; in a fork child. */
void msp_store_after_fork(void);

/* Send the file system of the store a request that it cannot answer from a cache; return when it has answered. */
void msp_store_ask(void);

uint32_t msp_store_first_slots(void);
uint64_t msp_store_memory(void);

/* Slots of a segment at most: no more than a sixteenth of the account and of the memory. */
uint32_t msp_store_most_slots(void);

/* Get a segment of `slots` slots, or fewer where a limit is near. Fine-grained events take three quarters of the memory
 * at most.
 *
 * first: the caller has none yet, so that any left-over one will do.
 * The slots from `used` on are free.
 */
msp_outcome msp_store_take(uint32_t slots, msp_worth worth, bool first, msp_segment **taken);

/* Get a segment of the control stream, of at least so many slots. */
msp_outcome msp_store_take_control(uint32_t slots, uint32_t least, msp_segment **taken);

/* Leave the unused rest of a segment to the next new thread. */
void msp_store_leave_over(msp_segment *segment, uint32_t used);

/* Release a segment that no thread writes to any more, with its number of used slots; while the session is closed. */
void msp_store_end(msp_segment *segment, uint32_t used);

/* Release a segment whose slots will not change any more. Unmapping 4 MiB takes 0.3 ms, so the helper does it. */
void msp_store_retire(msp_segment *segment);

/* Remove a segment that nothing was written to, from the disk too. On the helper thread, or when it has ended. */
void msp_store_discard(msp_segment *segment);

/* Work of the helper thread: make the next spare segment, unmap full segments, copy written ones. */
void msp_store_prepare_spare(void);
void msp_store_unmap_full(void);
void msp_store_flush(void);
bool msp_store_has_written(void);

uint64_t msp_store_bytes(void);

/* The errno of the last segment that could not be made or copied, MSP_FAILURE_MEMORY, or 0. */
int msp_store_failure(void);

#endif
