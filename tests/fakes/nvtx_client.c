/* A library that pushes ranges through NVTX, as libtorch_cuda does.
 *
 * With -DREAL_NVTX, NVIDIA's header loads the injected library. Without it, this file does the same: the first call
 * loads the library that NVTX_INJECTION64_PATH names and calls its InitializeInjectionNvtx2. The argument of this is a
 * function that returns the table of NVTX's functions, which the library may replace by its own.
 */
#ifdef REAL_NVTX
#include <nvtx3/nvToolsExt.h>

int client_push(const char *name) { return nvtxRangePushA(name); }
int client_pop(void) { return nvtxRangePop(); }
#else
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef void (*any_function)(void);

enum { CALLBACKS = 1, CORE = 1, FUNCTIONS = 16, PUSH = 9, POP = 11 };

static any_function slots[FUNCTIONS];
static any_function *functions[FUNCTIONS];

static int module_functions(int module, any_function ***out, unsigned *count) {
  if (module != CORE) return 0;
  for (int i = 1; i < FUNCTIONS; ++i) functions[i] = &slots[i];
  *out = functions;
  *count = FUNCTIONS;
  return 1;
}

static const struct {
  size_t size;
  int (*module_functions)(int, any_function ***, unsigned *);
} callbacks = {sizeof callbacks, module_functions};

static const void *table(uint32_t which) { return which == CALLBACKS ? &callbacks : NULL; }

static void start(void) {
  static int started;
  if (started++) return;
  const char *path = getenv("NVTX_INJECTION64_PATH");
  void *library = path != NULL ? dlopen(path, RTLD_LAZY) : NULL;
  if (library == NULL) return;
  int (*initialize)(const void *(*)(uint32_t));
  *(void **)&initialize = dlsym(library, "InitializeInjectionNvtx2");
  if (initialize == NULL || !initialize(table)) dlclose(library);
}

int client_push(const char *name) {
  start();
  return slots[PUSH] != NULL ? ((int (*)(const char *))slots[PUSH])(name) : -2;
}

int client_pop(void) {
  start();
  return slots[POP] != NULL ? ((int (*)(void))slots[POP])() : -2;
}
#endif
