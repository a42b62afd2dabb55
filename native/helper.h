/* The helper thread of an open session. It makes files for records before they are needed, writes pairs of clock
 * readings, reads counters of the system, and copies records to files that cannot be mapped.
 *
 * The helper thread blocks all signals and calls no Python. If no thread can be started, the recorder works without a
 * helper: each thread makes a file for its records when it needs one.
 */
#ifndef MSP_HELPER_H
#define MSP_HELPER_H

#include <stdbool.h>
#include <stdint.h>

void msp_helper_start(void);
bool msp_helper_runs(void);

/* Return the processor time that the helper thread has taken in this process, ns. */
uint64_t msp_helper_ran(void);

/* Stop the helper thread. Returns false if the thread has not ended within ten seconds, because a file system does not
 * answer. Then the thread still uses the store. */
bool msp_helper_stop(void);

/* cffi:begin */

/* Return whether the file system of the store answers within `patience_ms`. The helper thread asks the file system; if
 * no helper runs, the result is true. */
bool msp_helper_answers(uint32_t patience_ms);

/* Stop the helper thread before a fork if the process has no other thread than the helper and the caller. Otherwise
 * Python would warn of a fork in a process with several threads, and the job does not know the helper. */
void msp_helper_rest(void);

/* cffi:end */

/* Start the helper thread again if msp_helper_rest has stopped it. */
void msp_helper_revive(void);

/* Wake the helper thread, because it has work to do. Does not wait until the work is done. */
void msp_helper_wake(void);

/* Reset this file's state in a fork child, which has no helper thread. */
void msp_helper_after_fork(void);

#endif
