/* args.c: sizes, dims, indexes, options and scalars of a call. The one place where index bases are converted.
 *
 * Scripts count from 1 and from -1 backwards, core counts from 0; an index is checked here, so that messages speak the
 * script's numbers. Numbers in strings are refused, since "2" for a size is a slip more often than a wish. Nothing here
 * keeps a value on the stack: what an option holds stays alive in its table, which is an argument. */

#include "args.h"
#include "did_you_mean.h"

/* {==== The shape of a call */

bool ltide_is_options(lua_State *L, int arg) {
  if (!lua_istable(L, arg) || lua_rawlen(L, arg) > 0) return false;
  arg = lua_absindex(L, arg);
  lua_pushnil(L);
  if (!lua_next(L, arg)) return false;
  lua_pop(L, 2);
  return true;
}

static bool is_empty_table(lua_State *L, int arg) {
  lua_pushnil(L);
  if (!lua_next(L, arg)) return true;
  lua_pop(L, 2);
  return false;
}

ltide_args ltide_split(lua_State *L, int min) {
  int top = lua_gettop(L);
  while (top && lua_isnil(L, top)) lua_settop(L, --top);
  if (!top || !lua_istable(L, top) || lua_rawlen(L, top) > 0) return (ltide_args){top, 0};
  if (ltide_plain_shape(L, top)) return (ltide_args){top, 0};
  if (is_empty_table(L, top) && top <= min) return (ltide_args){top, 0};
  return (ltide_args){top - 1, top};
}

void ltide_check_count(lua_State *L, ltide_args a, int most) {
  if (a.n > most) {
    const char *got = ltide_typename(L, most + 1), *hint = ltide_arg_hint(L, most + 1, ""), *usage = ltide_usage(L);
    if (!*hint && usage && !ltide_is_module(L, 1)) hint = lua_pushfstring(L, "; %s", usage);
    ltide_fail(L, "ArgumentError", "too many arguments: got %s as argument %d, expected at most %d and options%s", got,
               most + 1, most, hint);
  }
}

void ltide_refuse_beyond(lua_State *L, int most) {
  static const char *const none[] = {NULL};
  ltide_args a = ltide_split(L, most);
  ltide_check_count(L, a, most);
  ltide_check_keys(L, a.opts, none);
}

/* Are these NumPy's name of an option and ours? */
static bool is_numpy_name(const char *key, const char *ours) {
  return (!strcmp(key, "axis") || !strcmp(key, "axes")) && (!strcmp(ours, "dim") || !strcmp(ours, "dims"));
}

void ltide_check_keys(lua_State *L, int arg, const char *const *keys) {
  if (!arg) return;
  for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
    const char *const *k = keys;
    while (key && *k && strcmp(*k, key)) k++;
    if (key && *k) continue;
    const char *got = key ? key : ltide_typename(L, -2);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (k = keys; *k; k++) luaL_addstring(&b, k == keys ? "" : ", "), luaL_addstring(&b, *k);
    luaL_pushresult(&b);
    const char *accepted = lua_tostring(L, -1);
    ltide_nearest near = {.wanted = got};
    for (k = keys; *k; k++) ltide_nearest_try(&near, *k);
    for (k = keys; *k && !near.name; k++) near.name = key && is_numpy_name(key, *k) ? *k : NULL;
    const char *instead = key ? ltide_instead(key, LTIDE_OF_ANY) : NULL;
    const char *usage = near.name ? NULL : ltide_usage(L), *meant = usage ? lua_pushfstring(L, "; %s", usage) : "";
    if (instead)
      meant = lua_pushfstring(L, "; %s", instead);
    else if (near.name)
      meant = lua_pushfstring(L, ", did you mean %s?", near.name);
    ltide_fail(L, "ArgumentError", "unknown option '%s', expected %s%s", got, *accepted ? accepted : "no options",
               meant);
  }
}

/* {==== Single values */

int64_t ltide_check_integer(lua_State *L, int arg, const char *name) {
  int is_integer = 0;
  lua_Integer i = lua_type(L, arg) == LUA_TNUMBER ? lua_tointegerx(L, arg, &is_integer) : 0;
  if (!is_integer) ltide_arg_error(L, arg, name, "an integer");
  return i;
}

double ltide_check_number(lua_State *L, int arg, const char *name) {
  if (lua_type(L, arg) != LUA_TNUMBER) ltide_arg_error(L, arg, name, "a number");
  return lua_tonumber(L, arg);
}

bool ltide_check_boolean(lua_State *L, int arg, const char *name) {
  if (!lua_isboolean(L, arg)) ltide_arg_error(L, arg, name, "true or false");
  return lua_toboolean(L, arg);
}

