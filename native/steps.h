/* The usual boundary of a training step, without Python.
 *
 * In a step that is not sampled, the hooks of an optimizer, of a network and of a backward pass write only a few
 * records. In Python, these hooks take 60 us of a step, because between two of them the job has replaced their code in
 * the caches. So this file repeats the usual case of some methods of job/steps.py and of two hooks. A function that
 * does not know its case returns false, and then the Python code runs. Both share their state: the base classes of
 * `Steps`, `Track` and `Listener` hold it.
 */
#ifndef MSP_STEPS_H
#define MSP_STEPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* In one of MSP_TIMED steps that are not sampled, the wrappers that the thread calls measure their own time: from the
 * begin of a wrapper to the begin of the wrapped function, and from its end to the end of the wrapper. So the time that
 * hooks take in a step is known as it is in the job, where their code and data are often not in the caches. */
#define MSP_TIMED 32

/* The thread whose wrappers measure their time in this step; 0: none. */
extern unsigned long msp_steps_timed;

/* Slow paths of the functions below. */
void msp_steps_enter_slowly(void);
void msp_steps_leave_slowly(void);

/* Called where our code begins: at the begin of a wrapper and after the wrapped function. */
static inline void msp_steps_enter(void) {
  if (__builtin_expect(msp_steps_timed != 0, 0)) msp_steps_enter_slowly();
}

/* Called where our code ends. */
static inline void msp_steps_leave(void) {
  if (__builtin_expect(msp_steps_timed != 0, 0)) msp_steps_leave_slowly();
}

/* Add the base classes and the functions to a module. Returns 0, or -1 with an exception set. */
int msp_steps_add(PyObject *module);

/* Return whether an object is a `Steps`. */
bool msp_steps_check(PyObject *object);

/* Note that the work of a step begins, see `Steps.began` and `Steps.call_began`. Returns false if this is not the usual
 * case. */
bool msp_steps_work(PyObject *steps, bool forward);

/* Note that an optimizer's step begins, in a frame of PyTorch's. `labels`: see `Optimizers`. Returns false if this is
 * not the usual case. */
bool msp_steps_optimizer_begins(PyObject *steps, PyObject *optimizer, PyObject *labels, uint8_t category);

/* Note that an optimizer's step ends. Returns 1; 0 if this is not the usual case; -1 with an exception set. */
int msp_steps_optimizer_ends(PyObject *steps, PyObject *optimizer);

#endif
