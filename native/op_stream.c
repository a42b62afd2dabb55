#include "op_stream.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "operators.h"
#include "strings.h"

/* The types of the ITT interface, as far as they are used. */

typedef struct {
  const char *name;
  void **function; /* pointer to the function pointer that callers use */
  void *first, *none;
  int32_t group;
} itt_function;

typedef struct {
  uint8_t magic[8];
  unsigned long major, minor, build;
  volatile long api_initialized, mutex_initialized, atomic_counter;
  pthread_mutex_t mutex;
  void *library, *error_handler;
  const char **library_path;
  itt_function *functions; /* the last function has no name */
} itt_table;

typedef struct {
  volatile int flags;
  const char *name;
} itt_domain;

typedef struct {
  unsigned long long d1, d2, d3;
} itt_id;

static const uint8_t itt_magic[8] = {0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30};

static bool asked; /* PyTorch's ITT has accepted the functions of this file */
static bool running;
static const itt_domain *domain; /* the domain of PyTorch; NULL until its first operator */

/* The handle of a name is the name itself: PyTorch uses a handle for one operator only, and only as long as the name
 * exists. */
static void *string_handle(const char *name) { return (void *)name; }

static bool is_torch(const itt_domain *of) {
  if (of == domain) return true;
  if (of == NULL || of->name == NULL || strcmp(of->name, "PyTorch") != 0) return false;
  domain = of;
  return true;
}

static void task_begin(const itt_domain *of, itt_id id, itt_id parent, const char *name) {
  (void)id;
  (void)parent;
  if (!__atomic_load_n(&running, __ATOMIC_RELAXED) || name == NULL || !is_torch(of)) return;
  msp_writer *writer = msp_writer_get();
  if (writer == NULL) return;
  msp_operator_kind kind = msp_operator_kind_of(name);
  if (msp_operator_admits(writer, kind)) {
    msp_operator_begin(writer, msp_intern_recent(&writer->recent, name, writer->session), kind, 0);
  }
  if (kind != MSP_OPERATOR_ELSEWHERE) ++writer->ops;
}

static void task_end(const itt_domain *of) {
  if (!__atomic_load_n(&running, __ATOMIC_RELAXED) || !is_torch(of)) return;
  msp_writer *writer = msp_writer_get();
  if (writer != NULL) msp_operator_end(writer);
}

static bool in_torch(const itt_table *table) {
  Dl_info place;
  if (dladdr(table, &place) == 0 || place.dli_fname == NULL) return false;
  const char *slash = strrchr(place.dli_fname, '/');
  return strncmp(slash == NULL ? place.dli_fname : slash + 1, "libtorch_cpu", 12) == 0;
}

/* ITT calls this when it has loaded this library. */
__attribute__((visibility("default"))) void __itt_api_init(itt_table *table, uint32_t groups) {
  (void)groups;
  if (memcmp(table->magic, itt_magic, sizeof itt_magic) != 0 || table->major != 3 || !in_torch(table)) return;
  for (const itt_function *function = table->functions; function->name != NULL; ++function) {
    if (strcmp(function->name, "__itt_string_handle_create") == 0) {
      *function->function = (void *)string_handle;
    } else if (strcmp(function->name, "__itt_task_begin") == 0) {
      *function->function = (void *)task_begin;
    } else if (strcmp(function->name, "__itt_task_end") == 0) {
      *function->function = (void *)task_end;
    }
  }
  asked = true;
}

bool msp_op_stream_start(void) {
  __atomic_store_n(&running, asked, __ATOMIC_RELAXED);
  return asked;
}

void msp_op_stream_annotate(const char *name, size_t length) {
  msp_writer *writer = msp_writer_current != NULL ? msp_writer_get() : NULL;
  if (writer == NULL || writer->depth == 0) return;
  msp_open_span *last = &writer->open[writer->depth - 1];
  bool innermost = last->op && last->ops + 1u == writer->ops;
  if (innermost && last->slot->name == msp_intern(name, length, MSP_OF_THE_JOB, 0))
    last->category = MSP_CATEGORY_MARKER;
}
