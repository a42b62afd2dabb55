/* Start a program that is no child of the job.
 *
 * A job may wait for any child of its own, count its children, or ignore SIGCHLD: a child of ours would be in its way.
 */
#ifndef MSP_APART_H
#define MSP_APART_H

/* cffi:begin */

/* Start argv[0] in a session of its own, with /dev/null as descriptor 0 and no other descriptors than 1 and 2.
 *
 * argv and envp end with NULL. `output` and `errors` become its descriptors 1 and 2.
 * Returns its process id, or the negative of an errno.
 */
int msp_start_apart(char **argv, char **envp, int output, int errors);

/* cffi:end */

#endif
