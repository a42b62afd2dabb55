/* When a recording thread reads its processor time. */
#ifndef MSP_LOOKS_H
#define MSP_LOOKS_H

#include <stdbool.h>
#include <stdint.h>

/* A recording thread reads its processor time now and then. The reading shows whether the thread ran, and is called a
 * look. A look takes 0.4 us, so looks 250 us apart take at most 0.2 % of the time. On a virtual machine, a look takes
 * 0.7 us, and the system call slows down the code after it. So in steps that are not sampled, there are fewer looks:
 * looks 2 ms apart took 1.2 us of each step of 0.48 ms. */
#define MSP_QUIET_NS 250000u /* the first event after so long a time without events leads to a look */
#define MSP_LOOK_NS 5000000u /* so long after the last look, the next event always leads to a look */
/* The same two times in steps that are not sampled. */
#define MSP_REST_QUIET_NS 2000000u
#define MSP_REST_LOOK_NS 8000000u
/* So long after the last look, the end of a step leads to a look, if the steps have no events inside. Looks 8 ms apart
 * took 10 us each with cold caches, 0.12 % of the time. A step that is longer than usual leads to a look at once. */
#define MSP_REST_STEP_NS 32000000u

typedef struct {
  uint64_t event_ns;     /* time of the last event */
  uint64_t due_ns;       /* the first event at or after this time leads to a look */
  uint64_t looked_ns;    /* time of the last look; 0: there was none */
  uint64_t since_ns;     /* time of the last look that also read the wait time for a processor */
  uint64_t since_ran_ns; /* processor time in that look */
  uint64_t waited_ns;    /* wait time in that look */
  uint64_t stepped_ns;   /* time of the last end of a step */
  uint64_t step_ns;      /* usual length of a step without events inside */
} msp_looks;

/* Return how long the thread has waited for a processor since the last reading, in microseconds. Returns MSP_NOT_READ
 * if the thread ran most of the time: then a reading is not worth its cost. */
uint32_t msp_looks_waited(msp_looks *looks, uint64_t now, uint64_t ran);

/* Return whether the end of a step leads to a look. `before` is the time of the event before it, and `rests` tells
 * whether the step is not sampled. */
bool msp_looks_due(msp_looks *looks, uint64_t before, uint64_t now, bool rests);

#endif
