/* Facts about operators from the spans around, inside and before them. Knows nothing of Python. */
#ifndef MSP_CALLS_H
#define MSP_CALLS_H

#include "nesting.h"

/* Spans of threads, which are the lanes. */
typedef struct {
  msp_spans spans;
  const uint8_t *category; /* operators, modules, and other categories, which are ignored */
  const uint32_t *name;
} msp_called;

enum { MSP_NO_NAME = UINT32_MAX, MSP_NO_WAIT = -1 };

/* For each operator:
 *
 * module   the name of the innermost module around its start, MSP_NO_NAME outside of all; a module that outlives the
 * one it began in counts up to the end of that one inner    whether no other operator of its thread began in it; one
 * without duration counts as a nanosecond long wait_ns  of inner ones: since the latest end of the inner ones before it
 * in its thread, 0 for the first; MSP_NO_WAIT for others
 *
 * The rows of all others are left alone. Returns false when there is no memory. */
bool msp_calls(int64_t count, const msp_called *of, uint32_t *module, uint8_t *inner, int64_t *wait_ns);

#endif
