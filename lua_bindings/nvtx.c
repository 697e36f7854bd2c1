/* nvtx.c: tide.cuda.nvtx: named ranges for profilers, those of other makers and our own.
 *
 * A range in scoped form is one of the scopes of scope.c: it ends on leaving, by an error too, and when the coroutine
 * that opened it dies. It is known by a number, so it can end while ranges of another coroutine lie on top of it.
 *
 * `available` is a field that is looked up, because asking is what makes a profiler's library load. */
#include <string.h>

#include "row.h"
#include "bindings.h"
#include "names.h"
#include "tide/profiler.h"

/* Texts reach other programs as C strings: one with a zero inside would be cut silently. */
static const char *check_text(lua_State *L, int arg) {
  size_t length;
  if (lua_type(L, arg) != LUA_TSTRING) ltide_arg_error(L, arg, "msg", "a string");
  const char *text = lua_tolstring(L, arg, &length);
  if (strlen(text) != length)
    ltide_error(L, "ValueError", "%s: msg: got a zero byte in the text, expected text without one",
                ltide_function_name(L));
  return text;
}

static int lmark(lua_State *L) {
  tide_nvtx_mark(check_text(L, 1));
  return 0;
}

static int lrange_push(lua_State *L) {
  lua_pushinteger(L, tide_nvtx_range_push(check_text(L, 1)));
  return 1;
}

static int lrange_pop(lua_State *L) {
  lua_pushinteger(L, tide_nvtx_range_pop());
  return 1;
}

static int lrange_start(lua_State *L) {
  uint64_t id = tide_nvtx_range_start(check_text(L, 1));
  if (!id) return ltide_error(L, "OutOfMemoryError", "range_start: no memory for the range");
  lua_pushinteger(L, (lua_Integer)id);
  return 1;
}

static int lrange_end(lua_State *L) {
  int is_integer;
  lua_Integer id = lua_tointegerx(L, 1, &is_integer);
  if (!is_integer || lua_type(L, 1) != LUA_TNUMBER)
    return ltide_arg_error(L, 1, "id", "the number that range_start gave");
  if (id < 0)
    return ltide_error(L, "ValueError", "range_end: no such range is open, got %I, expected what range_start gave", id);
  ltide_try(L, tide_nvtx_range_end((uint64_t)id));
  return 0;
}

/* Also without a state: a range has nothing to restore, and must not stay open for ever. */
static void leave_range(lua_State *L, void *data) {
  (void)L;
  tide_nvtx_scope_leave(*(uint64_t *)data);
}

static int lrange(lua_State *L) {
  ltide_enter(L);
  const char *text = check_text(L, 1);
  if (!lua_isnoneornil(L, 2) && !lua_isfunction(L, 2)) return ltide_arg_error(L, 2, "fn", "a function or nothing");
  int fn = lua_isfunction(L, 2) ? 2 : 0;
  uint64_t *id = ltide_block_new(L, "cuda.nvtx.range", fn, leave_range, sizeof *id);
  *id = tide_nvtx_scope_enter(text);
  return ltide_block_open(L, fn);
}

static int lindex(lua_State *L) {
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "__";
  if (!strncmp(key, "__", 2)) return 0;
  if (strcmp(key, "available") != 0) return ltide_no_field(L, "tide.cuda.nvtx", key, 1, "available");
  lua_pushboolean(L, tide_nvtx_available());
  return 1;
}

#define PATH "tide.cuda.nvtx."
static ltide_row rows[] = {
#include "api/nvtx.def"
    {0}};

void ltide_open_nvtx(lua_State *L, ltide_state *S) {
  (void)S;
  lua_getfield(L, -1, "cuda");
  lua_newtable(L);
  ltide_register_rows(L, "tide.cuda.nvtx", rows);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, lindex);
  lua_setfield(L, -2, "__index");
  ltide_protect(L, "tide.cuda.nvtx");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "nvtx");
  lua_pop(L, 1);
}
