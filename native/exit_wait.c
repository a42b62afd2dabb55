#include "exit_wait.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

#define POLL_MS 2 /* longest time until the job ends after a signal, ms */

static struct {
  pid_t owner; /* the process that waits: a fork child has another number, so it does not wait */
  int reader;
  struct stat reader_is; /* identity of `reader`: the job may close it, and open another file under its number */
  struct stat screen_is; /* identity of descriptor 2, for the same check */
  pid_t pid;
  uint64_t timeout_ns;
  bool shows;
  char *late;
  char *failed;
} waiting;

static struct {
  pid_t owner;
  char *path;
} status_file;

static volatile sig_atomic_t signalled;

static bool is(int descriptor, const struct stat *known) {
  struct stat info;
  return fstat(descriptor, &info) == 0 && info.st_dev == known->st_dev && info.st_ino == known->st_ino;
}

int msp_exit_wait(int reader, int pid, uint32_t timeout_ms, bool shows, const char *late, const char *failed) {
  if (fstat(reader, &waiting.reader_is) != 0) return errno;
  waiting.shows = shows && fstat(STDERR_FILENO, &waiting.screen_is) == 0;
  char *late_copy = strdup(late);
  char *failed_copy = strdup(failed);
  if (late_copy == NULL || failed_copy == NULL) {
    free(late_copy);
    free(failed_copy);
    return ENOMEM;
  }
  free(waiting.late);
  free(waiting.failed);
  waiting.late = late_copy;
  waiting.failed = failed_copy;
  waiting.timeout_ns = (uint64_t)timeout_ms * 1000000u;
  waiting.reader = reader;
  waiting.pid = pid;
  waiting.owner = getpid();
  return 0;
}

int msp_exit_status(const char *path) {
  char *copy = strdup(path);
  if (copy == NULL) return ENOMEM;
  free(status_file.path);
  status_file.path = copy;
  status_file.owner = getpid();
  return 0;
}

static bool is_read(const struct stat *info) { return S_ISFIFO(info->st_mode) || S_ISSOCK(info->st_mode); }

/* Flush a stream of the C library, for example stdout. Returns whether the stream's buffer is empty now. Returns false
 * if another thread holds the stream's lock, because then this thread still writes. */
static bool is_flushed(FILE *stream) {
  if (ftrylockfile(stream) != 0) return false;
  bool flushed = fflush_unlocked(stream) == 0;
  funlockfile(stream);
  return flushed;
}

/* Redirect those of the descriptors 0, 1 and 2 that are pipes or sockets to /dev/null, together with all copies of
 * them. Do so only for the `chosen` descriptors. The processes at the other ends then see the end of the job's output.
 * Output that threads of the job write later is lost. */
static void close_pipes(const bool *chosen) {
  struct stat ends[3];
  for (int fd = 0; fd < 3; ++fd) {
    if (fstat(fd, &ends[fd]) != 0 || !is_read(&ends[fd])) ends[fd] = (struct stat){0};
  }
  for (int fd = 0; fd < 3; ++fd) { /* stdout and stderr may be one pipe: it stays open if one of them is not chosen */
    const struct stat kept = ends[fd];
    for (int other = 0; !chosen[fd] && other < 3; ++other) {
      if (ends[other].st_ino == kept.st_ino) ends[other] = (struct stat){0};
    }
  }
  int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  DIR *folder = nowhere >= 0 ? opendir("/proc/self/fd") : NULL;
  if (folder == NULL) {
    if (nowhere >= 0) close(nowhere);
    return;
  }
  for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    int fd = atoi(entry->d_name);
    if (entry->d_name[0] == '.' || fd == waiting.reader || fd == nowhere || fd == dirfd(folder)) continue;
    for (int end = 0; end < 3; ++end) {
      if (ends[end].st_ino != 0 && is(fd, &ends[end])) dup2(nowhere, fd);
    }
  }
  closedir(folder);
  close(nowhere);
}

/* Handle a signal that would end this process. The job has already ended, so the signal ends only the wait for the
 * analysis. */
