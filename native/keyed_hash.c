#include "keyed_hash.h"

#include <string.h>

static uint64_t turned(uint64_t value, unsigned bits) { return value << bits | value >> (64 - bits); }

static void round_of(uint64_t v[4]) {
  v[0] += v[1];
  v[1] = turned(v[1], 13) ^ v[0];
  v[0] = turned(v[0], 32);
  v[2] += v[3];
  v[3] = turned(v[3], 16) ^ v[2];
  v[0] += v[3];
  v[3] = turned(v[3], 21) ^ v[0];
  v[2] += v[1];
  v[1] = turned(v[1], 17) ^ v[2];
  v[2] = turned(v[2], 32);
}

static void take(uint64_t v[4], uint64_t part) {
  v[3] ^= part;
  round_of(v);
  round_of(v);
  v[0] ^= part;
}

uint64_t msp_keyed_hash(const uint64_t key[2], const char *text, size_t length) {
  uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                   key[1] ^ 0x7465646279746573u};
  size_t at = 0;
  uint64_t part;
  for (; at + sizeof part <= length; at += sizeof part) {
    memcpy(&part, text + at, sizeof part);
    take(v, part);
  }
  part = 0;
  memcpy(&part, text + at, length - at);
  take(v, part | (uint64_t)length << 56);
  v[2] ^= 0xff;
  for (int number = 0; number < 4; ++number) round_of(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}
