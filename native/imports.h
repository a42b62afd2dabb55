/* Replace a function that one loaded library calls in another, by changing the table of imports of the calling
 * library. */
#ifndef MSP_IMPORTS_H
#define MSP_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  void **entry;  /* the table's entry, which holds the address of the function */
  void *before;  /* the address before it was replaced */
  bool lazy;     /* `before` is not the function: the dynamic linker had not looked it up yet */
  char *guarded; /* the page of the entry if the loader has made it read-only, NULL otherwise */
} msp_import;

/* Find the entry of `function` in the table of imports of the library with file name `library`. Returns NULL on
 * success, otherwise the reason of the failure. */
const char *msp_import_find(const char *library, const char *function, msp_import *found);

/* Write an address to the entry. Returns 0 or an errno. Other threads may call the function through the entry
 * meanwhile. */
int msp_import_set(const msp_import *import, void *function);

/* Return the address that the entry holds now. */
void *msp_import_get(const msp_import *import);

#endif
