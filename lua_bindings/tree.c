/* tree.c: walks over trees of tensors: nested tables with tensors and other values in them.
 *
 * Both walks note every table and every handle that they have met, by identity, so that a tree that shares parts, or
 * refers to itself, is walked once. Values are read raw: a walk runs no code of the script's. Keys are never
 * changed. */
#include "tree.h"

enum { DEEPEST = 1000 }; /* tables in tables; each level takes some of the C stack */

typedef struct walk {
  ltide_state *S;
  int seen; /* stack index of the table of what was met; of a map, with what stands for it */
  ltide_leaf_fn leaf;
  ltide_stays_fn stays; /* or NULL */
  ltide_visit_fn visit;
  void *user;
} walk;

static void check_depth(lua_State *L, int depth) {
  luaL_checkstack(L, 12, "tide: tables nested too deeply");
  if (depth > DEEPEST)
    ltide_error(L, "ValueError", "%s: got tables nested more than %d deep, expected fewer", ltide_function_name(L),
                DEEPEST);
}

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
  check_depth(L, depth);
  tide_tensor *x = ltide_test_tensor(L, w->S, index);
  if (!x && (!lua_istable(L, index) || (w->stays && w->stays(L, w->user, index)))) {
    lua_pushvalue(L, index);
    return;
  }
  lua_pushvalue(L, index);
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

void ltide_map_tree_but(lua_State *L, ltide_state *S, int index, ltide_leaf_fn leaf, ltide_stays_fn stays, void *user) {
  index = lua_absindex(L, index);
  lua_newtable(L);
  walk w = {.S = S, .seen = lua_gettop(L), .leaf = leaf, .stays = stays, .user = user};
  map(L, &w, index, 0);
  lua_remove(L, w.seen);
}

void ltide_map_tree(lua_State *L, ltide_state *S, int index, ltide_leaf_fn leaf, void *user) {
  ltide_map_tree_but(L, S, index, leaf, NULL, user);
}

static void visit(lua_State *L, const walk *w, int index, int depth) {
  check_depth(L, depth);
  tide_tensor *x = ltide_test_tensor(L, w->S, index);
  if (!x && !lua_istable(L, index)) return;
  lua_pushvalue(L, index);
  bool is_new = lua_rawget(L, w->seen) == LUA_TNIL;
  lua_pop(L, 1);
  if (!is_new) return;
  lua_pushvalue(L, index);
  lua_pushboolean(L, 1);
  lua_rawset(L, w->seen);
  if (x) {
    w->visit(L, w->user, index, x);
    return;
  }
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) visit(L, w, lua_gettop(L), depth + 1);
}

void ltide_visit_tree(lua_State *L, ltide_state *S, int index, ltide_visit_fn fn, void *user) {
  index = lua_absindex(L, index);
  lua_newtable(L);
  walk w = {.S = S, .seen = lua_gettop(L), .visit = fn, .user = user};
  visit(L, &w, index, 0);
  lua_remove(L, w.seen);
}

/* {==== For the chunks of Lua: copy(value, leaf [, stays]) and visit(value, fn), which call the functions with each
 * tensor and the number of its device, and with each table */

static void call_leaf(lua_State *L, void *user, int index, tide_tensor *x) {
  (void)user;
  lua_pushvalue(L, 2);
  lua_pushvalue(L, index);
  lua_pushinteger(L, tide_tensor_device(x));
  lua_call(L, 2, 1);
}

static bool call_stays(lua_State *L, void *user, int index) {
  (void)user;
  lua_pushvalue(L, 3);
  lua_pushvalue(L, index);
  lua_call(L, 1, 1);
  bool stays = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return stays;
}

static void call_visit(lua_State *L, void *user, int index, tide_tensor *x) {
  call_leaf(L, user, index, x);
  lua_pop(L, 1);
}

static int script_copy(lua_State *L) {
  ltide_map_tree_but(L, ltide_enter(L), 1, call_leaf, lua_isnone(L, 3) ? NULL : call_stays, NULL);
  return 1;
}

static int script_visit(lua_State *L) {
  ltide_visit_tree(L, ltide_enter(L), 1, call_visit, NULL);
  return 0;
}

static lua_Integer count_keys(lua_State *L, int t) {
  lua_Integer n = 0;
  for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1)) n++;
  return n;
}

/* other_table(list, n): nothing where all n are tables of as many keys. Else the number of one that is none, or also
 * how many keys it has and how many the first. */
static int script_other_table(lua_State *L) {
  lua_Integer n = lua_tointeger(L, 2), first = 0;
  for (lua_Integer i = 1; i <= n; i++, lua_settop(L, 2)) {
    bool is_table = lua_rawgeti(L, 1, i) == LUA_TTABLE;
    lua_Integer keys = is_table ? count_keys(L, 3) : -1;
    if (i == 1) first = keys;
    if (keys == first && is_table) continue;
    lua_pushinteger(L, i), lua_pushinteger(L, keys), lua_pushinteger(L, first);
    return is_table ? 3 : (lua_pop(L, 2), 1);
  }
  return 0;
}

/* get_column(tables, key, n): a list of what each of the n has there; or nil and the number of one that has nothing. */
static int script_get_column(lua_State *L) {
  lua_Integer n = lua_tointeger(L, 3);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, 5) == LUA_TNIL) return lua_pushinteger(L, i), 2;
    lua_rawseti(L, 4, i);
    lua_settop(L, 4);
  }
  return 1;
}

const luaL_Reg ltide_tree_script[] = {{"copy", script_copy},
                                      {"visit", script_visit},
                                      {"other_table", script_other_table},
                                      {"get_column", script_get_column},
                                      {NULL, NULL}};