bool ltide_test_scalar(lua_State *L, int arg, tide_scalar *out) {
  switch (lua_type(L, arg)) {
  case LUA_TNUMBER:
    *out = lua_isinteger(L, arg) ? tide_int(lua_tointeger(L, arg)) : tide_float(0);
    out->re = lua_tonumber(L, arg); /* in LuaJIT an integer may be -0. */
    return true;
  case LUA_TBOOLEAN: *out = tide_bool(lua_toboolean(L, arg)); return true;
  default: return false;
  }
}

tide_scalar ltide_check_scalar(lua_State *L, int arg, const char *name) {
  tide_scalar s = {0};
  if (!ltide_test_scalar(L, arg, &s)) ltide_arg_error(L, arg, name, "a number or a boolean");
  return s;
}

void ltide_push_scalar(lua_State *L, tide_scalar s) {
  if (s.kind == 'B')
    lua_pushboolean(L, s.i != 0);
  else if (s.kind == 'F' || s.kind == 'C')
    lua_pushnumber(L, s.re);
  else
    lua_pushinteger(L, s.i);
}

void ltide_check_operand(lua_State *L, ltide_state *S, int arg, tide_operand *out, const char *name) {
  if (ltide_test_scalar(L, arg, &out->number)) {
    out->tensor = NULL;
    return;
  }
  out->tensor = ltide_test_handle(L, S, arg) ? ltide_check_tensor(L, S, arg, name) : NULL;
  if (!out->tensor) ltide_arg_error(L, arg, name, "a tensor or a number");
}

/* {==== Dimensions and indexes: as the caller counts to from 0 */

/* Behind a message about a 0 where that is no place. */
static const char *count_hint(int64_t got, int base) {
  return got || !base ? "" : "; indexes and dimensions count from 1";
}

static int dim_of(lua_State *L, int64_t dim, int ndim, const char *name) {
  int base = ltide_base(L);
  int64_t d = dim < 0 ? dim + ndim : dim - base;
  if (d < 0 || d >= ndim) {
    if (!ndim)
      ltide_fail(L, "IndexError", "%s: got %I, but the tensor has no dimensions%s", name, (lua_Integer)dim,
                 count_hint(dim, base));
    ltide_fail(L, "IndexError", "%s: got %I, expected %d to %d or -%d to -1%s", name, (lua_Integer)dim, base,
               ndim - 1 + base, ndim, count_hint(dim, base));
  }
  return (int)d;
}

int ltide_check_dim(lua_State *L, int arg, int ndim, const char *name) {
  return dim_of(L, ltide_check_integer(L, arg, name), ndim, name);
}

int64_t ltide_index(lua_State *L, int64_t index, int64_t n, const char *name) {
  int base = ltide_base(L);
  int64_t i = index < 0 ? index + n : index - base;
  if (i < 0 || i >= n) {
    if (!n) ltide_fail(L, "IndexError", "%s: got %I, but the dimension is empty", name, (lua_Integer)index);
    ltide_fail(L, "IndexError", "%s: got %I, expected %d to %I or -%I to -1%s", name, (lua_Integer)index, base,
               (lua_Integer)(n - 1 + base), (lua_Integer)n, count_hint(index, base));
  }
  return i;
}

void ltide_check_range(lua_State *L, int64_t first, int64_t last, int64_t n, int64_t *start, int64_t *length) {
  int base = ltide_base(L);
  int64_t a = first < 0 ? first + n : first - base, b = last < 0 ? last + n : last - base;
  /* {k, k-1} is an empty range, also where k-1 is 0, but not where that is -1, the end. */
  bool is_empty = first > 0 && last == first - 1 && a <= n;
  if (is_empty) b = a - 1;
  bool is_bad = a < 0 || (a >= n && !is_empty) || b >= n || b < a - 1 || (base && !last && !is_empty);
  if (is_bad)
    ltide_fail(L, "IndexError",
               "range: got %I to %I of a dimension of %I, expected both within %d to %I (or from the end), in order%s",
               (lua_Integer)first, (lua_Integer)last, (lua_Integer)n, base, (lua_Integer)(n - 1 + base),
               count_hint(first && last, base));
  *start = a, *length = b - a + 1;
}

/* {==== Lists of integers */

/* What follows the last value, but for the n of table.pack, which counts the values, is looked at, no more: enough for
 * a table that was written out. */
