/* factory.c: tensors from sizes, ranges and foreign memory.
 *
 * out= gives the dtype and the device; what is known by its size is filled there, ranges are made and put there.
 *
 * Sizes come as arguments or as one table, options last (API.md C1). The _like and new_ forms take dtype and device
 * from their tensor, the others from the defaults.
 *
 * from_ptr's owner: core may let go of the memory from any thread, where Lua must not be touched. So the release only
 * marks a node; a finaliser that renews itself in every collection frees the owners whose nodes are marked. A node has
 * two holders, core and the Lua state, and the one that lets go last frees it. */
#include <math.h>
#include <stdlib.h>

#include "row.h"

static const char *const option_keys[] = {LTIDE_OPTION_KEYS, NULL}, *const out_keys[] = {LTIDE_OUT_KEYS, NULL};

static tide_options default_options(void) {
  tide_options o = TIDE_OPTIONS;
  return o;
}

static tide_options options_like(const tide_tensor *x) {
  return (tide_options){tide_tensor_dtype(x), tide_tensor_device(x), false};
}

/* {==== From sizes */

typedef enum filling { FILL_NONE, FILL_ZEROS, FILL_ONES, FILL_VALUE } filling;

static int make(lua_State *L, ltide_state *S, const int64_t *size, int ndim, filling f, tide_scalar value,
                tide_options *o, int opts) {
  if (f == FILL_VALUE && o->dtype == TIDE_DTYPE_NONE)
    o->dtype = value.kind == 'B' ? TIDE_BOOL : value.kind == 'I' ? TIDE_INT64 : tide_get_default_dtype();
  if (f != FILL_VALUE) value = tide_int(f == FILL_ONES);
  if (o->dtype == TIDE_DTYPE_NONE) o->dtype = tide_get_default_dtype();
  bool given = opts && ltide_rawfield(L, opts, "out") != LUA_TNIL;
  if (given || f == FILL_NONE) {
    tide_tensor *x = ltide_push_target(L, S, opts, size, ndim, o);
    if (f != FILL_NONE) ltide_try(L, tide_fill(x, value));
  } else
    ltide_try(L, tide_full(&ltide_new_tensor(L, S)->t, size, ndim, value, o));
  ltide_made(L, S);
  return 1;
}

/* tide.empty(1024) comes through here: one integer and no table costs neither a split nor a search. */
static int from_sizes(lua_State *L, filling f) {
  ltide_state *S = ltide_begin(L);
  int64_t size[TIDE_MAX_DIMS];
  tide_options o = default_options();
  int top = lua_gettop(L), ndim = 0, opts = 0;
  while (ndim < top && ndim < TIDE_MAX_DIMS && lua_isinteger(L, ndim + 1) &&
         (size[ndim] = lua_tointeger(L, ndim + 1)) >= 0)
    ndim++;
  if (!ndim || ndim < top) {
    ltide_args a = ltide_split(L, 1);
    ltide_check_keys(L, opts = a.opts, out_keys);
    ndim = ltide_check_sizes(L, 1, a.n, size, "sizes", 0);
    ltide_opt_options(L, a.opts, &o);
  }
  return make(L, S, size, ndim, f, tide_int(0), &o, opts);
}

static int lempty(lua_State *L) { return from_sizes(L, FILL_NONE); }
static int lzeros(lua_State *L) { return from_sizes(L, FILL_ZEROS); }
static int lones(lua_State *L) { return from_sizes(L, FILL_ONES); }

/* Reads the value at arg, a number or a tensor of one element. */
static tide_scalar check_value(lua_State *L, ltide_state *S, int arg) {
  tide_tensor *x = ltide_test_tensor(L, S, arg);
  tide_scalar s = {0};
  if (x)
    ltide_try(L, tide_item(&s, x));
  else
    s = ltide_check_scalar(L, arg, "value");
  return s;
}

static int lfull(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  int64_t size[TIDE_MAX_DIMS];
  ltide_args a = ltide_split(L, 2);
  ltide_check_count(L, a, 2);
  ltide_check_keys(L, a.opts, out_keys);
  int ndim = ltide_check_sizes(L, 1, a.n < 1 ? 0 : 1, size, "sizes", 0);
  tide_options o = default_options();
  ltide_opt_options(L, a.opts, &o);
  return make(L, S, size, ndim, FILL_VALUE, check_value(L, S, 2), &o, a.opts);
}

