/* Block SIGXFSZ while a thread writes to a file. A thread that grows a file beyond RLIMIT_FSIZE gets this signal, which
 * ends the process by default.
 *
 * SIGXFSZ is blocked in the calling thread between msp_file_limit_begin and msp_file_limit_end. If the signal came
 * meanwhile, msp_file_limit_end removes it.
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
