/* The on-disk format of the store, version 1.
 *
 * A process writes one folder (see store/layout.py for its name) that holds segment files. A segment is
 * one fixed header followed by 32-byte slots. Every file is preallocated and zero-filled: a slot whose
 * `kind` is 0 was never committed, and ends the segment for a reader unless later slots are committed
 * (a torn slot: counted, then skipped).
 *
 * Commit rule. A writer fills a slot and then publishes its last 32-bit word (kind, category, flags,
 * extra) with one release store. A slot that a reader sees committed is therefore whole, at any moment, also
 * after SIGKILL: the pages belong to the kernel, not to the process.
 *
 * In-place end. A span is written when it begins (MSP_KIND_OPEN, end_ns 0) and turned into MSP_KIND_SPAN
 * when it ends: `end_ns` first, then the release store of the last word. So slots stand in order of
 * start, one slot a span, and the file has the spans that ran when a process died. A process killed between the two
 * leaves an MSP_KIND_OPEN slot with an end_ns: it does not count.
 *
 * Streams. Slots of one segment belong to one thread at a time. A segment starts with an MSP_KIND_THREAD
 * slot, and whenever another thread takes over the unused rest of an ended thread, it writes its own; a thread
 * that changes its name writes one more. Segments are made ahead of use: their order is not that of time. Segment
 * 0 of a process is the control stream (MSP_KIND_STRING, MSP_KIND_ANCHOR), written under a lock; it is
 * continued in further segments that carry MSP_SEGMENT_CONTROL in their header.
 *
 * Strings. An MSP_KIND_STRING slot carries the id in `name`, the length in bytes in `arg` (UTF-8, at most
 * MSP_STRING_MAX), and is followed by `extra` slots of raw bytes. Payload before head: the head slot is
 * committed last. Ids start at 1; id 0 is the empty string. A string is committed before any record that
 * names it. Payload slots may contain any byte, so a reader steps over them by `extra`.
 *
 * Times are CLOCK_MONOTONIC_RAW nanoseconds. Integers are in the byte order of the machine; the header's
 * magic tells a reader of the other order.
 *
 * store/format.py mirrors this file and a test compares the two: change both, and the version.
 */
#ifndef MSP_FILE_FORMAT_H
#define MSP_FILE_FORMAT_H

#include <stdint.h>

#define MSP_MAGIC 0x31524F545350534DULL /* the bytes "MSPSTOR1", read as a little-endian u64 */
#define MSP_FORMAT_VERSION 1
#define MSP_HEADER_SIZE 128
#define MSP_SLOT_SIZE 32
#define MSP_STRING_MAX 8160 /* 255 payload slots of 32 bytes */

/* segment flags */
#define MSP_SEGMENT_CONTROL 1 /* strings and anchors, not events */

typedef struct {
  uint64_t magic;         /* MSP_MAGIC */
  uint32_t version;       /* MSP_FORMAT_VERSION */
  uint32_t header_size;   /* offset of the first slot */
  uint32_t slot_size;     /* MSP_SLOT_SIZE */
  uint32_t flags;         /* MSP_SEGMENT_* */
  uint64_t capacity;      /* slots that it was made for; its file is cut behind the last used one when it is closed */
  uint32_t pid;           /* process that wrote it */
  uint32_t index;         /* number of this segment in its process, from 0 */
  uint64_t created_ns;    /* MONOTONIC_RAW when the segment was made */
  uint64_t dropped;       /* control segment 0 only: records dropped so far, all reasons, updated as they happen */
  uint64_t dropped_limit; /* control segment 0 only: records dropped so far because max_disk had no room */
  uint64_t unnamed;       /* control segment 0 only: names refused so far, because a process keeps no more of them */
  uint8_t reserved[56];
} msp_segment_header;

typedef struct {
  uint64_t start_ns; /* when it began, or happened */
  uint64_t end_ns;   /* when it ended; 0 while open; meaning by kind otherwise */
  uint64_t arg;      /* meaning by kind */
  uint32_t name;     /* string id */
  uint8_t kind;      /* MSP_KIND_*; 0: not committed */
  uint8_t category;  /* store/format.py Category: the kind of work */
  uint8_t flags;     /* MSP_FLAG_* */
  uint8_t extra;     /* payload slots that follow */
} msp_slot;

