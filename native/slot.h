/* Fill and commit slots: the records of 32 bytes in the store. file_format.h has the rule for the order of the
 * stores. */
#ifndef MSP_SLOT_H
#define MSP_SLOT_H

#include "file_format.h"

typedef uint32_t __attribute__((may_alias)) msp_word;

/* Return the value of a slot's last 32-bit word, which has kind, category, flags and extra in the order of their
 * addresses. */
static inline uint32_t msp_slot_word(uint8_t kind, uint8_t category, uint8_t flags, uint8_t extra) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return (uint32_t)kind | (uint32_t)category << 8 | (uint32_t)flags << 16 | (uint32_t)extra << 24;
#else
  return (uint32_t)kind << 24 | (uint32_t)category << 16 | (uint32_t)flags << 8 | (uint32_t)extra;
#endif
}

static inline uint8_t msp_slot_extra(uint32_t word) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return (uint8_t)(word >> 24);
#else
  return (uint8_t)word;
#endif
}

static inline msp_word *msp_slot_last(msp_slot *slot) { return (msp_word *)(void *)&slot->kind; }

/* Fill and commit a slot. Another thread may copy the slot to its file at the same time, so the stores are atomic.
 * Relaxed stores take no longer than normal ones. */
static inline void msp_slot_commit(msp_slot *slot, uint64_t start_ns, uint64_t end_ns, uint64_t arg, uint32_t name,
                                   uint32_t word) {
  __atomic_store_n(&slot->start_ns, start_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->end_ns, end_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->arg, arg, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->name, name, __ATOMIC_RELAXED);
  __atomic_store_n(msp_slot_last(slot), word, __ATOMIC_RELEASE);
}

/* Record the end of a span: turn its MSP_KIND_OPEN slot into an MSP_KIND_SPAN slot. */
static inline void msp_slot_end(msp_slot *slot, uint64_t end_ns, uint8_t category, uint8_t flags) {
  __atomic_store_n(&slot->end_ns, end_ns, __ATOMIC_RELAXED);
  __atomic_store_n(msp_slot_last(slot), msp_slot_word(MSP_KIND_SPAN, category, flags, 0), __ATOMIC_RELEASE);
}

#endif
