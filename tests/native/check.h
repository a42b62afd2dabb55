/* The check that ends a stress program if its condition is false. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                  \
  do {                                                                    \
    if (!(condition)) {                                                   \
      fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                            \
    }                                                                     \
  } while (0)

#endif
