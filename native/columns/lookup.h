/* Look up rows of a table. Does not use Python's API. */
#ifndef MSP_LOOKUP_H
#define MSP_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

enum { MSP_NOWHERE = UINT32_MAX };

/* Return the row of the interval that contains a time; MSP_NOWHERE if there is none. The end of an interval does not
 * belong to it. The intervals are sorted by time and do not overlap. `near` is the row to try first, and receives the
 * row to try first in the next call. */
uint32_t msp_locate(int64_t time, const int64_t *start, const int64_t *end, int64_t count, int64_t *near);

/* For each pair, write its row in the table of known pairs into `rows`: the first row if the table has it several
 * times, MSP_NOWHERE if the table lacks it. Returns false if there is no memory. */
bool msp_find(int64_t count, const uint32_t *first, const uint32_t *second, int64_t known, const uint32_t *known_first,
              const uint32_t *known_second, uint32_t *rows);

/* For each key and time, write into `rows` the latest known row with this key, at or before the time; MSP_NOWHERE if
 * there is none. The known rows are sorted by time; of rows with equal times, the last one counts. Returns false if
 * there is no memory. */
bool msp_latest(int64_t count, const uint32_t *key, const int64_t *time, int64_t known, const uint32_t *known_key,
                const int64_t *known_time, uint32_t *rows);

#endif
