/* A hash of a text with a key. Without the key, nobody can compute the hash or find the text for it. */
#ifndef MSP_KEYED_HASH_H
#define MSP_KEYED_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Return SipHash-2-4 of a text, see https://www.aumasson.jp/siphash/siphash.pdf. */
uint64_t msp_keyed_hash(const uint64_t key[2], const char *text, size_t length);

#endif
