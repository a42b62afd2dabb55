/* Sample made-up stacks on many threads, one thread at a time, while another thread writes the samples; check the
 * store.
 *
 * usage: stacks FOLDER ROUNDS SEED
 *
 * native/sanitize.sh builds it with the sanitizers. A failed check aborts the program.
 */
#include "stacks.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "file_format.h"
#include "recorder.h"
#include "strings.h"

enum { THREADS = 4, LOOKS = 3000, NODES_MOST = 1 << 18 };
#define PERIOD_NS 1000000u

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* in place of the GIL */
static bool stop;
static uint64_t looks, refused;

static uint32_t random_below(unsigned *seed, uint32_t limit) { return (uint32_t)rand_r(seed) % limit; }

static uint32_t name(const char *text) { return msp_intern(text, strlen(text), MSP_OURS, 0); }

/* With `turn` held: take a sample of a random stack. */
static void look(unsigned *seed, uint32_t number) {
  msp_function names = {name("a function"), name("a_file.py"), random_below(seed, 10)};
  uint32_t thread = msp_stacks_thread(number, random_below(seed, 3), name("a thread"));
  uint32_t node = thread;
  for (uint32_t depth = random_below(seed, 6) + 1; depth > 0 && node != 0; --depth) {
    uint32_t function = random_below(seed, 8) + 1, place = random_below(seed, 20), caller = node;
    node = msp_stacks_at(caller, function, place);
    if (node == 0) node = msp_stacks_add(caller, function, place, place / 4, &names);
  }
  ++looks;
  if (node == 0) {
    ++refused;
    msp_stacks_lost();
    return;
  }
  uint64_t now = msp_now();
  const msp_sample sample = {thread, node, 1 + (random_below(seed, 50) == 0), 7, now, now};
  msp_stacks_put(&sample);
}

static void *work(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  for (int i = 0; i < LOOKS; ++i) {
    pthread_mutex_lock(&turn);
    look(&seed, random_below(&seed, 100));
    pthread_mutex_unlock(&turn);
    if (random_below(&seed, 20) == 0) usleep(200);
  }
  return NULL;
}

static void *writes(void *unused) {
  (void)unused;
  bool last;
  do {
    last = __atomic_load_n(&stop, __ATOMIC_ACQUIRE);
    msp_stacks_write(PERIOD_NS, last);
    if (!last) usleep(1000);
  } while (!last);
  return NULL;
}

/* Check that each sample's node, and each node's caller, was written before. */
static void check_file(const char *path, bool *known, uint64_t *samples) {
  static msp_slot slots[1 << 17];
  int descriptor = open(path, O_RDONLY);
  CHECK(descriptor >= 0);
  msp_segment_header header;
  CHECK(read(descriptor, &header, sizeof header) == (ssize_t)sizeof header);
  ssize_t size = header.flags & MSP_SEGMENT_CONTROL ? 0 : read(descriptor, slots, sizeof slots);
  close(descriptor);
  for (size_t i = 0; i < (size_t)size / sizeof *slots; ++i) {
    if (slots[i].kind == MSP_KIND_FRAME) {
      uint32_t node = (uint32_t)slots[i].end_ns, caller = (uint32_t)(slots[i].end_ns >> 32);
      CHECK(node > 0 && node < NODES_MOST && (caller == 0 || known[caller]));
      known[node] = true;
    } else if (slots[i].kind == MSP_KIND_SAMPLED) {
      CHECK(known[(uint32_t)slots[i].arg] && slots[i].end_ns >= slots[i].start_ns);
      *samples += slots[i].arg >> 32;
    }
  }
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  static bool known[NODES_MOST];
  for (int round = 0; round < atoi(argv[2]); ++round) {
    char folder[4096], path[8192];
    snprintf(folder, sizeof folder, "%s/%d", argv[1], round);
    CHECK(mkdir(folder, 0750) == 0 && msp_open(folder, 512, "", UINT64_MAX, UINT64_MAX, 0) == 0);
    msp_stacks_clear();
    pthread_t writer, threads[THREADS];
    __atomic_store_n(&stop, false, __ATOMIC_RELEASE);
    CHECK(pthread_create(&writer, NULL, writes, NULL) == 0);
    for (int i = 0; i < THREADS; ++i) {
      CHECK(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(atoi(argv[3]) + i)) == 0);
    }
    for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    pthread_join(writer, NULL);
    CHECK(msp_close() == 0);
    uint64_t samples = 0;
    for (uint32_t file = 0; file < 64; ++file) { /* in the order in which the writing thread made them */
      snprintf(path, sizeof path, "%s/%06u.seg", folder, file);
      if (access(path, R_OK) == 0) check_file(path, known, &samples);
    }
    CHECK(samples > 0 && samples <= 2 * looks && refused <= looks);
  }
  return 0;
}
