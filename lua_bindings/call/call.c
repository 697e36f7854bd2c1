/* call.c: the arguments of a call, read by the row of the function that runs.
 *
 * The receiver or the first tensor is checked first, then how many arguments there are and the names of the options,
 * then every parameter in the order of the signature: the argument at its place, what the options hold under its name,
 * or the default. What is taken out of the options stays on the stack until the function ends, so that it lives. */

#include "row.h"
#include "scope.h"
#include "block.h"

/* The names that are accepted, with another word in the place of one where that is used. */
static void check_keys(lua_State *L, const ltide_call *c) {
  const char *keys[LTIDE_MOST_PARAMS + 1];
  int n = 0;
  for (const char *const *k = c->sig->keys; *k; k++) {
    const char *other = ltide_other_word(*k);
    bool is_other = false;
    if (other && !ltide_push_option(L, c->opts, *k)) is_other = ltide_push_option(L, c->opts, other);
    if (other) lua_settop(L, c->opts);
    keys[n++] = is_other ? other : *k;
  }
  keys[n] = NULL;
  ltide_check_keys(L, c->opts, keys);
}

static bool has_options(const ltide_sig *sig) { return sig->count > sig->positional; }

/* Is the last argument none of options: may any number follow, or is it the one that the first parameter takes? */
static bool is_value(lua_State *L, const ltide_sig *sig) {
  if (sig->is_open && !has_options(sig)) return true;
  int top = lua_gettop(L);
  if (top > 0 && top <= sig->positional && sig->param[top - 1].kind == LTIDE_TREE) return true;
  bool takes = sig->positional && (sig->param[0].kind == LTIDE_ANY || sig->param[0].kind == LTIDE_TABLE);
  return takes && lua_istable(L, 1) && lua_isnoneornil(L, 2) && top <= sig->positional;
}

/* An empty table stands for options, where there are any, once all that is required stands before it. */
static void split(lua_State *L, ltide_call *c) {
  int least = has_options(c->sig) ? c->sig->last : c->sig->positional;
  ltide_args a = is_value(L, c->sig) ? (ltide_args){lua_gettop(L), 0} : ltide_split(L, least);
  c->n = a.n, c->opts = a.opts;
  bool is_rest = c->sig->positional && c->sig->param[c->sig->positional - 1].is_rest;
  if (!is_rest && !c->sig->is_open) ltide_check_count(L, a, c->sig->positional);
  if (c->opts) check_keys(L, c);
}

static const ltide_row *own_row(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(1)); }

static inline void begin(lua_State *L, ltide_call *c, const ltide_row *row) {
  c->S = ltide_begin(L);
  c->row = row;
  c->sig = c->row ? ltide_row_sig(c->row) : NULL;
  c->lists = 0;
  c->x = c->into = NULL;
  if (!c->sig) ltide_fail(L, "StateError", "it has no signature that fits what it calls");
}

void ltide_call_begin(lua_State *L, ltide_call *c) {
  begin(L, c, own_row(L));
  split(L, c);
}

/* {==== One parameter */

/* Dimensions are counted in the first tensor. */
static int ndim_of(const ltide_call *c) { return c->x ? tide_tensor_ndim(c->x) : 0; }

/* `more` than the first tensor has; one of a list has to be there. */
static int check_dim(lua_State *L, const ltide_call *c, const ltide_param *p, int arg, int more) {
  const ltide_param *list = &c->sig->param[0];
  if (!c->x && list->kind == LTIDE_TENSORS)
    ltide_fail(L, "ValueError", "%s: got an empty list, expected at least one tensor", list->name);
  return ltide_check_dim(L, arg, ndim_of(c) + more, p->name);
}

static int64_t check_count(lua_State *L, int arg, const char *name) {
  int64_t n = ltide_check_integer(L, arg, name);
  if (n < 0) ltide_fail(L, "ValueError", "%s: got %I, expected at least 0", name, (lua_Integer)n);
  return n;
}

