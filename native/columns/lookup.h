/* Look up rows of a table. Does not use Python's API. */
#ifndef MSP_LOOKUP_H
#define MSP_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

enum { MSP_NOWHERE = UINT32_MAX };

/* Return the row of the interval that contains a time; MSP_NOWHERE if no interval does. The end of an interval does not
 * belong to the interval. The intervals are sorted by time and do not overlap. `near` points to the row where the
 * search begins; the function stores there where the next search should begin. */
uint32_t msp_locate(int64_t time, const int64_t *start, const int64_t *end, int64_t count, int64_t *near);

/* Look up each pair of numbers in a table of known pairs, and write the row that was found into `rows`. This is the
 * first row if the table has the pair several times, and MSP_NOWHERE if the table lacks the pair. Returns false if
 * there is no memory. */
bool msp_find(int64_t count, const uint32_t *first, const uint32_t *second, int64_t known, const uint32_t *known_first,
              const uint32_t *known_second, uint32_t *rows);

/* Look up each pair of a key and a time in a table of known rows, which is sorted by time. Write into `rows` the latest
 * known row that has this key and is not later than this time; MSP_NOWHERE if there is none. Of rows with equal times,
 * the last one counts. Returns false if there is no memory. */
bool msp_latest(int64_t count, const uint32_t *key, const int64_t *time, int64_t known, const uint32_t *known_key,
                const int64_t *known_time, uint32_t *rows);

#endif
