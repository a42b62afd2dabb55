#include "rows.h"

#include <string.h>

enum { INTEGER_MOST = 20, MICROSECONDS_MOST = 22, SECOND = 1000000000 };

/* The whole seconds of the last written time. Most times of a column have the seconds of the time before. */
typedef struct {
  uint64_t seconds; /* 0: there is no such time */
  size_t length;    /* number of digits */
  char digits[INTEGER_MOST + MSP_ROWS_SLACK];
} last_seconds;

static const char pairs[201] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

/* Copy a text. To copy blocks of a fixed size takes less time than to copy the exact number of bytes: a line has some
 * 15 texts, most of them shorter than a block. So up to MSP_ROWS_SLACK bytes behind the text are read and written, too.
 */
static inline char *put(char *to, const char *bytes, size_t length) {
  enum { BLOCK = MSP_ROWS_SLACK / 2 };
  memcpy(to, bytes, BLOCK);
  if (length > BLOCK) memcpy(to + BLOCK, bytes + BLOCK, BLOCK);
  if (length > MSP_ROWS_SLACK) memcpy(to + MSP_ROWS_SLACK, bytes + MSP_ROWS_SLACK, length - MSP_ROWS_SLACK);
  return to + length;
}

static inline char *two_digits(char *to, unsigned value) {
  memcpy(to, pairs + value * 2, 2);
  return to + 2;
}

static char *unsigned_integer(char *to, uint64_t value) {
  int length = 1;
  for (uint64_t rest = value; rest >= 10; rest /= 10) ++length;
  char *end = to + length, *first = end;
  for (; value >= 100; value /= 100) two_digits(first -= 2, (unsigned)(value % 100));
  if (value >= 10)
    two_digits(to, (unsigned)value);
  else
    *to = (char)('0' + value);
  return end;
}

static char *signed_integer(char *to, int64_t value) {
  if (value >= 0) return unsigned_integer(to, (uint64_t)value);
  *to = '-';
  return unsigned_integer(to + 1, 0 - (uint64_t)value);
}

static char *microseconds(char *to, int64_t nanoseconds, last_seconds *last) {
  uint64_t value = (uint64_t)nanoseconds;
  if (nanoseconds < 0) {
    *to++ = '-';
    value = 0 - value;
  }
  uint64_t seconds = value / SECOND;
  unsigned rest = (unsigned)(value % SECOND), whole = rest / 1000;
  if (seconds == 0) {
    to = unsigned_integer(to, whole);
  } else {
    if (seconds != last->seconds) {
      last->seconds = seconds;
      last->length = (size_t)(unsigned_integer(last->digits, seconds) - last->digits);
    }
    to = put(to, last->digits, last->length);
    to = two_digits(to, whole / 10000);
    to = two_digits(to, whole / 100 % 100);
    to = two_digits(to, whole % 100);
  }
  *to++ = '.';
  *to++ = (char)('0' + rest % 1000 / 100);
  return two_digits(to, rest % 100);
}

static inline bool has(const msp_part *part, int64_t row) {
  if (part->valid == NULL) return true;
  int64_t bit = part->offset + row;
  return part->valid[bit >> 3] >> (bit & 7) & 1;
}

size_t msp_rows_write(char *to, const msp_part *parts, size_t count, int64_t first, int64_t rows) {
  char *start = to;
  last_seconds last = {.seconds = 0};
  for (int64_t row = first; row < first + rows; ++row) {
    for (const msp_part *part = parts; part < parts + count; ++part) {
      if (part->kind == MSP_PART_TEXT) {
        to = put(to, part->text.bytes, part->text.length);
      } else if (!has(part, row)) {
        continue;
      } else if (part->kind == MSP_PART_CHOICE) {
        uint32_t index = ((const uint32_t *)part->values)[row];
        if (index < part->count && part->texts[index].bytes != NULL) {
          to = put(to, part->texts[index].bytes, part->texts[index].length);
        }
      } else if (part->kind == MSP_PART_INTEGER) {
        to = signed_integer(to, ((const int64_t *)part->values)[row]);
      } else {
        to = microseconds(to, ((const int64_t *)part->values)[row], &last);
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