/* Which of the choices; the message lists them as the signature does. */
static int64_t check_choice(lua_State *L, int arg, const ltide_param *p) {
  const char *text = lua_type(L, arg) == LUA_TSTRING ? lua_tostring(L, arg) : NULL, *c = p->choices;
  luaL_Buffer b;
  for (int64_t i = 0; *c; i++, c += strlen(c) + 1)
    if (text && !strcmp(c, text)) return i;
  luaL_buffinit(L, &b);
  for (c = p->choices; *c; c += strlen(c) + 1) {
    bool is_last = !c[strlen(c) + 1];
    luaL_addstring(&b, c == p->choices ? "'" : is_last ? " or '" : ", '");
    luaL_addstring(&b, c), luaL_addchar(&b, '\'');
  }
  luaL_pushresult(&b);
  return ltide_arg_error(L, arg, p->name, lua_tostring(L, -1));
}

/* Sizes: the arguments from `at` on where the parameter takes the rest of them, else the table or integer there. */
static void read_sizes(lua_State *L, ltide_call *c, const ltide_param *p, ltide_value *v) {
  int64_t *list = c->list[c->lists++].sizes;
  bool is_place = p->is_rest && v->at <= c->n;
  v->sizes = list;
  if (p->kind == LTIDE_INTEGERS)
    v->n = ltide_check_integers(L, v->at, list, TIDE_MAX_DIMS, p->name);
  else
    v->n = ltide_check_sizes(L, v->at,
                             is_place   ? c->n
                             : v->given ? v->at
                                        : 0,
                             list, p->name, p->kind == LTIDE_SHAPE ? -1 : 0);
}

static void read_dims(lua_State *L, ltide_call *c, const ltide_param *p, ltide_value *v) {
  int ndim = p->kind == LTIDE_ALLDIMS ? ndim_of(c) : ltide_scalar_ndim(ndim_of(c)), *list = c->list[c->lists++].dims;
  bool is_place = p->is_rest && v->at <= c->n;
  v->dims = list;
  v->n = p->is_rest ? ltide_check_dim_list(L, v->at,
                                           is_place   ? c->n
                                           : v->given ? v->at
                                                      : 0,
                                           ndim, list, p->name)
                    : ltide_check_dims(L, v->at, ndim, list, p->name);
}

static void read_like(lua_State *L, ltide_call *c, const ltide_param *p, ltide_value *v) {
  const tide_tensor *y = ltide_check_tensor(L, c->S, v->at, p->name);
  v->sizes = tide_tensor_size(y), v->n = tide_tensor_ndim(y);
}

/* Pushes an array of zeros, which goes with the call. */
static void *push_array(lua_State *L, int n, size_t size) {
  size_t bytes = (size_t)(n + 1) * size;
  return memset(ltide_new_object(L, bytes, 0), 0, bytes);
}

static void read_tensors(lua_State *L, ltide_call *c, const ltide_param *p, ltide_value *v) {
  v->n = ltide_check_list(L, v->at, 1 << 24, p->name, "tensors");
  v->tensors = push_array(L, v->n, sizeof *v->tensors);
  ltide_check_tensors(L, c->S, v->at, v->tensors, v->n, p->name);
  if (v == c->v && v->n) c->x = v->tensors[0];
}

static void read_streams(lua_State *L, const ltide_call *c, const ltide_param *p, ltide_value *v) {
  v->n = ltide_check_list(L, v->at, TIDE_MAX_DEVICES, p->name, "tide.cuda.Stream, false for the current one");
  v->streams = push_array(L, TIDE_MAX_DEVICES, sizeof *v->streams);
  for (int i = 0; i < v->n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, v->at, i + 1);
    v->streams[i] = lua_toboolean(L, -1) ? ltide_check_stream(L, -1, p->name) : NULL;
    if (v->streams[i]) ltide_hold_stream(L, c->S, v->streams[i]);
  }
}

/* TIDE_CURRENT becomes what it stands for, so that entries can be compared. */
static void read_devices(lua_State *L, const ltide_param *p, ltide_value *v) {
  bool cpu = p->kind == LTIDE_DEVICES;
  v->n = ltide_check_list(L, v->at, TIDE_MAX_DEVICES, p->name, cpu ? "devices" : "cuda devices");
  int *list = push_array(L, v->n, sizeof *list);
  for (int i = 0; i < v->n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, v->at, i + 1);
    list[i] = ltide_check_device(L, lua_gettop(L), p->name, cpu ? LTIDE_CPU_OK : 0);
    if (list[i] == TIDE_CURRENT) list[i] = tide_current_device();
  }
  v->devices = list;
}

