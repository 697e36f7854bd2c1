/* blas.c: finds a BLAS library with the C interface (CBLAS), once, at the first matrix product.
 *
 * Nothing is linked: the loader looks for OpenBLAS, MKL, BLIS and the distribution's default in this order, and one
 * that lacks a needed function is passed over. The library stays open until the process ends, for its threads cannot be
 * taken away from it safely.
 *
 * Invariant: after the first call the table does not change. */
#include "blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tide__blas table;
static bool found;
static _Atomic bool hide;

/* Function pointers come out of dlsym as object pointers; their bytes are the same on every system that has dlsym. */
static bool take(void *function, size_t size, void *library, const char *name) {
  void *symbol = dlsym(library, name);
  if (symbol) memcpy(function, &symbol, size);
  return symbol != NULL;
}

static bool fill(tide__blas *t, void *library) {
  static const char *const setters[] = {"openblas_set_num_threads", "MKL_Set_Num_Threads",
                                        "bli_thread_set_num_threads"};
  if (!take(&t->sgemm, sizeof t->sgemm, library, "cblas_sgemm") ||
      !take(&t->dgemm, sizeof t->dgemm, library, "cblas_dgemm") ||
      !take(&t->cgemm, sizeof t->cgemm, library, "cblas_cgemm") ||
      !take(&t->zgemm, sizeof t->zgemm, library, "cblas_zgemm") ||
      !take(&t->sgemv, sizeof t->sgemv, library, "cblas_sgemv") ||
      !take(&t->dgemv, sizeof t->dgemv, library, "cblas_dgemv"))
    return false;
  for (int i = 0; i < 3; i++)
    if (take(&t->set_num_threads, sizeof t->set_num_threads, library, setters[i])) break;
  return true;
}

static void open_library(void) {
  static const char *const names[] = {"libopenblas.so.0", "libmkl_rt.so.2", "libmkl_rt.so",
                                      "libblis.so.4",     "libblas.so.3",   "libcblas.so.3"};
  for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++) {
    void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    tide__blas t = {.name = names[i]};
    if (fill(&t, library))
      table = t, found = true;
    else
      dlclose(library);
  }
}

const tide__blas *tide__blas_get(void) {
  pthread_once(&once, open_library);
  return found && !atomic_load_explicit(&hide, memory_order_relaxed) ? &table : NULL;
}

void tide__blas_hide(bool hidden) { atomic_store_explicit(&hide, hidden, memory_order_relaxed); }
