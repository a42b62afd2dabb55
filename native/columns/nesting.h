/* Find the nesting of spans from their times alone. Knows nothing of Python. */
#ifndef MSP_NESTING_H
#define MSP_NESTING_H

#include <stdbool.h>
#include <stdint.h>

enum { MSP_DEEPEST = UINT16_MAX };

/* Spans of lanes: spans of one lane may contain each other. */
typedef struct {
  const uint64_t *lane;
  const int64_t *start_ns, *end_ns;
} msp_spans;

/* Put the rows of spans into `order`: by lane and start, the longest first, otherwise in the order that they had.
 * Returns false when there is no memory. */
bool msp_order(int64_t count, const msp_spans *of, uint32_t *order);

/* Nest spans.
 *
 * order    is that of `msp_order`
 * depth    of each place in that order: spans of the lane before it that end after its start; one without duration
 *          counts as a nanosecond long. At most MSP_DEEPEST.
 * parent   of each place: the last place before it that ends after its start; UINT32_MAX where there is none.
 *
 * Returns false when there is no memory. */
bool msp_nest(int64_t count, const msp_spans *of, uint32_t *order, uint16_t *depth, uint32_t *parent);

/* Sum up the time inside each span: of each span that names it as its parent and is taken (all, where `taken` is NULL),
 * the part up to the parent's end. `parent` is UINT32_MAX where there is none. `inside` is zero to begin with. */
void msp_inside(int64_t count, const uint32_t *parent, const int64_t *start_ns, const int64_t *end_ns,
                const uint8_t *taken, int64_t *inside);

#endif