static void check_type(lua_State *L, int arg, const ltide_param *p, int type, const char *expected) {
  if (lua_type(L, arg) != type) ltide_arg_error(L, arg, p->name, expected);
}

/* What the handle holds of a class whose metatable is registered under the kind's type. */
static void *check_object(lua_State *L, int arg, const ltide_param *p) {
  void **u = ltide_test_object(L, arg, ltide_kind_type(p));
  if (!u) ltide_arg_error(L, arg, p->name, ltide_kind_expected(p));
  if (!*u) ltide_freed_error(L, p->name, p->name);
  return *u;
}

static void read_value(lua_State *L, ltide_call *c, const ltide_param *p, ltide_value *v) {
  int at = v->at;
  switch (p->kind) {
  case LTIDE_TENSOR: v->tensor = ltide_check_tensor(L, c->S, at, p->name); break;
  case LTIDE_TENSORS: /* of name... the body reads them */
    if (!p->is_rest) read_tensors(L, c, p, v);
    break;
  case LTIDE_STREAMS: read_streams(L, c, p, v); break;
  case LTIDE_CUDAS:
  case LTIDE_DEVICES: read_devices(L, p, v); break;
  case LTIDE_OPERAND: ltide_check_operand(L, c->S, at, &v->operand, p->name); break;
  case LTIDE_LIKE: read_like(L, c, p, v); break;
  case LTIDE_DIM: v->dim = check_dim(L, c, p, at, 0); break;
  case LTIDE_LINE: v->dim = ltide_check_dim(L, at, ltide_scalar_ndim(ndim_of(c)), p->name); break;
  case LTIDE_PLACE: v->dim = check_dim(L, c, p, at, 1); break;
  case LTIDE_DIMS:
  case LTIDE_ALLDIMS: read_dims(L, c, p, v); break;
  case LTIDE_SIZES:
  case LTIDE_SHAPE:
  case LTIDE_INTEGERS: read_sizes(L, c, p, v); break;
  case LTIDE_INTEGER: v->i = ltide_check_integer(L, at, p->name); break;
  case LTIDE_COUNT: v->i = check_count(L, at, p->name); break;
  case LTIDE_NUMBER: v->number = ltide_check_number(L, at, p->name); break;
  case LTIDE_SCALAR: v->scalar = ltide_check_scalar(L, at, p->name); break;
  case LTIDE_BOOLEAN: v->boolean = ltide_check_boolean(L, at, p->name); break;
  case LTIDE_CHOICE: v->i = check_choice(L, at, p); break;
  case LTIDE_DTYPE: v->dtype = ltide_check_dtype(L, at, p->name); break;
  case LTIDE_DEVICE: v->device = ltide_check_device(L, at, p->name, LTIDE_CPU_OK); break;
  case LTIDE_CUDA: v->device = ltide_check_device(L, at, p->name, p->is_optional ? LTIDE_NIL_OK : 0); break;
  case LTIDE_GPU:
    v->device = ltide_check_device(L, at, p->name, LTIDE_NEGATIVE_OK | (p->is_optional ? LTIDE_NIL_OK : 0));
    break;
  case LTIDE_GENERATOR:
    v->generator = ltide_check_generator(L, at, p->name);
    if (p->is_option) ltide_hold_generator(L, c->S, v->generator);
    break;
  case LTIDE_GRAPH:
  case LTIDE_KERNEL: v->object = check_object(L, at, p); break;
  case LTIDE_STREAM: v->stream = ltide_check_stream(L, at, p->name); break;
  case LTIDE_EVENT: v->event = ltide_check_event(L, at, p->name); break;
  case LTIDE_STORAGE: v->tensor = ltide_check_storage(L, at, p->name); break;
  case LTIDE_CSTRING: v->text = ltide_check_cstring(L, at, p->name, "a string"); break;
  case LTIDE_STRING: v->text = ltide_check_text(L, at, p->name); break;
  case LTIDE_FUNCTION: check_type(L, at, p, LUA_TFUNCTION, "a function"); break;
  case LTIDE_BLOCK: v->at = ltide_check_block(L, at); break;
  case LTIDE_TABLE: check_type(L, at, p, LUA_TTABLE, "a table"); break;
  default: break; /* the function looks at it itself */
  }
}

