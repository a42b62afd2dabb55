#include "file_limit.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

static bool is_pending(void) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

msp_file_limit msp_file_limit_begin(void) {
  msp_file_limit limited = {.pending = is_pending()};
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &own, &limited.before);
  return limited;
}

void msp_file_limit_end(msp_file_limit limited) {
  int error = errno;
  if (!limited.pending && is_pending()) {
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, SIGXFSZ);
    const struct timespec now = {0, 0};
    while (sigtimedwait(&own, NULL, &now) < 0 && errno == EINTR) continue;
  }
  pthread_sigmask(SIG_SETMASK, &limited.before, NULL);
  errno = error;
}
