/* Wait for the analysis of the recording at the very end of this process, after the destructors of all libraries.
 *
 * MindSpore takes 0.4 s to unload after Python's last atexit callback. This callback starts the analysis in another
 * process, so the analysis runs while MindSpore unloads. So the user waits for a shorter time.
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
 * timeout_ms: the longest wait. A signal that would end this process ends the wait earlier; then the program continues.
 * shows: write one line to descriptor 2, if it is no pipe or socket. This is the line of the program, or `late` if the
 *   wait ended before the program, or `failed` if the program ended without a line.
 * Returns 0, or an errno.
 */
int msp_exit_wait(int reader, int pid, uint32_t timeout_ms, bool shows, const char *late, const char *failed);

/* When this process ends, write its exit status to the new file `path`, before any wait of msp_exit_wait. The file has
 * one line with a decimal number. A process that ends by a signal or by _exit does not write the file.
 *
 * Returns 0, or an errno.
 */
int msp_exit_status(const char *path);

/* cffi:end */

#endif
