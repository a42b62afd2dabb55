/* PyTorch's hooks for the begin and the end of an optimizer's step, without Python code in the usual case.
 *
 * A hook in Python takes 3 us of each step for its own frame alone: since the last step, the job's work has taken the
 * place of our code in the caches. steps.h says what is usual. In any other case, the hook in C calls the hook in
 * Python (job/frameworks/torch/optimizers.py).
 */
#ifndef MSP_OPTIMIZERS_H
#define MSP_OPTIMIZERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* Whether hooks that may rest record nothing now: a wrapper with `rests` only calls its function, and the steps of
 * optimizers have no spans; see job/rest.py. */
extern bool msp_resting;

/* Add the type of the hooks and the functions to a module. Returns 0, or -1 with an exception set. */
int msp_optimizers_add(PyObject *module);

#endif
