/* Wait for the analysis at the very end of this process, after the destructors of all libraries.
 *
 * MindSpore takes 0.4 s to unload after Python's last atexit callback. An analysis that this callback starts runs
 * meanwhile, so that the user waits for a shorter time.
 */
#ifndef MSP_EXIT_WAIT_H
#define MSP_EXIT_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/* cffi:begin */

/* Wait for a program at the very end of this process.
 *
 * reader: the read end of a pipe whose write end only the program has. The program writes one line when it has
 * succeeded.
 * pid: the process of this program; 0: do not wait.
 * timeout_ms: the longest wait. The wait ends earlier at a signal that would end this process; then the program
 * continues.
 * shows: write the program's line to descriptor 2; write `late` instead when the wait ended before the program, and
 *   `failed` when the program ended without a line. Nothing is written to a pipe or socket.
 * Returns 0, or an errno.
 */
int msp_exit_wait(int reader, int pid, uint32_t timeout_ms, bool shows, const char *late, const char *failed);

/* Write the exit status of this process to the new file `path` when the process ends, before msp_exit_wait's wait. The
 * file has one line with a decimal number. A process that ends by a signal or by _exit writes nothing.
 *
 * Returns 0, or an errno.
 */
int msp_exit_status(const char *path);

/* cffi:end */

#endif
