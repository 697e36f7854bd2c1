/* allocator_own.c: a program's own functions for device memory, given as pointers or found in a shared library.
 *
 * Pools and segments hold the pair while memory of theirs may have to go back through it. The library stays open: its
 * functions may be called until the process ends.
 *
 * Invariant: both functions are there. */
#include "allocator.h"

tide_status tide_allocator_wrap(tide_allocator **out, tide_alloc_fn alloc, tide_free_fn free_fn) {
  TIDE_GIVEN("allocator_wrap", out);
  if (!alloc || !free_fn)
    return tide__fail(TIDE_ARGUMENT, "allocator_wrap: a function is missing, got NULL, expected two functions");
  tide_allocator *a = calloc(1, sizeof *a);
  if (!a) return tide__fail(TIDE_MEMORY, "allocator_wrap: no host memory");
  atomic_init(&a->refs, 1);
  a->alloc = alloc, a->free = free_fn;
  *out = a;
  return TIDE_OK;
}

tide_status tide_allocator_open(tide_allocator **out, const char *path, const char *alloc, const char *free_name) {
  if (!path || !alloc || !free_name)
    return tide__fail(TIDE_ARGUMENT, "CUDAPluggableAllocator: a name is missing, got NULL, expected three strings");
  void *library = tide__os_library(path, true);
  if (!library)
    return tide__fail(TIDE_LIBRARY, "CUDAPluggableAllocator: %s could not be opened: %s", path,
                      tide__os_library_problem());
  tide_alloc_fn alloc_fn = NULL;
  tide_free_fn free_fn = NULL;
  *(void **)&alloc_fn = tide__os_symbol(library, alloc);
  *(void **)&free_fn = tide__os_symbol(library, free_name);
  if (!alloc_fn || !free_fn)
    return tide__fail(TIDE_LIBRARY, "CUDAPluggableAllocator: %s has no function \"%s\"", path,
                      alloc_fn ? free_name : alloc);
  return tide_allocator_wrap(out, alloc_fn, free_fn);
}

void tide_allocator_retain(tide_allocator *a) {
  if (!a) return;
  tide__ref_take(&a->refs);
}

void tide_allocator_release(tide_allocator *a) {
  if (a && tide__ref_drop(&a->refs)) free(a);
}
