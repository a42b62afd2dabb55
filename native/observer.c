#include "observer.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "operators.h"
#include "strings.h"

/* The types of PyTorch's ATen/record_function.h that this file uses. */

enum { SCOPES = 10, FUNCTION = 0, BACKWARD_FUNCTION = 1, TORCHSCRIPT_FUNCTION = 2, USER_SCOPE = 7 };

/* PyTorch's class at::RecordFunctionCallback. The class can be copied bytewise, so C passes it as C++ does. */
typedef struct {
  void *start, *end;
  double probability;
  bool scopes[SCOPES];
  bool needs_inputs, needs_outputs, needs_ids;
} callback;

typedef uint64_t (*add_function)(callback);
typedef void (*remove_function)(uint64_t handle);
typedef const char *(*name_function)(const void *function);
typedef bool (*async_function)(const void *function);
typedef uint64_t (*thread_function)(void);

static struct {
  add_function add;
  remove_function remove;
  name_function name;
  async_function async;
  thread_function thread;
  msp_observer_layout layout;
  uint64_t handle;
  bool connected, on;
  const msp_writer *watcher; /* writer of the thread that called msp_observer_elsewhere last */
  bool elsewhere;            /* another thread has begun an operator since then */
} torch;

static int64_t integer_at(const void *function, uint32_t offset) {
  return *(const int64_t *)(const void *)((const char *)function + offset);
}

/* Return the number that relates an operator to the node of autograd for its gradient. Both get the same number, except
 * for the lowest bit (see MSP_OP_TIE_BITS). The number contains autograd's sequence number. Each thread has its own
 * sequence numbers, so the number also contains eight bits of the number of the operator's thread. */
static uint64_t tie_of(const void *function) {
  uint64_t number = (uint64_t)integer_at(function, torch.layout.sequence);
  if (number >= (UINT64_C(1) << (MSP_OP_TIE_BITS - 9)) - 1) return 0; /* too large or negative (no number) */
  uint64_t forward = (uint64_t)integer_at(function, torch.layout.forward);
  uint64_t thread = forward != 0 ? forward : (uint64_t)integer_at(function, torch.layout.thread);
  return ((number << 8 | (thread & 0xFF)) + 1) << 1 | (forward != 0);
}

/* Return the kind of an operator that PyTorch reports in its scope for users. It is a region, an exchange between
 * ranks, or a graph of torch.compile. The backends of CUDA, Ascend and XPU report the end of an exchange on the calling
 * thread. Other backends report it on a thread of their own. */
static msp_operator_kind kind_of_user(const void *function, const char *name) {
  static const char graph[] = "## Call CompiledFxGraph";
  msp_operator_kind kind = msp_operator_kind_of(name);
  if (kind != MSP_OPERATOR) return kind;
  if (torch.async(function)) {
    bool here =
        msp_operator_is(name, "nccl:", 5) || msp_operator_is(name, "hccl:", 5) || msp_operator_is(name, "xccl:", 5);
    return here ? MSP_OPERATOR_ASYNC : MSP_OPERATOR_ELSEWHERE;
  }
  return strncmp(name, graph, sizeof graph - 1) == 0 ? MSP_OPERATOR : MSP_OPERATOR_REGION;
}

/* Strays: functions of TorchScript that end on another thread than they began on. Such a function waits for another
 * one, and another thread continues it. The thread on which the function ends stores it here. The thread on which it
 * began ends the function's span when it begins its next operator, and when the spans inside have ended. Each thread's
 * writer has two fields for this. `strays` is the number of stored functions that the thread has looked at.
 * `strays_left` says whether the thread still has to end such a span. */
enum { STRAYS = 64 };

static struct {
  struct {
    const void *function;
    uint32_t number; /* counts from 1; stored after `function` */
  } latest[STRAYS];
  uint32_t count;
} strays;

static void add_stray(const void *function) {
  uint32_t number = __atomic_fetch_add(&strays.count, 1, __ATOMIC_ACQ_REL);
  __atomic_store_n(&strays.latest[number % STRAYS].function, function, __ATOMIC_RELAXED);
  __atomic_store_n(&strays.latest[number % STRAYS].number, number + 1, __ATOMIC_RELEASE);
}

