#include "protobuf.h"

#include <stdlib.h>

/* Approximate number of bytes that a sink gets at once. */
enum { SINK_BYTES = 1 << 20 };

bool msp_output_flush(msp_output *output) {
  if (output->length == 0) return true;
  if (!output->sink(output->context, output->bytes, output->length)) output->refused = true;
  output->length = 0;
  return !output->refused;
}

bool msp_output_grow(msp_output *output, size_t most) {
  if (!msp_output_flush(output)) return false;
  if (output->room >= most) return true;
  size_t room = most + SINK_BYTES;
  uint8_t *larger = realloc(output->bytes, room);
  if (larger == NULL) return false;
  output->bytes = larger;
  output->room = room;
  return true;
}
