/* interruptible_stdlib.c: what of table and string goes through as many steps as a script says, in a form that the host
 * can end. A table's length and elements may be a metamethod's, so that they cost no memory. The results are those of
 * Lua's. */
#include "interruptible_stdlib.h"
#include "call/error.h"

#include <locale.h>

void ltide_look(lua_State *L, ltide_state *S) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  int64_t steps = (int64_t)q->steps;
  q->steps = 0;
  if (S->quota) ltide_try(L, tide_quota_spend(S->quota, TIDE_QUOTA_INSTRUCTIONS, steps));
}

#if !LTIDE_FFI /* LuaJIT has its own */
/* {==== table */

enum { READS = 1, WRITES = 2, HAS_LENGTH = 4 };
enum { GROWS = 1 << 12 };

/* Numbers may be given as strings. */
static void charge_arguments(lua_State *L, int from) {
  double ns = ltide_cost_of_arguments(L, from, LTIDE_NUMERAL);
  if (ns > 0) ltide_charge(L, ltide_bounding(L), ns);
}

static bool has_field(lua_State *L, int meta, const char *name) {
  lua_pushstring(L, name);
  bool has = lua_rawget(L, meta) != LUA_TNIL;
  lua_pop(L, 1);
  return has;
}

/* A table, or what has the metamethods to be used as one. */
static void check_table(lua_State *L, int arg, int uses) {
  if (lua_istable(L, arg)) return;
  bool is = lua_getmetatable(L, arg);
  int meta = lua_gettop(L);
  is = is && (!(uses & READS) || has_field(L, meta, "__index")) &&
       (!(uses & WRITES) || has_field(L, meta, "__newindex")) && (!(uses & HAS_LENGTH) || has_field(L, meta, "__len"));
  if (!is) luaL_checktype(L, arg, LUA_TTABLE);
  lua_settop(L, meta - 1);
}

static lua_Integer length_of(lua_State *L, int arg, int uses) {
  check_table(L, arg, uses | HAS_LENGTH);
  return luaL_len(L, arg);
}

/* Element `to` becomes what element `from` is. */
static void copy_element(lua_State *L, ltide_state *S, int source, lua_Integer from, int target, lua_Integer to) {
  ltide_steps(L, S, 4);
  lua_geti(L, source, from);
  lua_seti(L, target, to);
}

static int table_insert(lua_State *L) {
  lua_Integer end = (lua_Integer)((lua_Unsigned)length_of(L, 1, READS | WRITES) + 1), at = end;
  int n = lua_gettop(L);
  if (n != 2 && n != 3) return luaL_error(L, "wrong number of arguments to 'insert'");
  if (n == 3) {
    charge_arguments(L, 2);
    at = luaL_checkinteger(L, 2);
    luaL_argcheck(L, (lua_Unsigned)at - 1u < (lua_Unsigned)end, 2, "position out of bounds");
    for (lua_Integer i = end; i > at; i--) copy_element(L, ltide_bounding(L), 1, i - 1, 1, i);
  }
  if (at >= GROWS && (at & (at - 1)) == 0)
    ltide_charge(L, ltide_bounding(L), 25 * (double)at); /* the table is made anew */
  lua_seti(L, 1, at);
  return 0;
}

static int table_remove(lua_State *L) {
  charge_arguments(L, 2);
  lua_Integer size = length_of(L, 1, READS | WRITES), at = luaL_optinteger(L, 2, size);
  if (at != size) luaL_argcheck(L, (lua_Unsigned)at - 1u <= (lua_Unsigned)size, 2, "position out of bounds");
  lua_geti(L, 1, at);
  for (; at < size; at++) copy_element(L, ltide_bounding(L), 1, at + 1, 1, at);
  lua_pushnil(L);
  lua_seti(L, 1, at);
  return 1;
}

static int table_move(lua_State *L) {
  charge_arguments(L, 2);
  lua_Integer from = luaL_checkinteger(L, 2), end = luaL_checkinteger(L, 3), to = luaL_checkinteger(L, 4);
  int target = lua_isnoneornil(L, 5) ? 1 : 5;
  check_table(L, 1, READS);
  check_table(L, target, WRITES);
  if (end >= from) {
    luaL_argcheck(L, from > 0 || end < LUA_MAXINTEGER + from, 3, "too many elements to move");
    lua_Integer n = end - from + 1;
    luaL_argcheck(L, to <= LUA_MAXINTEGER - n + 1, 4, "destination wrap around");
    bool forward = to > end || to <= from || (target != 1 && !lua_compare(L, 1, target, LUA_OPEQ));
    for (lua_Integer i = 0; i < n; i++) {
      lua_Integer k = forward ? i : n - 1 - i;
      copy_element(L, ltide_bounding(L), 1, from + k, target, to + k);
    }
  }
  return lua_pushvalue(L, target), 1;
}

