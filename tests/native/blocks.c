/* Allocate and free blocks on many threads through a library whose imports are replaced, and fork meanwhile; check the
 * recorder's counts and its store.
 *
 * usage: blocks FOLDER ROUNDS SEED
 *
 * native/sanitize.sh builds it with the sanitizers. A failed check aborts the program. It needs the libraries
 * liballocator_lazy.so and liballocator_now.so; the second one's table of imports is read-only.
 */
#include "blocks.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "file_format.h"
#include "recorder.h"

/* Whether a fork child of a process with threads may allocate. In the allocator of ThreadSanitizer (GCC 12), the child
 * may wait for ever for a lock of a thread that only the parent has. */
#ifdef __SANITIZE_THREAD__
enum { CHILD_ALLOCATES = 0 };
#else
enum { CHILD_ALLOCATES = 1 };
#endif

enum { THREADS = 4, TIMES = 4000, HELD = 50, LEAST = 1024, LEFT = 3000 };

static void *(*take)(size_t), *(*take_other)(size_t);
static void (*give)(void *);
static void *left[THREADS]; /* blocks of ended threads, which the main thread frees */

static uint32_t random_below(unsigned *seed, uint32_t limit) { return (uint32_t)rand_r(seed) % limit; }

static void *work(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  void *held[HELD] = {NULL};
  for (int i = 0; i < TIMES; ++i) {
    uint32_t at = random_below(&seed, HELD);
    if (held[at] != NULL) {
      give(held[at]);
      held[at] = NULL;
    } else {
      held[at] = random_below(&seed, 8) == 0 ? take_other(64) : take(1 + random_below(&seed, 2 * LEAST));
      CHECK(held[at] != NULL);
    }
  }
  for (int i = 0; i < HELD; ++i) give(held[i]);
  return take(LEFT);
}

static void fork_meanwhile(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    if (CHILD_ALLOCATES) {
      void *block = take(4096); /* the child waits for no lock of a thread that only the parent has */
      give(block);
    }
    msp_blocks_counts counts;
    msp_blocks_count(&counts);
    _exit(counts.intact ? 1 : 0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Return the number of allocations in the store minus the number of releases. */
static long read_slots(const char *folder) {
  long found = 0;
  DIR *files = opendir(folder);
  CHECK(files != NULL);
  for (struct dirent *each; (each = readdir(files)) != NULL;) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, each->d_name);
    int file = open(path, O_RDONLY);
    if (strstr(each->d_name, ".seg") != NULL) {
      msp_slot slot;
      off_t at = MSP_HEADER_SIZE;
      while (pread(file, &slot, sizeof slot, at) == (ssize_t)sizeof slot) {
        at += (off_t)(sizeof slot * (1u + slot.extra));
        if (slot.kind != MSP_KIND_BLOCK) continue;
        CHECK(slot.name >= LEAST && slot.end_ns >> MSP_BLOCK_BITS == 0 && slot.end_ns != 0);
        found += (slot.flags & MSP_BLOCK_RELEASED) != 0 ? -1 : 1;
      }
    }
    close(file);
  }
  closedir(files);
  return found;
}

static void play(const char *library, const char *folder, unsigned seed) {
  void *loaded = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  CHECK(loaded != NULL);
  take = (void *(*)(size_t))dlsym(loaded, "take");
  take_other = (void *(*)(size_t))dlsym(loaded, "take_other");
  give = (void (*)(void *))dlsym(loaded, "give");
  CHECK(take != NULL && take_other != NULL && give != NULL);
  void *older = take(1 << 20);
  CHECK(mkdir(folder, 0750) == 0 && msp_open(folder, 64, "", UINT64_MAX, UINT64_MAX, 0) == 0);
  const char *why = msp_blocks_watch(library, LEAST);
  if (why != NULL) fprintf(stderr, "%s %s\n", library, why);
  CHECK(why == NULL && msp_blocks_watch(library, LEAST) == NULL);
  give(older); /* the recorder does not know this block */
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    CHECK(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(seed + (unsigned)i)) == 0);
  }
  for (int times = 0; times < 5; ++times) fork_meanwhile();
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], &left[i]) == 0 && left[i] != NULL);
  msp_blocks_counts counts;
  msp_blocks_count(&counts);
  CHECK(counts.intact && counts.lost == 0 && counts.live == (uint64_t)THREADS * LEFT);
  CHECK(counts.made - counts.freed == THREADS && counts.peak >= counts.live);
  void *big = take(5000000);
  give(big);
  for (int i = 1; i < THREADS; ++i) give(left[i]);
  msp_blocks_count(&counts);
  CHECK(counts.live == LEFT && counts.peak == (uint64_t)THREADS * LEFT + 5000000);
  msp_blocks_count(&counts);
  CHECK(counts.peak == LEFT);
  CHECK(msp_close() == 0);
  CHECK(read_slots(folder) == 1);
  msp_blocks_leave();
  msp_blocks_leave();
  msp_blocks_count(&counts);
  CHECK(!counts.intact && counts.live == 0);
  give(left[0]);
  give(take(LEFT));
  msp_blocks_count(&counts);
  CHECK(counts.live == 0);
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  CHECK(msp_recorder_init() == 0);
  CHECK(msp_blocks_watch("libnone.so", LEAST) != NULL);
  CHECK(msp_blocks_watch("libc.so.6", LEAST) != NULL); /* libc does not import the functions that it defines */
  for (int round = 0; round < atoi(argv[2]); ++round) {
    static const char *const libraries[] = {"liballocator_lazy.so", "liballocator_now.so"};
    for (int i = 0; i < 2; ++i) {
      char folder[512];
      snprintf(folder, sizeof folder, "%s/blocks.%d.%d", argv[1], round, i);
      play(libraries[i], folder, (unsigned)(atoi(argv[3]) + round));
    }
  }
  return 0;
}
