#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "clock.h"
#include "file_limit.h"
#include "gate.h"
#include "ranges.h"
#include "slot.h"

static uint64_t memory_bytes; /* memory of all segments of this process */

enum { FILE_MODE = 0640, PATH_ROOM = PATH_MAX + 16, BOUNCE_SLOTS = 2048 };

bool msp_segment_mappable(const char *folder) {
  struct statfs info;
  if (statfs(folder, &info) != 0) return true; /* unknown: making the first segment will fail with the same error */
  switch ((uint32_t)info.f_type) {
    case 0x0000EF53u: /* ext2, ext3, ext4 */
    case 0x58465342u: /* xfs */
    case 0x01021994u: /* tmpfs */
    case 0x794C7630u: /* overlayfs: the mapping is that of the upper file */
    case 0xF2F52010u: /* f2fs */
      return true;
    default:
      return false;
  }
}

static void segment_path(char *path, const char *folder, uint32_t index) {
  snprintf(path, PATH_ROOM, "%s/%06u.seg", folder, index);
}

static int write_at(int descriptor, const void *data, size_t length, off_t offset) {
  const char *position = data;
  while (length > 0) {
    ssize_t written = pwrite(descriptor, position, length, offset);
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (written == 0) return EIO;
    position += written;
    length -= (size_t)written;
    offset += written;
  }
  return 0;
}

static int write_zeros(int descriptor, uint64_t size) {
  static const char zeros[65536];
  for (uint64_t done = 0; done < size; done += sizeof zeros) {
    uint64_t part = size - done < sizeof zeros ? size - done : sizeof zeros;
    int error = write_at(descriptor, zeros, part, (off_t)done);
    if (error != 0) return error;
  }
  return 0;
}

/* Set the size of a segment's file and allocate its disk blocks. Otherwise the file would have holes, and on a full
 * disk, a write to a hole of a mapped file raises SIGBUS. */
static int reserve(int descriptor, uint64_t size) {
  int error = 0;
  msp_file_limit limited = msp_file_limit_begin();
  for (int attempt = 0; attempt < 16; ++attempt) {
    error = fallocate(descriptor, 0, 0, (off_t)size) == 0 ? 0 : errno;
    if (error != EINTR) break;
  }
  if (error == EOPNOTSUPP || error == ENOSYS) error = write_zeros(descriptor, size);
  msp_file_limit_end(limited);
  return error;
}

/* Return whether this errno of mmap means that the file cannot be mapped as shared memory. Other errors mean that
 * memory is short. */
static bool refuses_mapping(int error) {
  return error == ENODEV || error == EINVAL || error == EACCES || error == EPERM || error == EOPNOTSUPP ||
         error == ENOSYS;
}

