/* The recorder of this process. It writes the events of all threads to a store folder.
 *
 * The functions that each event calls (msp_begin, msp_end, ...) are in writer.h and strings.h.
 */
#ifndef MSP_RECORDER_H
#define MSP_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

/* cffi:begin */

/* A flag of msp_open: copy records to the files with write(2), also on file systems where mapped files are safe. */
#define MSP_OPEN_WRITTEN 1

/* Start to record into the existing directory `folder`. If a store is open, close it first.
 *
 * first_slots: number of slots (records of 32 bytes) in a thread's first file; each later file has twice as many.
 * account: path of the file in which all processes of a result count their disk space; "": this process counts alone.
 * limit: the disk space in bytes for all processes of the result; only the process that makes the account's file sets
 *   it. UINT64_MAX: no limit. Fine-grained events are refused above half of the limit, and all events except steps
 *   above seven eighths.
 * memory: the most memory in bytes that this process may use for records, mapped files included.
 * flags: MSP_OPEN_WRITTEN, or 0.
 * Returns 0, or an errno if the first file could not be made: EDQUOT if the limit leaves no room.
 */
int msp_open(const char *folder, uint32_t first_slots, const char *account, uint64_t limit, uint64_t memory,
             uint32_t flags);

/* Stop recording: end the calling thread's open spans, and write a last pair of clock readings. Other threads release
 * their files at their next event, or when they end. Returns 0, or ETIMEDOUT if a file system does not answer; then the
 * store stays open. */
int msp_close(void);

/* Add to the account of disk space the bytes that other code has taken. A negative number subtracts released bytes. */
void msp_spend(int64_t bytes);

/* Reserve bytes of the disk space for other code. A negative number ends the reservation of so many bytes. */
void msp_set_aside(int64_t bytes);

/* Return the disk space in bytes that is left for fine-grained records; 0 while no session is open. */
uint64_t msp_room(void);

/* cffi:end */

/* Set up the recorder once per process, before a second thread uses it. `msp_open` calls this if it has not been called
 * yet. Returns 0 or an errno. */
int msp_recorder_init(void);

typedef struct {
  uint64_t records;       /* events committed */
  uint64_t dropped;       /* events and strings that were not written, for any reason */
  uint64_t dropped_limit; /* events that were not written because of a limit */
  uint64_t bytes;         /* size on disk of all segments */
  uint64_t unnamed;       /* names refused, because there were too many */
  uint32_t threads;       /* threads that have recorded */
  uint64_t helper_ns;     /* processor time of the helper thread in this process */
  int failure;            /* errno of the last segment that could not be made or copied, or MSP_FAILURE_MEMORY */
} msp_stats;

/* Get the statistics of the open session; if none is open, those of the last session. */
void msp_get_stats(msp_stats *stats);

/* Wait until all other threads that have recorded in this session sleep and record nothing. The wait takes at most
 * `most_ns` nanoseconds. */
void msp_await_rest(uint64_t most_ns);

/* msp_pause refuses all spans, instants and counters (true), or accepts them again (false). msp_fine accepts or refuses
 * the fine-grained ones. Events that are refused in this way do not count as dropped. */
void msp_pause(bool paused);
void msp_fine(bool on);

/* Register a function to call in fork children. Usually a handler of pthread_atfork calls it. A fork by a direct system
 * call does not run these handlers; in such a child, the function runs when the recorder is first called. */
void msp_recorder_when_forked(void (*also)(void));

/* In a fork child, reset the recorder's inherited state if that has not been done yet. Otherwise do nothing. */
void msp_recorder_check_fork(void);

#endif