/* kind            start_ns   end_ns          arg                            name              */
#define MSP_KIND_OPEN 1    /* begin   0               caller's value                 what              */
#define MSP_KIND_SPAN 2    /* begin   end             caller's value                 what              */
#define MSP_KIND_INSTANT 3 /* time    time            caller's value                 what              */
#define MSP_KIND_COUNTER 4 /* time    time            value, IEEE double bits        which counter     */
#define MSP_KIND_STEP 5    /* begin   end             step number                    source of steps   */
#define MSP_KIND_STRING 6  /* time    0               length in bytes                id                */
#define MSP_KIND_ANCHOR 7  /* RAW     REALTIME        half width of the pair, ns     0                 */
#define MSP_KIND_THREAD 8  /* time    native tid      process-wide thread number     thread's name     */
/* a record of an accelerator, see device_format.h */
#define MSP_KIND_DEVICE 9
#define MSP_KIND_DEVICE_PLACE 10
/* the argument of an operator of another recording: see below */
#define MSP_KIND_OPERANDS 11 /* begin   time, thread    argument                       operator          */
/* how long the thread ran until `time`: see below */
#define MSP_KIND_PROCESSOR 12 /* time    event before    processor time, ns             waited, us        */
/* where the Python code of threads was: see below */
#define MSP_KIND_FRAME 13   /* time    node, caller    place in the source            function          */
#define MSP_KIND_SAMPLED 14 /* first   last            node, how often                lateness, us      */
/* a call of a Python function, or of one in C by Python: see below */
#define MSP_KIND_CALL 15 /* begin   end             place in the source, thread    function          */
/* a counter of the system: see below */
#define MSP_KIND_METRIC 16 /* time    thread          number                         which number      */
/* a block of memory that an allocator took or released, and the code that took it: see below */
#define MSP_KIND_BLOCK 17       /* time    address, size   bytes in use after it          size              */
#define MSP_KIND_BLOCK_PLACE 18 /* time    address, depth  place in the source            function          */

/* The argument of a span of MSP_CATEGORY_OP: lower bits, 2 (n + 1) for an operator that autograd gave the number n,
 * 2 (n + 1) + 1 for the node that computes the gradient of that operator, 0 where no number is known. The bits above:
 * the id of the string that holds the shapes of its inputs, 0 where none is known; a process has far fewer strings. So
 * shapes take no room but for each distinct text. That has the dimensions of each input, separated by commas and closed
 * by a semicolon; an input that is no tensor, or has no dimensions, has the semicolon alone: "4,8;8;;".
 *
 * An MSP_KIND_OPERANDS slot has such an argument for an operator whose span is that of another recording, which ran
 * beside it: of MSP_CATEGORY_OP, or MSP_CATEGORY_MARKER for a region. `end_ns` has the native number of the thread
 * below 32 bits, above them which time of recording it was of. The slots of a thread and a time of recording are in
 * the order in which operators began, without gaps from the first to the last; their times are of another clock and
 * differ by some microseconds. So the n-th slot belongs to the n-th span from the first one on. */
#define MSP_OP_TIE_BITS 40

/* An MSP_KIND_PROCESSOR slot has the scheduler's figures for its thread. The recorder writes it itself: after at
 * least MSP_QUIET_NS in which the thread recorded nothing, and otherwise every MSP_LOOK_NS and where a step ends.
 * `end_ns` is the time of the event before it. `arg` is the processor time of the thread so far. `name` is for how
 * many microseconds the thread waited for a processor since the last such slot that tells it, MSP_NOT_READ in one
 * that does not tell it. */
#define MSP_NOT_READ 0xFFFFFFFF

