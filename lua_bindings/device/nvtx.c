/* nvtx.c: tide.cuda.nvtx: named ranges for profilers, those of other makers and our own.
 *
 * A range in scoped form is one of the scopes of scope.c: it ends on leaving, by an error too, and when the coroutine
 * that opened it dies. It is known by a number, so it can end while ranges of another coroutine lie on top of it.
 *
 * `available` is a field that is looked up, because asking is what makes a profiler's library load. */
#include "call/row.h"
#include "call/did_you_mean.h"
#include "call/block.h"
#include "tide/profiler.h"

static int lmark(lua_State *L, ltide_call *c) {
  tide_nvtx_mark(c->v[0].text);
  return 0;
}

static int lrange_push(lua_State *L, ltide_call *c) {
  return ltide_give_integer(L, tide_nvtx_range_push(c->v[0].text));
}

static int lrange_pop(lua_State *L, ltide_call *c) { return ltide_give_integer(L, tide_nvtx_range_pop()); }

static int lrange_start(lua_State *L, ltide_call *c) {
  uint64_t id = tide_nvtx_range_start(c->v[0].text);
  if (!id) return ltide_error(L, "OutOfMemoryError", "range_start: no memory for the range");
  return ltide_give_integer(L, (lua_Integer)id);
}

static int lrange_end(lua_State *L, ltide_call *c) {
  lua_Integer id = c->v[0].i;
  if (id < 0)
    return ltide_error(L, "ValueError", "range_end: no such range is open, got %I, expected what range_start gave", id);
  return ltide_done(L, tide_nvtx_range_end((uint64_t)id));
}

/* Also without a state: a range has nothing to restore, and must not stay open for ever. */
static void leave_range(lua_State *L, void *data) { tide_nvtx_scope_leave(*(uint64_t *)data); }

static int lrange(lua_State *L, ltide_call *c) {
  uint64_t *id = ltide_block_new(L, "cuda.nvtx.range", c->v[1].at, leave_range, sizeof *id);
  *id = tide_nvtx_scope_enter(c->v[0].text);
  return ltide_block_open(L, c->v[1].at);
}

static int lindex(lua_State *L) {
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "__";
  if (!strncmp(key, "__", 2)) return 0;
  if (strcmp(key, "available") != 0) return ltide_no_field(L, "tide.cuda.nvtx", key, 1, "available");
  return ltide_give_boolean(L, tide_nvtx_available());
}

#include <rows/nvtx.inc>

void ltide_open_nvtx(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {{"__index", lindex}, {0}};
  ltide_register_in(L, "tide.cuda.nvtx", nvtx_rows);
  lua_getfield(L, -1, "cuda");
  lua_getfield(L, -1, "nvtx");
  ltide_set_meta(L, "tide.cuda.nvtx", meta);
  lua_pop(L, 2);
}
