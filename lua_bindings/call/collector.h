/* collector.h: Lua's collector follows the bytes that it cannot see. */
#pragma once

#include "bindings.h"

void ltide_pace_slow(lua_State *L, ltide_state *S);
/* So many bytes more are allocated. */
static inline void ltide_pace(lua_State *L, ltide_state *S, size_t bytes) {
  if ((S->debt += bytes) >= S->limit) ltide_pace_slow(L, S);
}
/* Paces the collector by what core allocated on this thread since the last time. A result of few bytes is an object of
 * Lua's above all: a million of them are a heap that is worth a look long before their elements are. */
static inline void ltide_pace_taken(lua_State *L, ltide_state *S) {
  enum { HANDLE = 256 };
  size_t bytes = tide_pace_take();
  if (bytes) ltide_pace(L, S, bytes + HANDLE);
}
/* Once after filling results, when the operands are not used any more. */
static inline void ltide_made(lua_State *L, ltide_state *S) {
  ltide_pace_taken(L, S);
  if (S->pin_count) ltide_release_pins(L, S);
}

/* Collects before work that dead objects would hinder, unless the collector is stopped. */
void ltide_collect_ahead(lua_State *L);
void ltide_gc_set(lua_State *L, int mode); /* tide_lua_gc */
/* Bytes of everything that scripts may have allocated: what is alive, garbage included. */
size_t ltide_alive(void);

/* For state.c. */
void ltide_collector_open(ltide_state *S);
void ltide_collector_close(ltide_state *S);
void ltide_collect_requested(lua_State *L, ltide_state *S); /* collects where that has been requested */