void ltide_check_unnamed(lua_State *L, int arg, lua_Integer n, const char *name) {
  arg = lua_absindex(L, arg);
  bool is_n = true;
  for (lua_pushinteger(L, n); is_n && lua_next(L, arg); lua_pop(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
    is_n = key && !strcmp(key, "n") && lua_isinteger(L, -1) && lua_tointeger(L, -1) == n;
    if (key && !is_n)
      ltide_fail(L, "ArgumentError", "%s: got '%s' among the values, expected options in a table of their own", name,
                 key);
  }
  if (!is_n) lua_pop(L, 1);
}

int ltide_check_integers(lua_State *L, int arg, int64_t *out, int most, const char *name) {
  if (!lua_istable(L, arg)) {
    out[0] = ltide_check_integer(L, arg, name);
    return 1;
  }
  ltide_plain_shape(L, arg);
  lua_Unsigned n = lua_rawlen(L, arg);
  if (n > (lua_Unsigned)most)
    ltide_fail(L, "ValueError", "%s: got %I values, expected at most %d", name, (lua_Integer)n, most);
  if (!n && !is_empty_table(L, lua_absindex(L, arg)))
    ltide_fail(L, "ArgumentError", "%s: got a table with keys and no array part, expected a table of integers", name);
  for (lua_Unsigned i = 1; i <= n; i++) {
    lua_rawgeti(L, arg, (lua_Integer)i);
    out[i - 1] = ltide_check_integer(L, -1, name);
    lua_pop(L, 1);
  }
  if (n) ltide_check_unnamed(L, arg, (lua_Integer)n, name);
  return (int)n;
}

/* Integers at first..n of the stack, or one table there. */
static int integers_between(lua_State *L, int first, int n, int64_t *out, const char *name) {
  bool is_table = lua_istable(L, first);
  if (n == first && is_table) return ltide_check_integers(L, first, out, TIDE_MAX_DIMS, name);
  if (is_table && !ltide_is_module(L, first)) ltide_arg_error(L, first + 1, name, "one table and options");
  if (n - first + 1 > TIDE_MAX_DIMS)
    ltide_fail(L, "ValueError", "%s: got %d values, expected at most %d", name, n - first + 1, TIDE_MAX_DIMS);
  for (int i = first; i <= n; i++) out[i - first] = ltide_check_integer(L, i, name);
  return n - first + 1;
}

int ltide_check_sizes(lua_State *L, int first, int n, int64_t *size, const char *name, int64_t least) {
  if (n < first) ltide_arg_error(L, first, name, "integers or a table of integers ({} for no dimensions)");
  int ndim = integers_between(L, first, n, size, name);
  for (int d = 0; d < ndim; d++)
    if (size[d] < least)
      ltide_fail(L, "ValueError", "%s: got %I in place %d, expected at least %I", name, (lua_Integer)size[d], d + 1,
                 (lua_Integer)least);
  return ndim;
}

static int to_dims(lua_State *L, const int64_t *values, int n, int ndim, int *dims, const char *name) {
  for (int i = 0; i < n; i++) dims[i] = dim_of(L, values[i], ndim, name);
  return n;
}

int ltide_check_dims(lua_State *L, int arg, int ndim, int *dims, const char *name) {
  int64_t values[TIDE_MAX_DIMS];
  return to_dims(L, values, ltide_check_integers(L, arg, values, TIDE_MAX_DIMS, name), ndim, dims, name);
}

int ltide_check_dim_list(lua_State *L, int first, int n, int ndim, int *dims, const char *name) {
  int64_t values[TIDE_MAX_DIMS];
  if (n < first) ltide_arg_error(L, first, name, "dimensions or a table of them");
  return to_dims(L, values, integers_between(L, first, n, values, name), ndim, dims, name);
}

/* {==== Lists of objects */

int ltide_check_list(lua_State *L, int arg, int most, const char *name, const char *of) {
  char expected[64];
  snprintf(expected, sizeof expected, "a table of %s", of);
  if (!lua_istable(L, arg)) ltide_arg_error(L, arg, name, expected);
  lua_Unsigned n = lua_rawlen(L, arg);
  if (!n && ltide_is_options(L, arg)) ltide_arg_error(L, arg, name, expected);
  if (n > (lua_Unsigned)most)
    ltide_fail(L, "ValueError", "%s: got %I entries, expected at most %d", name, (lua_Integer)n, most);
  if (n) ltide_check_unnamed(L, arg, (lua_Integer)n, name);
  return (int)n;
}

void ltide_check_tensors(lua_State *L, ltide_state *S, int arg, tide_tensor **out, int n, const char *name) {
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, arg, i + 1);
    ltide_tensor *u = ltide_test_handle(L, S, -1);
    if (!u || !u->t) {
      const char *got = u ? "a freed tensor" : ltide_typename(L, -1);
      ltide_fail(L, u ? "StateError" : "ArgumentError", "%s[%d]: got %s, expected a tensor%s", name, i + 1, got,
                 u ? " that is alive" : "");
    }
    out[i] = u->t;
    ltide_hold_tensor(L, S, u->t);
    lua_pop(L, 1);
  }
}

