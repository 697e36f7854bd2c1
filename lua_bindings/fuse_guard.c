/* fuse_guard.c: what a function can see, and whether it is as it was: the guards of tide.fuse.
 *
 * A function can be left out only if nothing that it depends on has changed. What it can see are its arguments and its
 * upvalues, and of both, what tables hold and what functions see in turn. All of that is walked before the function
 * runs. Numbers, strings, booleans, functions and other objects have to be the same; tensors are inputs, which may be
 * others of the same kind. Of a table of up to 64 values all are guarded, and that there are no more; of a larger one,
 * of the globals and of libraries, those that a constant of one of the functions names, which is read from their
 * compiled form.
 *
 * Invariant: refs keeps every function, table and object whose address a guard compares. */
#include "fuse.h"

#include <stdlib.h>

#if LUA_VERSION_NUM == 504

/* {==== Noting */

static void note_value(fuse_recorder *r, fuse_guard g, int depth);

static bool has_seen(const void *const *list, int n, const void *p) {
  for (int i = 0; i < n; i++)
    if (list[i] == p) return true;
  return false;
}

static int add_guard(fuse_recorder *r, const fuse_guard *g) {
  fuse_record *p = r->record;
  if (p->guards == FUSE_GUARDS) {
    fuse_decline(r, "it can see more than %d values", FUSE_GUARDS);
    return -1;
  }
  p->guard[p->guards] = *g;
  return p->guards++;
}

static bool is_key(lua_State *L, int index) {
  int type = lua_type(L, index);
  return type == LUA_TSTRING || type == LUA_TNUMBER || type == LUA_TBOOLEAN;
}

enum { SMALL = 64, DEEP = 6 };

/* The metatable of the value at the top: one that it has not may be set later. */
static void note_meta(fuse_recorder *r, int parent, int holder, int depth) {
  fuse_guard g = {.source = FUSE_META, .parent = (int16_t)parent, .holder = holder};
  if (!lua_getmetatable(r->L, -1)) lua_pushnil(r->L);
  note_value(r, g, depth + 1);
}

/* All fields of the table at the top, and its metatable. */
static void note_fields(fuse_recorder *r, int parent, int holder, int depth) {
  lua_State *L = r->L;
  int table = lua_gettop(L), n = 0;
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) lua_pushvalue(L, -2), lua_rawseti(L, table + 1, ++n);
  int order = fuse_keep(r);
  r->record->guard[parent].order = n > 1 ? order : 0;
  for (lua_pushnil(L); lua_next(L, table);) {
    if (!is_key(L, -2)) {
      fuse_decline(r, "it can see a table with keys that are neither names nor numbers");
      lua_settop(L, table);
      return;
    }
    lua_pushvalue(L, -2);
    fuse_guard g = {.source = FUSE_FIELD, .parent = (int16_t)parent, .holder = holder, .key = fuse_keep(r)};
    note_value(r, g, depth + 1);
  }
  note_meta(r, parent, holder, depth);
}

/* Of a large table at the top: where it gets what it has not. What a function gives there is not guarded, so that
 * nothing that is named may come from it. */
static void note_large_meta(fuse_recorder *r, int parent, int holder, bool is_globals, int depth) {
  lua_State *L = r->L;
  r->index_is_function = false;
  if (!lua_getmetatable(L, -1)) {
    note_meta(r, parent, holder, depth);
    return;
  }
  fuse_guard meta = {.source = FUSE_META,
                     .want = FUSE_SAME,
                     .type = LUA_TTABLE,
                     .count = -1,
                     .parent = (int16_t)parent,
                     .holder = holder,
                     .address = lua_topointer(L, -1)};
  lua_pushvalue(L, -1);
  int held = meta.value = fuse_keep(r), at = add_guard(r, &meta);
  lua_pushliteral(L, "__index");
  bool is_function = lua_rawget(L, -2) == LUA_TFUNCTION && is_globals;
  if (at >= 0 && lua_type(L, -1) == LUA_TTABLE) {
    lua_pushliteral(L, "__index");
    fuse_guard index = {
        .source = FUSE_FIELD, .parent = (int16_t)at, .holder = held, .key = fuse_keep(r), .is_globals = is_globals};
    lua_pushvalue(L, -1);
    note_value(r, index, depth + 1);
  }
  r->index_is_function = is_function;
  lua_pop(L, 2);
}

/* What refuses names that the table at the index has not, where it is one of the module's (names.c). */
static lua_CFunction refuser(lua_State *L, int index) {
  int top = lua_gettop(L);
  if (!lua_istable(L, index) || !lua_getmetatable(L, index)) return NULL;
  lua_pushliteral(L, "__index");
  lua_rawget(L, -2);
  lua_CFunction fn = lua_tocfunction(L, -1);
  lua_settop(L, top);
  return fn;
}