static void set_standard(const ltide_call *c, const ltide_param *p, ltide_value *v) {
  v->n = 0;
  switch (p->kind) {
  case LTIDE_NUMBER: v->number = p->number; break;
  case LTIDE_SCALAR: v->scalar = tide_int((int64_t)p->number); break;
  case LTIDE_BOOLEAN: v->boolean = p->number != 0; break;
  case LTIDE_DIM:
  case LTIDE_LINE: v->dim = (int)p->number + (p->number > 0 ? -1 : ltide_scalar_ndim(ndim_of(c))); break;
  case LTIDE_DTYPE: v->dtype = TIDE_DTYPE_NONE; break;
  case LTIDE_DEVICE:
  case LTIDE_CUDA:
  case LTIDE_GPU: v->device = TIDE_CURRENT; break;
  case LTIDE_INTEGER:
  case LTIDE_COUNT: v->i = (int64_t)p->number; break;
  case LTIDE_CHOICE: v->i = 0; break;
  default: v->tensor = NULL; break;
  }
}

/* Where the value of a parameter lies; 0: nowhere. `place` counts from 1, and is behind the last one for options; 0: it
 * has none. */
static int find_value(lua_State *L, const ltide_call *c, const ltide_param *p, int place) {
  bool is_there =
      place && place <= c->n && !p->is_option && (!lua_isnil(L, place) || !(p->is_optional || p->takes_nil));
  if (!c->opts || (!place && !p->is_option)) return is_there ? place : 0;
  bool may = place != 1 || p->is_option || (p->is_optional && !c->sig->leading);
  bool has = may && ltide_push_named(L, c->opts, p->name);
  int named = has ? lua_gettop(L) : 0;
  if (named && is_there && !lua_isnil(L, place))
    ltide_fail(L, "ArgumentError", "%s: got it twice, as argument %d and by its name", p->name, place);
  return named ? named : is_there ? place : 0;
}

static void read_param(lua_State *L, ltide_call *c, int k, int place) {
  const ltide_param *p = &c->sig->param[k];
  ltide_value *v = &c->v[k];
  v->given = false;
  if (p->is_later) return;
  v->at = find_value(L, c, p, place);
  v->given = v->at > 0;
  if (v->given || !(p->is_optional || p->takes_nil)) {
    if (!v->given) v->at = lua_gettop(L) + 1;              /* where there is nothing, */
    if (!v->given && p->kind == LTIDE_ANY) lua_pushnil(L); /* nor will be, when the body looks */
    read_value(L, c, p, v);
  } else
    set_standard(c, p, v);
}

static void read_call(lua_State *L, ltide_call *c, const ltide_row *row) {
  begin(L, c, row);
  const ltide_sig *sig = c->sig;
  bool has_tensor = sig->count && sig->param[0].kind == LTIDE_TENSOR;
  if (has_tensor) c->x = ltide_check_tensor(L, c->S, 1, sig->param[0].name);
  int top = lua_gettop(L), last = !top ? LUA_TNUMBER : top <= sig->positional ? lua_type(L, top) : LUA_TTABLE;
  c->n = top, c->opts = 0;
  if (last == LUA_TTABLE || last == LUA_TNIL) split(L, c); /* the others leave it as it is */
  if (c->opts) luaL_checkstack(L, sig->count + LUA_MINSTACK, "tide: arguments");
  int first = 0, skip = c->n <= sig->required ? sig->leading : 0; /* [start=0,] stop: one value is the second */
  if (skip) first = sig->param[0].is_optional ? 0 : 1;            /* behind the receiver */
  for (int k = 0; k < sig->count; k++)
    read_param(L, c, k, !skip || k < first ? k + 1 : k < first + skip ? 0 : k + 1 - skip);
  if (sig->outs == 1) ltide_check_out(L, c->S, c->opts, 1); /* several are the body's: it may give one */
}

void ltide_call_read(lua_State *L, ltide_call *c) { read_call(L, c, own_row(L)); }

const ltide_value *ltide_get(lua_State *L, const ltide_call *c, const char *name) {
  int k = 0;
  while (k < c->sig->count && strcmp(c->sig->param[k].name, name) != 0) k++;
  if (k == c->sig->count) ltide_fail(L, "StateError", "its signature has no %s", name);
  return &c->v[k];
}