static int like(lua_State *L, filling f) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  int count = f == FILL_VALUE ? 2 : 1;
  ltide_args a = ltide_split(L, count);
  ltide_check_count(L, a, count);
  ltide_check_keys(L, a.opts, out_keys);
  tide_options o = options_like(x);
  ltide_opt_options(L, a.opts, &o);
  tide_scalar value = f == FILL_VALUE ? check_value(L, S, 2) : tide_int(f == FILL_ONES);
  if (ltide_push_option(L, a.opts, "out")) {
    lua_pop(L, 1);
    return make(L, S, tide_tensor_size(x), tide_tensor_ndim(x), f == FILL_NONE ? f : FILL_VALUE, value, &o, a.opts);
  }
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_empty_like(&u->t, x, &o));
  if (f != FILL_NONE) ltide_try(L, tide_fill(u->t, value));
  ltide_made(L, S);
  return 1;
}

static int lempty_like(lua_State *L) { return like(L, FILL_NONE); }
static int lzeros_like(lua_State *L) { return like(L, FILL_ZEROS); }
static int lones_like(lua_State *L) { return like(L, FILL_ONES); }
static int lfull_like(lua_State *L) { return like(L, FILL_VALUE); }

static int new_sizes(lua_State *L, filling f) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  int64_t size[TIDE_MAX_DIMS];
  bool is_full = f == FILL_VALUE;
  ltide_args a = ltide_split(L, is_full ? 3 : 2);
  if (is_full) ltide_check_count(L, a, 3);
  ltide_check_keys(L, a.opts, out_keys);
  int ndim = ltide_check_sizes(L, 2, is_full && a.n > 2 ? 2 : a.n, size, "sizes", 0);
  tide_options o = options_like(x);
  ltide_opt_options(L, a.opts, &o);
  return make(L, S, size, ndim, f, is_full ? check_value(L, S, 3) : tide_int(0), &o, a.opts);
}

static int lnew_empty(lua_State *L) { return new_sizes(L, FILL_NONE); }
static int lnew_zeros(lua_State *L) { return new_sizes(L, FILL_ZEROS); }
static int lnew_ones(lua_State *L) { return new_sizes(L, FILL_ONES); }
static int lnew_full(lua_State *L) { return new_sizes(L, FILL_VALUE); }

/* Sizes at `first`, strides after them. */
static int strided(lua_State *L, ltide_state *S, int first, tide_options o) {
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  ltide_args a = ltide_split(L, first + 1);
  ltide_check_count(L, a, first + 1);
  ltide_check_keys(L, a.opts, option_keys);
  if (a.n < first + 1) return ltide_arg_error(L, a.n + 1, a.n < first ? "size" : "stride", "a table of integers");
  int ndim = ltide_check_sizes(L, first, first, size, "size", 0);
  int n = ltide_check_sizes(L, first + 1, first + 1, stride, "stride", 0);
  if (n != ndim) return ltide_error(L, "ShapeError", "empty_strided: stride: got %d values, expected %d", n, ndim);
  ltide_opt_options(L, a.opts, &o);
  if (o.dtype == TIDE_DTYPE_NONE) o.dtype = tide_get_default_dtype();
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_empty_strided(&u->t, size, stride, ndim, &o));
  ltide_made(L, S);
  return 1;
}

static int lempty_strided(lua_State *L) { return strided(L, ltide_enter(L), 1, default_options()); }

static int lnew_empty_strided(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  return strided(L, S, 2, options_like(ltide_check_tensor(L, S, 1, "x")));
}

/* {==== Ranges */

static double value_of(tide_scalar s) { return s.kind == 'F' ? s.re : (double)s.i; }

