/* Write lines of JSON and of CSV from columns, at some 100 ns a line. Does not use Python's API. */
#ifndef MSP_ROWS_H
#define MSP_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* number of bytes that may be read behind a text, and written behind a line */
enum { MSP_ROWS_SLACK = 32 };

typedef struct {
  const char *bytes;
  size_t length;
} msp_text;

typedef enum {
  MSP_PART_TEXT,         /* the same text in each row */
  MSP_PART_CHOICE,       /* one of several texts, by an index; no text for null */
  MSP_PART_INTEGER,      /* an int64; no text for null */
  MSP_PART_MICROSECONDS, /* nanoseconds as microseconds with three decimals; no text for null */
} msp_part_kind;

typedef struct {
  msp_part_kind kind;
  msp_text text;         /* MSP_PART_TEXT; MSP_ROWS_SLACK bytes behind it can be read */
  const msp_text *texts; /* MSP_PART_CHOICE: the texts, as `text`; one without bytes stands for no text */
  size_t count;          /* number of `texts` */
  size_t longest;        /* length of the longest one */
  const void *values;    /* int64, or uint32 for MSP_PART_CHOICE */
  const uint8_t *valid;  /* one bit for each row, from bit `offset` on: whether it has a value; NULL: all have */
  int64_t offset;
} msp_part;

/* Write the lines of `rows` rows, from row `first` on. A line consists of its parts, one after the other. `to` has room
 * for `msp_rows_most` bytes for each row, and for MSP_ROWS_SLACK more. Returns the number of written bytes. An index
 * that is out of range stands for no text. */
size_t msp_rows_write(char *to, const msp_part *parts, size_t count, int64_t first, int64_t rows);

/* Return the largest number of bytes that the line of a row may take. */
size_t msp_rows_most(const msp_part *parts, size_t count);

#endif
