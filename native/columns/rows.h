/* Rows of text from columns: lines of JSON and of CSV, at some 100 ns a row. Knows nothing of Python. */
#ifndef MSP_ROWS_H
#define MSP_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  const char *bytes;
  size_t length;
} msp_text;

typedef enum {
  MSP_PART_TEXT,         /* the same text in each row */
  MSP_PART_CHOICE,       /* one of several texts, by an index; nothing where there is none */
  MSP_PART_INTEGER,      /* an int64; nothing where there is none */
  MSP_PART_MICROSECONDS, /* nanoseconds as microseconds with three decimals; nothing where there are none */
} msp_part_kind;

typedef struct {
  msp_part_kind kind;
  msp_text text;         /* MSP_PART_TEXT */
  const msp_text *texts; /* MSP_PART_CHOICE; one without bytes is nothing */
  size_t count;          /* of these */
  size_t longest;        /* of these */
  const void *values;    /* int64, or uint32 for MSP_PART_CHOICE */
  const uint8_t *valid;  /* a bit a row, from `offset`; NULL: all are */
  int64_t offset;
} msp_part;

/* Write the rows, each its parts one after the other, where there is room for `msp_rows_most` bytes; returns how many
 * it wrote. An index that is out of range stands for no text. */
size_t msp_rows_write(char *to, const msp_part *parts, size_t count, int64_t first, int64_t rows);

/* Bytes that one row takes at most. */
size_t msp_rows_most(const msp_part *parts, size_t count);

#endif