/* Is the table at the top a library, or a part of the module, of which nothing is read but what is named? */
static bool is_library(lua_State *L) {
  int table = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushliteral(L, "tide");
  lua_rawget(L, table + 1);
  lua_CFunction own = refuser(L, table + 2);
  bool is_one = own && own == refuser(L, table);
  lua_settop(L, table + 1);
  for (lua_pushnil(L); lua_next(L, table + 1); lua_pop(L, 1)) is_one |= lua_rawequal(L, -1, table);
  lua_settop(L, table);
  return is_one;
}

/* Does the table at the top not hold what it has? A record would, and what is gone is nowhere to be seen. */
static bool is_weak(lua_State *L) {
  int top = lua_gettop(L);
  bool weak = lua_getmetatable(L, -1);
  if (weak) lua_pushliteral(L, "__mode"), weak = lua_rawget(L, -2) == LUA_TSTRING;
  lua_settop(L, top);
  return weak;
}

/* The table at the top. */
static void note_table(fuse_recorder *r, fuse_guard g, int depth) {
  lua_State *L = r->L;
  const void *address = lua_topointer(L, -1);
  bool fresh = g.source == FUSE_ARGUMENT || (g.source == FUSE_FIELD && !g.holder);
  if (is_weak(L)) {
    fuse_decline(r, "it can see a weak table");
    return;
  }
  bool library = is_library(L) || address == r->globals || g.is_globals;
  int count = library ? SMALL + 1 : fuse_count_fields(L, -1, SMALL);
  if (depth > DEEP) {
    fuse_decline(r, "it can see tables that are too deep in each other");
    return;
  }
  if (!library && count > SMALL) {
    fuse_decline(r, "it can see a table of more than %d values", SMALL);
    return;
  }
  if (fresh && count <= SMALL && !has_seen(r->table, r->tables, address)) {
    g.want = FUSE_TABLE, g.count = count, g.address = address;
    if (g.source == FUSE_FIELD) g.slot = (int16_t)++r->slots;
    int at = add_guard(r, &g);
    if (at >= 0) note_fields(r, at, 0, depth);
    return;
  }
  lua_pushvalue(L, -1);
  int holder = g.value = fuse_keep(r);
  g.want = FUSE_SAME, g.type = LUA_TTABLE, g.address = address, g.count = -1;
  bool seen = has_seen(r->table, r->tables, address);
  if (!seen && count <= SMALL && address != r->globals && !g.is_globals) g.count = count;
  int at = add_guard(r, &g);
  if (seen || at < 0) return;
  if (r->tables == 64) {
    fuse_decline(r, "it can see too many tables");
    return;
  }
  r->table[r->tables++] = address;
  if (g.count < 0) note_large_meta(r, at, holder, g.is_globals, depth);
  if (g.count >= 0)
    note_fields(r, at, holder, depth);
  else if (r->larges < 16) {
    r->large_calls[r->larges] = r->index_is_function;
    r->large[r->larges] = holder, r->large_is_globals[r->larges] = g.is_globals || address == r->globals;
    lua_newtable(L);
    r->large_done[r->larges++] = fuse_keep(r);
  } else
    fuse_decline(r, "it can see too many large tables");
}

/* The Lua function at the top: what it names, and its upvalues. */
static void note_function(fuse_recorder *r, int depth) {
  lua_State *L = r->L;
  lua_Debug ar;
  const void *address = lua_topointer(L, -1);
  fuse_known *k = &r->known;
  if (has_seen(k->function, k->functions, address)) return;
  if (k->functions == FUSE_FUNCTIONS) {
    fuse_decline(r, "it can see more than %d functions", FUSE_FUNCTIONS);
    return;
  }
  lua_pushvalue(L, -1);
  lua_getinfo(L, ">S", &ar);
  struct fuse_lines *lines = &k->lines[k->functions];
  snprintf(lines->source, sizeof lines->source, "%s", ar.short_src);
  lines->first = ar.linedefined, lines->last = ar.lastlinedefined;
  k->function[k->functions++] = address;
  k->writes[k->functions - 1] = fuse_names_note(r);
  int fn = lua_gettop(L);
  lua_pushvalue(L, fn);
  int holder = fuse_keep(r);
  for (int i = 1, is_env; lua_getupvalue(L, fn, i); i++) {
    const char *name = lua_getupvalue(L, fn, i);
    is_env = !strcmp(name, "_ENV");
    lua_pop(L, 1);
    fuse_guard g = {.source = FUSE_UPVALUE, .at = (int16_t)i, .parent = -1, .holder = holder, .is_globals = is_env};
    note_value(r, g, depth + 1);
  }
}

