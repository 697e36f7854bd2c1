/* runner_alloc.c: the runner's Lua state: its memory and its warnings.
 *
 * A script that makes a tensor in every line makes and drops thousands of small objects of few sizes, which malloc
 * serves slowly once they come back in the order of the collector's sweep. Sizes up to 512 bytes are rounded to 16 and
 * come from lists that are cut from pages of 64 KiB; larger ones from malloc. Lua tells the old size, so nothing is
 * stored beside an object. One state, one thread: no lock. Pages live until the process ends. Under a sanitizer malloc
 * serves everything. Blocks of the size of a tensor's handle are told to tensor.c before they go. */
#include <stdlib.h>

#include "runner.h"
#include "tensor/tensor.h"

enum { UNIT = 16, CLASSES = 32, PAGE = 1 << 16 };

typedef struct piece {
  struct piece *next;
} piece;

static piece *lists[CLASSES];

static int class_of(size_t size) { return (int)((size + UNIT - 1) / UNIT) - 1; }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static int is_small(size_t size) { return size > SIZE_MAX - 1; }
#else
static int is_small(size_t size) { return size <= UNIT * CLASSES; }
#endif

static void *take(size_t size) {
  int k = class_of(size);
  if (!lists[k]) {
    size_t step = (size_t)(k + 1) * UNIT;
    char *page = malloc(PAGE);
    if (!page) return NULL;
    for (size_t at = 0; at + step <= PAGE; at += step) {
      piece *p = (piece *)(page + at);
      p->next = lists[k];
      lists[k] = p;
    }
  }
  piece *p = lists[k];
  lists[k] = p->next;
  return p;
}

static void give(void *ptr, size_t size) {
  int k = class_of(size);
  piece *p = ptr;
  p->next = lists[k];
  lists[k] = p;
}

static void drop(void *ptr, size_t size) {
  if (is_small(size))
    give(ptr, size);
  else
    free(ptr);
}

static void *allocate(void *user, void *ptr, size_t old, size_t size) {
  if (!ptr) return size == 0 ? NULL : is_small(size) ? take(size) : malloc(size);
  if (size == 0) {
    if (old == ltide_handle_block) ltide_handle_gone(ptr);
    drop(ptr, old);
    return NULL;
  }
  if (!is_small(old) && !is_small(size)) return realloc(ptr, size);
  if (is_small(old) && is_small(size) && class_of(old) == class_of(size)) return ptr;
  void *moved = is_small(size) ? take(size) : malloc(size);
  if (!moved) return NULL; /* a shrinking that fails is a memory error like any other */
  memcpy(moved, ptr, old < size ? old : size);
  drop(ptr, old);
  return moved;
}

static int panic(lua_State *L) {
  const char *text = lua_tostring(L, -1);
  fprintf(stderr, "tide: error outside any protection: %s\n", text ? text : "(no message)");
  return 0;
}

static void warn(void *user, const char *text, int to_continue) {
  static ltide_warn_switch now = {.off = true};
  bool first = !now.continues;
  if (ltide_warn_filter(&now, text, to_continue))
    fprintf(stderr, "%s%s%s", first ? "Lua warning: " : "", text, to_continue ? "" : "\n");
}

lua_State *runner_newstate(void) {
  lua_State *L = lua_newstate(allocate, NULL);
  if (!L) return NULL;
  ltide_notifying_alloc = allocate;
  lua_atpanic(L, panic);
  lua_setwarnf(L, warn, NULL);
  return L;
}
