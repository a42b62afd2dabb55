/* A stress test of the tracing of NPUs: threads launch kernels and set markers on the fake msPTI, while the recorder
 * attaches to it, flushes it and detaches from it. Senseless records come in between, and fork children have to end.
 *
 * usage: npu FOLDER ROUNDS SEED
 *
 * The loader has to find the fake libraries. native/sanitize.sh builds it with the sanitizers. A failed check aborts
 * the program.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "device_format.h"
#include "devices/mspti_records.h"
#include "devices/tracing.h"
#include "recorder.h"

enum { THREADS = 3, LAUNCHES = 300, STRANGE = 200 };

static uint64_t (*launch)(const char *name, const char *type, uint32_t stream, uint64_t start_ns, uint64_t duration_ns);
static void (*mark)(uint32_t flag, uint64_t id, const char *name, const char *domain, int stream);
static void (*synchronize)(void);
static void (*settle)(void);
static void (*emit)(const void *record, size_t size);

static void *find(void *library, const char *name) {
  void *function = dlsym(library, name);
  CHECK(function != NULL);
  return function;
}

static void *work(void *stream) {
  int number = (int)(uintptr_t)stream;
  for (int i = 0; i < LAUNCHES; ++i) {
    uint64_t id = (uint64_t)(number * LAUNCHES + i);
    mark(2, id, "a range", "mine", -1);
    launch("a kernel", "KERNEL_AICORE", (uint32_t)number, 0, 100);
    mark(4, id, "", "", -1);
  }
  return NULL;
}

/* Emit records of random kinds, some of which do not exist, with random numbers and without texts. */
static void emit_strange(unsigned *seed) {
  for (int i = 0; i < STRANGE; ++i) {
    uint32_t record[18] = {(uint32_t)rand_r(seed) % 14};
    for (int word = 1; word < 9; ++word) record[word] = (uint32_t)rand_r(seed);
    size_t size = mspti_size_of(record[0]);
    emit(record, size != 0 ? size : 24);
  }
}

/* Check that a fork child ends with `exit`, although msPTI's destructors hang in it. */
static void fork_child(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(120);
    if (msp_trace_ready(MSP_DEVICE_SOURCE_MSPTI) || msp_trace_flush() != MSP_TRACE_IDLE) _exit(1);
    exit(7);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void record(unsigned *seed, bool strange) {
  char why[256];
  CHECK(msp_trace_attach(MSP_DEVICE_SOURCE_MSPTI, "libmspti.so", why, sizeof why) == MSP_TRACE_DONE);
  CHECK(msp_trace_record(MSP_TRACE_BASIC | MSP_TRACE_MEMORY, why, sizeof why) == MSP_TRACE_DONE);
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
  if (strange) emit_strange(seed);
  for (unsigned flushes = (unsigned)rand_r(seed) % 4; flushes > 0; --flushes) {
    usleep((unsigned)rand_r(seed) % 3000);
    CHECK(msp_trace_flush() == MSP_TRACE_DONE);
  }
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  fork_child();
  synchronize();
  settle();
  CHECK(msp_trace_detach() == MSP_TRACE_DONE);
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  unsigned seed = (unsigned)atoi(argv[3]);
  CHECK(!msp_trace_ready(MSP_DEVICE_SOURCE_MSPTI));
  void *runtime = dlopen("libascendcl.so", RTLD_NOW);
  void *mspti = dlopen("libmspti.so", RTLD_NOW);
  CHECK(runtime != NULL && mspti != NULL);
  CHECK(msp_trace_ready(MSP_DEVICE_SOURCE_MSPTI));
  *(void **)&launch = find(mspti, "fake_kernel");
  *(void **)&mark = find(mspti, "fake_marker");
  *(void **)&synchronize = find(mspti, "fake_synchronize");
  *(void **)&settle = find(mspti, "fake_settle");
  *(void **)&emit = find(mspti, "fake_emit");
  int rounds = atoi(argv[2]);
  CHECK(msp_open(argv[1], 64, "", UINT64_MAX, UINT64_MAX, 0) == 0);
  for (int round = 0; round < rounds; ++round) record(&seed, false);
  msp_trace_counts counts = {0};
  msp_trace_count(&counts);
  /* each launch makes records of a kernel, a call and a range */
  CHECK(counts.records == (uint64_t)rounds * THREADS * LAUNCHES * 3);
  CHECK(counts.lost + counts.dropped + counts.refused + counts.unfinished + counts.unknown + counts.unreadable == 0);
  for (int round = 0; round < rounds; ++round) record(&seed, true);
  msp_trace_count(&counts);
  CHECK(counts.unreadable > 0 && counts.unfinished > 0);
  msp_close();
  return 0;
}
