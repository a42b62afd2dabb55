/* The Python lines in which a thread allocates memory for tensors. The blocks of memory themselves are in blocks.h. */
#ifndef MSP_BLOCK_PLACES_H
#define MSP_BLOCK_PLACES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add the function `block_places` to the module. Returns 0, or -1 with an exception. */
int msp_block_places_add(PyObject *module);

#endif