static void mark_stray(msp_writer *writer, const void *function) {
  for (uint32_t index = writer->depth; index-- > 0;) {
    msp_open_span *span = &writer->open[index];
    if (span->function != function) continue;
    span->function = &strays;
    writer->strays_left = true;
    if (writer->ops > 0) --writer->ops;
    return;
  }
}

static void end_strays(msp_writer *writer) {
  uint32_t count = __atomic_load_n(&strays.count, __ATOMIC_ACQUIRE);
  if (count - writer->strays > STRAYS) writer->strays = count - STRAYS;
  while (writer->strays != count) {
    uint32_t at = writer->strays % STRAYS, number = __atomic_load_n(&strays.latest[at].number, __ATOMIC_ACQUIRE);
    if ((int32_t)(number - writer->strays) <= 0) break; /* another thread is about to store this function */
    const void *function = __atomic_load_n(&strays.latest[at].function, __ATOMIC_RELAXED);
    if (number == ++writer->strays) mark_stray(writer, function);
  }
  while (writer->depth > 0 && writer->open[writer->depth - 1].function == &strays) {
    msp_writer_end(writer, writer->depth - 1, 0, 0);
  }
  bool left = false;
  for (uint32_t index = 0; index < writer->depth; ++index) left |= writer->open[index].function == &strays;
  writer->strays_left = left;
}

static bool is_of_user(const void *function) { return ((const uint8_t *)function)[torch.layout.scope] == USER_SCOPE; }

static inline __attribute__((always_inline)) void begin(msp_writer *writer, const char *name, msp_operator_kind kind,
                                                        uint64_t arg, const void *function) {
  if (msp_operator_admits(writer, kind)) {
    uint32_t text = msp_intern_recent(&writer->recent, name, writer->session);
    msp_operator_begin(writer, text, kind, arg, function);
  }
  msp_operator_count(writer, kind);
}

__attribute__((used)) static void msp_observer_begins(const void *function) {
  msp_writer *writer = msp_writer_get();
  if (writer == NULL) return;
  /* store only if it is not true yet: all threads read the fields beside it, and a store slows them down */
  if (writer != __atomic_load_n(&torch.watcher, __ATOMIC_RELAXED) &&
      !__atomic_load_n(&torch.elsewhere, __ATOMIC_RELAXED))
    __atomic_store_n(&torch.elsewhere, true, __ATOMIC_RELAXED);
  if (__builtin_expect(__atomic_load_n(&strays.count, __ATOMIC_ACQUIRE) != writer->strays || writer->strays_left, 0))
    end_strays(writer);
  const char *name = torch.name(function);
  if (is_of_user(function)) {
    begin(writer, name, kind_of_user(function, name), 0, function);
  } else {
    begin(writer, name, MSP_OPERATOR, tie_of(function), function);
  }
}

/* The callback that PyTorch calls at the begin of an operator. It returns an empty std::unique_ptr. In C++, the caller
 * of such a function passes the address of the result as a hidden argument. */
#if defined(__aarch64__)
/* On aarch64, the register x8 holds the address of the result, and C cannot access x8. So this function is in
 * assembler. "hint 34" is the landing pad for indirect branches (bti c). */
__attribute__((visibility("hidden"))) void msp_observer_start(void);
__asm__(
    ".pushsection .text\n"
    ".balign 4\n"
    ".globl msp_observer_start\n" /* with a local symbol, the linker used the address of another function */
    ".hidden msp_observer_start\n"
    ".type msp_observer_start, %function\n"
    "msp_observer_start:\n"
    "  hint 34\n"
    "  str xzr, [x8]\n"
    "  b msp_observer_begins\n"
    ".size msp_observer_start, . - msp_observer_start\n"
    ".popsection\n");
#else
static void **msp_observer_start(void **result, const void *function) {
  *result = NULL;
  msp_observer_begins(function);
  return result;
}
#endif

static void ends(const void *function, void *context) {
  (void)context;
  msp_writer *writer = msp_writer_get();
  if (writer == NULL || msp_operator_end(writer, function)) return;
  if (is_of_user(function) && torch.async(function)) return; /* an exchange, or a region that was handed over */
  if ((uint64_t)integer_at(function, torch.layout.thread) != torch.thread()) {
    add_stray(function);
  } else if (writer->ops > 0) {
    --writer->ops; /* the begin of this operator was counted, but not recorded */
  }
}

