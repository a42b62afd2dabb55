/* Look up rows of a table. Knows nothing of Python. */
#ifndef MSP_LOOKUP_H
#define MSP_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

enum { MSP_NOWHERE = UINT32_MAX };

/* The row of the interval that contains a time, MSP_NOWHERE where none does; the end of one does not belong to it. The
 * intervals are apart from each other and by time. `near` is where to look first. */
uint32_t msp_locate(int64_t time, const int64_t *start, const int64_t *end, int64_t count, int64_t *near);

/* Put the row of each pair among the known ones into `rows`, the first if there are several, MSP_NOWHERE if there is
 * none. Returns false when there is no memory. */
bool msp_find(int64_t count, const uint32_t *first, const uint32_t *second, int64_t known, const uint32_t *known_first,
              const uint32_t *known_second, uint32_t *rows);

/* Put the row of the latest of the known ones with the same key, at or before its time, into `rows` for each key,
 * MSP_NOWHERE where there is none. The known ones are by time; of equal times the last counts. Returns false when there
 * is no memory. */
bool msp_latest(int64_t count, const uint32_t *key, const int64_t *time, int64_t known, const uint32_t *known_key,
                const int64_t *known_time, uint32_t *rows);

#endif
