/* Start a program that is no child of the job.
 *
 * A job may wait for any child, count its children, or ignore SIGCHLD: a child that the profiler starts would disturb
 * such a job.
 */
#ifndef MSP_APART_H
#define MSP_APART_H

/* cffi:begin */

/* Start argv[0] in a new session, with /dev/null as descriptor 0 and no other descriptors than 1 and 2.
 *
 * argv and envp end with NULL. The program gets `output` and `errors` as descriptors 1 and 2. Returns the program's
 * process id, or the negative of an errno.
 */
int msp_start_apart(char **argv, char **envp, int output, int errors);

/* cffi:end */

#endif
