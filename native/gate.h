/* The gate: two words that each record reads first. They say which session is open, and which categories of events it
 * refuses.
 *
 * The gate is in a page of memory that the kernel fills with zeros in every fork child, even in a child made by a
 * direct system call. Zero means that no session is open. So a fork child records nothing until code of the profiler
 * has run in the child. On kernels before 4.14, a handler of pthread_atfork resets the page.
 */
#ifndef MSP_GATE_H
#define MSP_GATE_H

#include <stdbool.h>
#include <stdint.h>

/* reasons to refuse events */
#define MSP_REFUSE_PAUSED 1u     /* all events: the schedule does not record this step */
#define MSP_REFUSE_FINE 2u       /* fine-grained categories: this step is not sampled */
#define MSP_REFUSE_FINE_LIMIT 4u /* fine-grained categories: max_disk has no room for them */
#define MSP_REFUSE_ALL_LIMIT 8u  /* all events except steps: max_disk is reached */

typedef struct {
  uint32_t session; /* number of the open session, never used twice; 0 while none is open */
  uint32_t refuse;  /* MSP_REFUSE_* */
  uint32_t alive;   /* 0 in a fork child in which no code of the profiler has run yet */
} msp_gate;

extern msp_gate *msp_gate_page;
extern bool msp_gate_wiped_on_fork;

/* Move the gate to a page that the kernel clears in fork children; called once per process, before the first
 * session. */
void msp_gate_init(void);

static inline uint32_t msp_gate_load(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }

static inline void msp_gate_set_refused(uint32_t reason, bool refused) {
  if (refused) {
    __atomic_or_fetch(&msp_gate_page->refuse, reason, __ATOMIC_RELAXED);
  } else {
    __atomic_and_fetch(&msp_gate_page->refuse, ~reason, __ATOMIC_RELAXED);
  }
}

/* Hold the session: it stays open until msp_gate_let_go, because msp_gate_close waits until no thread holds it. Returns
 * false if `session` is not open. Never blocks. */
bool msp_gate_hold(uint32_t session);
void msp_gate_let_go(void);

/* Return a number for the next session, and remove all reasons to refuse events. */
uint32_t msp_gate_next(void);

/* Open the gate: from now on, all threads record into this session. */
void msp_gate_open(uint32_t session);

/* Close the gate, so that no thread records any more, and wait until no thread holds the session (msp_gate_hold).
 * Returns false if a thread still holds the session after ten seconds, because a file system does not answer. */
bool msp_gate_close(void);

/* Reset the gate in a fork child. */
void msp_gate_after_fork(void);

#endif
