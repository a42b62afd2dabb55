/* Operators as PyTorch reports them, whatever interface it does that through: begins and ends that nest on a thread. */
#ifndef MSP_OPERATORS_H
#define MSP_OPERATORS_H

#include <stdbool.h>
#include <string.h>

#include "writer.h"

static inline bool msp_operator_is(const char *name, const char *with, size_t length) {
  return strncmp(name, with, length) == 0 && name[length] != ':';
}

/* Work of these backends of torch.distributed begins on the thread that asks for it and ends on another: no span of
 * either. The names of operators have two colons. */
static inline bool msp_operator_ends_elsewhere(const char *name) {
  if (name[0] != 'g' && name[0] != 'm') return false; /* the usual case */
  return msp_operator_is(name, "gloo:", 5) || msp_operator_is(name, "mpi:", 4);
}

/* Record that an operator begins, which the writer admits. */
static inline void msp_operator_begin(msp_writer *writer, uint32_t text, bool elsewhere, uint64_t arg) {
  if (elsewhere) {
    msp_instant(text, MSP_CATEGORY_COMMUNICATION, 0);
  } else {
    msp_writer_begin(writer, text, MSP_CATEGORY_OP, arg, true);
  }
}

/* The end of an operator does not say of which. They nest on a thread, so each is counted, recorded or not. */
static inline void msp_operator_end(msp_writer *writer) {
  if (writer->ops == 0) return; /* it began before the session */
  uint32_t inside = writer->ops--;
  uint32_t depth = writer->depth;
  while (depth > 0 && writer->open[depth - 1].ops >= inside) --depth;
  if (depth == 0) return;
  const msp_open_span *span = &writer->open[depth - 1];
  if (!span->op || span->ops != writer->ops) return; /* it was not recorded */
  /* only an exception goes past the end of a span of Python's */
  msp_writer_end(writer, depth - 1, 0, MSP_FLAG_ABANDONED | MSP_FLAG_RAISED);
}

#endif
