/* A thread that grows a file beyond RLIMIT_FSIZE gets SIGXFSZ, which ends the process by default.
 *
 * Between msp_file_limit_begin and msp_file_limit_end, the signal is blocked in the calling thread. The end removes a
 * signal that came meanwhile.
 */
#ifndef MSP_FILE_LIMIT_H
#define MSP_FILE_LIMIT_H

#include <signal.h>
#include <stdbool.h>

typedef struct {
  sigset_t before;
  bool pending; /* the signal was pending before the begin, and stays pending */
} msp_file_limit;

msp_file_limit msp_file_limit_begin(void);
void msp_file_limit_end(msp_file_limit limited); /* keeps errno */

#endif
