/* lua_cost.c: charges what functions of Lua's library take by the length of their arguments before they run, and ends
 * the script where the rest of its time cannot pay for it (lua_cost.def).
 *
 * Each row has a function of its own, which takes the place of Lua's, and has its upvalues: so it calls it as a
 * function of C, which costs a few nanoseconds. Where a host has put another function in its place, that one stays.
 *
 * Invariant: what is charged is at least what the function takes, on a core that is not much slower than those that the
 * rates were measured on. */
#include "interruptible_stdlib.h"
#include "call/error.h"

#if !LTIDE_FFI

enum {
  NUMERAL = LTIDE_NUMERAL,
  LONG = 1 << 12,
  MANY = 250,
  INSTRUCTION = 4
}; /* nanoseconds; bytes; values; nanoseconds */

typedef struct cost {
  const char *library, *name;
  int from, rate, per_value;
  double (*more)(lua_State *L, ltide_state *S);
  _Atomic(lua_CFunction) original;
} cost;

void ltide_charge(lua_State *L, ltide_state *S, double nanoseconds) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  enum { CHECKED = 200000 };
  if (!S || !S->quota) return;
  q->steps += (size_t)(nanoseconds / INSTRUCTION);
  if (nanoseconds >= CHECKED)
    ltide_try(L, tide_quota_afford(S->quota, (int64_t)(nanoseconds < 1e15 ? nanoseconds / 1000 : 1e12)));
  if (q->steps >= LTIDE_LOOK) ltide_look(L, S);
}

/* A table's __name is in the message about a wrong argument, and in its text. */
static size_t name_length(lua_State *L, int arg) {
  size_t length = 0;
  if (lua_type(L, arg) != LUA_TTABLE || !lua_getmetatable(L, arg)) return 0;
  lua_pushliteral(L, "__name");
  if (lua_rawget(L, -2) == LUA_TSTRING) length = lua_rawlen(L, -1);
  lua_pop(L, 2);
  return length;
}

double ltide_cost_of_arguments(lua_State *L, int from, int rate) {
  double ns = 0;
  int n = lua_gettop(L);
  for (int i = 1; i <= n; i++) {
    int type = lua_type(L, i);
    if (type == LUA_TSTRING && i >= from) {
      size_t length = lua_rawlen(L, i);
      if (length >= LONG) ns += (double)length * rate / 16;
    } else if (type == LUA_TTABLE && lua_checkstack(L, 2))
      ns += 4 * (double)name_length(L, i);
  }
  return ns;
}

/* {==== Costs by value */

static size_t length_of(lua_State *L, int arg) { return lua_type(L, arg) == LUA_TSTRING ? lua_rawlen(L, arg) : 0; }

/* The integer that an argument is, without reading a string as one. */
static lua_Integer integer_of(lua_State *L, int arg, lua_Integer other) {
  return lua_type(L, arg) == LUA_TNUMBER ? lua_tointeger(L, arg) : other;
}

static double between(lua_Integer first, lua_Integer last, size_t length) {
  if (first < 0) first = -first > (lua_Integer)length ? 1 : (lua_Integer)length + first + 1;
  if (last < 0) last = -last > (lua_Integer)length ? 0 : (lua_Integer)length + last + 1;
  if (first < 1) first = 1;
  if (last > (lua_Integer)length) last = (lua_Integer)length;
  return last < first ? 0 : (double)(last - first + 1);
}

static double sub_cost(lua_State *L, ltide_state *S) {
  size_t length = length_of(L, 1);
  if (length < LONG) return 0;
  return between(integer_of(L, 2, 1), integer_of(L, 3, -1), length);
}

/* Of string.byte and utf8.codepoint: a value for each byte. */
static double byte_cost(lua_State *L, ltide_state *S) {
  size_t length = length_of(L, 1);
  if (length < LONG || lua_gettop(L) < 3) return 0;
  return 40 * between(integer_of(L, 2, 1), integer_of(L, 3, -1), length);
}

static double utf8_cost(lua_State *L, ltide_state *S) { return 12 * (double)length_of(L, 1); }

/* Characters that %q writes as numbers, one by one. */
static double quoted_cost(lua_State *L, ltide_state *S, int arg) {
  enum { PIECE = 1 << 14 };
  size_t length, odd = 0;
  const char *text = lua_tolstring(L, arg, &length);
  for (size_t i = 0; i < length; i++) {
    odd += (unsigned char)text[i] < 32 || text[i] == 127;
    if (i % PIECE == 0) ltide_steps(L, S, PIECE / 4);
  }
  return 8 * (double)length + 150 * (double)odd;
}