/* Stacks are paths in a tree, whose nodes have numbers from 1 that are used once in a process. An MSP_KIND_FRAME slot
 * makes one: `end_ns` has its number below 32 bits and above them that of its caller. Without a caller it is a thread:
 * `arg` is its native number, 0 where that is not known, and `name` its name. Any other is a function: `arg` has the
 * line that it was at, the line that it begins in, both of MSP_FRAME_LINE_BITS, and above the id of its file's path.
 *
 * An MSP_KIND_SAMPLED slot tells where a thread was at moments of equal distance, from the first to the last: `arg` has
 * the node below 32 bits and above them how many moments. `name` is how much later than it was due the latest of these
 * looks was. Both kinds are written by one thread, which has nothing else; a node before slots that name it. */
#define MSP_FRAME_LINE_BITS 22
#define MSP_FRAME_LINE_MOST ((1u << MSP_FRAME_LINE_BITS) - 1)

/* An MSP_KIND_CALL slot is written when a call ends, so that calls stand in the order of their ends. `arg` has the
 * number of the thread, 0 for the one that wrote the slot, and the line that the function begins in, both of
 * MSP_FRAME_LINE_BITS, and above the id of its file's path; 0 of a function in C. A call that runs for some time has
 * an earlier slot without an end. If no slot with an end has the same begin and function, the call was running when
 * the process ended. A generator has a slot for each time that it continued. */

/* An MSP_KIND_METRIC slot has a number that the system counts of the process or the machine. All numbers of a sample
 * have the same time. One number tells for how many nanoseconds reading them ran and stands in each; any other one
 * stands in the first and in those before which it has changed. `end_ns` has the native number of the thread below 32
 * bits and above them the id of its name; 0 where the number is of no thread. Fork children have such slots of their
 * own. */

/* An MSP_KIND_BLOCK slot has a block of a framework's allocator on a processor. `name` has the lower 32 bits of its
 * bytes. `end_ns` has its address below MSP_BLOCK_BITS bits and above them the upper bits of its bytes. `arg` has the
 * bytes of all blocks in use, also of those that have no slots. With the flag MSP_BLOCK_RELEASED it was released; then
 * there is an earlier slot of the same address, in this or in an earlier store of the process.
 *
 * An MSP_KIND_BLOCK_PLACE slot has a function of Python in which a thread took a block, with the time and the address
 * of that block. `end_ns` has above MSP_BLOCK_BITS bits the number of callees inside of the function. `arg` has the
 * line, of MSP_FRAME_LINE_BITS, and above the id of its file's path. */
#define MSP_BLOCK_BITS 48
#define MSP_BLOCK_RELEASED 1

/* flags */
#define MSP_FLAG_RAISED 1       /* the call ended with an exception */
#define MSP_FLAG_ABANDONED 2    /* closed because an outer span ended first, or its thread did */
#define MSP_FLAG_UNRECORDED 4   /* a step that the schedule did not record: only its times are known */
#define MSP_FLAG_NO_GRADIENTS 8 /* a call of a network outside of everything that makes gradients */
#define MSP_FLAG_COARSE 16      /* a step without fine-grained records and kernels, to keep to a budget of time */
#define MSP_FLAG_STRETCH 32     /* of a step: see below */
#define MSP_FLAG_RESUMED 64     /* of a call: it began before this slot does */
#define MSP_FLAG_YIELDED 128    /* of a call: it may continue */

/* Where fine-grained records of all steps cost too much, the run is cut into stretches of consecutive steps, and of
 * each stretch one burst of steps is sampled, at a place that was drawn at random: the others are MSP_FLAG_COARSE. All
 * steps of a stretch have the same MSP_FLAG_STRETCH, those of the next one the other. */

/* Categories with this bit are fine-grained: they are sampled, and stop first when the disk is short. */
#define MSP_CATEGORY_FINE 0x40

/* categories of records that the extension makes by itself: work that another thread ends, regions that the user
 * marked, and operators; modules, which it finds around them; calls of Python; and blocks of memory */
#define MSP_CATEGORY_COMMUNICATION 10
#define MSP_CATEGORY_MARKER 13
#define MSP_CATEGORY_MODULE 0x40
#define MSP_CATEGORY_OP 0x41
#define MSP_CATEGORY_CALL 0x42
#define MSP_CATEGORY_BLOCK 0x44

#endif