/* Bytes that are copied, perhaps into memory that is new. */
static void charge_copy(lua_State *L, size_t bytes) {
  if (bytes > 1 << 12) ltide_charge(L, ltide_bounding(L), (double)bytes);
}

static void add_element(lua_State *L, luaL_Buffer *out, lua_Integer i) {
  ltide_steps(L, ltide_bounding(L), 4);
  if (lua_geti(L, 1, i) != LUA_TSTRING && !lua_isstring(L, -1))
    luaL_error(L, "invalid value (%s) at index %I in table for 'concat'", luaL_typename(L, -1), i);
  ltide_grow(L, ltide_bounding(L), out, lua_rawlen(L, -1));
  luaL_addvalue(out);
}

static int table_concat(lua_State *L) {
  size_t n;
  lua_Integer length = length_of(L, 1, READS);
  charge_arguments(L, 3);
  const char *between = luaL_optlstring(L, 2, "", &n);
  lua_Integer i = luaL_optinteger(L, 3, 1), last = luaL_optinteger(L, 4, length);
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  for (; i < last; i++) {
    add_element(L, &out, i);
    ltide_grow(L, ltide_bounding(L), &out, n);
    luaL_addlstring(&out, between, n);
  }
  if (i == last) add_element(L, &out, i);
  charge_copy(L, luaL_bufflen(&out));
  luaL_pushresult(&out);
  return 1;
}

/* {==== table.sort: quicksort, by the median of three; what is compared stays on the stack */

static bool order_is_bytewise(void) {
  const char *locale = setlocale(LC_COLLATE, NULL);
  return !locale || !strcmp(locale, "C") || !strcmp(locale, "POSIX");
}

/* Long strings as Lua compares them, in pieces. */
static bool text_before(lua_State *L, int a, int b) {
  enum { PIECE = 1 << 14, SLOW = 100 };
  size_t n, m;
  const char *x = lua_tolstring(L, a, &n), *y = lua_tolstring(L, b, &m);
  size_t common = n < m ? n : m;
  if (!order_is_bytewise()) {
    ltide_charge(L, ltide_bounding(L), (double)common * SLOW);
    return lua_compare(L, a, b, LUA_OPLT);
  }
  for (size_t at = 0; at < common; at += PIECE) {
    int order = memcmp(x + at, y + at, common - at < PIECE ? common - at : PIECE);
    if (order) return order < 0;
    ltide_steps(L, ltide_bounding(L), PIECE / 16);
  }
  return n < m;
}

typedef struct sorter {
  lua_State *L;
  ltide_state *S;
  bool by_function, by_c;
} sorter;

/* Does the element at a come before that at b? Indexes from the top. */
static bool comes_before(const sorter *o, int a, int b) {
  enum { LONG = 128 };
  lua_State *L = o->L;
  ltide_steps(L, o->S, 4);
  if (!o->by_function) {
    bool is_long = lua_type(L, a) == LUA_TSTRING && lua_type(L, b) == LUA_TSTRING && lua_rawlen(L, a) > LONG &&
                   lua_rawlen(L, b) > LONG;
    return is_long ? text_before(L, a, b) : lua_compare(L, a, b, LUA_OPLT);
  }
  if (o->by_c) ltide_look(L, o->S); /* it may take long each time */
  lua_pushvalue(L, 2);
  lua_pushvalue(L, a - 1);
  lua_pushvalue(L, b - 2);
  lua_call(L, 2, 1);
  bool before = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return before;
}

/* Elements i and j become the two at the top, the upper one i; pops them. */
static void set_two(lua_State *L, lua_Integer i, lua_Integer j) {
  lua_seti(L, 1, i);
  lua_seti(L, 1, j);
}

static void sort_two(const sorter *o, lua_Integer i, lua_Integer j) {
  lua_State *L = o->L;
  lua_geti(L, 1, i);
  lua_geti(L, 1, j);
  if (comes_before(o, -1, -2))
    set_two(L, i, j);
  else
    lua_pop(L, 2);
}

/* Splits first to last, of which the middle one is at the top and at last - 1: what comes before it is in front then.
 * Gives its place, and pops it. */
