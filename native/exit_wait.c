#include "exit_wait.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define POLL_NS 2000000 /* 2 ms: what the end of the job may be late by */

static struct {
  pid_t owner; /* a fork child inherits this, and waits for nothing */
  pid_t child;
  uint64_t timeout_ns;
  char *late;
  char *failed;
} waiting;

int msp_exit_wait(int pid, uint32_t timeout_ms, const char *late, const char *failed) {
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
  waiting.child = pid;
  waiting.owner = getpid();
  return 0;
}

static void say(const char *text) {
  for (size_t left = strlen(text); left > 0;) {
    ssize_t written = write(STDERR_FILENO, text, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    left -= (size_t)written;
  }
}

/* Ctrl-C means "do not make me wait": it is kept from ending the process, whose exit code is the job's. */
static bool interrupted(void) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGINT) == 1;
}

__attribute__((destructor)) static void wait_now(void) {
  if (waiting.child == 0 || waiting.owner != getpid()) return;
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, NULL);
  const uint64_t end = msp_clock_read(CLOCK_MONOTONIC) + waiting.timeout_ns;
  for (;;) {
    int status = 0;
    pid_t found = waitpid(waiting.child, &status, WNOHANG);
    if (found < 0 && errno == EINTR) continue;
    if (found != 0) { /* ended, or somebody else has reaped it */
      if (found > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) say(waiting.failed);
      return;
    }
    if (msp_clock_read(CLOCK_MONOTONIC) >= end || interrupted()) {
      kill(waiting.child, SIGKILL);
      while (waitpid(waiting.child, &status, 0) < 0 && errno == EINTR) continue;
      say(waiting.late);
      return;
    }
    const struct timespec pause = {0, POLL_NS};
    nanosleep(&pause, NULL);
  }
}
