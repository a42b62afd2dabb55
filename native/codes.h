/* Functions of Python, and functions in C that it calls: each is named once in a process. Used only with the GIL. */
#ifndef MSP_CODES_H
#define MSP_CODES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "calls.h"
#include "stacks.h"

typedef struct {
  const void *key;   /* a code object, which is kept alive, or the definition of a function in C */
  const char *named; /* of a function in C: its name, which distinguishes functions at one address */
  uint32_t number;
  msp_function told;
  msp_callee callee;
  bool left_out;    /* because of its file, see msp_codes_choose */
  PyObject *pauses; /* of a generator or coroutine before 3.12: its instructions */
} msp_code;

/* Once per process. Returns 0, or -1 with an exception. */
int msp_codes_init(void);

/* Return the entry of a code object; NULL if there is no room for one more. Runs no code of Python. */
const msp_code *msp_code_of(PyObject *code);

/* As msp_code_of, for an object that Python calls; NULL also if that is no function in C. */
const msp_code *msp_code_of_c(PyObject *callable);

/* Return whether an entry is that of a function in C. */
bool msp_code_is_c(PyObject *callable);

/* Leave out functions by their files, from the next msp_codes_forget on.
 *
 * only: paths or parts of paths: functions of other files are left out; empty: only `without` counts. without: paths
 * or parts of paths: functions of these files are left out. Both are tuples of bytes. A path is absolute, and stands
 * for all below it. Returns 0, or -1 with an exception. */
int msp_codes_choose(PyObject *only, PyObject *without);

/* Forget all functions. Only while nothing samples and no call is open. */
void msp_codes_forget(void);

uint32_t msp_intern_attribute(PyObject *of, PyObject *name);
uint32_t msp_number_attribute(PyObject *of, PyObject *name);

#endif
