/* tree.c: walks over trees of tensors: nested tables with tensors and other values in them.
 *
 * A walk notes every table and every handle that it has met, by identity, so that a tree that shares parts, or refers
 * to itself, is walked once. Values are read raw: a walk runs no code of the script's. Keys are never changed. */
#include "tree.h"

enum { DEEPEST = 1000 }; /* tables in tables; each level takes some of the C stack */

typedef struct walk {
  ltide_state *S;
  int seen; /* stack index of the table of what was met, with what stands for it */
  ltide_leaf_fn leaf;
  void *user;
} walk;

static void map(lua_State *L, const walk *w, int index, int depth);

static void map_table(lua_State *L, const walk *w, int index, int depth) {
  lua_newtable(L);
  int copy = lua_gettop(L);
  lua_pushvalue(L, index);
  lua_pushvalue(L, copy);
  lua_rawset(L, w->seen);
  for (lua_pushnil(L); lua_next(L, index);) {
    int value = lua_gettop(L);
    lua_pushvalue(L, value - 1);
    map(L, w, value, depth + 1);
    lua_rawset(L, copy);
    lua_settop(L, value - 1);
  }
  if (lua_getmetatable(L, index)) lua_setmetatable(L, copy);
}

static void map(lua_State *L, const walk *w, int index, int depth) {
  luaL_checkstack(L, 12, "tide: tables nested too deeply");
  if (depth > DEEPEST)
    ltide_error(L, "ValueError", "%s: got tables nested more than %d deep, expected fewer", ltide_function_name(L),
                DEEPEST);
  tide_tensor *x = ltide_test_tensor(L, w->S, index);
  lua_pushvalue(L, index);
  if (!x && !lua_istable(L, index)) return;
  if (lua_rawget(L, w->seen) != LUA_TNIL) return;
  lua_pop(L, 1);
  if (!x) {
    map_table(L, w, index, depth);
    return;
  }
  w->leaf(L, w->user, index, x);
  lua_pushvalue(L, index);
  lua_pushvalue(L, -2);
  lua_rawset(L, w->seen);
}

void ltide_map_tree(lua_State *L, ltide_state *S, int index, ltide_leaf_fn leaf, void *user) {
  index = lua_absindex(L, index);
  lua_newtable(L);
  walk w = {.S = S, .seen = lua_gettop(L), .leaf = leaf, .user = user};
  map(L, &w, index, 0);
  lua_remove(L, w.seen);
}
