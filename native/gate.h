/* The gate of the hot path: which session is open, and which categories it refuses.
 *
 * The words live in a page that the kernel zeroes in every fork child, also one made by a bare system call, so that a
 * child records nothing before any of our code has run in it. On kernels before 4.14, pthread_atfork zeroes it.
 */
#ifndef MSP_GATE_H
#define MSP_GATE_H

#include <stdbool.h>
#include <stdint.h>

/* why events are refused */
#define MSP_REFUSE_PAUSED 1u     /* the schedule records nothing now */
#define MSP_REFUSE_FINE 2u       /* fine-grained categories: this step is not sampled */
#define MSP_REFUSE_FINE_LIMIT 4u /* fine-grained categories, no disk left for them */
#define MSP_REFUSE_ALL_LIMIT 8u  /* all but steps, no disk left */

typedef struct {
  uint32_t session; /* number of the open session, never used twice; 0 while none is open */
  uint32_t refuse;  /* MSP_REFUSE_* */
  uint32_t alive;   /* 0 in a fork child in which none of our code has run */
} msp_gate;

extern msp_gate *msp_gate_page;
extern bool msp_gate_wiped_on_fork;

/* Move the gate to its page; once per process, before the first session. */
void msp_gate_init(void);

static inline uint32_t msp_gate_load(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }

static inline void msp_gate_set_refused(uint32_t reason, bool refused) {
  if (refused) {
    __atomic_or_fetch(&msp_gate_page->refuse, reason, __ATOMIC_RELAXED);
  } else {
    __atomic_and_fetch(&msp_gate_page->refuse, ~reason, __ATOMIC_RELAXED);
  }
}

/* Hold the session open while its shared parts are used; false when `session` is not the open one. It never blocks;
 * closing waits until no thread holds the session. */
bool msp_gate_hold(uint32_t session);
void msp_gate_let_go(void);

/* Return a number for the next session, which starts with nothing refused. */
uint32_t msp_gate_next(void);

/* Open the gate for all threads. */
void msp_gate_open(uint32_t session);

/* Close the gate, and wait until no thread holds the session. False: a thread still holds it after ten seconds,
 * because a file system does not answer. */
bool msp_gate_close(void);

/* Start afresh in a fork child. */
void msp_gate_after_fork(void);

#endif