tide_stream *const *ltide_streams(lua_State *L, const ltide_call *c, const char *name, int n) {
  const ltide_value *v = ltide_get(L, c, name);
  if (v->given && v->n > n) ltide_fail(L, "ValueError", "%s: got %d entries, expected at most %d", name, v->n, n);
  return v->given ? v->streams : NULL;
}

/* Is the last argument a table in the place of a parameter, none of which it names? The function judges it. */
static bool is_argument(lua_State *L, ltide_call *c) {
  int top = lua_gettop(L);
  if (!top || !lua_istable(L, top) || top > c->sig->positional || c->sig->count != c->sig->positional) return false;
  c->n = top, c->opts = 0;
  for (const char *const *k = c->sig->keys; *k; k++)
    if (ltide_push_option(L, top, *k)) return lua_settop(L, top), false;
  return true;
}

/* Without options proper, what is given by name goes to its place. */
static int run_plain(lua_State *L, const ltide_row *row) {
  ltide_call c;
  begin(L, &c, row);
  int top = lua_gettop(L);
  bool is_simple = !top || (top == 1 && lua_type(L, 1) == LUA_TUSERDATA && c.sig->positional); /* s:query() */
  if (is_simple) return c.row->plain(L);
  if (!is_argument(L, &c)) split(L, &c);
  int first = *c.sig->keys && *c.sig->keys == c.sig->param[0].name ? 1 : 2;
  if (c.opts && c.sig->count == c.sig->positional) ltide_named(L, first, c.sig->keys);
  return c.row->plain(L);
}

static void push_devices(lua_State *L, const ltide_value *v) {
  lua_createtable(L, v->n, 0);
  for (int i = 0; i < v->n; i++) lua_pushinteger(L, v->devices[i]), lua_rawseti(L, -2, i + 1);
}

static void append_tensor(lua_State *L, const ltide_call *c, int list, int at, const ltide_param *p, lua_Integer i) {
  const char *name = lua_pushfstring(L, "%s[%I]", p->name, (LUAI_UACINT)i);
  ltide_check_tensor(L, c->S, at, name);
  lua_pushvalue(L, at);
  lua_rawseti(L, list, i);
  lua_pop(L, 1);
}

/* The tensors of the table at the parameter's place, or of all arguments from there on: a table of their own. */
static void push_tensors(lua_State *L, const ltide_call *c, const ltide_param *p, const ltide_value *v) {
  int from = v->given ? v->at : lua_gettop(L) + 1, n = c->n; /* behind the arguments where there is none */
  bool is_table = v->given && lua_istable(L, from);
  if (!p->is_rest && !is_table) ltide_arg_error(L, from, p->name, "a table of tensors");
  lua_newtable(L);
  int list = lua_gettop(L);
  if (!is_table) {
    for (int at = from; at <= n; at++) append_tensor(L, c, list, at, p, at - from + 1);
    return;
  }
  lua_Integer count = (lua_Integer)lua_rawlen(L, from);
  if (count) ltide_check_unnamed(L, from, count, p->name);
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, from, i);
    append_tensor(L, c, list, lua_gettop(L), p, i);
    lua_pop(L, 1);
  }
}

static const char *choice(const ltide_param *p, int64_t i) {
  const char *text = p->choices;
  while (i-- > 0) text += strlen(text) + 1;
  return text;
}

/* Dimensions that the chunks read themselves, at the top: they count from 1, whatever the caller does. */
static void count_from_one(lua_State *L) {
  int given = lua_gettop(L);
  if (lua_isinteger(L, given) && lua_tointeger(L, given) >= 0) lua_pushinteger(L, lua_tointeger(L, given) + 1);
  if (lua_istable(L, given)) {
    lua_Integer n = (lua_Integer)lua_rawlen(L, given);
    ltide_plain_shape(L, given);
    lua_createtable(L, n < TIDE_MAX_DIMS ? (int)n : TIDE_MAX_DIMS, 0);
    for (lua_Integer i = 1; i <= n; i++) {
      lua_rawgeti(L, given, i);
      count_from_one(L);
      lua_rawseti(L, given + 1, i);
    }
  }
  if (lua_gettop(L) > given) lua_replace(L, given);
}

