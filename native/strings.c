#include "strings.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "file_format.h"
#include "gate.h"
#include "keyed_hash.h"
#include "recorder.h"

/* Limits on all texts together. A job may make a new name for every event; without limits, these names would fill its
 * memory. */
#define KEPT_BYTES_MOST (8u << 20)
#define KEPT_MOST 65536u
#define OF_THE_JOB(most) ((most) / 8 * 7) /* part of a limit for names of the job; the rest is for the profiler */
#define FIRST_CELLS 1024

typedef struct msp_string {
  struct msp_string *next; /* the string with the next id */
  uint64_t hash;
  uint32_t id;
  uint32_t session; /* the last session whose store has the text */
  uint16_t length;
  bool counted; /* the number `counted` includes this text */
  bool hidden;  /* the store gets a hash instead of the text */
  char text[];
} msp_string;

typedef struct msp_table {
  struct msp_table *outgrown;
  uint32_t mask;
  msp_string *cells[];
} msp_table;

/* The hash table of all texts. It changes only while the control stream's lock is held. But other threads read it
 * without the lock, and a fork may happen during a change. So each pointer changes by one atomic store. A larger table
 * replaces a full one. The old tables are not freed, because a thread may still read them; all old tables together are
 * smaller than the current one. */
static msp_table *table;
static msp_string *oldest, *newest;
static uint32_t count;
static uint32_t counted; /* texts of MSP_COUNTED and MSP_OF_THE_SYSTEM */
static size_t kept_bytes;
static uint32_t kept_slots; /* slots that all texts take in a store */
static uint64_t refused;    /* texts refused because a limit was reached */
static bool anonymous;
static uint64_t secret[2]; /* key of the hash of hidden texts */
static bool torn;          /* this is a fork child, and the fork may have interrupted a change */

static uint32_t slots_of(size_t length) { return 1 + (uint32_t)((length + MSP_SLOT_SIZE - 1) / MSP_SLOT_SIZE); }

static uint64_t hash_of(const char *text, size_t length) {
  const uint64_t multiplier = 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio */
  uint64_t hash = length * multiplier;
  while (length > 0) {
    uint64_t part = 0;
    size_t taken = length < sizeof part ? length : sizeof part;
    memcpy(&part, text, taken);
    hash = (hash ^ part) * multiplier;
    hash ^= hash >> 32;
    text += taken;
    length -= taken;
  }
  return hash;
}

void msp_strings_anonymize(const unsigned char key[16]) {
  memcpy(secret, key, sizeof secret);
  anonymous = true;
}

bool msp_strings_anonymous(void) { return anonymous; }

