#include "metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "file_format.h"
#include "helper.h"
#include "strings.h"
#include "writer.h"

#define ROOM 65536u           /* bytes that are read of a file; the rest of a longer file is ignored */
#define SELDOM_NS 2000000000u /* period of sources that take long to read */
#define SAMPLES 36000u        /* an hour at the usual rate; then samples become rarer, so 100 hours take 0.2 GB */
#define THREADS_MOST 512u
#define NAMES_MOST 4096u

typedef struct {
  msp_metric of;
  uint64_t last;
  bool known; /* `last` is the value of the sample before this one */
  uint64_t due_ns;
} metric;

typedef struct {
  uint32_t tid, name;
  uint64_t last[2];
  bool seen;
} thread;

static struct {
  pthread_mutex_t lock; /* the helper holds it while it reads */
  metric *rows;
  uint32_t count, sample, rest;
  uint64_t period_ns, begun_ns, due_ns;
  bool child; /* this is a fork child, which reads only counters of the process, not of the machine */
  char *text;
  thread *threads;
  uint32_t thread_count;
} metrics = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void forget(void) {
  for (uint32_t i = 0; i < metrics.count; ++i) {
    free((char *)metrics.rows[i].of.path);
    free((char *)metrics.rows[i].of.key);
  }
  free(metrics.rows);
  free(metrics.text);
  free(metrics.threads);
  metrics.rows = NULL;
  metrics.text = NULL;
  metrics.threads = NULL;
  metrics.count = metrics.thread_count = 0;
}

/* Copy the list of counters to read. Called with the lock held. */
static bool take(const msp_metric *rows, uint32_t count) {
  forget();
  metrics.child = false;
  metrics.due_ns = 0;
  metrics.begun_ns = msp_clock_read(CLOCK_MONOTONIC);
  if (count == 0) return true;
  metrics.rows = calloc(count, sizeof *metrics.rows);
  metrics.text = malloc(ROOM);
  metrics.threads = calloc(THREADS_MOST, sizeof *metrics.threads);
  bool whole = metrics.rows != NULL && metrics.text != NULL && metrics.threads != NULL;
  for (; whole && metrics.count < count; ++metrics.count) {
    metric *row = &metrics.rows[metrics.count];
    row->of = rows[metrics.count];
    row->of.path = strdup(row->of.path);
    row->of.key = strdup(row->of.key);
    whole = row->of.path != NULL && row->of.key != NULL;
  }
  if (!whole) forget();
  return whole;
}

bool msp_metrics_read(const msp_metric *rows, uint32_t count, uint32_t sample, uint32_t period_ms, uint32_t rest) {
  pthread_mutex_lock(&metrics.lock);
  metrics.sample = sample;
  metrics.rest = rest;
  metrics.period_ns = (uint64_t)period_ms * 1000000u;
  bool taken = take(rows, count);
  pthread_mutex_unlock(&metrics.lock);
  if (taken && count > 0) msp_helper_wake();
  return taken;
}

void msp_metrics_after_fork(void) {
  pthread_mutex_init(&metrics.lock, NULL);
  metrics.child = true;
  metrics.due_ns = 0;
  metrics.thread_count = 0;
  for (uint32_t i = 0; i < metrics.count; ++i) metrics.rows[i].known = false;
}

static void commit(uint64_t time_ns, uint64_t subject, uint64_t value, uint32_t name) {
  msp_writer *writer = msp_writer_get();
  msp_slot *slot = writer == NULL ? NULL : msp_writer_slot(writer, MSP_WORTH_FINE);
  if (slot != NULL) msp_slot_commit(slot, time_ns, subject, value, name, msp_slot_word(MSP_KIND_METRIC, 0, 0, 0));
}

/* Read a file into `text`, and end it with a zero byte; false if the file is empty or cannot be read. */
static bool read_text(const char *path, char *text, size_t room) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return false;
  size_t length = 0;
  ssize_t more;
  while (length + 1 < room && (more = read(descriptor, text + length, room - 1 - length)) > 0) length += (size_t)more;
  close(descriptor);
  text[length] = 0;
  return length > 0;
}

static bool is_digit(char sign) { return sign >= '0' && sign <= '9'; }

/* Find a number in the rest of a line; every run of digits is a number. `number` is the index of the wanted number,
 * counted from 0; -1 means the last one. */
static bool find_number(const char *at, int32_t number, uint64_t *value) {
  bool found = false;
  for (int32_t index = 0; *at != 0 && *at != '\n'; ++index) {
    while (*at != 0 && *at != '\n' && !is_digit(*at)) ++at;
    if (!is_digit(*at)) break;
    char *end;
    *value = strtoull(at, &end, 10);
    at = end;
    found = number < 0 || index == number;
    if (found && number >= 0) break;
  }
  return found;
}

static bool find(const char *text, const msp_metric *of, uint64_t *value) {
  size_t length = strlen(of->key);
  for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, of->key, length) == 0) return find_number(line + length, of->number, value);
  }
  return false;
}

static uint64_t microseconds(const struct timeval *time) {
  return (uint64_t)time->tv_sec * 1000000u + (uint64_t)time->tv_usec;
}

