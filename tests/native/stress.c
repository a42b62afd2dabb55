/* A stress test of the recorder: many threads record, while the process opens and closes sessions and forks; check the
 * stores.
 *
 * usage: stress FOLDER ROUNDS SEED
 *
 * native/sanitize.sh builds it with the sanitizers. A failed check aborts the program.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "control.h"
#include "gate.h"
#include "recorder.h"
#include "strings.h"
#include "writer.h"

/* With sanitizers, a fork child may wait for ever for a lock of a sanitizer that another thread held. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CHILD_RECORDS false
#else
#define CHILD_RECORDS true
#endif

/* ThreadSanitizer does not notice a fork that is a bare system call, and takes the child for the parent. */
#if defined(__SANITIZE_THREAD__)
#define BARE_FORKS false
#else
#define BARE_FORKS true
#endif

/* With qemu, a fork child may wait for ever for a lock of qemu that another thread held. */
#if defined(EMULATED)
#define FORKS false
#else
#define FORKS true
#endif

enum { THREADS = 4, TEXT_MOST = 9000 };

static int stop;

static uint32_t random_below(unsigned *seed, uint32_t limit) { return (uint32_t)rand_r(seed) % limit; }

static uint32_t random_name(unsigned *seed) {
  static __thread char text[TEXT_MOST];
  uint32_t kind = random_below(seed, 100);
  int length = 0;
  if (kind < 90) {
    length = snprintf(text, sizeof text, "common %u", random_below(seed, 200));
  } else if (kind < 99) {
    length = snprintf(text, sizeof text, "rare %u %u", random_below(seed, 1000), random_below(seed, 1000));
  } else {
    length = (int)random_below(seed, TEXT_MOST);
    memset(text, 'a' + (int)random_below(seed, 26), (size_t)length);
  }
  return msp_intern(text, (size_t)length, MSP_OURS, 0);
}

static void nest(unsigned *seed, int depth) {
  uint32_t token = msp_begin(random_name(seed), random_below(seed, 4) == 0 ? 0x41 : 1, (uint64_t)depth);
  if (depth < 600 && random_below(seed, 100) < 45) nest(seed, depth + 1);
  switch (random_below(seed, 12)) {
    case 0:
      msp_instant(random_name(seed), 13, 1);
      break;
    case 1:
      msp_counter(random_name(seed), 0.5);
      break;
    case 2: {
      uint64_t now = msp_now();
      msp_record(MSP_KIND_STEP, 1, 0, random_name(seed), now, now + 1, 2);
      break;
    }
    case 3:
      msp_end(token + 1, 0); /* the token of no span */
      break;
    case 4:
      return; /* this span ends with an outer span or with the thread */
    default:
      break;
  }
  msp_end(token, 0);
}

static void *work(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  if (random_below(&seed, 2) == 0) msp_writer_name("worker", 6);
  uint32_t turns = random_below(&seed, 400);
  for (uint32_t turn = 0; turn < turns && !__atomic_load_n(&stop, __ATOMIC_RELAXED); ++turn) nest(&seed, 0);
  return NULL;
}

/* Run one thread after the other; each ends soon. */
static void *employ(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, (void *)(uintptr_t)rand_r(&seed)) == 0);
    pthread_join(thread, NULL);
  }
  return NULL;
}

static uint64_t check_file(const char *path) {
  int descriptor = open(path, O_RDONLY);
  CHECK(descriptor >= 0);
  struct stat info;
  CHECK(fstat(descriptor, &info) == 0);
  void *memory = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  CHECK(memory != MAP_FAILED);
  close(descriptor);
  const msp_segment_header *header = memory;
  const msp_slot *slots = (const msp_slot *)(header + 1);
  CHECK(header->magic == MSP_MAGIC);
  uint64_t capacity = ((uint64_t)info.st_size - MSP_HEADER_SIZE) / MSP_SLOT_SIZE; /* a close cuts off unused slots */
  CHECK(capacity <= header->capacity && (uint64_t)info.st_size == MSP_HEADER_SIZE + capacity * MSP_SLOT_SIZE);
  uint64_t events = 0, at = 0;
  for (; at < capacity && slots[at].kind != 0; at += 1u + slots[at].extra) {
    bool control = slots[at].kind == MSP_KIND_STRING || slots[at].kind == MSP_KIND_ANCHOR;
    CHECK(control == (header->flags == MSP_SEGMENT_CONTROL));
    CHECK(slots[at].kind <= MSP_KIND_PROCESSOR);
    CHECK(slots[at].kind != MSP_KIND_SPAN || slots[at].end_ns >= slots[at].start_ns);
    CHECK(at > 0 || control || slots[at].kind == MSP_KIND_THREAD);
    /* slots that the recorder writes about a thread by itself do not count as records of the job */
    events += !control && slots[at].kind != MSP_KIND_THREAD && slots[at].kind != MSP_KIND_PROCESSOR;
  }
  CHECK(at <= capacity);
  for (; at < capacity; ++at) CHECK(slots[at].kind == 0);
  munmap(memory, (size_t)info.st_size);
  return events;
}