uint32_t msp_observer_open(void) {
  const msp_writer *writer = msp_writer_current;
  return writer == NULL ? 0 : writer->ops;
}

bool msp_observer_elsewhere(void) {
  __atomic_store_n(&torch.watcher, msp_writer_current, __ATOMIC_RELAXED);
  return __atomic_exchange_n(&torch.elsewhere, false, __ATOMIC_RELAXED);
}

bool msp_observer_region(const char *name, const void *region) {
  msp_writer *writer = torch.on ? msp_writer_get() : NULL;
  if (writer == NULL || !msp_operator_admits(writer, MSP_OPERATOR)) return false;
  begin(writer, name, MSP_OPERATOR, 0, region);
  return true;
}

void msp_observer_region_end(const void *region) {
  msp_writer *writer = msp_writer_get();
  if (writer != NULL) msp_operator_end(writer, region);
}

void msp_observer_hand_over(const char *name) {
  msp_writer *writer = msp_writer_get();
  if (writer != NULL) msp_operator_hand_over(writer, msp_intern_recent(&writer->recent, name, writer->session));
}

/* Return the offset of the field is_async_ in this build of PyTorch. Find it in the instructions of PyTorch's function
 * isAsync: a load of one byte, and the return. Returns 0 if the function has other instructions. */
static uint32_t offset_of_async(const void *code) {
#if defined(__x86_64__)
  static const uint8_t landing[] = {0xF3, 0x0F, 0x1E, 0xFA},
                       load[] = {0x0F, 0xB6, 0x87}; /* endbr64; movzx eax, [rdi+] */
  const uint8_t *at = code;
  if (memcmp(at, landing, sizeof landing) == 0) at += sizeof landing;
  uint32_t offset = 0;
  if (memcmp(at, load, sizeof load) == 0 && at[7] == 0xC3) memcpy(&offset, at + 3, sizeof offset);
  return offset;
#elif defined(__aarch64__)
  const uint32_t *at = code;
  if (*at == 0xD503245F) ++at;                                                                /* bti c */
  return (at[0] & 0xFFC003FF) == 0x39400000 && at[1] == 0xD65F03C0 ? at[0] >> 10 & 0xFFF : 0; /* ldrb w0, [x0, #] */
#else
  (void)code;
  return 0;
#endif
}

const char *msp_observer_connect(const char *library, const msp_observer_layout *layout) {
  if (torch.connected) return NULL;
  void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == NULL) return "its library libtorch_cpu is not loaded from the usual place";
  void *add = dlsym(handle, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
  void *remove = dlsym(handle, "_ZN2at14removeCallbackEm");
  void *name = dlsym(handle, "_ZNK2at14RecordFunction4nameEv");
  void *async = dlsym(handle, "_ZNK2at14RecordFunction7isAsyncEv");
  void *thread = dlsym(handle, "_ZN2at14RecordFunction15currentThreadIdEv");
  dlclose(handle); /* PyTorch stays loaded */
  if (add == NULL || remove == NULL || name == NULL || async == NULL || thread == NULL)
    return "its library lacks a function that tells operators";
  uint32_t found = offset_of_async(async);
  if (found != 0 && found != layout->async) return "its operators have another layout than those of known builds";
  *(void **)&torch.add = add;
  *(void **)&torch.remove = remove;
  *(void **)&torch.name = name;
  *(void **)&torch.async = async;
  *(void **)&torch.thread = thread;
  torch.layout = *layout;
  torch.connected = true;
  return NULL;
}

void msp_observer_switch(bool on) {
  if (!torch.connected || on == torch.on) return;
  torch.on = on;
  if (!on) {
    torch.remove(torch.handle);
    return;
  }
  callback ours = {.probability = 1.0};
  *(void (**)(void))&ours.start = (void (*)(void))msp_observer_start;
  *(void (**)(const void *, void *))&ours.end = ends;
  /* Ask for the four scopes that a job uses; the others belong to PyTorch Mobile and to the static runtime. PyTorch has
   * a list of callbacks for each scope, and copies the lists for each node of autograd. With fewer scopes, an operator
   * takes 5 % less time. */
  ours.scopes[FUNCTION] = ours.scopes[BACKWARD_FUNCTION] = true;
  ours.scopes[TORCHSCRIPT_FUNCTION] = ours.scopes[USER_SCOPE] = true;
  torch.handle = torch.add(ours);
}