static double format_cost(lua_State *L, ltide_state *S) {
  size_t length = length_of(L, 1);
  if (length >= LONG) ltide_charge(L, S, 6 * (double)length); /* it is read here, too */
  const char *text = length ? lua_tostring(L, 1) : "", *end = text + length;
  bool quotes = false;
  double ns = length < LONG ? 6 * (double)length : 0;
  int n = lua_gettop(L);
  for (const char *mark = text; (mark = memchr(mark, '%', (size_t)(end - mark))) != NULL && mark + 1 < end; mark += 2) {
    const char *kind = mark + 1 + strspn(mark + 1, "-+ #0123456789.");
    quotes |= *kind == 'q';
    ns += *kind == '%' ? 4 : strchr("aAeEfFgG", *kind) && *kind ? 4000 : 600;
  }
  for (int i = 2; i <= n; i++)
    if (length_of(L, i) >= LONG) ns += quotes ? quoted_cost(L, S, i) : 4 * (double)length_of(L, i);
  return ns;
}

/* A format's numbers are sizes: "c1000" writes as many bytes. */
static double pack_cost(lua_State *L, ltide_state *S) {
  size_t length = length_of(L, 1);
  const char *text = length ? lua_tostring(L, 1) : "";
  double ns = 0, number = 0;
  if (length >= LONG) ltide_charge(L, S, 40 * (double)length); /* it is read here, too */
  for (size_t i = 0; i <= length; i++) {
    bool is_digit = i < length && text[i] >= '0' && text[i] <= '9';
    if (is_digit)
      number = 10 * number + (text[i] - '0');
    else if (number != 0)
      ns += 5 * (number < 1e10 ? number : 0), number = 0;
  }
  return ns < LONG ? 0 : ns;
}

static double unpack_cost(lua_State *L, ltide_state *S) {
  size_t length = length_of(L, 1);
  return length < LONG ? 0 : 60 * (double)length;
}

/* {==== In the places of Lua's */

static bool is_quick(lua_State *L, int n) {
  for (int i = 1; i <= n; i++) {
    int type = lua_type(L, i);
    if (type == LUA_TSTRING ? lua_rawlen(L, i) >= LONG : type == LUA_TTABLE) return false;
  }
  return n <= MANY;
}

static void charge(lua_State *L, const cost *c) {
  int n = lua_gettop(L);
  ltide_state *S = ltide_state_of(L);
  double ns = ltide_cost_of_arguments(L, c->from, c->rate) + (n > MANY ? (double)n * c->per_value : 0);
  if (c->more) ns += c->more(L, S);
  if (ns > 0) ltide_charge(L, S, ns);
}

static int run(lua_State *L, cost *c) {
  int n = lua_gettop(L);
  if (c->more == pack_cost || n > MANY || !is_quick(L, n)) charge(L, c);
  return atomic_load_explicit(&c->original, memory_order_relaxed)(L);
}

#  define COST(library, name, from, rate, per_value, more) ROW_##library##name,
enum {
#  include "lua_cost.def"
  ROWS
};
#  undef COST
#  define COST(library, name, from, rate, per_value, more) {#  library, #  name, from, rate, per_value, more, NULL},
static cost rows[] = {
#  include "lua_cost.def"
};
#  undef COST
#  define COST(library, name, from, rate, per_value, more)                                                             \
    static int library##_##name(lua_State *L) { return run(L, &rows[ROW_##library##name]); }
#  include "lua_cost.def"
#  undef COST
#  define COST(library, name, from, rate, per_value, more) library##_##name,
static const lua_CFunction functions[] = {
#  include "lua_cost.def"
};

/* Replaces the function at the top, with its upvalues. */
static void replace(lua_State *L, int row) {
  lua_CFunction fn = lua_tocfunction(L, -1), none = NULL;
  int top = lua_gettop(L), n = 0;
  if (fn == functions[row]) return;
  if (!fn || (!atomic_compare_exchange_strong(&rows[row].original, &none, fn) && none != fn)) return;
  luaL_checkstack(L, 8, "tide");
  while (n < 4 && lua_getupvalue(L, top, n + 1)) n++;
  lua_pushcclosure(L, functions[row], n);
}

void ltide_charge_library(lua_State *L) {
  int top = lua_gettop(L);
  for (int i = 0; i < ROWS; i++, lua_settop(L, top)) {
    if (strcmp(rows[i].library, "meta")) {
      lua_getglobal(L, rows[i].library);
    } else {
      lua_pushliteral(L, "");
      if (!lua_getmetatable(L, -1)) continue;
    }
    if (!lua_istable(L, -1)) continue;
    lua_pushstring(L, rows[i].name);
    if (lua_rawget(L, -2) != LUA_TFUNCTION) continue;
    replace(L, i);
    lua_pushstring(L, rows[i].name);
    lua_insert(L, -2);
    lua_rawset(L, top + (strcmp(rows[i].library, "meta") ? 1 : 2));
  }
}

#endif
