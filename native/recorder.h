/* The recorder of this process: append events of any thread to a store folder, harmlessly.
 *
 * The functions of the hot path (msp_begin, msp_end, ...) are in writer.h and strings.h.
 */
#ifndef MSP_RECORDER_H
#define MSP_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

/* cffi:begin */

/* Copy to the files with write(2) even where shared mappings can be relied on. */
#define MSP_OPEN_WRITTEN 1

/* Start recording into the existing directory `folder`, after closing an open store.
 *
 * first_slots: slots of a thread's first segment; later ones double.
 * account: the file in which all processes of a result count their disk space; "": an account of this process alone.
 * limit: bytes that they may take, if this process makes that file; UINT64_MAX: any number. Fine-grained events are
 *   refused from half of it on, all but steps from seven eighths.
 * memory: bytes that the records of this process may take in memory at a time; those not on disk yet are among them.
 * Returns 0, or the errno with which the first segment could not be made: EDQUOT where the account has no room.
 */
int msp_open(const char *folder, uint32_t first_slots, const char *account, uint64_t limit, uint64_t memory,
             uint32_t flags);

/* End the calling thread's open spans, write a last anchor, and stop recording. Other threads release their segments
 * at their next event, or when they end. Returns 0, or ETIMEDOUT if a file system does not answer: then everything
 * that uses it is left as it is. */
int msp_close(void);

/* Count bytes on disk that other code took; a negative number was released. */
void msp_spend(int64_t bytes);

/* Reserve bytes of the limit for other code; a negative number returns them. */
void msp_set_aside(int64_t bytes);

/* Bytes that are left for fine-grained records; 0 while nothing is open. */
uint64_t msp_room(void);

/* cffi:end */

/* Once per process, while it has one thread that knows of us; `msp_open` does it if need be. Returns 0 or an errno. */
int msp_recorder_init(void);

typedef struct {
  uint64_t records;       /* events committed */
  uint64_t dropped;       /* events and strings refused, all reasons */
  uint64_t dropped_limit; /* events refused by a budget */
  uint64_t bytes;         /* size on disk of all segments */
  uint64_t unnamed;       /* names refused, because a process keeps no more of them */
  uint32_t threads;       /* that recorded */
  int failure;            /* errno of the last segment that could not be made or copied, or MSP_FAILURE_MEMORY */
} msp_stats;

/* The statistics of the open session, or of the last one. */
void msp_get_stats(msp_stats *stats);

/* Refuse spans, instants and counters that begin from here on; of fine-grained categories only. Neither is counted. */
void msp_pause(bool paused);
void msp_fine(bool on);

/* Register a function to run in fork children, including those of a bare system call, which calls no at-fork
 * handlers: there it runs when any of our functions is first called. */
void msp_recorder_when_forked(void (*also)(void));

/* In a fork child, forget the inherited state; does nothing otherwise. */
void msp_recorder_check_fork(void);

#endif
