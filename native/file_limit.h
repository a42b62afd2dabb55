/* RLIMIT_FSIZE: growing a file past it raises SIGXFSZ in the thread that does, which ends the process by default.
 *
 * Between these two the signal is blocked in the calling thread, and one that came up is taken back.
 */
#ifndef MSP_FILE_LIMIT_H
#define MSP_FILE_LIMIT_H

#include <signal.h>
#include <stdbool.h>

typedef struct {
  sigset_t before;
  bool pending; /* a signal that is not ours is pending, and stays pending */
} msp_file_limit;

msp_file_limit msp_file_limit_begin(void);
void msp_file_limit_end(msp_file_limit limited); /* keeps errno */

#endif
