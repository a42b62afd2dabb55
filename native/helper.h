/* The helper thread of an open session: spare segments, clock anchors, copies of written segments.
 *
 * It blocks all signals, calls no Python, and exists only between `start` and `stop`. Without it (no thread to be
 * had) the recorder works and only makes its segments on the threads that need them.
 */
#ifndef MSP_HELPER_H
#define MSP_HELPER_H

#include <stdbool.h>
#include <stdint.h>

void msp_helper_start(void);
bool msp_helper_runs(void);

/* Stop it. False: it has not ended within ten seconds, because a file system does not answer; it uses the store still.
 */
bool msp_helper_stop(void);

/* cffi:begin */

/* Whether the file system of the store answers in time; true where there is no helper to ask it. */
bool msp_helper_answers(uint32_t patience_ms);

/* Let the helper rest when it is the only thread but the calling one: Python warns of a fork beside threads. */
void msp_helper_rest(void);

/* cffi:end */

/* Wake the helper after a rest. */
void msp_helper_revive(void);

/* Tell the helper that there is work. Cheap; never waits for the helper. */
void msp_helper_wake(void);

/* Forget the parent's helper, which a fork child does not have. */
void msp_helper_after_fork(void);

#endif