static lua_Integer split(const sorter *o, lua_Integer first, lua_Integer last) {
  lua_State *L = o->L;
  lua_Integer i = first, j = last - 1;
  for (;;) {
    while (lua_geti(L, 1, ++i), comes_before(o, -1, -2)) {
      if (i == last - 1) luaL_error(L, "invalid order function for sorting");
      lua_pop(L, 1);
    }
    while (lua_geti(L, 1, --j), comes_before(o, -3, -1)) {
      if (j < i) luaL_error(L, "invalid order function for sorting");
      lua_pop(L, 1);
    }
    if (j < i) break;
    set_two(L, i, j);
  }
  lua_pop(L, 1);
  set_two(L, last - 1, i); /* the middle one and element i change places */
  return i;
}

static void sort_range(const sorter *o, lua_Integer first, lua_Integer last) {
  lua_State *L = o->L;
  luaL_checkstack(L, 16, "table.sort");
  while (first < last) {
    lua_Integer middle = first + (last - first) / 2;
    sort_two(o, first, last);
    if (last - first == 1) return;
    sort_two(o, first, middle);
    sort_two(o, middle, last);
    if (last - first == 2) return;
    lua_geti(L, 1, middle);
    lua_pushvalue(L, -1);
    lua_geti(L, 1, last - 1);
    set_two(L, middle, last - 1);
    middle = split(o, first, last);
    if (middle - first < last - middle) {
      sort_range(o, first, middle - 1);
      first = middle + 1;
    } else {
      sort_range(o, middle + 1, last);
      last = middle - 1;
    }
  }
}

static int table_sort(lua_State *L) {
  lua_Integer n = length_of(L, 1, READS | WRITES);
  if (n > 1) {
    luaL_argcheck(L, n < INT_MAX, 1, "array too big");
    if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    const sorter o = {L, ltide_bounding(L), !lua_isnil(L, 2), lua_iscfunction(L, 2)};
    sort_range(&o, 1, n);
  }
  return 0;
}

static int table_unpack(lua_State *L) {
  charge_arguments(L, 2);
  lua_Integer from = luaL_optinteger(L, 2, 1), end = lua_isnoneornil(L, 3) ? luaL_len(L, 1) : luaL_checkinteger(L, 3);
  if (from > end) return 0;
  lua_Unsigned n = (lua_Unsigned)end - (lua_Unsigned)from;
  if (n >= INT_MAX || !lua_checkstack(L, (int)++n)) return luaL_error(L, "too many results to unpack");
  ltide_charge(L, ltide_bounding(L), 20 * (double)n);
  for (lua_Unsigned i = 0; i < n; i++) lua_geti(L, 1, from + (lua_Integer)i);
  return (int)n;
}

/* {==== The rest */

