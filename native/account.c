#include "account.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file_limit.h"
#include "gate.h"
#include "ranges.h"

enum { FILE_MODE = 0640, FILE_SIZE = 4096 };

/* The account of disk space. `data` points to the mapped file, or to `own` if no file is mapped. `path` is set for a
 * file that cannot be mapped: then `own` is a copy of the file, which is read again while the lock is held. */
static struct {
  pthread_mutex_t lock;
  msp_account *data;
  msp_account own;
  char *path;
} account = {.lock = PTHREAD_MUTEX_INITIALIZER, .data = &account.own, .own = {.limit = MSP_ACCOUNT_NO_LIMIT}};

static bool mapped(void) { return account.data != &account.own; }

static bool read_file(int descriptor, msp_account *data) {
  return pread(descriptor, data, sizeof *data, 0) == (ssize_t)sizeof *data && data->magic == MSP_ACCOUNT_MAGIC;
}

static int make_file(const char *path, uint64_t limit) {
  char content[FILE_SIZE] = {0};
  const msp_account fresh = {MSP_ACCOUNT_MAGIC, limit, 0, 0};
  memcpy(content, &fresh, sizeof fresh);
  int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
  if (descriptor < 0) return -1;
  msp_file_limit limited = msp_file_limit_begin();
  bool written = pwrite(descriptor, content, sizeof content, 0) == (ssize_t)sizeof content;
  msp_file_limit_end(limited);
  if (written) return descriptor;
  close(descriptor);
  unlink(path);
  return -1;
}

void msp_account_open(const char *path, uint64_t limit) {
  msp_account_close();
  account.own = (msp_account){MSP_ACCOUNT_MAGIC, limit, 0, 0};
  if (path[0] == 0) return;
  int descriptor = make_file(path, limit);
  if (descriptor < 0) descriptor = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return;
  msp_account there;
  if (read_file(descriptor, &there) && lseek(descriptor, 0, SEEK_END) >= FILE_SIZE) {
    void *page = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (page != MAP_FAILED) {
      if (msp_gate_wiped_on_fork) madvise(page, FILE_SIZE, MADV_DONTFORK);
      msp_ranges_add(page, FILE_SIZE, NULL);
      account.data = page;
    } else {
      account.own = there;
      account.path = strdup(path);
    }
  }
  close(descriptor);
}

void msp_account_close(void) {
  if (mapped()) {
    msp_ranges_remove(account.data);
    munmap(account.data, FILE_SIZE);
  }
  account.data = &account.own;
  free(account.path);
  account.path = NULL;
}

void msp_account_after_fork(void) {
  pthread_mutex_init(&account.lock, NULL);
  account.data = &account.own;
  account.path = NULL; /* not freed, because the allocator may be locked in a fork child */
}

/* Read the account's file into `own`, add to its counts, and write it back. Called with the lock held, and only for a
 * file that cannot be mapped. */
static void exchange(int64_t bytes, int64_t limit, int64_t refused) {
  int descriptor = open(account.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  msp_account there;
  if (descriptor >= 0 && read_file(descriptor, &there)) account.own = there;
  account.own.bytes += (uint64_t)bytes;
  account.own.limit += (uint64_t)limit;
  account.own.refused += (uint64_t)refused;
  if (descriptor < 0) return;
  if (bytes != 0 || limit != 0 || refused != 0) {
    msp_file_limit limited = msp_file_limit_begin();
    ssize_t written = pwrite(descriptor, &account.own, sizeof account.own, 0);
    (void)written; /* no check: a file system that refuses this write also refuses files of records */
    msp_file_limit_end(limited);
  }
  close(descriptor);
}

static void change(int64_t bytes, int64_t limit, int64_t refused) {
  if (account.path == NULL) {
    __atomic_add_fetch(&account.data->bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
    __atomic_add_fetch(&account.data->limit, (uint64_t)limit, __ATOMIC_RELAXED);
    __atomic_add_fetch(&account.data->refused, (uint64_t)refused, __ATOMIC_RELAXED);
    return;
  }
  pthread_mutex_lock(&account.lock);
  exchange(bytes, limit, refused);
  pthread_mutex_unlock(&account.lock);
}

/* Return the limit of disk space. When the mapped file was lost, its page holds zeros. Then the limit is 0, and no
 * record is accepted. */
uint64_t msp_account_limit(void) { return __atomic_load_n(&account.data->limit, __ATOMIC_RELAXED); }

static uint64_t ceiling(msp_worth worth) {
  uint64_t limit = msp_account_limit();
  if (limit == MSP_ACCOUNT_NO_LIMIT) return limit;
  return worth == MSP_WORTH_FINE ? limit / 2 : worth == MSP_WORTH_COARSE ? limit - limit / 8 : limit;
}

bool msp_account_take(uint64_t bytes, msp_worth worth) {
  if (account.path != NULL) {
    pthread_mutex_lock(&account.lock);
    exchange(0, 0, 0);
    bool fits = bytes <= ceiling(worth) && account.own.bytes <= ceiling(worth) - bytes;
    if (fits) exchange((int64_t)bytes, 0, 0);
    pthread_mutex_unlock(&account.lock);
    return fits;
  }
  uint64_t most = ceiling(worth), taken = __atomic_load_n(&account.data->bytes, __ATOMIC_RELAXED);
  do {
    if (bytes > most || taken > most - bytes) return false;
  } while (!__atomic_compare_exchange_n(&account.data->bytes, &taken, taken + bytes, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
  return true;
}

void msp_account_add(int64_t bytes) { change(bytes, 0, 0); }

void msp_account_set_aside(int64_t bytes) {
  if (msp_account_limit() != MSP_ACCOUNT_NO_LIMIT) change(0, -bytes, 0);
}

void msp_account_refuse(void) { change(0, 0, 1); }

uint64_t msp_account_left(msp_worth worth) {
  uint64_t most = ceiling(worth), taken = __atomic_load_n(&account.data->bytes, __ATOMIC_RELAXED);
  return most > taken ? most - taken : 0;
}