/* Values of inputs come first, so that the one's number is the other's. */
static void note_input(fuse_recorder *r, int k) {
  const ltide_tensor *u = lua_touserdata(r->L, -1);
  fuse_input *x = &r->record->input[r->record->inputs++];
  r->value[k].is_input = true;
  r->input_handle[k] = u;
  x->dtype = r->value[k].dtype, x->ndim = r->value[k].ndim, x->device = r->value[k].device;
  memcpy(x->size, tide_tensor_size(u->t), x->ndim * sizeof *x->size);
  memcpy(x->stride, tide_tensor_stride(u->t), x->ndim * sizeof *x->stride);
}

static void note_tensor(fuse_recorder *r, fuse_guard g) {
  fuse_record *p = r->record;
  int16_t known = fuse_value_of(r, -1);
  g.want = known < 0 ? FUSE_TENSOR : FUSE_AGAIN;
  if (g.source != FUSE_ARGUMENT) g.slot = (int16_t)++r->slots;
  if (known < 0) {
    if (p->inputs == FUSE_INPUTS) {
      fuse_decline(r, "it can see more than %d tensors", FUSE_INPUTS);
      return;
    }
    known = fuse_value_new(r, lua_gettop(r->L), -1);
    if (known < 0) return;
    note_input(r, known);
  }
  g.input = known;
  add_guard(r, &g);
}

/* Of an object of somebody else, which the guard keeps: tide's have no fields that change. */
static void note_object(fuse_recorder *r, int at, int holder, int depth) {
  lua_State *L = r->L;
  int type = luaL_getmetafield(L, at, "__name");
  bool is_own = type == LUA_TSTRING && !strncmp(lua_tostring(L, -1), "tide.", 5);
  lua_settop(L, at);
  if (!is_own) note_meta(r, -1, holder, depth);
}

/* Notes the value at the top, and pops it. */
static void note_value(fuse_recorder *r, fuse_guard g, int depth) {
  lua_State *L = r->L;
  int at = lua_gettop(L);
  luaL_checkstack(L, 16, "tide.fuse");
  g.type = (uint8_t)lua_type(L, at);
  ltide_tensor *u = ltide_test_handle(L, r->S, at);
  if (u && u->t)
    note_tensor(r, g);
  else if (g.type == LUA_TTABLE)
    note_table(r, g, depth);
  else {
    g.want = FUSE_SAME, g.count = -1;
    g.is_integer = lua_isinteger(L, at);
    if (g.is_integer)
      g.integer = lua_tointeger(L, at);
    else if (g.type == LUA_TNUMBER)
      g.number = lua_tonumber(L, at);
    else if (g.type == LUA_TBOOLEAN)
      g.integer = lua_toboolean(L, at);
    else if (g.type != LUA_TNIL) {
      g.address = lua_topointer(L, at);
      lua_pushvalue(L, at);
      g.value = fuse_keep(r);
    }
    add_guard(r, &g);
    if (g.type == LUA_TUSERDATA) note_object(r, at, g.value, depth);
    if (g.type == LUA_TFUNCTION && !lua_iscfunction(L, at)) note_function(r, depth);
    if (ltide_test_object(L, at, FUSED_META)) {
      lua_getiuservalue(L, at, 1);
      lua_rawgeti(L, -1, 1);
      if (!lua_iscfunction(L, -1)) note_function(r, depth);
    }
  }
  lua_settop(L, at - 1);
}

/* Of a large table what is named, once each. */
static bool note_named(fuse_recorder *r, int k) {
  lua_State *L = r->L;
  int top = lua_gettop(L);
  bool more = false;
  lua_rawgeti(L, r->refs, r->large[k]);
  lua_rawgeti(L, r->refs, r->large_done[k]);
  /* Names found on the way are for the next pass: a table is not added to while it is walked. */
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, r->names); lua_pop(L, 1))
    lua_pushvalue(L, -2), lua_pushvalue(L, -2), lua_rawset(L, top + 3);
  for (lua_pushnil(L); lua_next(L, top + 3); lua_settop(L, top + 4)) {
    bool is_global = lua_toboolean(L, -1) && r->large_is_globals[k];
    lua_pushvalue(L, top + 4);
    if (lua_rawget(L, top + 2) != LUA_TNIL) continue;
    lua_pushvalue(L, top + 4), lua_pushboolean(L, 1), lua_rawset(L, top + 2);
    more = true;
    lua_pushvalue(L, top + 4);
    bool is_there = lua_rawget(L, top + 1) != LUA_TNIL;
    if (!is_there && is_global && r->large_calls[k])
      fuse_decline(r, "the global %s comes from a function", lua_tostring(L, top + 4));
    if (!is_there && !is_global) continue;
    lua_pushvalue(L, top + 4);
    fuse_guard g = {.source = FUSE_FIELD, .parent = -1, .holder = r->large[k], .key = fuse_keep(r)};
    note_value(r, g, 0);
  }
  lua_settop(L, top);
  return more;
}

