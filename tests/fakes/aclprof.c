/* A fake of CANN's profiler, libmsprofiler.so, that needs no device. It has the library's functions, their order and
 * their return codes, its handler of SIGINT and the thread behind the handler. It writes a folder PROF_* with the
 * kernels that a program reports by `fake_npu_runs`.
 *
 * The variable FAKE_ACLPROF holds the codes that calls return, such as "aclprofStart=500005 aclprofSetConfig8=100010".
 * With "aclprofCreateConfig=0", this call returns no configuration; "aclprofCreateConfig8=0" is for metrics 8 alone.
 * FAKE_ACLPROF_LOG names a file to which each call adds a line: process, name, arguments, code.
 */
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DONE = 0, BAD = 100000, REPEATED = 100002, NOT_RUN = 100043 };

typedef struct {
  uint32_t device;
  int metrics;
  uint64_t data;
} config;

static struct {
  bool initialised, started;
  config *made;
  char folder[4096];
  int interrupted[2];
  struct sigaction before;
} fake;

static int asked(const char *call, int otherwise) {
  const char *words = getenv("FAKE_ACLPROF");
  size_t length = strlen(call);
  for (const char *at = words; at != NULL && (at = strstr(at, call)) != NULL; ++at) {
    if (at[length] == '=') return atoi(at + length + 1);
  }
  return otherwise;
}

static int note(int code, const char *form, ...) {
  const char *path = getenv("FAKE_ACLPROF_LOG");
  FILE *log = path != NULL ? fopen(path, "a") : NULL;
  if (log == NULL) return code;
  va_list arguments;
  va_start(arguments, form);
  fprintf(log, "%d ", getpid());
  vfprintf(log, form, arguments);
  fprintf(log, " %d\n", code);
  va_end(arguments);
  fclose(log);
  return code;
}

static void add(const char *file, const char *form, ...) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", fake.folder, file);
  FILE *stream = fopen(path, "a");
  if (stream == NULL) return;
  va_list arguments;
  va_start(arguments, form);
  vfprintf(stream, form, arguments);
  va_end(arguments);
  fclose(stream);
}

static void make(const char *below) {
  char path[4200];
  snprintf(path, sizeof path, "%s%s", fake.folder, below);
  mkdir(path, 0750);
}

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static void interrupt(int number) {
  (void)number;
  if (write(fake.interrupted[1], "", 1) < 0) abort();
}

/* The thread behind the handler of SIGINT. The real one ends the process two seconds after the signal. */
static void *watch(void *unused) {
  char byte;
  while (read(fake.interrupted[0], &byte, 1) == 1) note(DONE, "interrupted");
  return unused;
}

int aclprofInit(const char *path, size_t length) {
  int code = asked("aclprofInit", fake.initialised ? REPEATED : DONE);
  note(code, "aclprofInit %.*s", (int)length, path);
  if (code != DONE) return code;
  fake.initialised = true;
  snprintf(fake.folder, sizeof fake.folder, "%.*s/PROF_000001_%lld_FAKE", (int)length, path, now());
  make("");
  make("/host");
  make("/host/data");
  make("/device_0");
  make("/device_0/data");
  const struct sigaction own = {.sa_handler = interrupt};
  pthread_t thread;
  if (pipe(fake.interrupted) != 0 || pthread_create(&thread, NULL, watch, NULL) != 0) abort();
  sigaction(SIGINT, &own, &fake.before);
  return DONE;
}

int aclprofFinalize(void) {
  int code = note(asked("aclprofFinalize", fake.initialised ? DONE : NOT_RUN), "aclprofFinalize");
  if (code != DONE) return code;
  add("host/end_info", "end\n");
  sigaction(SIGINT, &fake.before, NULL);
  fake.initialised = false;
  return DONE;
}

int aclprofSetConfig(int setting, const char *value, size_t length) {
  char call[64];
  snprintf(call, sizeof call, "aclprofSetConfig%d", setting);
  int code = asked(call, fake.initialised ? DONE : NOT_RUN);
  return note(code, "aclprofSetConfig %d %.*s", setting, (int)length, value);
}

config *aclprofCreateConfig(const uint32_t *devices, uint32_t count, int metrics, const void *events, uint64_t data) {
  char call[64];
  snprintf(call, sizeof call, "aclprofCreateConfig%d", metrics);
  bool refused = count != 1 || events != NULL || !asked("aclprofCreateConfig", 1) || !asked(call, 1);
  note(refused, "aclprofCreateConfig %u %d %#llx", devices[0], metrics, (unsigned long long)data);
  if (refused) return NULL;
  fake.made = malloc(sizeof *fake.made);
  *fake.made = (config){devices[0], metrics, data};
  return fake.made;
}

int aclprofDestroyConfig(config *made) {
  int code = note(made == fake.made && !fake.started ? DONE : BAD, "aclprofDestroyConfig");
  if (code == DONE) free(made);
  fake.made = NULL;
  return code;
}

#ifndef WITHOUT_START
int aclprofStart(config *made) {
  int code = asked("aclprofStart", made != NULL && made == fake.made && !fake.started ? DONE : BAD);
  note(code, "aclprofStart");
  if (code != DONE) return code;
  fake.started = true;
  add("device_0/data/started", "%lld\n", now());
  return DONE;
}
#endif

int aclprofStop(config *made) {
  int code = note(asked("aclprofStop", made != NULL && made == fake.made && fake.started ? DONE : BAD), "aclprofStop");
  fake.started = false;
  return code;
}

/* Called by programs: report that the device ran a kernel for `length` ns, from `delay` ns after this call on. */
void fake_npu_runs(const char *name, const char *type, uint32_t stream, uint32_t delay, uint32_t length) {
  if (!fake.started) return;
  long long launched = now();
  add("device_0/data/tasks", "%s %s %u %lld %lld %u %d\n", name, type, stream, launched, launched + delay, length,
      (int)syscall(SYS_gettid));
}
