#include "rows.h"

#include <string.h>

enum { INTEGER_MOST = 20, MICROSECONDS_MOST = 22 };

static const char pairs[201] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

static char *unsigned_integer(char *to, uint64_t value) {
  char digits[INTEGER_MOST];
  char *first = digits + INTEGER_MOST;
  while (value >= 100) {
    first -= 2;
    memcpy(first, pairs + value % 100 * 2, 2);
    value /= 100;
  }
  if (value >= 10) {
    first -= 2;
    memcpy(first, pairs + value * 2, 2);
  } else {
    *--first = (char)('0' + value);
  }
  size_t length = (size_t)(digits + INTEGER_MOST - first);
  memcpy(to, first, length);
  return to + length;
}

static char *signed_integer(char *to, int64_t value) {
  if (value >= 0) return unsigned_integer(to, (uint64_t)value);
  *to = '-';
  return unsigned_integer(to + 1, 0 - (uint64_t)value);
}

static char *microseconds(char *to, int64_t nanoseconds) {
  uint64_t value = (uint64_t)nanoseconds;
  if (nanoseconds < 0) {
    *to++ = '-';
    value = 0 - value;
  }
  to = unsigned_integer(to, value / 1000);
  unsigned rest = (unsigned)(value % 1000);
  *to++ = '.';
  *to++ = (char)('0' + rest / 100);
  memcpy(to, pairs + rest % 100 * 2, 2);
  return to + 2;
}

static inline bool has(const msp_part *part, int64_t row) {
  if (part->valid == NULL) return true;
  int64_t bit = part->offset + row;
  return part->valid[bit >> 3] >> (bit & 7) & 1;
}

static inline char *put(char *to, const msp_text *text) {
  memcpy(to, text->bytes, text->length);
  return to + text->length;
}

size_t msp_rows_write(char *to, const msp_part *parts, size_t count, int64_t first, int64_t rows) {
  char *start = to;
  for (int64_t row = first; row < first + rows; ++row) {
    for (const msp_part *part = parts; part < parts + count; ++part) {
      if (part->kind == MSP_PART_TEXT) {
        to = put(to, &part->text);
      } else if (!has(part, row)) {
        continue;
      } else if (part->kind == MSP_PART_CHOICE) {
        uint32_t index = ((const uint32_t *)part->values)[row];
        if (index < part->count && part->texts[index].bytes != NULL) to = put(to, &part->texts[index]);
      } else if (part->kind == MSP_PART_INTEGER) {
        to = signed_integer(to, ((const int64_t *)part->values)[row]);
      } else {
        to = microseconds(to, ((const int64_t *)part->values)[row]);
      }
    }
  }
  return (size_t)(to - start);
}

size_t msp_rows_most(const msp_part *parts, size_t count) {
  size_t most = 0;
  for (const msp_part *part = parts; part < parts + count; ++part) {
    switch (part->kind) {
      case MSP_PART_TEXT:
        most += part->text.length;
        break;
      case MSP_PART_CHOICE:
        most += part->longest;
        break;
      case MSP_PART_INTEGER:
        most += INTEGER_MOST;
        break;
      case MSP_PART_MICROSECONDS:
        most += MICROSECONDS_MOST;
        break;
    }
  }
  return most;
}
