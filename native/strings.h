/* Strings by content: one id per text for the life of the process and of its fork children.
 *
 * An id outlives sessions, so a hook may intern its labels once. Opening a store writes all known strings; later
 * ones are written on first sight. Look-ups take no lock.
 */
#ifndef MSP_STRINGS_H
#define MSP_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The owner of a text. A job may make names without end, so an eighth of the room is reserved for our own names; and
 * the number of names of short-lived objects is bounded by the number of these objects. */
typedef enum { MSP_OURS, MSP_OF_THE_JOB, MSP_COUNTED, MSP_OF_THE_SYSTEM } msp_origin;

/* Return the id of `text`, 0 when it is empty, or cannot be kept or written: a process keeps 65536 texts and 8 MB, and
 * of those that are MSP_COUNTED or MSP_OF_THE_SYSTEM no new one from `most` on. Cut to MSP_STRING_MAX bytes at a
 * character's start. */
uint32_t msp_intern(const char *text, size_t length, msp_origin origin, uint32_t most);

/* From now on write texts that the system or the job has made (MSP_OF_THE_JOB, MSP_OF_THE_SYSTEM) as a keyed hash of
 * them, but for shapes, and operators and nodes of autograd that PyTorch defines. */
void msp_strings_anonymize(const unsigned char key[16]);

/* Whether texts are written as hashes. */
bool msp_strings_anonymous(void);

/* Return the length of a text that was cut anywhere, without the part of a character at its end. */
size_t msp_whole_characters(const char *text, size_t length);

/* The texts that were interned last, by address: names of operators keep their addresses, so no hash is needed. */
typedef struct {
  struct {
    const char *from;
    const char *text; /* the text of the entry that was there */
    uint32_t id;
    uint32_t session; /* it was written to */
  } entries[128];
} msp_recent;

#define MSP_RECENT(recent, text) (&(recent)->entries[((uintptr_t)(text) >> 4 ^ (uintptr_t)(text) >> 11) & 127u])

/* As msp_intern, for a text that ends with a zero, while `session` is open. */
uint32_t msp_intern_anew(msp_recent *recent, const char *text, uint32_t session);

static inline uint32_t msp_intern_recent(msp_recent *recent, const char *text, uint32_t session) {
  if (MSP_RECENT(recent, text)->from == text && MSP_RECENT(recent, text)->session == session &&
      strcmp(MSP_RECENT(recent, text)->text, text) == 0) {
    return MSP_RECENT(recent, text)->id;
  }
  return msp_intern_anew(recent, text, session);
}

/* Number of texts that were refused because the process holds too many, over the life of the process. */
uint64_t msp_strings_refused(void);

/* Slots that all strings take in a store. In the control stream's lock. */
uint32_t msp_strings_slots(void);

/* Write the strings that are not in the store of `session` yet. In the control stream's lock. */
void msp_strings_write(uint32_t session);

/* Repair a change that a fork may have interrupted, at the next use. */
void msp_strings_after_fork(void);

#endif