/* How many values start, start + step, ... there are up to stop, exactly where all are integers. */
static int64_t range_count(lua_State *L, tide_scalar start, tide_scalar stop, tide_scalar step, bool is_closed) {
  double span_of = value_of(stop) - value_of(start);
  if (value_of(step) == 0)
    ltide_error(L, "ValueError", "%s: step: got 0, expected another number", ltide_function_name(L));
  if (start.kind == 'I' && stop.kind == 'I' && step.kind == 'I') {
    __int128 span = (__int128)stop.i - start.i, by = step.i;
    if (by < 0) span = -span, by = -by;
    if (is_closed) return span < 0 ? 0 : (int64_t)(span / by + 1);
    return span <= 0 ? 0 : (int64_t)((span + by - 1) / by);
  }
  double n = span_of / value_of(step);
  /* A closed range keeps its end in spite of the rounding of the division. */
  n = is_closed ? floor(n + 1e-9 * fmax(1, fabs(n))) + 1 : ceil(n);
  if (!(n < 0x1p62)) ltide_error(L, "ValueError", "%s: the range has no end", ltide_function_name(L));
  return n > 0 ? (int64_t)n : 0;
}

/* A step that leads away from the end is a slip; a loop of Lua over such a range, and range(), has no turns. */
static void check_direction(lua_State *L, tide_scalar start, tide_scalar stop, tide_scalar step) {
  bool ints = start.kind == 'I' && stop.kind == 'I';
  int towards = ints ? (stop.i > start.i) - (stop.i < start.i)
                     : (value_of(stop) > value_of(start)) - (value_of(stop) < value_of(start));
  double by = value_of(step);
  if (!(towards > 0 && by < 0) && !(towards < 0 && by > 0)) return;
  const tide_scalar shown[] = {step, start, stop};
  const char *text[3];
  for (int i = 0; i < 3; i++) ltide_push_scalar(L, shown[i]), text[i] = lua_tostring(L, -1);
  ltide_error(L, "ValueError",
              "%s: step: got %s, which leads away from %s to %s, expected a %s one; tide.range gives an empty tensor",
              ltide_function_name(L), text[0], text[1], text[2], towards > 0 ? "positive" : "negative");
}

static int range(lua_State *L, bool is_closed) {
  ltide_state *S = ltide_begin(L);
  ltide_args a = ltide_split(L, 1);
  ltide_check_count(L, a, 3);
  ltide_check_keys(L, a.opts, out_keys);
  for (int i = 1; i <= a.n || i == 1; i++)
    if (lua_type(L, i) != LUA_TNUMBER)
      return ltide_arg_error(L, i, a.n <= 1 || i == 2 ? "stop" : i == 3 ? "step" : "start", "a number");
  tide_scalar start = tide_int(is_closed ? 1 : 0), stop, step = tide_int(1);
  if (a.n > 1) start = ltide_check_scalar(L, 1, "start");
  stop = ltide_check_scalar(L, a.n > 1 ? 2 : 1, "stop");
  if (a.n > 2) step = ltide_check_scalar(L, 3, "step");
  if (!is_closed) check_direction(L, start, stop, step);
  int64_t count = range_count(L, start, stop, step, is_closed);
  tide_options o = default_options();
  ltide_opt_options(L, a.opts, &o);
  if (o.dtype == TIDE_DTYPE_NONE)
    o.dtype = start.kind == 'I' && stop.kind == 'I' && step.kind == 'I' ? TIDE_INT64 : tide_get_default_dtype();
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_arange(&u->t, start, step, count, &o));
  return ltide_deliver(L, S, a.opts, 1);
}

static int larange(lua_State *L) { return range(L, false); }
static int lrange(lua_State *L) { return range(L, true); }

static int64_t check_count_of(lua_State *L, int arg, const char *name) {
  int64_t n = ltide_check_integer(L, arg, name);
  if (n < 0)
    ltide_error(L, "ValueError", "%s: %s: got %I, expected at least 0", ltide_function_name(L), name, (lua_Integer)n);
  return n;
}

static int llinspace(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_args a = ltide_split(L, 3);
  ltide_check_count(L, a, 3);
  ltide_check_keys(L, a.opts, out_keys);
  double from = ltide_check_number(L, 1, "a"), to = ltide_check_number(L, 2, "b");
  int64_t n = check_count_of(L, 3, "n");
  tide_options o = default_options();
  ltide_opt_options(L, a.opts, &o);
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_linspace(&u->t, from, to, n, &o));
  return ltide_deliver(L, S, a.opts, 1);
}

