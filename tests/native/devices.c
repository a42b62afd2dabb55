/* A stress test of device tracing: threads launch kernels on the fake CUPTI, while the recorder attaches to it, flushes
 * it and detaches from it.
 *
 * usage: devices FOLDER ROUNDS SEED
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
#include <unistd.h>

#include "check.h"
#include "device_format.h"
#include "devices/tracing.h"
#include "recorder.h"

enum { THREADS = 3, LAUNCHES = 300 };

static uint32_t (*launch)(const char *name, uint32_t stream, uint64_t start_ns, uint64_t duration_ns, int driver);
static void (*synchronize)(uint32_t stream);

static void *find(void *library, const char *name) {
  void *function = dlsym(library, name);
  CHECK(function != NULL);
  return function;
}

static void *work(void *stream) {
  for (int i = 0; i < LAUNCHES; ++i) launch("a kernel", (uint32_t)(uintptr_t)stream, 0, 100, i % 5 == 0);
  return NULL;
}

static void record(unsigned *seed) {
  char why[64];
  CHECK(msp_trace_attach(MSP_DEVICE_SOURCE_CUPTI, "libcupti.so.12", why, sizeof why) == MSP_TRACE_DONE);
  CHECK(msp_trace_record(MSP_TRACE_BASIC | MSP_TRACE_DRIVER, why, sizeof why) == MSP_TRACE_DONE);
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
  for (unsigned flushes = (unsigned)rand_r(seed) % 4; flushes > 0; --flushes) {
    usleep((unsigned)rand_r(seed) % 3000);
    CHECK(msp_trace_flush() == MSP_TRACE_DONE);
  }
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  for (uint32_t i = 0; i < THREADS; ++i) synchronize(i);
  CHECK(msp_trace_detach() == MSP_TRACE_DONE);
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  unsigned seed = (unsigned)atoi(argv[3]);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  void *cupti = dlopen("libcupti.so.12", RTLD_NOW);
  CHECK(driver != NULL && cupti != NULL);
  int (*initialise)(unsigned) = NULL;
  *(void **)&initialise = find(driver, "cuInit");
  *(void **)&launch = find(cupti, "fake_launch");
  *(void **)&synchronize = find(cupti, "fake_synchronize");
  CHECK(!msp_trace_ready(MSP_DEVICE_SOURCE_CUPTI));
  CHECK(initialise(0) == 0);
  CHECK(msp_trace_ready(MSP_DEVICE_SOURCE_CUPTI));
  msp_trace_counts counts = {0};
  int rounds = atoi(argv[2]);
  CHECK(msp_open(argv[1], 64, "", UINT64_MAX, UINT64_MAX, 0) == 0);
  for (int round = 0; round < rounds; ++round) record(&seed);
  msp_close();
  msp_trace_count(&counts);
  /* each launch makes records of a kernel and a call, each synchronisation records of a call and a wait */
  CHECK(counts.records == (uint64_t)rounds * THREADS * (2 * LAUNCHES + 2));
  CHECK(counts.lost + counts.dropped + counts.refused + counts.unfinished + counts.unknown == 0);
  return 0;
}