static void on_signal(int number, siginfo_t *info, void *unused) {
  (void)unused;
  bool sent = info->si_code <= 0 && info->si_pid != waiting.owner;
  bool fault = number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE || number == SIGTRAP ||
               number == SIGSYS || number == SIGABRT;
  if (!fault || sent) {
    signalled = 1;
  } else if (syscall(SYS_gettid) == waiting.owner) {
    signal(number, SIG_DFL); /* this thread caused the fault: when it continues, the signal ends the process */
  } else {
    for (;;) pause(); /* another thread caused the fault: stop only this thread, because the job has ended */
  }
}

static bool is_one_of(int number, const int *numbers, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (numbers[i] == number) return true;
  }
  return false;
}

/* Install our handler for the signals that would end this process. To block these signals in this thread is not enough:
 * threads of the framework may still run, and a signal may be delivered to one of them. */
static void handle_signals(void) {
  static const int harmless[] = {SIGCHLD, SIGCONT, SIGURG, SIGWINCH, SIGTSTP, SIGTTIN, SIGTTOU};
  static const int of_the_job[] = {SIGPIPE, SIGALRM, SIGVTALRM, SIGPROF, SIGIO}; /* no request to end */
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  sigfillset(&action.sa_mask);
  for (int number = 1; number <= SIGRTMAX; ++number) {
    struct sigaction before;
    if (is_one_of(number, harmless, sizeof harmless / sizeof *harmless)) continue;
    if (is_one_of(number, of_the_job, sizeof of_the_job / sizeof *of_the_job)) {
      signal(number, SIG_IGN);
    } else if (sigaction(number, NULL, &before) == 0) {
      bool ignored = (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_IGN;
      if (!ignored) sigaction(number, &action, NULL);
    }
  }
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, NULL); /* signals that the job has blocked may end the wait, too */
}

static void say(const char *text, size_t size) {
  if (!waiting.shows || !is(STDERR_FILENO, &waiting.screen_is) || is_read(&waiting.screen_is)) return;
  while (write(STDERR_FILENO, text, size) < 0 && errno == EINTR) continue;
}

/* Wait up to POLL_MS for output of the program, and add it to `line`. Returns whether the program has ended. */
static bool has_ended(char *line, size_t *size, size_t room) {
  struct pollfd end = {waiting.reader, POLLIN, 0};
  char rest[64];
  if (poll(&end, 1, POLL_MS) <= 0) return false;
  ssize_t count =
      *size < room ? read(waiting.reader, line + *size, room - *size) : read(waiting.reader, rest, sizeof rest);
  if (count > 0 && *size < room) *size += (size_t)count;
  return count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
}

static void wait_now(int status, void *unused) {
  (void)status;
  (void)unused;
  const bool chosen[3] = {true, is_flushed(stdout), is_flushed(stderr)};
  handle_signals();
  close_pipes(chosen);
  if (!is(waiting.reader, &waiting.reader_is)) return;
  char line[4096];
  size_t size = 0;
  const uint64_t end = msp_clock_read(CLOCK_MONOTONIC) + waiting.timeout_ns;
  while (!has_ended(line, &size, sizeof line)) {
    if (signalled == 0 && msp_clock_read(CLOCK_MONOTONIC) < end) continue;
    say(waiting.late, strlen(waiting.late));
    return; /* the program continues alone */
  }
  bool succeeded = size > 0 && line[size - 1] == '\n';
  say(succeeded ? line : waiting.failed, succeeded ? size : strlen(waiting.failed));
}

static void write_status(int status, void *unused) {
  (void)unused;
  char text[8];
  int size = snprintf(text, sizeof text, "%d\n", status & 0xff); /* a parent process also gets only these eight bits */
  int file = open(status_file.path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
  if (file < 0) return;
  if (write(file, text, (size_t)size) != size) unlink(status_file.path);
  close(file);
}

/* Register the two functions that run at the very end, while destructors run. Then exit() calls them after the last
 * destructor, and afterwards only flushes the streams of the C library. exit() first calls the function that was
 * registered last. */
__attribute__((destructor)) static void wait_last(void) {
  if (waiting.pid != 0 && waiting.owner == getpid()) on_exit(wait_now, NULL);
  if (status_file.path != NULL && status_file.owner == getpid()) on_exit(write_status, NULL);
}
