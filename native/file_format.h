/* The on-disk format of the store, version 1.
 *
 * A process writes one folder of segment files; store/layout.py defines the folder's name. A segment is a header of
 * fixed size, followed by slots: records of 32 bytes. Every file is preallocated and filled with zeros, so a slot whose
 * `kind` is 0 was never committed. When committed slots follow an uncommitted slot, a reader counts the uncommitted
 * slot as torn and skips it. When none follow, the uncommitted slot is the end of the segment.
 *
 * Commit rule. A writer fills a slot (a record of 32 bytes). It then commits the slot: it stores the slot's last 32-bit
 * word (kind, category, flags, extra) with one release store. So a committed slot is always complete. This also holds
 * after SIGKILL, because the kernel keeps the mapped pages when the process ends.
 *
 * End of a span. When a span begins, the writer commits an MSP_KIND_OPEN slot with end_ns 0. When the span ends, the
 * writer first sets `end_ns` in this slot. A release store of the slot's last word then turns the slot into
 * MSP_KIND_SPAN. So each span has one slot, slots are in the order of their starts, and the file has the spans that
 * were open when a process died. When a process is killed between the two stores, an MSP_KIND_OPEN slot has an end_ns;
 * a reader ignores it.
 *
 * Streams. One thread at a time writes to a segment (a file). A segment starts with an MSP_KIND_THREAD slot, which
 * names the thread. When a thread has ended, a new thread may use the rest of the segment; the new thread first writes
 * an MSP_KIND_THREAD slot. A thread that changes its name also writes an MSP_KIND_THREAD slot. Segments are made before
 * they are needed, so their numbers are not in the order of time. Segment 0 of a process is the begin of the control
 * stream, which has strings and pairs of clock readings (MSP_KIND_STRING, MSP_KIND_ANCHOR). Any thread writes to this
 * stream, under a lock. It continues in segments that have MSP_SEGMENT_CONTROL in their header.
 *
 * Strings. An MSP_KIND_STRING slot has the id of a string in `name`, and the string's length in bytes in `arg` (UTF-8,
 * at most MSP_STRING_MAX). The bytes of the string are in the payload slots, which follow this slot; `extra` is their
 * number. The writer fills the payload slots before it commits the first slot. Ids start at 1; id 0 is the empty
 * string. A string is committed before any record that has its id. Payload slots may contain any byte, so a reader must
 * skip as many slots as `extra` says.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC_RAW. Integers are in the byte order of the machine that wrote the file. When
 * a reader finds the bytes of MSP_MAGIC reversed, the file has the other byte order.
 *
 * store/format.py declares the same format, and a test compares the two files. A change of the format must change both
 * files and the version.
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
#define MSP_SEGMENT_CONTROL 1 /* a segment of the control stream: it has strings and anchors, and no events */

typedef struct {
  uint64_t magic;         /* MSP_MAGIC */
  uint32_t version;       /* MSP_FORMAT_VERSION */
  uint32_t header_size;   /* offset of the first slot */
  uint32_t slot_size;     /* MSP_SLOT_SIZE */
  uint32_t flags;         /* MSP_SEGMENT_* */
  uint64_t capacity;      /* slots of the new file; closing truncates it after the last used slot */
  uint32_t pid;           /* process that wrote it */
  uint32_t index;         /* number of this segment in its process, from 0 */
  uint64_t created_ns;    /* MONOTONIC_RAW when the segment was made */
  uint64_t dropped;       /* control segment 0 only: records dropped so far for any reason, always up to date */
  uint64_t dropped_limit; /* control segment 0 only: records dropped so far because max_disk had no room */
  uint64_t unnamed;       /* control segment 0 only: names refused so far, because there were too many */
  uint8_t reserved[56];
} msp_segment_header;

typedef struct {
  uint64_t start_ns; /* time of the event, or of its begin */
  uint64_t end_ns;   /* for a span: time of its end, 0 while it is open; other kinds: see below */
  uint64_t arg;      /* depends on the kind, see below */
  uint32_t name;     /* string id */
  uint8_t kind;      /* MSP_KIND_*; 0: not committed */
  uint8_t category;  /* store/format.py Category: the kind of work */
  uint8_t flags;     /* MSP_FLAG_* */
  uint8_t extra;     /* payload slots that follow */
} msp_slot;

