/* The segments of the open session: where they are made, what they may cost, which are spare or left over.
 *
 * Everything but `open` and `close` needs the session to be held (gate.h), or is called by the helper thread, which
 * ends before `close`.
 */
#ifndef MSP_STORE_H
#define MSP_STORE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "segment.h"

enum {
  MSP_SLOTS_LEAST = 8,
  MSP_SLOTS_MOST = 131072, /* 4 MiB */
};

/* What an event is worth when disk is short. */
typedef enum {
  MSP_WORTH_FINE,   /* stops at limit_fine */
  MSP_WORTH_COARSE, /* stops at limit_all */
  MSP_WORTH_ALWAYS, /* steps, strings, anchors: as long as there is a disk */
} msp_worth;

typedef enum { MSP_TAKEN, MSP_REFUSED_BY_LIMIT, MSP_REFUSED_BY_DISK } msp_outcome;

typedef struct {
  const char *folder;
  uint32_t first_slots; /* of a thread's first segment */
  uint64_t limit_fine;  /* bytes on disk; 0 is no limit */
  uint64_t limit_all;
  bool mapped; /* false: write(2) even where shared mappings work */
} msp_store_settings;

/* Start with no segments. Returns 0 or an errno. */
int msp_store_open(const msp_store_settings *settings);

/* Copy what is still to be copied, unmap everything that no thread holds, remove the spare. Returns the number of
 * slots that could not be copied to their files. */
uint64_t msp_store_close(void);

/* Forget everything inherited; in a fork child. */
void msp_store_after_fork(void);

uint32_t msp_store_first_slots(void);

/* Get a segment of `slots` slots, or fewer where a limit is near.
 *
 * first: the caller has none yet, so that any left-over one will do.
 * The slots from `used` on are free.
 */
msp_outcome msp_store_take(uint32_t slots, msp_worth worth, bool first, msp_segment **taken);

/* Get a segment of the control stream. */
msp_outcome msp_store_take_control(uint32_t slots, msp_segment **taken);

/* Hand over the unused rest of a segment to the next new thread. */
void msp_store_leave_over(msp_segment *segment, uint32_t used);

/* Give up a segment whose slots will not change any more. Unmapping 4 MiB takes 0.3 ms, so the helper does it. */
void msp_store_retire(msp_segment *segment);

/* Remove a segment that nothing was written to, from the disk too. On the helper thread, or when it has ended. */
void msp_store_discard(msp_segment *segment);

/* What the helper thread does: make the next spare, unmap full segments, copy written ones. */
void msp_store_prepare_spare(void);
void msp_store_unmap_full(void);
void msp_store_flush(void);
bool msp_store_has_written(void);

uint64_t msp_store_bytes(void);
int msp_store_failure(void);

#endif
