#include "ranges.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gate.h"

enum { CHUNK = 64 };

typedef struct {
  uintptr_t start; /* 0: free */
  size_t size;
  uint64_t *lost;
} range;

/* A part of the list of watched mappings. These parts are never freed, because the signal handler may read them on any
 * thread. */
typedef struct chunk {
  struct chunk *next;
  range ranges[CHUNK];
} chunk;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static chunk first;
static struct sigaction previous;
static bool guards; /* our handler was installed and not removed; another handler may have replaced it since */
static uintptr_t page_size;

static range *find_free(void) {
  for (chunk *in = &first;; in = in->next) {
    for (int i = 0; i < CHUNK; ++i) {
      if (in->ranges[i].start == 0) return &in->ranges[i];
    }
    if (in->next != NULL) continue;
    chunk *more = calloc(1, sizeof *more);
    if (more == NULL) return NULL;
    __atomic_store_n(&in->next, more, __ATOMIC_RELEASE);
  }
}

void msp_ranges_add(void *start, size_t size, uint64_t *lost) {
  pthread_mutex_lock(&lock);
  range *place = find_free();
  if (place != NULL) {
    place->size = size;
    place->lost = lost;
    __atomic_store_n(&place->start, (uintptr_t)start, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&lock);
}

void msp_ranges_remove(const void *start) {
  pthread_mutex_lock(&lock);
  for (chunk *in = &first; in != NULL; in = in->next) {
    for (int i = 0; i < CHUNK; ++i) {
      if (in->ranges[i].start == (uintptr_t)start) __atomic_store_n(&in->ranges[i].start, 0, __ATOMIC_RELEASE);
    }
  }
  pthread_mutex_unlock(&lock);
}

/* Replace the lost pages at and after `address` by zeroed memory. Returns false if the address is in no watched
 * mapping. Called in the signal handler. No thread removes the mapping meanwhile, because the interrupted thread uses
 * it. */
static bool replace(uintptr_t address) {
  if (msp_gate_load(&msp_gate_page->alive) == 0) return false; /* a fork child: nothing is mapped */
  for (chunk *in = &first; in != NULL; in = __atomic_load_n(&in->next, __ATOMIC_ACQUIRE)) {
    for (int i = 0; i < CHUNK; ++i) {
      uintptr_t start = __atomic_load_n(&in->ranges[i].start, __ATOMIC_ACQUIRE);
      if (start == 0 || address < start || address - start >= in->ranges[i].size) continue;
      uintptr_t page = address & ~(page_size - 1);
      size_t rest = start + in->ranges[i].size - page;
      const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
      if (mmap((void *)page, rest, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) return false;
      if (msp_gate_wiped_on_fork) madvise((void *)page, rest, MADV_DONTFORK);
      uint64_t *lost = in->ranges[i].lost, offset = page - start + 1;
      uint64_t before = lost != NULL ? __atomic_load_n(lost, __ATOMIC_RELAXED) : 1;
      while (before == 0 || before > offset) {
        if (__atomic_compare_exchange_n(lost, &before, offset, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) break;
      }
      return true;
    }
  }
  return false;
}

static void handle(int number, siginfo_t *info, void *context) {
  int error = errno;
  if (info->si_code > 0 && replace((uintptr_t)info->si_addr)) {
    errno = error;
    return;
  }
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(number, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
  } else {
    /* Let the signal end the process. A fault happens again when this handler returns. But a signal that another
     * process sent must be sent again.
     */
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(number, &standard, NULL);
    if (info->si_code <= 0) raise(number);
  }
  errno = error;
}

void msp_ranges_guard(void) {
  if (guards) return;
  page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
  struct sigaction there;
  if (sigaction(SIGBUS, NULL, &there) != 0) return;
  /* Install no handler if the job ignores SIGBUS. Programs that the job starts inherit this, and ignore SIGBUS, too.
   * With a handler, they would not. */
  if (!(there.sa_flags & SA_SIGINFO) && there.sa_handler == SIG_IGN) return;
  previous = there;
  /* Take over the mask and flags of the previous handler. So the previous handler runs with them when our handler calls
   * it. */
  struct sigaction own = {.sa_sigaction = handle, .sa_mask = there.sa_mask};
  bool standard = !(there.sa_flags & SA_SIGINFO) && there.sa_handler == SIG_DFL;
  own.sa_flags = SA_SIGINFO | SA_ONSTACK | (standard ? SA_RESTART : there.sa_flags & ~SA_RESETHAND);
  guards = sigaction(SIGBUS, &own, NULL) == 0;
}

void msp_ranges_unguard(void) {
  if (!guards) return;
  struct sigaction there;
  if (sigaction(SIGBUS, NULL, &there) != 0 || there.sa_sigaction != handle) return;
  guards = sigaction(SIGBUS, &previous, NULL) != 0;
}

void msp_ranges_after_fork(void) {
  pthread_mutex_init(&lock, NULL);
  for (chunk *in = &first; in != NULL; in = in->next) memset(in->ranges, 0, sizeof in->ranges);
}