/* {==== Options */

bool ltide_push_option(lua_State *L, int opts, const char *key) {
  if (!opts) return false;
  lua_pushstring(L, key);
  if (lua_rawget(L, opts) != LUA_TNIL) return true;
  lua_pop(L, 1);
  return false;
}

bool ltide_opt_boolean(lua_State *L, int opts, const char *key, bool otherwise) {
  if (!ltide_push_option(L, opts, key)) return otherwise;
  bool b = ltide_check_boolean(L, -1, key);
  lua_pop(L, 1);
  return b;
}

double ltide_opt_number(lua_State *L, int opts, const char *key, double otherwise) {
  if (!ltide_push_option(L, opts, key)) return otherwise;
  double x = ltide_check_number(L, -1, key);
  lua_pop(L, 1);
  return x;
}

bool ltide_opt_scalar(lua_State *L, int opts, const char *key, tide_scalar *out) {
  if (!ltide_push_option(L, opts, key)) return false;
  *out = ltide_check_scalar(L, -1, key);
  lua_pop(L, 1);
  return true;
}

/* A destination that a table holds. One without elements may be given another size. */
tide_tensor *ltide_check_destination(lua_State *L, ltide_state *S, int arg, const char *key) {
  if (!tide_tensor_numel(ltide_check_tensor(L, S, arg, key))) ltide_unshare(L, S, lua_touserdata(L, arg));
  tide_tensor *out = ltide_check_tensor(L, S, arg, key);
  ltide_hold_tensor(L, S, out);
  return out;
}

tide_tensor *ltide_opt_tensor(lua_State *L, ltide_state *S, int opts, const char *key) {
  if (!ltide_push_option(L, opts, key)) return NULL;
  tide_tensor *x = ltide_check_destination(L, S, -1, key);
  lua_pop(L, 1);
  return x;
}

static tide_dtype opt_dtype(lua_State *L, int opts) {
  if (!ltide_push_option(L, opts, "dtype")) return TIDE_DTYPE_NONE;
  tide_dtype dtype = ltide_check_dtype(L, -1, "dtype");
  lua_pop(L, 1);
  return dtype;
}

/* A factory's destination says the dtype and the device; what the options say has to agree. */
static void read_out(lua_State *L, int opts, tide_options *o) {
  if (!ltide_push_option(L, opts, "out")) return;
  const tide_tensor *out = ltide_check_tensor(L, ltide_enter(L), -1, "out");
  tide_dtype dtype = opt_dtype(L, opts);
  if (dtype != TIDE_DTYPE_NONE && dtype != tide_tensor_dtype(out))
    ltide_fail(L, "DtypeError", "out: got %s beside dtype %s, expected the same",
               tide_dtype_name(tide_tensor_dtype(out)), tide_dtype_name(dtype));
  int device = tide_tensor_device(out);
  bool is_given = ltide_push_option(L, opts, "device"),
       is_any = is_given && o->device == TIDE_CURRENT && device != TIDE_CPU;
  if (is_given) lua_pop(L, 1);
  if (is_given && !is_any && o->device != device)
    ltide_fail(L, "DeviceError", "out: it is on another device than device= says");
  o->dtype = tide_tensor_dtype(out), o->device = device;
  lua_pop(L, 1);
}

void ltide_opt_options(lua_State *L, int opts, tide_options *o) {
  if (!opts) return;
  tide_dtype dtype = opt_dtype(L, opts);
  if (dtype != TIDE_DTYPE_NONE) o->dtype = dtype;
  if (ltide_push_option(L, opts, "device")) {
    o->device = ltide_check_device(L, lua_gettop(L), "device", LTIDE_CPU_OK);
    lua_pop(L, 1);
  }
  o->pin_memory = ltide_opt_boolean(L, opts, "pin_memory", o->pin_memory);
  read_out(L, opts, o);
}

void ltide_check_out(lua_State *L, ltide_state *S, int opts, int n) {
  if (!ltide_push_option(L, opts, "out")) return;
  if (n > 1 && (!lua_istable(L, -1) || lua_rawlen(L, -1) != (lua_Unsigned)n))
    ltide_arg_error(L, lua_gettop(L), "out", "a table of a tensor for each result");
  for (int i = 1; n > 1 && i <= n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, -1, i);
    ltide_check_tensor(L, S, -1, "out");
    for (int k = 1; k < i; k++, lua_pop(L, 1))
      if (lua_rawgeti(L, -2, k), lua_rawequal(L, -1, -2))
        ltide_fail(L, "ValueError", "out[%d]: got the tensor of out[%d], expected another one", i, k);
  }
  if (n == 1) ltide_check_tensor(L, S, -1, "out");
  lua_pop(L, 1);
}
