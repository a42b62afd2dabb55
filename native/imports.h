/* Replace a function that a loaded library calls in another library. To do so, change the address in the calling
 * library's table of imports. */
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
 * success, or the reason of the failure. */
const char *msp_import_find(const char *library, const char *function, msp_import *found);

/* Write an address to an entry of a table of imports. Returns 0 or an errno. Other threads may call the function
 * through this entry meanwhile. */
int msp_import_set(const msp_import *import, void *function);

/* Return the address that an entry of a table of imports holds now. */
void *msp_import_get(const msp_import *import);

#endif
