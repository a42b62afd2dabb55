#include "record.h"

#include <string.h>

#include "writer.h"

static uint64_t pair(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

static uint32_t text(msp_writer *writer, const char *string) {
  if (string == NULL || *string == 0) return 0;
  if (msp_strings_anonymous())
    return msp_intern(string, strlen(string), MSP_OURS, 0); /* no hash replaces names of kernels */
  return msp_intern_recent(&writer->recent, string, writer->session);
}

/* Reserve `count` slots (of 32 bytes) for a record. All must be in one file; when the rest of a file is too short, the
 * rest stays empty. */
static msp_slot *reserve(msp_writer *writer, uint32_t count) {
  if ((size_t)(writer->limit - writer->next) < count && !msp_writer_extend(writer, MSP_WORTH_FINE)) return NULL;
  msp_slot *slot = writer->next;
  writer->next += count;
  __atomic_store_n(&writer->records, writer->records + 1, __ATOMIC_RELAXED);
  return slot;
}

bool msp_device_write(const msp_device_record *record) {
  msp_writer *writer = msp_writer_get();
  if (writer == NULL) return false;
  /* Only limits refuse a device's record. The interface returns records up to a second after the step that launched
   * the task, so whether the present step is paused or sampled says nothing about the record. */
  uint32_t refuse = msp_gate_load(&writer->gate->refuse) & (MSP_REFUSE_FINE_LIMIT | MSP_REFUSE_ALL_LIMIT);
  if (refuse != 0 && msp_writer_refuses(refuse, MSP_CATEGORY_FINE)) return false;
  /* get the ids of strings before reserving slots: a string must be committed before the records that refer to it */
  uint32_t name = text(writer, record->name);
  uint32_t detail = record->placed ? text(writer, record->detail) : 0;
  msp_slot *slot = reserve(writer, record->placed ? 2 : 1);
  if (slot == NULL) return false;
  if (record->placed) {
    msp_slot_commit(&slot[1], pair(record->device, record->stream), pair(record->context, record->graph),
                    record->amount, detail, msp_slot_word(MSP_KIND_DEVICE_PLACE, record->type, record->source, 0));
  }
  msp_slot_commit(slot, record->start_ns, record->end_ns, pair(record->correlation, record->thread), name,
                  msp_slot_word(MSP_KIND_DEVICE, record->type, record->source, record->placed));
  return true;
}
