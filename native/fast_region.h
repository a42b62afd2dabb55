/* Regions that PyTorch's compiled code marks with torch._C._profiler._RecordFunctionFast.
 *
 * PyTorch reports the region of a _RecordFunctionFast object only while a profiler is on. So compiled code gets a class
 * of ours instead. An object of our class contains an object of PyTorch's class. It records the region if PyTorch does
 * not report the region.
 */
#ifndef MSP_FAST_REGION_H
#define MSP_FAST_REGION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add the function `fast_region` to the module. Returns -1 with an exception on failure. */
int msp_fast_region_add(PyObject *module);

#endif
