/* The boundary of a training step in the usual case, without Python code.
 *
 * ms-profiler has hooks on the optimizer, on the network and on the backward pass. In a step that is not sampled, they
 * write only a few records. In Python, these hooks take 60 us of a step, because the job replaces their code in the
 * caches between two hooks. So this file repeats in C the usual case of some methods of job/steps.py.
 * In an unusual case, a function here returns false, and then the Python code runs. The C code and the Python code
 * share their state: it is in the base classes of `Steps`, `Track` and `Listener`, which are in C.
 */
#ifndef MSP_STEPS_H
#define MSP_STEPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* After every MSP_TIMED steps, the next step that is not sampled is a timed step. In a timed step, our code in C
 * measures its own time: in a wrapper, from its begin to the begin of the wrapped function, and from the end of this
 * function to the end of the wrapper; also at the begin and end of an optimizer's step. The result is the real time of
 * the hooks in the job, where their code and data are often not in the caches. The calls of wrappers are counted, too:
 * those that call the wrapped function directly (`msp_wrapper.direct`) are missing in a timed step of a rest. */
#define MSP_TIMED 32

/* The thread whose wrappers measure their own time in this step; 0: none. */
extern unsigned long msp_steps_timed;

/* The rarely used parts of the inline functions below. */
void msp_steps_enter_slowly(void);
void msp_steps_call_slowly(void);
void msp_steps_leave_slowly(void);

/* Start measuring the time of our own code. Called at the begin of an optimizer's hook, and after a wrapped function.
 */
static inline void msp_steps_enter(void) {
  if (__builtin_expect(msp_steps_timed != 0, 0)) msp_steps_enter_slowly();
}

/* Start measuring the time of our own code, and count one call. Called at the begin of a wrapper. */
static inline void msp_steps_call(void) {
  if (__builtin_expect(msp_steps_timed != 0, 0)) msp_steps_call_slowly();
}

/* Stop measuring the time of our own code. Called where a wrapper calls the wrapped function, and where the wrapper
 * ends. */
static inline void msp_steps_leave(void) {
  if (__builtin_expect(msp_steps_timed != 0, 0)) msp_steps_leave_slowly();
}

/* Return the value that a dictionary has for the id of an object: a borrowed reference; NULL if there is none, with an
 * exception set on failure. */
static inline PyObject *msp_by_id(PyObject *table, void *object) {
  PyObject *key = PyLong_FromVoidPtr(object);
  PyObject *value = key == NULL ? NULL : PyDict_GetItemWithError(table, key);
  Py_XDECREF(key);
  return value;
}

/* Add the base classes and the functions to a module. Returns 0, or -1 with an exception set. */
int msp_steps_add(PyObject *module);

/* Return whether an object is an instance of `Steps`, the Python class that counts steps. */
bool msp_steps_check(PyObject *object);

/* Note that the work of a step begins, as `Steps.began` and `Steps.call_began` of job/steps.py do. Returns false if
 * this is not the usual case; then the Python code has to run. */
bool msp_steps_work(PyObject *steps, bool forward);

/* Return whether a wait for a batch tells nothing about steps, as `Steps.batch_began` of job/steps.py finds it: a step
 * runs, and no dataset was exhausted in it. */
bool msp_steps_waits(const PyObject *steps);

/* Return the address of the only optimizer; 0: there is none or several, or the next step may have no begin yet. */
unsigned long long msp_steps_lone(PyObject *steps);

/* Return whether each step of this optimizer is a step of the job, and the calling thread runs the steps. */
bool msp_steps_of_lone(PyObject *steps, const PyObject *optimizer);

/* End a step at a time in ns, and record it, as `Steps.ended` of job/steps.py does. Returns false with an exception set
 * on failure. */
bool msp_steps_end(PyObject *steps, uint64_t at);

#endif