static int map(msp_segment *segment, int descriptor) {
  const int access = PROT_READ | PROT_WRITE;
  void *memory = MAP_FAILED;
  if (segment->mapped) {
    memory = mmap(NULL, segment->size, access, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) {
      if (!refuses_mapping(errno)) return errno;
      segment->mapped = false;
    }
  }
  if (!segment->mapped) memory = mmap(NULL, segment->size, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno;
  /* When the kernel clears the gate in fork children, a child does not use the mapping. So the child need not inherit
   * it. */
  if (msp_gate_wiped_on_fork) madvise(memory, segment->size, MADV_DONTFORK);
  segment->header = memory;
  segment->slots = (msp_slot *)((char *)memory + MSP_HEADER_SIZE);
  if (segment->mapped) msp_ranges_add(memory, segment->size, &segment->lost);
  __atomic_add_fetch(&memory_bytes, segment->size, __ATOMIC_RELAXED);
  return 0;
}

static void unmap(const msp_segment *segment) {
  if (segment->mapped) msp_ranges_remove(segment->header);
  munmap(segment->header, segment->size);
  __atomic_sub_fetch(&memory_bytes, segment->size, __ATOMIC_RELAXED);
}

uint64_t msp_segment_memory(void) { return __atomic_load_n(&memory_bytes, __ATOMIC_RELAXED); }

void msp_segment_after_fork(void) { __atomic_store_n(&memory_bytes, 0, __ATOMIC_RELAXED); }

int msp_segment_make(const char *folder, uint32_t index, uint32_t capacity, uint32_t flags, bool mapped,
                     msp_segment **made) {
  char path[PATH_ROOM];
  segment_path(path, folder, index);
  msp_segment *segment = calloc(1, sizeof *segment);
  if (segment == NULL) return ENOMEM;
  segment->size = msp_segment_size(capacity);
  segment->capacity = capacity;
  segment->index = index;
  segment->holders = 1;
  segment->mapped = mapped;
  int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
  if (descriptor < 0) {
    int error = errno;
    free(segment);
    return error;
  }
  int error = reserve(descriptor, segment->size);
  if (error == 0) error = map(segment, descriptor);
  if (close(descriptor) != 0 && errno != EINTR && error == 0)
    error = errno; /* network file systems report errors here */
  if (error != 0) {
    unlink(path);
    if (segment->header != NULL) unmap(segment);
    free(segment);
    return error;
  }
  msp_segment_header *header = segment->header;
  header->version = MSP_FORMAT_VERSION;
  header->header_size = MSP_HEADER_SIZE;
  header->slot_size = MSP_SLOT_SIZE;
  header->flags = flags;
  header->capacity = capacity;
  header->pid = (uint32_t)getpid();
  header->index = index;
  header->created_ns = msp_now();
  __atomic_store_n(&header->magic, MSP_MAGIC, __ATOMIC_RELEASE);
  *made = segment;
  return 0;
}

void msp_segment_touch(msp_segment *segment) {
  if (!segment->mapped) return;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t offset = page; offset < segment->size; offset += page) ((volatile char *)segment->header)[offset] = 0;
}

void msp_segment_release(msp_segment *segment) {
  if (__atomic_sub_fetch(&segment->holders, 1, __ATOMIC_ACQ_REL) != 0) return;
  unmap(segment);
  free(segment->open);
  free(segment);
}

void msp_segment_unlink(const char *folder, uint32_t index) {
  char path[PATH_ROOM];
  segment_path(path, folder, index);
  unlink(path);
}