/* kind            start_ns   end_ns          arg                            name              */
#define MSP_KIND_OPEN 1    /* begin   0               caller's value                 span's name       */
#define MSP_KIND_SPAN 2    /* begin   end             caller's value                 span's name       */
#define MSP_KIND_INSTANT 3 /* time    time            caller's value                 event's name      */
#define MSP_KIND_COUNTER 4 /* time    time            value, IEEE double bits        counter's name    */
#define MSP_KIND_STEP 5    /* begin   end             step number                    source of steps   */
#define MSP_KIND_STRING 6  /* time    0               length in bytes                id                */
#define MSP_KIND_ANCHOR 7  /* RAW     REALTIME        half width of the pair, ns     0                 */
#define MSP_KIND_THREAD 8  /* time    native tid      process-wide thread number     thread's name     */
/* a record of an accelerator; device_format.h describes its fields */
#define MSP_KIND_DEVICE 9
#define MSP_KIND_DEVICE_PLACE 10
/* the argument of an operator whose span is in another recording: see below */
#define MSP_KIND_OPERANDS 11 /* begin   time, thread    argument                       operator          */
/* processor time and wait time of the thread: see below */
#define MSP_KIND_PROCESSOR 12 /* time    event before    processor time, ns             wait time, us     */
/* samples of the stacks of Python code: see below */
#define MSP_KIND_FRAME 13   /* time    node, caller    file and line                  function          */
#define MSP_KIND_SAMPLED 14 /* first   last            node, samples                  delay, us         */
/* a call of a Python function, or a call from Python of a function in C: see below */
#define MSP_KIND_CALL 15 /* begin   end             file and line, thread          function          */
/* a counter of the system: see below */
#define MSP_KIND_METRIC 16 /* time    thread          value                          counter's name    */
/* a block of memory that an allocator allocated or released, and the code that allocated it: see below */
#define MSP_KIND_BLOCK 17       /* time    address, size   bytes in use after it          size              */
#define MSP_KIND_BLOCK_PLACE 18 /* time    address, depth  file and line                  function          */

/* The argument of an operator's span (MSP_CATEGORY_OP) has two parts. The lower MSP_OP_TIE_BITS bits relate operators
 * to nodes of autograd. They are 2 (n + 1) for an operator with sequence number n of autograd, 2 (n + 1) + 1 for the
 * node that computes the gradient of this operator, and 0 where no number is known. The upper bits are the id of the
 * string with the shapes of the operator's inputs, and 0 where the shapes are not known. The string has the dimensions
 * of each input, separated by commas and followed by a semicolon. An input that is no tensor, or has no dimensions, has
 * only the semicolon: "4,8;8;;".
 *
 * Two sources may record the same operators: one the spans, the other the argument of each operator. An
 * MSP_KIND_OPERANDS slot has the argument of one operator. The slot's category is MSP_CATEGORY_OP, or
 * MSP_CATEGORY_MARKER for a region of the user. In `end_ns`, the lower 32 bits are the native id of the thread, and the
 * upper 32 bits are the number of the period of recording. The slots of one thread and one period are in the order in
 * which the operators began, without gaps. So the n-th slot belongs to the n-th span. The times of slots and spans come
 * from different clocks, which differ by some microseconds. */
#define MSP_OP_TIE_BITS 40

/* An MSP_KIND_PROCESSOR slot shows how long its thread ran, and how long the thread waited for a processor. A thread
 * writes such a slot in three cases: after at least MSP_QUIET_NS without records, MSP_LOOK_NS after its last
 * MSP_KIND_PROCESSOR slot, and when a step ends; less often in steps that are not sampled (looks.h). `end_ns` is the
 * time of the event before the slot. `arg` is the processor time of the thread so far. `name` is the wait time: the
 * microseconds for which the thread waited for a processor since its last slot with a wait time. In a slot without a
 * wait time, `name` is MSP_NOT_READ. */
#define MSP_NOT_READ 0xFFFFFFFF

/* The store holds sampled stacks as paths in a tree of functions. The nodes of the tree have numbers from 1; a process
 * uses each number once. An MSP_KIND_FRAME slot defines a node. The lower 32 bits of `end_ns` are the number of the
 * node, and the upper 32 bits are the number of the caller's node. A node without a caller is a thread: `arg` is the
 * native id of the thread, 0 if it is not known, and `name` is the thread's name. Any other node is a function. Its
 * `arg` has three numbers, from the lowest bit on: the line that ran and the line in which the function begins, each in
 * MSP_FRAME_LINE_BITS bits, and then the id of the string with the path of the function's file.
 *
 * An MSP_KIND_SAMPLED slot stands for successive samples that found a thread at the same node, in the same function and
 * line. The samples have equal distances from the first to the last. The lower 32 bits of `arg` are the number of the
 * node, and the upper 32 bits are the number of samples. `name` is the greatest delay of one of these samples. One
 * thread writes all MSP_KIND_FRAME and MSP_KIND_SAMPLED slots, and no other slots. It writes the slot of a node before
 * the slots that refer to the node. */
