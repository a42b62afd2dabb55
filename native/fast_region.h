/* Regions that PyTorch's compiled code marks with torch._C._profiler._RecordFunctionFast.
 *
 * PyTorch makes a RecordFunction for such a region only while a profiler is on. So compiled code gets a class of ours
 * instead: an object of it contains one of PyTorch's, and records the region if PyTorch has not reported it.
 */
#ifndef MSP_FAST_REGION_H
#define MSP_FAST_REGION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add the function `fast_region` to the module. Returns -1 with an exception on failure. */
int msp_fast_region_add(PyObject *module);

#endif
