/* Record the operators that PyTorch reports. Their begins and ends nest on each thread. */
#ifndef MSP_OPERATORS_H
#define MSP_OPERATORS_H

#include <stdbool.h>
#include <string.h>

#include "writer.h"

typedef enum {
  MSP_OPERATOR,
  MSP_OPERATOR_REGION,    /* a region of the user */
  MSP_OPERATOR_EXCHANGE,  /* an exchange of torch.distributed, on the thread of the backend that runs it */
  MSP_OPERATOR_ELSEWHERE, /* an exchange whose end is reported on another thread, or in the call that waits for it */
} msp_operator_kind;

static inline bool msp_operator_is(const char *name, const char *with, size_t length) {
  return strncmp(name, with, length) == 0 && name[length] != ':';
}

/* Return the kind of an operator by its name. The name of an exchange has one colon ("gloo:", "mpi:"), the name of an
 * operator has two ("aten::"). gloo reports collectives on its own threads, and messages on the calling thread; mpi
 * reports all exchanges on the calling thread. */
static inline msp_operator_kind msp_operator_kind_of(const char *name) {
  if (name[0] != 'g' && name[0] != 'm') return MSP_OPERATOR; /* the quick test for most operators */
  if (msp_operator_is(name, "mpi:", 4)) return MSP_OPERATOR_ELSEWHERE;
  if (!msp_operator_is(name, "gloo:", 5)) return MSP_OPERATOR;
  bool message = strncmp(name + 5, "send", 4) == 0 || strncmp(name + 5, "recv", 4) == 0;
  return message ? MSP_OPERATOR_ELSEWHERE : MSP_OPERATOR_EXCHANGE;
}

static inline uint8_t msp_operator_category(msp_operator_kind kind) {
  if (kind == MSP_OPERATOR_REGION) return MSP_CATEGORY_MARKER;
  return kind == MSP_OPERATOR ? MSP_CATEGORY_OP : MSP_CATEGORY_COMMUNICATION;
}

static inline bool msp_operator_admits(const msp_writer *writer, msp_operator_kind kind) {
  return msp_writer_admits(writer, msp_operator_category(kind));
}

/* Record the begin of an operator for which msp_operator_admits is true. An exchange whose end is reported elsewhere
 * becomes an instant instead of a span. */
static inline void msp_operator_begin(msp_writer *writer, uint32_t text, msp_operator_kind kind, uint64_t arg) {
  if (kind == MSP_OPERATOR_ELSEWHERE) {
    msp_instant(text, msp_operator_category(kind), 0);
  } else {
    msp_writer_begin(writer, text, msp_operator_category(kind), arg, true);
  }
}

/* Record the end of the innermost operator of this thread. The report lacks the operator's name, so this file counts
 * all operators, also those that are not recorded. */
static inline void msp_operator_end(msp_writer *writer) {
  if (writer->ops == 0) return; /* the operator began before the session */
  uint32_t depth = writer->depth;
  if (depth > 0) {
    /* The innermost span is a Python call that makes an exchange or waits for one, and no operator has begun inside of
     * it. So this is the end of an MSP_OPERATOR_ELSEWHERE, which was not counted. */
    const msp_open_span *last = &writer->open[depth - 1];
    if (!last->op && last->category == MSP_CATEGORY_COMMUNICATION && last->ops == (uint16_t)writer->ops) return;
  }
  uint32_t inside = writer->ops--;
  while (depth > 0 && writer->open[depth - 1].ops >= inside) --depth;
  if (depth == 0) return;
  const msp_open_span *span = &writer->open[depth - 1];
  if (!span->op || span->ops != writer->ops) return; /* the operator was not recorded */
  /* an exception has ended the Python spans that are still open inside of the operator */
  msp_writer_end(writer, depth - 1, 0, MSP_FLAG_ABANDONED | MSP_FLAG_RAISED);
}

#endif
