/* The helper thread of an open session: spare segments, clock anchors, copies of written segments.
 *
 * It blocks all signals, calls no Python, and exists only between `start` and `stop`. Without it (no thread to be
 * had) the recorder works and only makes its segments on the threads that need them.
 */
#ifndef MSP_HELPER_H
#define MSP_HELPER_H

#include <stdbool.h>

void msp_helper_start(void);
void msp_helper_stop(void);
bool msp_helper_runs(void);

/* There is something to do. Cheap; never waits for the helper's work. */
void msp_helper_wake(void);

/* Forget the parent's helper, which a fork child does not have. */
void msp_helper_after_fork(void);

#endif