/* Check the store's files and remove them; return the number of events. */
static uint64_t check_store(const char *folder) {
  DIR *directory = opendir(folder);
  CHECK(directory != NULL);
  uint64_t events = 0;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    events += check_file(path);
    unlink(path);
  }
  closedir(directory);
  CHECK(rmdir(folder) == 0);
  return events;
}

static void make_folder(char *folder, size_t size, const char *root, const char *label, unsigned number) {
  snprintf(folder, size, "%s/%s%u", root, label, number);
  CHECK(mkdir(folder, 0750) == 0);
}

static void fork_children(const char *root, unsigned *seed, uint32_t token) {
  char folder[4096];
  make_folder(folder, sizeof folder, root, "child", 0);
  bool bare = BARE_FORKS && random_below(seed, 2) == 0;
  pid_t child = bare ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
  CHECK(child >= 0);
  if (child == 0) {
    if (bare) {
      /* libc was not prepared for this fork, so the child only checks that it does not record */
      _exit(msp_begin(1, 1, 0) != 0);
    }
    CHECK(msp_begin(1, 1, 0) == 0);
    msp_end(token, 0);
    if (CHILD_RECORDS) {
      CHECK(msp_open(folder, 16, "", UINT64_MAX, UINT64_MAX, 0) == 0);
      for (int turn = 0; turn < 200; ++turn) nest(seed, 0);
      msp_close();
    }
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  check_store(folder);
}

static void session(const char *root, unsigned round, unsigned *seed, bool last) {
  static const uint64_t limits[] = {UINT64_MAX, UINT64_MAX, 200000, 1000000};
  char folder[4096], account[4200];
  make_folder(folder, sizeof folder, root, "session", round);
  uint64_t limit = limits[random_below(seed, 4)];
  uint32_t flags = random_below(seed, 2) ? MSP_OPEN_WRITTEN : 0;
  /* Two sessions share an account; the second may find no room. */
  snprintf(account, sizeof account, "%s/account%u", root, round / 2);
  int error = msp_open(folder, 8u << random_below(seed, 6), account, limit, UINT64_MAX, flags);
  CHECK(error == 0 || error == EDQUOT);
  if (error != 0) CHECK(msp_open(folder, 8, "", UINT64_MAX, UINT64_MAX, flags) == 0);
  uint32_t outer = msp_begin(random_name(seed), 1, 0);
  for (int turn = 0; turn < 40; ++turn) {
    nest(seed, 0);
    msp_pause(random_below(seed, 8) == 0);
    msp_fine(random_below(seed, 8) != 0);
    if (random_below(seed, 8) == 0) msp_control_anchor();
    msp_stats stats;
    msp_get_stats(&stats);
    CHECK(stats.dropped_limit <= stats.dropped);
    if (FORKS && turn % 20 == 10) fork_children(root, seed, outer);
    usleep(500);
  }
  msp_end(outer, 0);
  if (last) return;
  msp_close();
  CHECK(msp_begin(1, 1, 0) == 0);
  check_store(folder);
}

int main(int count, char **arguments) {
  if (count != 4) return 2;
  const char *root = arguments[1];
  unsigned rounds = (unsigned)atoi(arguments[2]), seed = (unsigned)atoi(arguments[3]);
  CHECK(msp_recorder_init() == 0);
  pthread_t employers[THREADS];
  for (uintptr_t i = 0; i < THREADS; ++i) {
    CHECK(pthread_create(&employers[i], NULL, employ, (void *)(i + seed)) == 0);
  }
  for (unsigned round = 0; round <= rounds; ++round) session(root, round, &seed, round == rounds);
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < THREADS; ++i) pthread_join(employers[i], NULL);
  msp_close();
  /* no thread recorded during this close, so the counts and the files have to agree */
  msp_stats stats;
  msp_get_stats(&stats);
  char folder[4096];
  snprintf(folder, sizeof folder, "%s/session%u", root, rounds);
  uint64_t events = check_store(folder);
  printf("%u sessions, %llu events in the last, %llu dropped\n", rounds + 1, (unsigned long long)events,
         (unsigned long long)stats.dropped);
  CHECK(events == stats.records);
  return 0;
}
