/* A library for LD_PRELOAD that changes the host's name to $FAKE_HOST. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int gethostname(char *name, size_t size) {
  const char *told = getenv("FAKE_HOST");
  snprintf(name, size, "%s", told == NULL ? "host" : told);
  return 0;
}
