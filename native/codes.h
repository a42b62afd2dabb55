/* A table with one entry for each function that is traced: Python functions, and C functions that Python calls. A
 * process stores each name once. Callers of all functions of this file must hold the GIL. */
#ifndef MSP_CODES_H
#define MSP_CODES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "calls.h"
#include "stacks.h"

typedef struct {
  const void *key;   /* a code object, which the entry keeps alive, or the definition of a function in C */
  const char *named; /* only for a function in C: its name, which distinguishes functions at the same address */
  uint32_t number;
  msp_function source;
  msp_callee callee;
  bool left_out;    /* calls are not traced because of the function's file, see msp_codes_choose */
  PyObject *pauses; /* only for generators and coroutines before Python 3.12: their instructions */
} msp_code;

/* Set up the table; called once per process. Returns 0, or -1 with an exception. */
int msp_codes_init(void);

/* Return the table's entry for a code object; NULL if there is no room for another entry. Runs no Python code. */
const msp_code *msp_code_of(PyObject *code);

/* Return the table's entry for a C function that Python calls. NULL: there is no room, or the object is no C
 * function. */
const msp_code *msp_code_of_c(PyObject *callable);

/* Return whether a callable is a function in C, for which the table may have an entry. */
bool msp_code_is_c(PyObject *callable);

/* Select by file path the functions whose calls are traced. The selection takes effect at the next msp_codes_forget.
 *
 * only: paths of the files whose functions are traced; an empty tuple stands for all files.
 * without: paths of the files whose functions are left out.
 * Both are tuples of bytes. An absolute path stands for all files below it. Any other text stands for all files whose
 * path contains the text. Returns 0, or -1 with an exception. */
int msp_codes_choose(PyObject *only, PyObject *without);

/* Remove all functions from the table. Called only while no stacks are sampled and no traced call is open. */
void msp_codes_forget(void);

uint32_t msp_intern_attribute(PyObject *of, PyObject *name);
uint32_t msp_number_attribute(PyObject *of, PyObject *name);

#endif