static bool begins(const char *text, size_t length, const char *with) {
  return length >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

/* Return whether a text says nothing about the job, and so need not be hidden: shapes, or the name of an operator or a
 * node of autograd that PyTorch defines. */
static bool is_generic(const char *text, size_t length) {
  static const char *const operators[] = {"aten::", "prim::", "prims::", "c10d::", "c10::", "AccumulateGrad"};
  for (size_t at = 0; at < sizeof operators / sizeof *operators; ++at) {
    if (begins(text, length, operators[at])) return true;
  }
  size_t end = length, signs = 0;
  while (end > 0 && text[end - 1] >= '0' && text[end - 1] <= '9') --end;
  if (end < length && end > 8 && memcmp(text + end - 8, "Backward", 8) == 0) return true;
  while (signs < length && strchr("0123456789,;()[]. -", text[signs]) != NULL && text[signs] != 0) ++signs;
  return signs == length;
}

static bool is_hidden(const char *text, size_t length, msp_origin origin) {
  return anonymous && (origin == MSP_OF_THE_JOB || origin == MSP_OF_THE_SYSTEM) && !is_generic(text, length);
}

/* Return the hash of a text for a look-up in the table. The hash depends on `hidden`: one text may be both a name of
 * the job, which is hidden, and a label of the profiler, which is not. The table then has two entries. */
static uint64_t hash_as(const char *text, size_t length, bool hidden) {
  return hidden ? ~hash_of(text, length) : hash_of(text, length);
}

static msp_string *find(uint64_t hash, const char *text, size_t length) {
  msp_table *in = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
  if (in == NULL) return NULL;
  for (uint32_t at = (uint32_t)hash & in->mask;; at = (at + 1) & in->mask) {
    msp_string *string = __atomic_load_n(&in->cells[at], __ATOMIC_ACQUIRE);
    if (string == NULL) return NULL;
    if (string->hash == hash && string->length == length && memcmp(string->text, text, length) == 0) return string;
  }
}

static void place(msp_table *in, msp_string *string) {
  uint32_t at = (uint32_t)string->hash & in->mask;
  while (in->cells[at] != NULL) at = (at + 1) & in->mask;
  __atomic_store_n(&in->cells[at], string, __ATOMIC_RELEASE);
}

static bool make_room(void) {
  uint32_t cells = table == NULL ? 0 : table->mask + 1;
  if (3 * (uint64_t)count < 2 * (uint64_t)cells) return true;
  cells = cells == 0 ? FIRST_CELLS : 2 * cells;
  msp_table *grown = calloc(1, sizeof *grown + cells * sizeof *grown->cells);
  if (grown == NULL) return false;
  grown->outgrown = table;
  grown->mask = cells - 1;
  for (msp_string *string = oldest; string != NULL; string = string->next) place(grown, string);
  __atomic_store_n(&table, grown, __ATOMIC_RELEASE);
  return true;
}

static bool is_counted(msp_origin origin) { return origin == MSP_COUNTED || origin == MSP_OF_THE_SYSTEM; }

static bool full(size_t length, msp_origin origin, uint32_t most) {
  uint32_t texts = origin == MSP_OURS ? KEPT_MOST : OF_THE_JOB(KEPT_MOST);
  size_t bytes = origin == MSP_OURS ? KEPT_BYTES_MOST : OF_THE_JOB(KEPT_BYTES_MOST);
  if (is_counted(origin) && counted >= most) return true;
  return count >= texts || kept_bytes + sizeof(msp_string) + length + 1 > bytes;
}

static msp_string *add(uint64_t hash, const char *text, size_t length, bool is_counted, bool hidden) {
  size_t size = sizeof(msp_string) + length + 1;
  if (!make_room()) return NULL;
  msp_string *string = malloc(size);
  if (string == NULL) return NULL;
  *string =
      (msp_string){.hash = hash, .id = count + 1, .length = (uint16_t)length, .counted = is_counted, .hidden = hidden};
  memcpy(string->text, text, length);
  string->text[length] = 0;
  if (newest == NULL) {
    __atomic_store_n(&oldest, string, __ATOMIC_RELEASE);
  } else {
    __atomic_store_n(&newest->next, string, __ATOMIC_RELEASE);
  }
  newest = string;
  ++count;
  counted += is_counted;
  kept_bytes += size;
  kept_slots += slots_of(length);
  place(table, string);
  return string;
}

/* In a fork child, repair the table of texts, because the fork may have interrupted a change. Compute everything again
 * from the list of texts: it is never half changed. Called with the lock held. */
static void repair(void) {
  if (!torn) return;
  torn = false;
  count = counted = 0;
  kept_bytes = 0;
  kept_slots = 0;
  newest = NULL;
  for (msp_string *string = oldest; string != NULL; string = string->next) {
    newest = string;
    ++count;
    counted += string->counted;
    kept_bytes += sizeof *string + string->length + 1;
    kept_slots += slots_of(string->length);
    if (find(string->hash, string->text, string->length) == NULL) place(table, string);
  }
}

/* Write a text to the store of a session, if it is not there yet. Called with the lock held. */
static bool write_to(uint32_t session, msp_string *string) {
  if (session == 0 || string->session == session) return true;
  const char *text = string->text;
  size_t length = string->length;
  char name[24];
  if (string->hidden) {
    length = (size_t)snprintf(name, sizeof name, "m%010llx",
                              (unsigned long long)(msp_keyed_hash(secret, text, length) & 0xFFFFFFFFFFu));
    text = name;
  }
  if (!msp_control_write_string(string->id, text, length)) return false;
  __atomic_store_n(&string->session, session, __ATOMIC_RELEASE);
  return true;
}

size_t msp_whole_characters(const char *text, size_t length) {
  size_t start = length;
  while (start > 0 && length - start < 4) {
    unsigned char byte = (unsigned char)text[--start];
    if ((byte & 0xC0u) == 0x80u) continue; /* not the first byte of a character */
    size_t needs = byte < 0xC0u ? 1 : byte < 0xE0u ? 2 : byte < 0xF0u ? 3 : 4;
    return length - start < needs ? start : length;
  }
  return length; /* the text is not UTF-8 */
}

uint32_t msp_intern(const char *text, size_t length, msp_origin origin, uint32_t most) {
  if (length == 0) return 0;
  if (length > MSP_STRING_MAX) length = msp_whole_characters(text, MSP_STRING_MAX);
  bool hidden = is_hidden(text, length, origin);
  uint64_t hash = hash_as(text, length, hidden);
  uint32_t session = msp_gate_load(&msp_gate_page->session);
  msp_string *string = find(hash, text, length);
  if (string != NULL && (session == 0 || __atomic_load_n(&string->session, __ATOMIC_ACQUIRE) == session)) {
    return string->id;
  }
  msp_recorder_check_fork(); /* this may be the first call in a fork child that a direct system call made */
  uint32_t id = 0;
  session = msp_control_lock();
  repair();
  string = find(hash, text, length);
  bool no_room = string == NULL && full(length, origin, most);
  if (string == NULL && !no_room) {
    string = add(hash, text, length, is_counted(origin), hidden);
  }
  if (no_room) {
    __atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
    if (session != 0) msp_control_count_unnamed();
  } else if (string != NULL && write_to(session, string)) {
    id = string->id;
  } else if (session != 0) {
    msp_control_count_drop(false);
  }
  msp_control_unlock();
  return id;
}

uint32_t msp_intern_anew(msp_recent *recent, const char *text, uint32_t session) {
  size_t length = strlen(text);
  uint64_t hash = hash_as(text, length, is_hidden(text, length, MSP_OF_THE_JOB));
  const msp_string *string = length > 0 && length <= MSP_STRING_MAX ? find(hash, text, length) : NULL;
  if (string == NULL || __atomic_load_n(&string->session, __ATOMIC_ACQUIRE) != session) {
    return msp_intern(text, length, MSP_OF_THE_JOB, 0); /* the text is in the table then, and the next call caches it */
  }
  MSP_RECENT(recent, text)->from = text;
  MSP_RECENT(recent, text)->text = string->text;
  MSP_RECENT(recent, text)->id = string->id;
  MSP_RECENT(recent, text)->session = session;
  return string->id;
}

uint64_t msp_strings_refused(void) { return __atomic_load_n(&refused, __ATOMIC_RELAXED); }

uint32_t msp_strings_slots(void) {
  repair();
  return kept_slots;
}

void msp_strings_write(uint32_t session) {
  repair();
  for (msp_string *string = oldest; string != NULL; string = string->next) {
    if (!write_to(session, string)) return;
  }
}

void msp_strings_after_fork(void) { torn = true; }
