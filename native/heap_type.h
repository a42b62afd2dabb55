/* Parts that all types share that this extension makes with PyType_FromSpec. */
#ifndef MSP_HEAP_TYPE_H
#define MSP_HEAP_TYPE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* An entry of a PyType_Slot array for a function. */
#define SLOT(slot, function) {slot, (void *)(uintptr_t)(function)}

/* Free an object of a type with garbage collection, or of a Python class that derives from it. `clear` drops the
 * object's references to others. */
static inline void msp_release(PyObject *object, inquiry clear) {
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  clear(object);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

#endif
