/* pins.c: pins operands while a C call uses raw pointers to them; releases wait until the call ends.
 *
 * A binding reads its operands from its arguments and then allocates, for Lua or in core, where the collector may run
 * finalisers: these are a script's, and may free or replace any of the operands. Inside a finaliser (or an observer of
 * an allocation that has failed) nothing that a script frees goes at once: its release is deferred until the next call
 * begins that interrupts nobody. An operand that stands in a table, as an option or in a list, is held here as well,
 * since a finaliser can take it out of the table, and a later collection could reach it then.
 *
 * What a handle held that nobody can reach any more is in no call: its own finaliser takes it from here at once, so
 * that an allocation which collects gets that memory back. */
#include <stdlib.h>

#include "handle.h"

#define EACH_KIND(F)                                                                                                   \
  F(TENSOR, tensor, tensor) F(GENERATOR, generator, generator) F(STREAM, stream, stream) F(POOL, pool, mempool)
#define KIND(kind, name, type) kind,
enum { EACH_KIND(KIND) };
#undef KIND

typedef struct ltide_held {
  void *object;
  const void *handle; /* of what was deferred */
  int kind;
} ltide_held;

struct ltide_pins_part {
  ltide_held *held;
  int room;
};
LTIDE_PART(pins)
LTIDE_PART_SIZE(pins)

bool ltide_is_interrupting(lua_State *L, const ltide_state *S) {
  return S->observing || lua_gc(L, LUA_GCCOUNT) < 0; /* Lua answers so while a finaliser runs */
}

static bool reserve(ltide_state *S) {
  struct ltide_pins_part *p = ltide_pins_of(S);
  if (S->pin_count < p->room) return true;
  int room = p->room ? 2 * p->room : 16;
  ltide_held *held = realloc(p->held, sizeof *held * (size_t)room);
  if (!held) return false;
  p->held = held, p->room = room;
  return true;
}

static void add(ltide_state *S, void *object, const void *handle, int kind) {
  ltide_pins_of(S)->held[S->pin_count++] = (ltide_held){object, handle, kind};
}

static void hold(lua_State *L, ltide_state *S, void *object, int kind) {
  if (!reserve(S)) ltide_fail(L, "OutOfMemoryError", "no memory for a list of operands");
  add(S, object, NULL, kind);
}

#define HOLD(kind, name, type)                                                                                         \
  void ltide_hold_##name(lua_State *L, ltide_state *S, tide_##type *x) {                                               \
    hold(L, S, x, kind);                                                                                               \
    tide_##type##_retain(x);                                                                                           \
  }
EACH_KIND(HOLD)
#undef HOLD

bool ltide_defer_release(ltide_state *S, ltide_tensor *u) {
  if (!reserve(S)) return false;
  add(S, u->t, u, TENSOR);
  u->t = NULL;
  return true;
}

void ltide_unshare(lua_State *L, ltide_state *S, ltide_tensor *u) {
  if (!u->t || !ltide_is_interrupting(L, S)) return;
  tide_tensor *t = u->t, *own;
  if (!reserve(S)) ltide_fail(L, "OutOfMemoryError", "no memory");
  ltide_try(L, tide_as_strided(&own, t, tide_tensor_size(t), tide_tensor_stride(t), tide_tensor_ndim(t),
                               tide_tensor_offset(t)));
  add(S, t, NULL, TENSOR);
  u->t = own;
}

tide_tensor *ltide_take_deferred(ltide_state *S, const ltide_tensor *u) {
  struct ltide_pins_part *p = ltide_pins_of(S);
  for (int i = S->pin_count - 1; i >= 0; i--) {
    if (p->held[i].handle != u) continue;
    tide_tensor *t = p->held[i].object;
    p->held[i] = p->held[--S->pin_count];
    return t;
  }
  return NULL;
}

static void free_held(ltide_state *S) {
  while (S->pin_count) {
    ltide_held h = ltide_pins_of(S)->held[--S->pin_count];
#define RELEASE(KIND, name, type)                                                                                      \
  if (h.kind == (KIND)) tide_##type##_release(h.object);
    EACH_KIND(RELEASE)
#undef RELEASE
  }
}

void ltide_release_pins(lua_State *L, ltide_state *S) {
  if (!ltide_is_interrupting(L, S)) free_held(S);
}

void ltide_held_close(ltide_state *S) {
  struct ltide_pins_part *p = ltide_pins_of(S);
  free_held(S);
  free(p->held);
  p->held = NULL, p->room = 0;
}
