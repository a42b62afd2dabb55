#include "mspti_companions.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOME "ASCEND_HOME_PATH" /* variable with CANN's folder, which its set_env.sh sets */
#define COUNT_DEVICES "drvGetDevNum"

/* The functions that msPTI looks up in other libraries. The list is that of msPTI's version of July 2026; older
 * versions look up some of these functions. */
static const struct {
  const char *library, *functions[11];
} companions[] = {{"libascendalog.so", {"CheckLogLevelForC", "DlogInnerForC"}},
                  {"libprofapi.so", {"MsprofRegisterProfileCallback", "profSetProfCommand"}},
                  {MSPTI_DRIVER,
                   {COUNT_DEVICES, "drvGetDevIDs", "halGetDeviceInfo", "halGetAPIVersion", "prof_drv_get_channels",
                    "prof_drv_start", "prof_stop", "prof_channel_read", "prof_channel_poll", "halProfDataFlush"}},
                  {MSPTI_RUNTIME, {"aclrtProfTrace"}}};

typedef struct {
  const char *content; /* content of the library's file; NULL if it cannot be read */
  size_t size;
} library_file;

static library_file open_file(const char *path) {
  library_file file = {NULL, 0};
  int descriptor = strchr(path, '/') != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (descriptor < 0) return file;
  struct stat about;
  if (fstat(descriptor, &about) == 0 && about.st_size > 0) {
    void *content = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (content != MAP_FAILED) file = (library_file){content, (size_t)about.st_size};
  }
  close(descriptor);
  return file;
}

static void close_file(library_file file) {
  if (file.content != NULL) munmap((void *)file.content, file.size);
}

/* Return whether msPTI's library looks up a function with this name. If so, the name is in the library's file as text,
 * so this code searches the file for it. If the file cannot be read, the result is true. */
static bool needs(library_file file, const char *function) {
  return file.content == NULL || memmem(file.content, file.size, function, strlen(function) + 1) != NULL;
}

bool mspti_has_devices(void *driver) {
  int (*count_devices)(uint32_t *count) = NULL;
  *(void **)&count_devices = dlsym(driver, COUNT_DEVICES);
  uint32_t count = 0;
  return count_devices != NULL && count_devices(&count) == 0 && count > 0;
}

/* Load a library from CANN's folder. If it is not there, let the loader search for it. */
static void *load(const char *name) {
  const char *home = getenv(HOME);
  void *library = NULL;
  char path[1024];
  if (home != NULL && snprintf(path, sizeof path, "%s/lib64/%s", home, name) < (int)sizeof path) {
    library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  }
  return library != NULL ? library : dlopen(name, RTLD_LAZY | RTLD_LOCAL);
}

static bool check(library_file file, msp_reason *why) {
  for (size_t i = 0; i < sizeof companions / sizeof *companions; ++i) {
    const char *name = companions[i].library;
    bool used = strcmp(name, MSPTI_RUNTIME) == 0; /* the job has loaded it; another copy would be a second runtime */
    void *library = used ? dlopen(name, RTLD_LAZY | RTLD_NOLOAD) : load(name);
    if (library == NULL) {
      snprintf(why->text, sizeof why->text,
               "%s is missing, and msPTI would end the job without it; source CANN's set_env.sh (%s)", name, dlerror());
      return false;
    }
    for (const char *const *function = companions[i].functions; *function != NULL; ++function) {
      if (dlsym(library, *function) != NULL || !needs(file, *function)) continue;
      snprintf(why->text, sizeof why->text,
               "%s has no %s, and msPTI would end the job without it; use a driver that fits this CANN", name,
               *function);
      return false;
    }
    if (strcmp(name, MSPTI_DRIVER) == 0 && !mspti_has_devices(library)) {
      snprintf(why->text, sizeof why->text, "the driver has no device; see ASCEND_RT_VISIBLE_DEVICES");
      return false;
    }
  }
  return true;
}

bool mspti_load_companions(const char *library, msp_reason *why) {
  library_file file = open_file(library);
  bool complete = check(file, why);
  close_file(file);
  return complete;
}
