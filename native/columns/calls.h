/* Find the module of each operator, and which operators contain others, from the spans of its thread. Does not use
 * Python's API. */
#ifndef MSP_CALLS_H
#define MSP_CALLS_H

#include "nesting.h"

/* The spans of all threads. A lane is a group of spans that may contain each other; here, each thread is a lane. */
typedef struct {
  msp_spans spans;
  const uint8_t *category; /* operators, modules, and other categories, which are ignored */
  const uint32_t *name;
} msp_called;

enum { MSP_NO_NAME = UINT32_MAX };

/* Compute for each operator:
 *
 * - module: the name of the innermost module around its start, MSP_NO_NAME outside of all modules. If a module ends
 *   after the module in which it began, the inner module counts only up to the end of the outer one.
 * - inner: true if no other operator of the thread began inside this operator. An operator without duration counts as 1
 *   ns long.
 *
 * Rows of spans that are no operators are not changed. Returns false when there is no memory. */
bool msp_calls(int64_t count, const msp_called *of, uint32_t *module, uint8_t *inner);

#endif
