/* A function that a loaded library calls in another one: find the entry of its table of imports, and change it. */
#ifndef MSP_IMPORTS_H
#define MSP_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  void **entry;  /* where the library looks the function up */
  void *before;  /* the address that was there */
  bool lazy;     /* that address was no function yet: the linker has not looked it up */
  char *guarded; /* the page of the entry, where the loader has made it read-only; NULL otherwise */
} msp_import;

/* Find the entry of `function` in the library of that file name. Returns NULL on success, or the reason. */
const char *msp_import_find(const char *library, const char *function, msp_import *found);

/* Write an address to the entry. Returns 0 or an errno. Other threads may call through the entry meanwhile. */
int msp_import_set(const msp_import *import, void *function);

/* The address that the entry holds now. */
void *msp_import_get(const msp_import *import);

#endif