static int call_original(lua_State *L) {
  ltide_insert_upvalue(L, 2);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* Of nothing, however often, nothing. */
static int string_rep(lua_State *L) {
  size_t length, between;
  charge_arguments(L, 2);
  luaL_checklstring(L, 1, &length);
  lua_Integer n = luaL_checkinteger(L, 2);
  luaL_optlstring(L, 3, "", &between);
  if (n <= 0 || length + between == 0) return lua_pushliteral(L, ""), 1;
  if (length + between > (size_t)(LUA_MAXINTEGER / n)) return luaL_error(L, "resulting string too large");
  if (n == 1) return lua_settop(L, 1), lua_tostring(L, 1), 1;
  size_t unit = length + between, total = unit * (size_t)n - between;
  luaL_Buffer out;
  charge_copy(L, 2 * total);
  char *text = luaL_buffinitsize(L, &out, total);
  memcpy(text, lua_tostring(L, 1), length);
  if (between) memcpy(text + length, lua_tostring(L, 3), between);
  for (size_t done = unit; done < total;) { /* what is there, again and again */
    size_t more = total - done < done ? total - done : done;
    memcpy(text + done, text, more);
    done += more;
  }
  luaL_pushresultsize(&out, total);
  return 1;
}

typedef struct writing {
  luaL_Buffer out;
  ltide_state *S;
} writing;

static int write_piece(lua_State *L, const void *bytes, size_t size, void *user) {
  writing *w = user;
  ltide_charge(L, w->S, 20);
  ltide_grow(L, w->S, &w->out, size);
  luaL_addlstring(&w->out, bytes, size);
  return 0;
}

static int string_dump(lua_State *L) {
  writing w = {.S = ltide_bounding(L)};
  bool strips = lua_toboolean(L, 2);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  if (lua_iscfunction(L, 1)) return luaL_error(L, "unable to dump given function");
  luaL_buffinit(L, &w.out);
  lua_pushvalue(L, 1);
  lua_dump(L, write_piece, &w, strips);
  charge_copy(L, luaL_bufflen(&w.out));
  luaL_pushresult(&w.out);
  return 1;
}

/* {==== collectgarbage
 *
 * Cycles are made in steps, between which the quotas are looked at. How it works is the host's to choose: a script that
 * changed it could have single steps take as long as a cycle. */

enum { STEP_KIB = 64 };

/* Until a cycle ends, or so many steps were made. */
static bool collect_steps(lua_State *L, int64_t steps, int kib) {
  for (; steps > 0; steps--) {
    int ended = lua_gc(L, LUA_GCSTEP, kib);
    ltide_look(L, ltide_bounding(L));
    if (ended) return true;
  }
  return false;
}

/* The first cycle may have begun before something became garbage. By generations none ends. */
static void collect_all(lua_State *L) {
  int64_t most = 1000 + 4 * (int64_t)lua_gc(L, LUA_GCCOUNT);
  if (!collect_steps(L, most, 0) || !collect_steps(L, most, 0)) lua_gc(L, LUA_GCCOLLECT);
}

/* The count may be a string; the other arguments are only passed on. */
static int base_select(lua_State *L) {
  enum { LONG = 1 << 12 };
  size_t length = lua_type(L, 1) == LUA_TSTRING ? lua_rawlen(L, 1) : 0;
  if (length >= LONG) ltide_charge(L, ltide_bounding(L), (double)length * LTIDE_NUMERAL / 16);
  lua_CFunction original = lua_tocfunction(L, lua_upvalueindex(2));
  return original ? original(L) : call_original(L); /* the host's */
}

static int base_collectgarbage(lua_State *L) {
  static const char *const options[] = {"stop",       "restart",   "collect",      "count",       "step", "setpause",
                                        "setstepmul", "isrunning", "generational", "incremental", NULL};
  charge_arguments(L, 1);
  const char *option = options[luaL_checkoption(L, 1, "collect", options)];
  ltide_look(L, ltide_bounding(L));
  if (!strcmp(option, "collect")) {
    collect_all(L);
    return lua_pushinteger(L, 0), 1;
  }
  if (!strcmp(option, "step")) {
    lua_Integer kib = luaL_optinteger(L, 2, 0);
    bool ended = collect_steps(L, kib / STEP_KIB + 1, kib < STEP_KIB ? (int)(kib > 0 ? kib : 0) : STEP_KIB);
    return lua_pushboolean(L, ended), 1;
  }
  if (!strncmp(option, "set", 3)) return lua_pushinteger(L, luaL_optinteger(L, 2, 0)), 1;
  if (strstr(option, "al")) return lua_pushliteral(L, "incremental"), 1;
  return call_original(L);
}

/* In the table of that name, if it is there. */
static void bound(lua_State *L, ltide_state *S, const char *library, const luaL_Reg *by) {
  if (lua_getglobal(L, library) == LUA_TTABLE)
    for (; by->name; by++) {
      lua_pushstring(L, by->name);
      if (lua_rawget(L, -2) == LUA_TFUNCTION) {
        lua_pushlightuserdata(L, S);
        lua_insert(L, -2);
        lua_pushcclosure(L, by->func, 2);
        lua_setfield(L, -2, by->name);
      } else
        lua_pop(L, 1);
    }
  lua_pop(L, 1);
}

void ltide_bound_library(lua_State *L, ltide_state *S) {
  static const luaL_Reg table[] =
      {{"insert", table_insert}, {"remove", table_remove}, {"move", table_move}, {"concat", table_concat},
       {"sort", table_sort},     {"unpack", table_unpack}, {NULL, NULL}},
                        string[] = {{"rep", string_rep}, {"dump", string_dump}, {NULL, NULL}},
                        base[] = {{"collectgarbage", base_collectgarbage}, {"select", base_select}, {NULL, NULL}};
  bound(L, S, LUA_GNAME, base);
  bound(L, S, LUA_TABLIBNAME, table);
  bound(L, S, LUA_STRLIBNAME, string);
  bound(L, S, LUA_STRLIBNAME, ltide_patterns);
  ltide_charge_library(L);
}
#endif
