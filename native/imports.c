#include "imports.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define CALLED R_X86_64_JUMP_SLOT
#define NAMED R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define CALLED R_AARCH64_JUMP_SLOT
#define NAMED R_AARCH64_GLOB_DAT
#endif

#ifdef CALLED

typedef struct {
  const char *library, *function;
  bool loaded, known;
  msp_import *found;
} search;

typedef struct {
  const ElfW(Sym) * symbols;
  const char *strings;
  const ElfW(Rela) * calls, *others;
  size_t call_bytes, other_bytes;
  bool explicit_addends;
} tables;

/* Return the address for a pointer of a library's dynamic section. glibc has already added the library's load address
 * to such pointers, musl has not. */
static const void *at(const struct dl_phdr_info *info, ElfW(Addr) pointer) {
  return (const void *)(pointer < info->dlpi_addr ? info->dlpi_addr + pointer : pointer);
}

static tables read_tables(const struct dl_phdr_info *info, const ElfW(Dyn) * entry) {
  tables found = {0};
  for (; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB:
        found.symbols = at(info, entry->d_un.d_ptr);
        break;
      case DT_STRTAB:
        found.strings = at(info, entry->d_un.d_ptr);
        break;
      case DT_JMPREL:
        found.calls = at(info, entry->d_un.d_ptr);
        break;
      case DT_PLTRELSZ:
        found.call_bytes = entry->d_un.d_val;
        break;
      case DT_RELA:
        found.others = at(info, entry->d_un.d_ptr);
        break;
      case DT_RELASZ:
        found.other_bytes = entry->d_un.d_val;
        break;
      case DT_PLTREL:
        found.explicit_addends = entry->d_un.d_val == DT_RELA;
        break;
      default:
        break;
    }
  }
  return found;
}

static void **entry_of(const struct dl_phdr_info *info, const tables *of, const char *function, unsigned type) {
  const ElfW(Rela) *row = type == CALLED ? of->calls : of->others;
  size_t count = (type == CALLED ? of->call_bytes : of->other_bytes) / sizeof *row;
  if (row == NULL || (type == CALLED && !of->explicit_addends)) return NULL;
  for (const ElfW(Rela) *end = row + count; row < end; ++row) {
    if (ELF64_R_TYPE(row->r_info) != type) continue;
    if (strcmp(of->strings + of->symbols[ELF64_R_SYM(row->r_info)].st_name, function) == 0) {
      return (void **)(info->dlpi_addr + row->r_offset);
    }
  }
  return NULL;
}

static void place(const struct dl_phdr_info *info, msp_import *import) {
  uintptr_t entry = (uintptr_t)import->entry, before = (uintptr_t)import->before;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;
    if (part->p_type == PT_LOAD && before >= begin && before < end) import->lazy = true;
    /* begin and end are rounded down to pages, because the loader makes only whole pages read-only */
    if (part->p_type == PT_GNU_RELRO && entry >= (begin & -page) && entry < (end & -page)) {
      import->guarded = (char *)(entry & -page);
    }
  }
}

static int look(struct dl_phdr_info *info, size_t size, void *argument) {
  (void)size;
  search *wanted = argument;
  const char *slash = strrchr(info->dlpi_name, '/');
  if (strcmp(slash == NULL ? info->dlpi_name : slash + 1, wanted->library) != 0) return 0;
  wanted->loaded = true;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    tables of = read_tables(info, (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
    if (of.symbols == NULL || of.strings == NULL) continue;
    /* Calls of a function go through its entry for calls (CALLED). Its other entry (NAMED) holds the address, which the
     * library compares or passes on. Calls go through the other entry only in a library that was built without entries
     * for calls. */
    void **entry = entry_of(info, &of, wanted->function, CALLED);
    if (entry == NULL) entry = entry_of(info, &of, wanted->function, NAMED);
    if (entry == NULL) continue;
    *wanted->found = (msp_import){entry, __atomic_load_n(entry, __ATOMIC_ACQUIRE), false, NULL};
    place(info, wanted->found);
    wanted->known = true;
  }
  return 1;
}

const char *msp_import_find(const char *library, const char *function, msp_import *found) {
  search wanted = {library, function, false, false, found};
  dl_iterate_phdr(look, &wanted);
  if (wanted.known) return NULL;
  return wanted.loaded ? "does not import the functions of the C library" : "is not loaded";
}

#else

const char *msp_import_find(const char *library, const char *function, msp_import *found) {
  (void)library;
  (void)function;
  (void)found;
  return "has a table of imports that is not known for this processor";
}

#endif

int msp_import_set(const msp_import *import, void *function) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (import->guarded != NULL && mprotect(import->guarded, page, PROT_READ | PROT_WRITE) != 0) return errno;
  __atomic_store_n(import->entry, function, __ATOMIC_RELEASE);
  if (import->guarded != NULL && mprotect(import->guarded, page, PROT_READ) != 0) return errno;
  return 0;
}

void *msp_import_get(const msp_import *import) { return __atomic_load_n(import->entry, __ATOMIC_ACQUIRE); }
