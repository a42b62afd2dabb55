/* The object that replaces a function of a framework and records its calls, without a Python frame.
 *
 * A wrapper in Python would have a frame, which counts towards the recursion limit, appears in tracebacks and in
 * `inspect.stack()`, and changes the line that `warnings.warn(stacklevel=...)` reports.
 */
#ifndef MSP_WRAPPER_H
#define MSP_WRAPPER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#include "shortcut.h"
#include "vectorcall.h"

typedef struct msp_wrapper {
  PyObject ob_base;
  vectorcall call;
  PyObject *function; /* the wrapped function */
  vectorcall direct;  /* what calls functions of Python: a copy of it here shares a line of the cache with `function` */
  PyObject *before;   /* called with the arguments before the function; returns the `state` for `after` */
  PyObject *after;    /* after(state, result, exception): called after the function, unless `state` is None */
  PyObject *labels;   /* {id(first argument): (name, category, argument of the span)} */
  PyObject *describe; /* describe(first argument): returns a label; without `labels`, it is for all calls */
  PyObject *failed;   /* failed(exception): handles an exception of `before`, `after`, `describe` or `forked`; raises it
                       * again if it is the job's */
  PyObject *forked;   /* a list: the session, in a fork child that does not record yet; otherwise empty */
  PyObject *references;
  uint32_t name; /* of the span, if no label gives another one */
  uint8_t category;
  uint8_t outermost; /* a kind: of a thread's nested calls of one kind, only the outermost is recorded; 0: all are */
  char idle;         /* true: a call only calls the function, and records nothing */
  char rests;        /* true: the same while `msp_resting` is true */
  struct msp_wrapper *older, *newer; /* among all wrappers with `rests` */
  msp_shortcut shortcut;
} msp_wrapper;

/* Let each wrapper with `rests` rest, or record again, as `msp_resting` says. */
void msp_wrappers_rest(void);

/* Add the type `Wrapper` and its functions to a module. Returns 0, or -1 with an exception set. */
int msp_wrapper_add(PyObject *module);

#endif
