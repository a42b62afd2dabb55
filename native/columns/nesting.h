/* Compute from the times of spans which span is inside which. Does not use Python's API. */
#ifndef MSP_NESTING_H
#define MSP_NESTING_H

#include <stdbool.h>
#include <stdint.h>

enum { MSP_DEEPEST = UINT16_MAX };

/* Spans with their lanes. A lane is a group of spans, for example those of a thread; only spans of one lane may contain
 * each other. */
typedef struct {
  const uint64_t *lane;
  const int64_t *start_ns, *end_ns;
} msp_spans;

/* Sort spans by lane, start, and length, the longest first, and write their rows into `order`. Equal spans stay in
 * their order. Returns false when there is no memory. */
bool msp_order(int64_t count, const msp_spans *of, uint32_t *order);

/* Nest spans.
 *
 * order    receives the order of `msp_order`; a place below is an index into this order.
 * depth    for each place in this order: the number of earlier spans of the lane that end after its start, at most
 *          MSP_DEEPEST. A span without duration counts as 1 ns long.
 * parent   for each place: the last earlier place of the lane that ends after its start, UINT32_MAX if there is none.
 *
 * Returns false when there is no memory. */
bool msp_nest(int64_t count, const msp_spans *of, uint32_t *order, uint16_t *depth, uint32_t *parent);

/* Add up, for each span, the time that its direct children take: add the duration of each span to the `inside` of its
 * parent. A part of a span after the parent's end does not count.
 *
 * parent: the place of each span's parent, UINT32_MAX if it has none.
 * taken: 0 for each span that is not added; NULL: all are.
 * inside: the sums; the caller sets them to 0. */
void msp_inside(int64_t count, const uint32_t *parent, const int64_t *start_ns, const int64_t *end_ns,
                const uint8_t *taken, int64_t *inside);

#endif
