/* Fields of protobuf messages (protobuf.dev/programming-guides/encoding), and a buffer that collects messages. Does not
 * use Python's API.
 */
#ifndef MSP_PROTOBUF_H
#define MSP_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Tags of fields. A tag has the number of the field and its encoding: 0 is a varint, 1 is eight bytes, 2 is a length
 * and then so many bytes. */
#define MSP_VARINT(field) ((field) << 3)
#define MSP_FIXED64(field) ((field) << 3 | 1)
#define MSP_BYTES(field) ((field) << 3 | 2)

/* A function that receives bytes; it returns false if it accepts no more bytes. */
typedef bool (*msp_sink)(void *context, const uint8_t *bytes, size_t length);

/* A buffer that collects bytes, and passes them on to a function (the sink). The caller sets `sink` and `context`, sets
 * all other fields to 0, and frees `bytes` at the end. */
typedef struct {
  uint8_t *bytes;
  size_t length, room;
  msp_sink sink;
  void *context;
  bool refused; /* the sink accepts no more bytes */
} msp_output;

/* Pass the collected bytes to the sink, the function that receives them. Returns whether the sink accepts more
 * bytes. */
bool msp_output_flush(msp_output *output);

/* Make room for at least `most` more bytes in the buffer. Returns whether there is room. */
bool msp_output_grow(msp_output *output, size_t most);

/* Return a place with room for at least `most` more bytes; NULL if there is no memory. */
static inline uint8_t *msp_output_reserve(msp_output *output, size_t most) {
  if (output->room - output->length < most && !msp_output_grow(output, most)) return NULL;
  return output->bytes + output->length;
}

/* Mark the reserved bytes of the buffer up to `end` as written. */
static inline void msp_output_take(msp_output *output, const uint8_t *end) {
  output->length = (size_t)(end - output->bytes);
}

/* The following functions each write a field to `to`, and return the place after the written bytes. */

static inline uint8_t *msp_varint(uint8_t *to, uint64_t value) {
  while (value >= 0x80) {
    *to++ = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  *to++ = (uint8_t)value;
  return to;
}

static inline uint8_t *msp_number(uint8_t *to, uint64_t tag, uint64_t value) {
  return msp_varint(msp_varint(to, tag), value);
}

static inline uint8_t *msp_eight(uint8_t *to, uint64_t tag, const void *value) {
  to = msp_varint(to, tag);
  memcpy(to, value, 8); /* little endian, as are all supported machines */
  return to + 8;
}

/* Write a message inside another message. `msp_message_begin` returns the place for the inner message's body, after the
 * tag and one byte for the length. `msp_message_end` is called with the end of the complete body. It writes the length,
 * and moves the body if the length needs more than one byte. */
static inline uint8_t *msp_message_begin(uint8_t *to, uint64_t tag) { return msp_varint(to, tag) + 1; }

static inline uint8_t *msp_message_end(uint8_t *body, uint8_t *end) {
  size_t length = (size_t)(end - body);
  if (length < 0x80) {
    body[-1] = (uint8_t)length;
    return end;
  }
  uint8_t header[10];
  size_t extra = (size_t)(msp_varint(header, length) - header) - 1;
  memmove(body + extra, body, length);
  memcpy(body - 1, header, extra + 1);
  return end + extra;
}

#endif