/* Of a large table, before the function runs: it may write to what it does not name. */
static void copy_large(fuse_recorder *r, int k) {
  lua_State *L = r->L;
  int top = lua_gettop(L);
  lua_rawgeti(L, r->refs, r->large[k]);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, top + 1);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, top + 2);
  }
  r->large_copy[k] = fuse_keep(r);
  lua_settop(L, top);
}

/* Declines where a large table is not as it was. */
static void check_large(fuse_recorder *r, int k) {
  lua_State *L = r->L;
  int top = lua_gettop(L), fields = 0;
  const char *changed = NULL;
  lua_rawgeti(L, r->refs, r->large[k]);
  lua_rawgeti(L, r->refs, r->large_copy[k]);
  for (lua_pushnil(L); !changed && lua_next(L, top + 1); lua_settop(L, top + 3), fields++) {
    lua_pushvalue(L, top + 3);
    lua_rawget(L, top + 2);
    if (lua_rawequal(L, -1, -2)) continue;
    changed = lua_type(L, top + 3) == LUA_TSTRING ? lua_tostring(L, top + 3) : "a table that it can see";
    break;
  }
  for (lua_pushnil(L); !changed && lua_next(L, top + 2); lua_settop(L, top + 3)) fields--;
  if (changed || fields) fuse_decline(r, "it changes %s", changed ? changed : "a table that it can see");
  lua_settop(L, top);
}

static void note_likes(fuse_record *p, const fuse_recorder *r) {
  for (int i = 0; i < p->inputs; i++) {
    fuse_input *x = &p->input[i];
    x->storage = (uint8_t)i;
    for (int j = i - 1; j >= 0; j--)
      if (r->value[j].storage == r->value[i].storage) x->storage = p->input[j].storage;
    for (int d = 0; d < x->ndim; d++) {
      x->like[d] = (uint16_t)(i << 4 | d);
      for (int k = i * 16 + d - 1; k >= 0; k--)
        if ((k & 15) < p->input[k >> 4].ndim && p->input[k >> 4].size[k & 15] == x->size[d]) x->like[d] = (uint16_t)k;
    }
  }
}

/* What strings have is as a rule a library, of which only what is named counts. */
static void note_state(fuse_recorder *r) {
  fuse_record *p = r->record;
  lua_State *L = r->L;
  int top = lua_gettop(L);
  p->dtype = tide_get_default_dtype();
  p->device = tide_current_device(), p->default_device = tide_default_device();
  if (!fuse_state_holds(L, p)) fuse_decline(r, "numbers, functions, booleans or nil have a metatable");
  lua_pushliteral(L, "");
  lua_pushvalue(L, -1);
  int holder = fuse_keep(r);
  note_large_meta(r, -1, holder, false, 0);
  lua_settop(L, top);
}

/* Which tables are the same one can be seen where one of them is no other's. */
static void note_compares(fuse_record *p) {
  int tables = 0, other = 0;
  for (int i = 0; i < p->guards; i++) tables += p->guard[i].type == LUA_TTABLE, other += p->guard[i].want == FUSE_TABLE;
  p->compares = other && tables > 1;
}

void fuse_guards_note(fuse_recorder *r, int fn, int first, int top) {
  lua_State *L = r->L;
  lua_pushglobaltable(L);
  r->globals = lua_topointer(L, -1);
  lua_pop(L, 1);
  for (int i = first; i <= top; i++) {
    fuse_guard g = {.source = FUSE_ARGUMENT, .at = (int16_t)(i - first), .parent = -1};
    lua_pushvalue(L, i);
    note_value(r, g, 0);
  }
  note_state(r);
  lua_pushvalue(L, fn);
  note_function(r, 0);
  lua_settop(L, lua_gettop(L) - 1);
  for (bool more = true; more && !r->record->eager;) {
    more = false;
    for (int k = 0; k < r->larges; k++) more = note_named(r, k) || more;
  }
  note_likes(r->record, r);
  note_compares(r->record);
  bool writes = false;
  for (int k = 0; k < r->known.functions; k++) writes |= r->known.writes[k];
  for (int k = 0; writes && k < r->larges; k++) copy_large(r, k);
}

void fuse_guards_check(fuse_recorder *r, int first) {
  lua_State *L = r->L;
  int top = lua_gettop(L);
  const fuse_guard *g = fuse_guards_changed(L, r->record, r->refs, first, r->slots, r->input_handle, true);
  if (g) fuse_decline(r, "it changes %s", fuse_guard_what(L, g, r->refs));
  lua_settop(L, top);
  for (int k = 0; k < r->larges; k++)
    if (r->large_copy[k]) check_large(r, k);
}

#endif