static bool is_dim(const ltide_param *p) {
  return !strcmp(p->name, "dim") && (p->kind == LTIDE_INTEGER || p->kind == LTIDE_DIMS || p->kind == LTIDE_ALLDIMS);
}

/* Pushes what was read, as a function of the chunks takes it: dimensions are counted from 1. */
static void push_read(lua_State *L, const ltide_call *c, const ltide_param *p, const ltide_value *v) {
  bool has = v->given || (p->standard && *p->standard) || p->kind == LTIDE_TENSORS;
  switch (has ? p->kind : LTIDE_ANY) {
  case LTIDE_TENSORS: push_tensors(L, c, p, v); break;
  case LTIDE_DIM:
  case LTIDE_LINE: lua_pushinteger(L, v->dim + 1); break;
  case LTIDE_INTEGER:
  case LTIDE_COUNT: lua_pushinteger(L, v->i); break;
  case LTIDE_NUMBER: lua_pushnumber(L, v->number); break;
  case LTIDE_BOOLEAN: lua_pushboolean(L, v->boolean); break;
  case LTIDE_CHOICE: lua_pushstring(L, choice(p, v->i)); break;
  case LTIDE_SIZES: ltide_push_integers(L, v->sizes, v->n); break;
  case LTIDE_DTYPE: lua_pushstring(L, tide_dtype_name(v->dtype)); break;
  case LTIDE_DEVICE:
  case LTIDE_CUDA: lua_pushinteger(L, v->device); break;
  case LTIDE_CUDAS:
  case LTIDE_DEVICES:
    if (v->given)
      push_devices(L, v);
    else
      lua_pushnil(L);
    break;
  default:
    if (v->given && v->at)
      lua_pushvalue(L, v->at);
    else
      lua_pushnil(L);
  }
  if (v->given && is_dim(p) && !ltide_base(L)) count_from_one(L);
}

int ltide_push_read(lua_State *L, const ltide_call *c) {
  const ltide_sig *sig = c->sig;
  int rest = sig->is_open && c->n > sig->positional ? c->n - sig->positional : 0, count = 0;
  luaL_checkstack(L, sig->count + rest + LUA_MINSTACK, "tide: arguments");
  for (int k = 0; k < sig->count; k++)
    if (sig->param[k].kind != LTIDE_OUT) push_read(L, c, &sig->param[k], &c->v[k]), count++;
  for (int i = 1; i <= rest; i++) lua_pushvalue(L, sig->positional + i);
  return count + rest;
}

/* Pushes the same with all options in one table under their names, for a function of many. */
static int push_named(lua_State *L, const ltide_call *c) {
  const ltide_sig *sig = c->sig;
  luaL_checkstack(L, sig->positional + LUA_MINSTACK, "tide: arguments");
  for (int k = 0; k < sig->positional; k++) push_read(L, c, &sig->param[k], &c->v[k]);
  lua_createtable(L, 0, sig->count - sig->positional);
  for (int k = sig->positional; k < sig->count; k++) {
    push_read(L, c, &sig->param[k], &c->v[k]);
    lua_setfield(L, -2, sig->param[k].name);
  }
  return sig->positional + 1;
}

int ltide_call_script(lua_State *L, ltide_call *c) {
  return ltide_script_call(L, c->row->script, c->row->named ? push_named(L, c) : ltide_push_read(L, c));
}

int ltide_call_plain(lua_State *L) { return ltide_script_call(L, own_row(L)->script, lua_gettop(L)); }

/* {==== The one runner of rows */

static inline int run_row(lua_State *L, const ltide_row *row) {
  ltide_call c;
  if (row && row->plain) return run_plain(L, row);
  read_call(L, &c, row);
  return row->body(L, &c);
}

static int run(lua_State *L) { return run_row(L, own_row(L)); }

int ltide_run(lua_State *L) {
  const ltide_row *row = own_row(L);
  if (!row || !(row->how || row->is_class)) return run_row(L, row);
  if (row->is_class && lua_gettop(L)) lua_remove(L, 1);
  switch (row->how) {
  case LTIDE_WAITS: return ltide_waiting(L, run);
  case LTIDE_IN_TURN: return ltide_in_turn(L, run);
  case LTIDE_GUARDED: return ltide_unguarded(L) ? ltide_guarded(L, run) : run(L);
  default: return run_row(L, row);
  }
}