uint64_t msp_segment_trim(const char *folder, const msp_segment *segment, uint32_t used) {
  uint64_t size = msp_segment_size(used);
  char path[PATH_ROOM];
  segment_path(path, folder, segment->index);
  /* do not touch a file that another program has truncated, or a link that has replaced the file */
  struct stat info;
  if (used >= segment->capacity || lstat(path, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  if ((uint64_t)info.st_size != segment->size || truncate(path, (off_t)size) != 0) return 0;
  return segment->size - size;
}

uint32_t msp_segment_lost(const msp_segment *segment, uint32_t used) {
  uint64_t lost = __atomic_load_n(&segment->lost, __ATOMIC_RELAXED);
  if (lost == 0) return 0;
  uint64_t kept = lost - 1 > MSP_HEADER_SIZE ? (lost - 1 - MSP_HEADER_SIZE) / MSP_SLOT_SIZE : 0;
  return used > kept ? used - (uint32_t)kept : 0;
}

static uint32_t committed(msp_slot *slot) { return __atomic_load_n(msp_slot_last(slot), __ATOMIC_ACQUIRE); }

/* Copy a slot (a record of 32 bytes) whose span may end meanwhile. The copy shows either an open or an ended span,
 * never a mixture of both. */
static uint8_t copy_slot(msp_slot *to, msp_slot *from, uint32_t word) {
  to->start_ns = __atomic_load_n(&from->start_ns, __ATOMIC_RELAXED);
  to->end_ns = __atomic_load_n(&from->end_ns, __ATOMIC_RELAXED);
  to->arg = __atomic_load_n(&from->arg, __ATOMIC_RELAXED);
  to->name = __atomic_load_n(&from->name, __ATOMIC_RELAXED);
  *msp_slot_last(to) = word;
  if (to->kind == MSP_KIND_OPEN) to->end_ns = 0;
  return to->kind;
}

static off_t slot_offset(uint32_t slot) { return (off_t)(MSP_HEADER_SIZE + (uint64_t)slot * MSP_SLOT_SIZE); }

static int flush_ended(msp_segment *segment, int descriptor) {
  uint32_t kept = 0;
  int error = 0;
  for (uint32_t i = 0; i < segment->open_count; ++i) {
    uint32_t at = segment->open[i];
    msp_slot copy;
    if (error == 0 && copy_slot(&copy, &segment->slots[at], committed(&segment->slots[at])) != MSP_KIND_OPEN) {
      error = write_at(descriptor, &copy, sizeof copy, slot_offset(at));
      if (error == 0) continue;
    }
    segment->open[kept++] = at;
  }
  segment->open_count = kept;
  return error;
}

static bool remember_open(msp_segment *segment, uint32_t at) {
  if (segment->open_count == segment->open_room) {
    uint32_t room = segment->open_room == 0 ? 64 : 2 * segment->open_room;
    uint32_t *grown = realloc(segment->open, room * sizeof *grown);
    if (grown == NULL) return false;
    segment->open = grown;
    segment->open_room = room;
  }
  segment->open[segment->open_count++] = at;
  return true;
}

static int flush_new(msp_segment *segment, int descriptor) {
  static msp_slot bounce[BOUNCE_SLOTS]; /* used by one thread at a time, see msp_segment_flush */
  for (;;) {
    uint32_t first = segment->flushed, count = 0, open_before = segment->open_count;
    while (first + count < segment->ready && count < BOUNCE_SLOTS) {
      msp_slot *slot = &segment->slots[first + count];
      uint8_t kind = copy_slot(&bounce[count], slot, committed(slot));
      uint32_t extra = bounce[count].extra;
      if (count + 1 + extra > BOUNCE_SLOTS) break;
      if (kind == MSP_KIND_OPEN && !remember_open(segment, first + count)) {
        segment->open_count = open_before;
        return ENOMEM;
      }
      memcpy(&bounce[count + 1], slot + 1, extra * sizeof *slot);
      count += 1 + extra;
    }
    if (count == 0) return 0;
    int error = write_at(descriptor, bounce, count * sizeof *bounce, slot_offset(first));
    if (error != 0) {
      segment->open_count = open_before;
      return error;
    }
    segment->flushed = first + count;
  }
}

void msp_segment_make_ready(msp_segment *segment) {
  segment->complete = __atomic_load_n(&segment->retired, __ATOMIC_ACQUIRE);
  while (segment->ready < segment->capacity) {
    uint32_t word = committed(&segment->slots[segment->ready]);
    if (word == 0) return;
    segment->ready += 1u + msp_slot_extra(word);
  }
}

int msp_segment_flush(msp_segment *segment, const char *folder) {
  uint64_t dropped = __atomic_load_n(&segment->header->dropped, __ATOMIC_RELAXED);
  uint64_t unnamed = __atomic_load_n(&segment->header->unnamed, __ATOMIC_RELAXED);
  bool header = segment->flushed == 0 || dropped + unnamed != segment->flushed_lost;
  if (!header && segment->flushed == segment->ready && segment->open_count == 0) return 0;
  char path[PATH_ROOM];
  segment_path(path, folder, segment->index);
  /* Open the file for each flush. Some jobs close all descriptors, and then open a file under the same number. If our
   * descriptor stayed open, such a job would find the profiler's records in its file. */
  int descriptor = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return errno;
  int error = 0;
  msp_file_limit limited = msp_file_limit_begin();
  if (header) {
    msp_segment_header copy = {0};
    memcpy(&copy, segment->header, offsetof(msp_segment_header, dropped)); /* later fields may change meanwhile */
    copy.dropped = dropped;
    copy.dropped_limit = __atomic_load_n(&segment->header->dropped_limit, __ATOMIC_RELAXED);
    copy.unnamed = unnamed;
    error = write_at(descriptor, &copy, sizeof copy, 0);
    if (error == 0) segment->flushed_lost = dropped + unnamed;
  }
  if (error == 0) error = flush_ended(segment, descriptor);
  if (error == 0) error = flush_new(segment, descriptor);
  msp_file_limit_end(limited);
  if (close(descriptor) != 0 && errno != EINTR && error == 0) error = errno;
  return error;
}