/* The exponents are spaced and raised in float64 and cast once, at the end. */
static int llogspace(lua_State *L) {
  static const char *const keys[] = {LTIDE_OUT_KEYS, "base", NULL};
  ltide_state *S = ltide_enter(L);
  ltide_args a = ltide_split(L, 3);
  ltide_check_count(L, a, 3);
  ltide_check_keys(L, a.opts, keys);
  double from = ltide_check_number(L, 1, "a"), to = ltide_check_number(L, 2, "b");
  int64_t n = check_count_of(L, 3, "n");
  tide_options o = default_options();
  ltide_opt_options(L, a.opts, &o);
  if (o.dtype == TIDE_DTYPE_NONE) o.dtype = tide_get_default_dtype();
  tide_operand in[2] = {{NULL, tide_float(ltide_opt_number(L, a.opts, "base", 10))}, {NULL, tide_int(0)}};
  tide_options wide = {TIDE_FLOAT64, o.device, false};
  ltide_tensor *exponents = ltide_new_tensor(L, S), *powers = ltide_new_tensor(L, S), *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_linspace(&exponents->t, from, to, n, &wide));
  in[1].tensor = exponents->t;
  ltide_try(L, tide_elementwise(&powers->t, TIDE_OP_pow, in, NULL, NULL));
  ltide_try(L, tide_to(&u->t, powers->t, &o, false, false));
  ltide_close_tensor(exponents);
  ltide_close_tensor(powers);
  return ltide_deliver(L, S, a.opts, 1);
}

static int leye(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_args a = ltide_split(L, 1);
  ltide_check_count(L, a, 2);
  ltide_check_keys(L, a.opts, out_keys);
  int64_t n = check_count_of(L, 1, "n"), m = a.n > 1 ? check_count_of(L, 2, "m") : n;
  tide_options o = default_options();
  ltide_opt_options(L, a.opts, &o);
  if (o.dtype == TIDE_DTYPE_NONE) o.dtype = tide_get_default_dtype();
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_eye(&u->t, n, m, &o));
  return ltide_deliver(L, S, a.opts, 1);
}

static int triangle_indices(lua_State *L, bool is_upper) {
  ltide_state *S = ltide_enter(L);
  ltide_args a = ltide_split(L, 2);
  ltide_check_count(L, a, 3);
  ltide_check_keys(L, a.opts, out_keys);
  int64_t n = check_count_of(L, 1, "n"), m = check_count_of(L, 2, "m"),
          k = a.n > 2 ? ltide_check_integer(L, 3, "offset") : 0;
  tide_options o = default_options();
  ltide_opt_options(L, a.opts, &o);
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_tril_indices(&u->t, n, m, k, is_upper, &o));
  return ltide_deliver(L, S, a.opts, 1);
}

static int ltril_indices(lua_State *L) { return triangle_indices(L, false); }
static int ltriu_indices(lua_State *L) { return triangle_indices(L, true); }

/* {==== Foreign memory */

typedef struct owner_node {
  struct owner_node *next; /* the Lua state's list */
  _Atomic int state;       /* 0: both hold it; 1: core let go; 2: the Lua state has closed */
  int ref;                 /* the owner, in the registry */
} owner_node;

#define OWNERS_META "tide.owners"
static const char key_owners;

static void owner_release(void *user) {
  owner_node *node = user;
  if (atomic_exchange(&node->state, 1) == 2) free(node);
}

/* Frees the owners that core has let go of. */
static void sweep_owners(lua_State *L, owner_node **head) {
  while (*head) {
    owner_node *node = *head;
    if (atomic_load(&node->state) != 1)
      head = &node->next;
    else {
      *head = node->next;
      luaL_unref(L, LUA_REGISTRYINDEX, node->ref);
      free(node);
    }
  }
}

