#include "strands.h"

#include <string.h>

#define CAPSULE "greenlet._C_API"
#define CURRENT 4 /* index of the function that returns the running greenlet */

PyObject *(*msp_strand_running)(void);

void msp_strands_find(void) {
  if (msp_strand_running != NULL) return;
  PyObject *modules = PyImport_GetModuleDict();
  if (modules == NULL || PyDict_GetItemString(modules, "greenlet") == NULL) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  void **functions = PyCapsule_Import(CAPSULE, 1); /* NULL while greenlet is being imported */
  PyErr_Clear();
  PyErr_Restore(type, value, trace);
  if (functions != NULL) memcpy(&msp_strand_running, &functions[CURRENT], sizeof msp_strand_running);
}