#define MSP_FRAME_LINE_BITS 22
#define MSP_FRAME_LINE_MOST ((1u << MSP_FRAME_LINE_BITS) - 1)

/* The writer commits an MSP_KIND_CALL slot when a call ends, so these slots are in the order of ends. `arg` has three
 * numbers, from the lowest bit on: the number of the thread (0: the thread that wrote the slot) and the line in which
 * the function begins, each in MSP_FRAME_LINE_BITS bits, and then the id of the string with the path of the function's
 * file. Line and path are 0 for a function in C. A call that runs for some time has an earlier slot without an end.
 * When no slot with an end has the same begin and function, the call was running when the process ended. A generator
 * has one slot for each time that it continued. */

/* An MSP_KIND_METRIC slot has the value of a counter of the system, for the process or the machine. All slots of a
 * sample have the same time. One counter is in each sample: the processor time in nanoseconds that the reading of the
 * other counters took. Any other counter is in the first sample, and in each later sample for which its value has
 * changed. For a counter of a thread, the lower 32 bits of `end_ns` are the native id of the thread, and the upper 32
 * bits are the id of its name; for other counters, both are 0. Fork children write such slots, too. */

/* An MSP_KIND_BLOCK slot records that a framework's allocator allocated or released a block of host memory. The lower
 * 32 bits of the block's size in bytes are in `name`, and the other bits of the size are the upper bits of `end_ns`.
 * The lower MSP_BLOCK_BITS bits of `end_ns` are the address of the block. `arg` is the size of all blocks in use,
 * including blocks without slots. With the flag MSP_BLOCK_RELEASED, the slot records the release of the block. Then the
 * slot of the allocation has the same address. It is earlier, in this store or in an earlier store of the process.
 *
 * An MSP_KIND_BLOCK_PLACE slot has one Python function on the stack of the thread that allocated a block. The slot has
 * the time and the address of this block. The upper bits of `end_ns` are the depth: the number of stack frames inside
 * this function's frame; 0 for the innermost function. `arg` has two numbers, from the lowest bit on: the line in
 * MSP_FRAME_LINE_BITS bits, and the id of the string with the path of the file. */
#define MSP_BLOCK_BITS 48
#define MSP_BLOCK_RELEASED 1

/* flags */
#define MSP_FLAG_RAISED 1       /* the call ended with an exception */
#define MSP_FLAG_ABANDONED 2    /* the span did not end itself: an outer span or the thread ended first */
#define MSP_FLAG_UNRECORDED 4   /* a step that the schedule did not record: only its times are known */
#define MSP_FLAG_NO_GRADIENTS 8 /* a call of a network for which no gradients are computed */
#define MSP_FLAG_COARSE 16      /* a step without fine-grained records and kernels, to limit the overhead */
#define MSP_FLAG_STRETCH 32     /* for a step: see below */
#define MSP_FLAG_RESUMED 64     /* for a slot of a generator: the generator began earlier, and continued here */
#define MSP_FLAG_YIELDED 128    /* for a slot of a generator: it has yielded, and may continue */

/* When fine-grained records of all steps would cost too much, ms-profiler samples steps. It divides the run into
 * sequences of steps, called stretches. In each stretch, it records a few consecutive steps completely, at a random
 * position. The other steps have the flag MSP_FLAG_COARSE. The flag MSP_FLAG_STRETCH is the same for all steps of a
 * stretch, and changes from one stretch to the next. */

/* Categories with this bit are fine-grained: modules, operators, calls and blocks. When recording costs too much, their
 * events are recorded in some steps only. When disk space becomes short, they are the first to be refused. */
#define MSP_CATEGORY_FINE 0x40

/* categories of records that the C code makes; store/format.py has all categories */
#define MSP_CATEGORY_COMMUNICATION 10
#define MSP_CATEGORY_MARKER 13
#define MSP_CATEGORY_MODULE 0x40
#define MSP_CATEGORY_OP 0x41
#define MSP_CATEGORY_CALL 0x42
#define MSP_CATEGORY_BLOCK 0x44

#endif