/* The finaliser of the list itself: the Lua state closes. */
static int owners_gc(lua_State *L) {
  owner_node **head = ltide_test_object(L, 1, OWNERS_META);
  if (!head) return 0;
  for (owner_node *node = *head, *next; node; node = next) {
    next = node->next;
    if (atomic_exchange(&node->state, 2) == 1) free(node);
  }
  *head = NULL;
  return 0;
}

static owner_node **owners_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_owners);
  owner_node **head = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return head;
}

static void push_sentinel(lua_State *L);

/* Runs once in every collection. */
static int sentinel_gc(lua_State *L) {
  owner_node **head = owners_of(L);
  if (!head) return 0;
  sweep_owners(L, head);
  if (*head) {
    push_sentinel(L);
    lua_pop(L, 1);
  }
  return 0;
}

static void push_sentinel(lua_State *L) {
  ltide_new_userdata(L, 1, 0);
  if (ltide_newmetatable(L, "tide.owner_sentinel")) {
    lua_pushcfunction(L, sentinel_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_pop(L, 1);
  ltide_setmetatable(L, "tide.owner_sentinel");
}

/* Anchors the value at the top of the stack, and pops it. */
static owner_node *new_owner(lua_State *L) {
  owner_node **head = owners_of(L);
  sweep_owners(L, head);
  if (!*head) {
    push_sentinel(L);
    lua_pop(L, 1);
  }
  int ref = luaL_ref(L, LUA_REGISTRYINDEX); /* first, since it may raise */
  owner_node *node = malloc(sizeof *node);
  if (!node) {
    luaL_unref(L, LUA_REGISTRYINDEX, ref);
    ltide_error(L, "OutOfMemoryError", "from_ptr: no memory for the owner");
  }
  *node = (owner_node){*head, 0, ref};
  *head = node;
  return node;
}

static void *check_pointer(lua_State *L, int arg) {
  if (lua_islightuserdata(L, arg)) return lua_touserdata(L, arg);
  if (lua_isinteger(L, arg)) return (void *)(intptr_t)lua_tointeger(L, arg);
  ltide_arg_error(L, arg, "ptr", "an address: an integer or a light userdata");
  return NULL;
}

static int lfrom_ptr(lua_State *L) {
  static const char *const keys[] = {"dtype", "device", "stride", "owner", NULL};
  ltide_state *S = ltide_enter(L);
  void *ptr = check_pointer(L, 1);
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  ltide_args a = ltide_split(L, 2);
  ltide_check_keys(L, a.opts, keys);
  int ndim = ltide_check_sizes(L, 2, a.n, size, "sizes", 0);
  tide_options o = default_options();
  ltide_opt_options(L, a.opts, &o);
  if (o.dtype == TIDE_DTYPE_NONE) o.dtype = tide_get_default_dtype();
  bool has_stride = a.opts && ltide_rawfield(L, a.opts, "stride") != LUA_TNIL;
  if (has_stride) {
    int top = lua_gettop(L), n = ltide_check_sizes(L, top, top, stride, "stride", 0);
    if (n != ndim) return ltide_error(L, "ShapeError", "from_ptr: stride: got %d values, expected %d", n, ndim);
  }
  ltide_tensor *u = ltide_new_tensor(L, S);
  int result = lua_gettop(L);
  owner_node *node = NULL;
  if (a.opts && ltide_rawfield(L, a.opts, "owner") != LUA_TNIL) node = new_owner(L);
  tide_status status =
      tide_from_ptr(&u->t, ptr, size, has_stride ? stride : NULL, ndim, &o, node ? owner_release : NULL, node);
  if (status != TIDE_OK && node) atomic_store(&node->state, 1);
  ltide_try(L, status);
  ltide_made(L, S);
  lua_settop(L, result);
  return 1;
}

#define PATH "tide."
static ltide_row rows[] = {
#include "api/factory.def"
    {0}};

void ltide_open_factory(lua_State *L, ltide_state *S) {
  (void)S;
  owner_node **head = ltide_new_object(L, sizeof *head, 0);
  *head = NULL;
  if (ltide_newmetatable(L, OWNERS_META)) {
    lua_pushcfunction(L, owners_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_pop(L, 1);
  ltide_setmetatable(L, OWNERS_META);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_owners);
  ltide_register_rows(L, "tide", rows);
}
