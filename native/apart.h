/* Start a program that is no child of the job.
 *
 * A job may wait for any child, count its children, or ignore SIGCHLD. A child that the profiler starts would disturb
 * this job.
 */
#ifndef MSP_APART_H
#define MSP_APART_H

/* cffi:begin */

/* Start argv[0] in a new session. The program gets the descriptors 0, 1 and 2 only; descriptor 0 is /dev/null.
 *
 * The arrays argv and envp end with NULL. The program gets `output` as descriptor 1 and `errors` as descriptor 2.
 * Returns the program's process id, or the negative of an errno.
 */
int msp_start_apart(char **argv, char **envp, int output, int errors);

/* cffi:end */

#endif
