/* Wait for the analysis at the very end of this process, beside the tear-down of everything else.
 *
 * MindSpore takes 0.4 s to unload after Python's last atexit callback. An analysis that was started before runs
 * meanwhile, and the user waits only for the rest of it.
 */
#ifndef MSP_EXIT_WAIT_H
#define MSP_EXIT_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/* cffi:begin */

/* Wait for a program at the very end of this process.
 *
 * reader: the end of a pipe whose other end only the program holds; closed at the end. The program writes one line when
 *   it has succeeded.
 * pid: leader of the program's session, which is killed after timeout_ms and when a signal comes.
 * shows: write its line to descriptor 2, or instead `late` when it was killed, `failed` when it wrote none; never to a
 *   pipe or socket, which is closed before the wait.
 * Returns 0, or an errno.
 */
int msp_exit_wait(int reader, int pid, uint32_t timeout_ms, bool shows, const char *late, const char *failed);

/* Write the exit status of this process to `path`, a new file, as its last act before it waits: a line with a decimal
 * number. A process that a signal or _exit ends writes nothing.
 *
 * Returns 0, or an errno.
 */
int msp_exit_status(const char *path);

/* cffi:end */

#endif