static bool use(const struct rusage *usage, int32_t number, uint64_t *value) {
  const uint64_t values[] = {microseconds(&usage->ru_utime), microseconds(&usage->ru_stime),
                             (uint64_t)usage->ru_minflt,     (uint64_t)usage->ru_majflt,
                             (uint64_t)usage->ru_nvcsw,      (uint64_t)usage->ru_nivcsw};
  if (number < 0 || (size_t)number >= sizeof values / sizeof *values) return false;
  *value = values[number];
  return true;
}

static thread *known_thread(uint32_t tid) {
  for (uint32_t i = 0; i < metrics.thread_count; ++i) {
    if (metrics.threads[i].tid == tid) return &metrics.threads[i];
  }
  if (metrics.thread_count == THREADS_MOST) return NULL;
  thread *new = &metrics.threads[metrics.thread_count++];
  *new = (thread){.tid = tid};
  return new;
}

/* For each thread of the process, read the counters of the rows from `first` to `last` from the thread's file
 * `schedstat`, and record the counters that have changed. */
static void write_threads(const metric *first, const metric *last, uint64_t time_ns) {
  char path[64], text[64];
  DIR *folder = opendir("/proc/self/task");
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
    thread *of = tid == 0 ? NULL : known_thread(tid);
    snprintf(path, sizeof path, "/proc/self/task/%u/schedstat", tid);
    if (of == NULL || !read_text(path, text, sizeof text)) continue;
    if (of->name == 0) {
      char name[32];
      snprintf(path, sizeof path, "/proc/self/task/%u/comm", tid);
      if (!read_text(path, name, sizeof name)) continue;
      size_t length = strcspn(name, "\n");
      of->name = msp_intern(name, msp_whole_characters(name, length), MSP_OF_THE_SYSTEM, NAMES_MOST);
    }
    for (const metric *row = first; row <= last; ++row) {
      uint64_t value, *before = &of->last[row->of.number & 1];
      if (!find_number(text, row->of.number, &value) || (of->seen && *before == value)) continue;
      commit(time_ns, (uint64_t)of->name << 32 | tid, value, row->of.name);
      *before = value;
    }
    of->seen = true;
  }
  if (folder != NULL) closedir(folder);
}

/* Read one source of counters, and record those that have changed. The rows of the source are `first` to `last`. For a
 * source that is read seldom, also compute the pause until its next reading from the processor time that this reading
 * took. Returns this processor time; 0 for any other source. */
static uint64_t write_source(metric *first, metric *last, uint64_t time_ns, uint64_t now) {
  const char *path = first->of.path;
  bool known = first->known, file = path[0] == '/';
  for (metric *row = first; row <= last; ++row) row->known = false;
  if (now < first->due_ns) return 0;
  first->due_ns = 0;
  uint64_t begun = msp_clock_read(CLOCK_THREAD_CPUTIME_ID);
  struct rusage usage;
  if (strcmp(path, "threads") == 0) {
    write_threads(first, last, time_ns);
  } else if (file ? read_text(path, metrics.text, ROOM) : getrusage(RUSAGE_SELF, &usage) == 0) {
    for (metric *row = first; row <= last; ++row) {
      uint64_t value;
      bool found = file ? find(metrics.text, &row->of, &value) : use(&usage, row->of.number, &value);
      if (found && !(known && row->last == value)) commit(time_ns, 0, value, row->of.name);
      if (found) row->last = value;
      row->known = found;
    }
  }
  if (!first->of.seldom) return 0;
  uint64_t took = msp_clock_read(CLOCK_THREAD_CPUTIME_ID) - begun, rest = metrics.rest * took;
  first->due_ns = now + (rest > SELDOM_NS ? rest : SELDOM_NS);
  return took;
}

/* Read all counters that are due, and return the time of the next reading. Called with the lock held. */
static uint64_t sample(uint64_t now) {
  const msp_gate *gate = msp_gate_page;
  if (msp_gate_load(&gate->session) == 0 || msp_gate_load(&gate->refuse) & MSP_REFUSE_PAUSED) {
    return now + metrics.period_ns;
  }
  uint64_t time_ns = msp_now(), begun = msp_clock_read(CLOCK_THREAD_CPUTIME_ID), apart = 0;
  for (uint32_t first = 0, last; first < metrics.count; first = last + 1) {
    metric *row = &metrics.rows[first];
    for (last = first; last + 1 < metrics.count && strcmp(metrics.rows[last + 1].of.path, row->of.path) == 0;) ++last;
    if (row->of.own || !metrics.child) apart += write_source(row, &metrics.rows[last], time_ns, now);
  }
  uint64_t took = msp_clock_read(CLOCK_THREAD_CPUTIME_ID) - begun, rest = metrics.rest * (took - apart);
  commit(time_ns, 0, took, metrics.sample);
  uint64_t period = (now - metrics.begun_ns) / SAMPLES, least = metrics.period_ns;
  uint64_t due = now + (period < least ? least : period), after = msp_clock_read(CLOCK_MONOTONIC) + rest;
  return after > due ? after : due;
}

uint64_t msp_metrics_sample(uint64_t now) {
  pthread_mutex_lock(&metrics.lock);
  if (metrics.count > 0 && now >= metrics.due_ns) metrics.due_ns = sample(now);
  uint64_t due = metrics.count > 0 ? metrics.due_ns : UINT64_MAX;
  pthread_mutex_unlock(&metrics.lock);
  return due;
}
