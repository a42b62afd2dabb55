/* A library with an allocator, as PyTorch's: it takes blocks by posix_memalign and gives them back by free. */
#include <stdlib.h>

void *take(size_t size) {
  void *memory = NULL;
  return posix_memalign(&memory, 64, size) == 0 ? memory : NULL;
}

/* Memory that is no block of the allocator. */
void *take_other(size_t size) { return malloc(size); }

void give(void *memory) { free(memory); }
