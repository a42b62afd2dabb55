#include "match.h"

#include <string.h>

#include "clock.h"

bool msp_match_take(msp_matches *matches, bool (*read)(uint64_t *theirs)) {
  msp_match best = {0, 0};
  uint64_t narrowest = UINT64_MAX;
  for (int attempt = 0; attempt < 5; ++attempt) {
    uint64_t theirs;
    uint64_t before = msp_now();
    if (!read(&theirs)) return false;
    uint64_t width = msp_now() - before;
    if (width >= narrowest) continue;
    narrowest = width;
    best = (msp_match){theirs, before + width / 2};
  }
  msp_match_add(matches, best, (narrowest + 1) / 2);
  return true;
}

void msp_match_add(msp_matches *matches, msp_match pair, uint64_t half_width_ns) {
  if (matches->count == MSP_MATCHES_MOST) {
    memmove(matches->pairs, matches->pairs + 1, sizeof matches->pairs - sizeof matches->pairs[0]);
    --matches->count;
  }
  matches->pairs[matches->count++] = pair;
  if (half_width_ns > matches->uncertainty_ns) matches->uncertainty_ns = half_width_ns;
}

uint64_t msp_match_wander(const msp_matches *matches) {
  if (matches->count == 0) return 0;
  int64_t first = (int64_t)(matches->pairs[0].theirs - matches->pairs[0].raw_ns);
  int64_t least = first, most = first;
  for (uint32_t at = 1; at < matches->count; ++at) {
    int64_t difference = (int64_t)(matches->pairs[at].theirs - matches->pairs[at].raw_ns);
    if (difference < least) least = difference;
    if (difference > most) most = difference;
  }
  return (uint64_t)(most - least);
}

static uint64_t beside(msp_match pair, uint64_t theirs) { return pair.raw_ns + (theirs - pair.theirs); }

uint64_t msp_match_convert(const msp_matches *matches, uint64_t theirs) {
  if (matches->count == 0) return theirs;
  uint32_t at = matches->count, least = 0;
  while (at > 0 && matches->pairs[at - 1].theirs > theirs) {
    --at;
    if (matches->pairs[at].theirs <= matches->pairs[least].theirs) least = at;
  }
  if (at == 0) return beside(matches->pairs[least], theirs);
  msp_match from = matches->pairs[at - 1];
  if (at == matches->count) return beside(from, theirs);
  msp_match to = matches->pairs[at]; /* later than `from`, so the division is not by zero */
  double share = (double)(theirs - from.theirs) / (double)(to.theirs - from.theirs);
  return from.raw_ns + (uint64_t)(share * (double)(to.raw_ns - from.raw_ns) + 0.5);
}
