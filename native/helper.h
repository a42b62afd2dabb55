/* The helper thread of an open session: it makes segments before they are needed, writes clock anchors, reads metrics,
 * and flushes written segments.
 *
 * The thread blocks all signals and calls no Python. If no thread can be started, the recorder works without a helper:
 * each thread makes its segments when it needs them.
 */
#ifndef MSP_HELPER_H
#define MSP_HELPER_H

#include <stdbool.h>
#include <stdint.h>

void msp_helper_start(void);
bool msp_helper_runs(void);

/* Stop the helper. Returns false if the helper has not ended within ten seconds, because a file system does not answer.
 * Then the helper still uses the store. */
bool msp_helper_stop(void);

/* cffi:begin */

/* Return whether the file system of the store answers within `patience_ms`; true if no helper runs. */
bool msp_helper_answers(uint32_t patience_ms);

/* Stop the helper before a fork if the process has no other thread than the helper and the caller. Python warns of a
 * fork in a process with several threads. */
void msp_helper_rest(void);

/* cffi:end */

/* Start the helper again if msp_helper_rest has stopped it. */
void msp_helper_revive(void);

/* Wake the helper, because it has work to do. Does not wait until the work is done. */
void msp_helper_wake(void);

/* Reset the state in a fork child, which has no helper thread. */
void msp_helper_after_fork(void);

#endif
