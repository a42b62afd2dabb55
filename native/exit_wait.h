/* Wait for a child process at the very end of this one, beside the tear-down of everything else.
 *
 * MindSpore takes 0.4 s to unload after Python's last atexit callback; an analysis that was started before that runs
 * meanwhile, and costs the user only what it takes longer.
 */
#ifndef MSP_EXIT_WAIT_H
#define MSP_EXIT_WAIT_H

#include <stdint.h>

/* cffi:begin */

/* When this process unloads us, wait for its child `pid`.
 *
 * After timeout_ms, or on SIGINT, the child is killed and `late` written to descriptor 2; `failed` is written when the
 * child did not exit with 0. Either may be empty. A signal that would end this process still does.
 * Returns 0, or an errno.
 */
int msp_exit_wait(int pid, uint32_t timeout_ms, const char *late, const char *failed);

/* cffi:end */

#endif
