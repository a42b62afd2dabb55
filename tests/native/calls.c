/* Call made-up functions on many threads, one thread at a time, while tracing begins and ends; check the store.
 *
 * usage: calls FOLDER ROUNDS SEED
 *
 * native/sanitize.sh builds it with the sanitizers. A failed check aborts the program.
 */
#include "calls.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "file_format.h"
#include "recorder.h"

enum { THREADS = 4, CALLS = 4000, DEEP = 40, FUNCTIONS = 6, LIMIT = 30 };

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* in place of the GIL */
static msp_callee functions[FUNCTIONS];
static uint64_t begun;

static uint32_t random_below(unsigned *seed, uint32_t limit) { return (uint32_t)rand_r(seed) % limit; }

static void call(uint32_t function, bool begins) {
  pthread_mutex_lock(&turn);
  msp_calls *calls = msp_calls_get();
  if (calls != NULL) {
    if (calls->span != msp_calls_tracing.span) {
      msp_calls_forget(calls);
      calls->span = msp_calls_tracing.span;
    }
    if (begins) {
      ++begun;
      msp_calls_enter(calls, &functions[function], 0);
    } else {
      msp_calls_leave(calls, &functions[function], 0);
    }
  }
  pthread_mutex_unlock(&turn);
}

static void *work(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  uint32_t open[DEEP], depth = 0;
  for (int i = 0; i < CALLS; ++i) {
    bool begins = depth == 0 || (depth < DEEP && random_below(&seed, 2) == 0);
    if (begins) {
      open[depth] = random_below(&seed, FUNCTIONS);
      call(open[depth++], true);
    } else {
      call(open[--depth], false);
      if (random_below(&seed, 200) == 0) call(random_below(&seed, FUNCTIONS), false); /* an end without a begin */
    }
    if (random_below(&seed, 500) == 0) usleep(200);
  }
  return NULL; /* some calls have not ended */
}

static uint64_t count(const char *path) {
  uint64_t found = 0;
  int file = open(path, O_RDONLY);
  CHECK(file >= 0);
  msp_slot slot;
  off_t at = MSP_HEADER_SIZE;
  while (pread(file, &slot, sizeof slot, at) == (ssize_t)sizeof slot) {
    at += (off_t)(sizeof slot * (1u + slot.extra));
    if (slot.kind != MSP_KIND_CALL || slot.end_ns == 0) continue;
    CHECK(slot.end_ns >= slot.start_ns && slot.category == MSP_CATEGORY_CALL);
    CHECK(slot.name >= 1 && slot.name <= FUNCTIONS && slot.arg >> (2 * MSP_FRAME_LINE_BITS) == 7);
    ++found;
  }
  close(file);
  return found;
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  CHECK(msp_recorder_init() == 0);
  for (int round = 0; round < atoi(argv[2]); ++round) {
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s/calls.%d", argv[1], round);
    CHECK(mkdir(folder, 0750) == 0 && msp_open(folder, 64, "", UINT64_MAX, UINT64_MAX, 0) == 0);
    for (uint32_t i = 0; i < FUNCTIONS; ++i) {
      functions[i] = (msp_callee){&functions[i], (uint64_t)7 << (2 * MSP_FRAME_LINE_BITS), i + 1};
    }
    bool limited = round % 2 == 1;
    begun = 0;
    msp_calls_begin(0, limited ? LIMIT : UINT32_MAX);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i) {
      CHECK(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(atoi(argv[3]) + i)) == 0);
    }
    for (int times = 0; times < 3; ++times) {
      usleep(2000);
      pthread_mutex_lock(&turn);
      msp_calls_end();
      msp_calls_begin(0, limited ? LIMIT : UINT32_MAX);
      pthread_mutex_unlock(&turn);
    }
    for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
    pthread_mutex_lock(&turn);
    msp_calls_end();
    pthread_mutex_unlock(&turn);
    CHECK(msp_close() == 0);
    uint64_t found = 0;
    for (uint32_t file = 0; file < 256; ++file) {
      snprintf(path, sizeof path, "%s/%06u.seg", folder, file);
      if (access(path, R_OK) == 0) found += count(path);
    }
    msp_stats stats;
    msp_get_stats(&stats);
    CHECK(stats.dropped == 0);
    CHECK(limited ? found <= begun && found > begun / 2 : found == begun);
  }
  return 0;
}
