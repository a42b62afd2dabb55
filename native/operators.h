/* Operators that PyTorch reports, through any interface: begins and ends that nest on a thread. */
#ifndef MSP_OPERATORS_H
#define MSP_OPERATORS_H

#include <stdbool.h>
#include <string.h>

#include "writer.h"

typedef enum {
  MSP_OPERATOR,
  MSP_OPERATOR_EXCHANGE,  /* work of torch.distributed, on the thread of its backend that does it */
  MSP_OPERATOR_ELSEWHERE, /* such work that ends on another thread than it begins, or where it is waited for */
} msp_operator_kind;

static inline bool msp_operator_is(const char *name, const char *with, size_t length) {
  return strncmp(name, with, length) == 0 && name[length] != ':';
}

/* By its name; an operator's name has two colons. gloo reports collectives from its own threads, and messages from
 * the calling thread, as mpi does for all its work. */
static inline msp_operator_kind msp_operator_kind_of(const char *name) {
  if (name[0] != 'g' && name[0] != 'm') return MSP_OPERATOR; /* the usual case */
  if (msp_operator_is(name, "mpi:", 4)) return MSP_OPERATOR_ELSEWHERE;
  if (!msp_operator_is(name, "gloo:", 5)) return MSP_OPERATOR;
  bool message = strncmp(name + 5, "send", 4) == 0 || strncmp(name + 5, "recv", 4) == 0;
  return message ? MSP_OPERATOR_ELSEWHERE : MSP_OPERATOR_EXCHANGE;
}

static inline uint8_t msp_operator_category(msp_operator_kind kind) {
  return kind == MSP_OPERATOR ? MSP_CATEGORY_OP : MSP_CATEGORY_COMMUNICATION;
}

static inline bool msp_operator_admits(const msp_writer *writer, msp_operator_kind kind) {
  return msp_writer_admits(writer, msp_operator_category(kind));
}

/* Record that an operator begins, which the writer admits; one that ends elsewhere is a moment and no span. */
static inline void msp_operator_begin(msp_writer *writer, uint32_t text, msp_operator_kind kind, uint64_t arg) {
  if (kind == MSP_OPERATOR_ELSEWHERE) {
    msp_instant(text, msp_operator_category(kind), 0);
  } else {
    msp_writer_begin(writer, text, msp_operator_category(kind), arg, true);
  }
}

/* The end of an operator does not name the operator. They nest on a thread, so each is counted, recorded or not. */
static inline void msp_operator_end(msp_writer *writer) {
  if (writer->ops == 0) return; /* it began before the session */
  uint32_t depth = writer->depth;
  if (depth > 0) {
    /* no operator has begun inside of a call of Python's that exchanges, or waits for that: a message ends there */
    const msp_open_span *last = &writer->open[depth - 1];
    if (!last->op && last->category == MSP_CATEGORY_COMMUNICATION && last->ops == (uint16_t)writer->ops) return;
  }
  uint32_t inside = writer->ops--;
  while (depth > 0 && writer->open[depth - 1].ops >= inside) --depth;
  if (depth == 0) return;
  const msp_open_span *span = &writer->open[depth - 1];
  if (!span->op || span->ops != writer->ops) return; /* it was not recorded */
  /* only an exception goes past the end of a span of Python's */
  msp_writer_end(writer, depth - 1, 0, MSP_FLAG_ABANDONED | MSP_FLAG_RAISED);
}

#endif
