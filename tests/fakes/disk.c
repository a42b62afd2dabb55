/* A library for LD_PRELOAD that simulates a failing file system below one folder. After a number of successful calls,
 * each call that makes, grows or writes a file there fails. Writes into mapped pages do not fail.
 *
 * DISK_FOLDER: a part of the paths of files whose calls fail. DISK_ERROR: the error number. DISK_AFTER: the number of
 * calls that succeed first.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;

/* Return whether a call for this path has to fail; set errno if so. */
static int fails(const char *path) {
  const char *folder = getenv("DISK_FOLDER"), *error = getenv("DISK_ERROR"), *after = getenv("DISK_AFTER");
  if (folder == NULL || error == NULL || path == NULL || strstr(path, folder) == NULL) return 0;
  if (atomic_fetch_add(&calls, 1) < (after == NULL ? 0 : atol(after))) return 0;
  errno = atoi(error);
  return 1;
}

static int fails_at(int descriptor) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return fails(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static mode_t mode_of(int flags, va_list arguments) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

#define OPEN(name)                                                              \
  int name(const char *path, int flags, ...) {                                  \
    va_list arguments;                                                          \
    va_start(arguments, flags);                                                 \
    mode_t mode = mode_of(flags, arguments);                                    \
    va_end(arguments);                                                          \
    return flags & O_CREAT && fails(path) ? -1 : REAL(name)(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                    \
  int name(int folder, const char *path, int flags, ...) {                              \
    va_list arguments;                                                                  \
    va_start(arguments, flags);                                                         \
    mode_t mode = mode_of(flags, arguments);                                            \
    va_end(arguments);                                                                  \
    return flags & O_CREAT && fails(path) ? -1 : REAL(name)(folder, path, flags, mode); \
  }
OPENAT(openat)
OPENAT(openat64)

int mkdir(const char *path, mode_t mode) { return fails(path) ? -1 : REAL(mkdir)(path, mode); }

int rename(const char *from, const char *to) { return fails(to) ? -1 : REAL(rename)(from, to); }

int link(const char *from, const char *to) { return fails(to) ? -1 : REAL(link)(from, to); }

int ftruncate(int descriptor, off_t length) { return fails_at(descriptor) ? -1 : REAL(ftruncate)(descriptor, length); }

int ftruncate64(int descriptor, off64_t length) {
  return fails_at(descriptor) ? -1 : REAL(ftruncate64)(descriptor, length);
}

/* The two functions for posix_fallocate return the error number itself. */
int posix_fallocate(int descriptor, off_t from, off_t length) {
  return fails_at(descriptor) ? errno : REAL(posix_fallocate)(descriptor, from, length);
}

int posix_fallocate64(int descriptor, off64_t from, off64_t length) {
  return fails_at(descriptor) ? errno : REAL(posix_fallocate64)(descriptor, from, length);
}

ssize_t write(int descriptor, const void *data, size_t size) {
  return fails_at(descriptor) ? -1 : REAL(write)(descriptor, data, size);
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t at) {
  return fails_at(descriptor) ? -1 : REAL(pwrite)(descriptor, data, size, at);
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t at) {
  return fails_at(descriptor) ? -1 : REAL(pwrite64)(descriptor, data, size, at);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
  return fails_at(descriptor) ? -1 : REAL(writev)(descriptor, parts, count);
}

int fsync(int descriptor) { return fails_at(descriptor) ? -1 : REAL(fsync)(descriptor); }
