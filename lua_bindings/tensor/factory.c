/* factory.c: tensors from sizes, ranges and foreign memory.
 *
 * out= gives the dtype and the device; what is known by its size is filled there, ranges are made and put there.
 *
 * Sizes come as arguments or as one table, options last. The _like and new_ forms take dtype and device
 * from their tensor, the others from the defaults.
 *
 * from_ptr's owner: core may let go of the memory from any thread, where Lua must not be touched. So the release only
 * marks a node; a finaliser that renews itself in every collection frees the owners whose nodes are marked. A node has
 * two holders, core and the Lua state, and the one that lets go last frees it. */
#include <math.h>
#include <stdlib.h>
#include "call/fields.h"

#include "tensor.h"

/* What the options say, where they say nothing as x, or the defaults without x. */
static tide_options read_options(lua_State *L, const ltide_call *c, const tide_tensor *x) {
  tide_options o = TIDE_OPTIONS;
  if (x) o = (tide_options){tide_tensor_dtype(x), tide_tensor_device(x), false};
  ltide_opt_options(L, c->opts, &o);
  return o;
}

static tide_dtype dtype_or_default(tide_dtype dtype) {
  return dtype == TIDE_DTYPE_NONE ? tide_get_default_dtype() : dtype;
}

/* {==== From sizes */

typedef enum filling { FILL_NONE, FILL_ZEROS, FILL_ONES, FILL_VALUE } filling;

static int make(lua_State *L, ltide_state *S, const int64_t *size, int ndim, filling f, tide_scalar value,
                tide_options *o, int opts) {
  if (f == FILL_VALUE && o->dtype == TIDE_DTYPE_NONE)
    o->dtype = value.kind == 'B' ? TIDE_BOOL : value.kind == 'I' ? TIDE_INT64 : tide_get_default_dtype();
  if (f != FILL_VALUE) value = tide_int(f == FILL_ONES);
  o->dtype = dtype_or_default(o->dtype);
  bool given = opts && ltide_rawfield(L, opts, "out") != LUA_TNIL;
  if (given || f == FILL_NONE) {
    tide_tensor *x = ltide_push_target(L, S, opts, size, ndim, o);
    if (f != FILL_NONE) ltide_try(L, tide_fill(x, value));
  } else
    ltide_try(L, tide_full(&ltide_new_tensor(L, S)->t, size, ndim, value, o));
  ltide_made(L, S);
  return 1;
}

/* tide.empty(1024) comes through here: integers alone need no signature. */
static int lsizes(lua_State *L) {
  const ltide_row *row = lua_touserdata(L, lua_upvalueindex(1));
  ltide_state *S = ltide_begin(L);
  int64_t size[TIDE_MAX_DIMS];
  int top = lua_gettop(L), ndim = 0;
  while (ndim < top && ndim < TIDE_MAX_DIMS && lua_isinteger(L, ndim + 1) &&
         (size[ndim] = lua_tointeger(L, ndim + 1)) >= 0)
    ndim++;
  if (!ndim || ndim < top) return ltide_run(L);
  return make(L, S, size, ndim, (filling)row->tag, tide_int(0), &(tide_options)TIDE_OPTIONS, 0);
}

/* Reads the value, a number or a tensor of one element. */
static tide_scalar check_value(lua_State *L, const ltide_call *c, const ltide_value *v) {
  tide_tensor *x = ltide_test_tensor(L, c->S, v->at);
  tide_scalar s = {0};
  if (x)
    ltide_try(L, tide_item(&s, x));
  else
    s = ltide_check_scalar(L, v->at, "value");
  return s;
}

/* From sizes: those of the module, and those of a tensor's, which give what they make its dtype and device. */
static int from_sizes(lua_State *L, ltide_call *c) {
  const ltide_value *sizes = &c->v[c->x ? 1 : 0];
  tide_options o = read_options(L, c, c->x);
  filling f = (filling)c->row->tag;
  tide_scalar value = f == FILL_VALUE ? check_value(L, c, sizes + 1) : tide_int(0);
  return make(L, c->S, sizes->sizes, sizes->n, f, value, &o, c->opts);
}

static int like(lua_State *L, ltide_call *c) {
  filling f = (filling)c->row->tag;
  tide_options o = read_options(L, c, c->x);
  tide_scalar value = f == FILL_VALUE ? check_value(L, c, &c->v[1]) : tide_int(f == FILL_ONES);
  if (ltide_push_option(L, c->opts, "out")) {
    lua_pop(L, 1);
    return make(L, c->S, tide_tensor_size(c->x), tide_tensor_ndim(c->x), f == FILL_NONE ? f : FILL_VALUE, value, &o,
                c->opts);
  }
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_empty_like(&u->t, c->x, &o));
  if (f != FILL_NONE) ltide_try(L, tide_fill(u->t, value));
  ltide_made(L, c->S);
  return 1;
}

static int lstrided(lua_State *L, ltide_call *c) {
  const ltide_value *size = &c->v[c->x ? 1 : 0], *stride = size + 1;
  if (stride->n != size->n)
    return ltide_error(L, "ShapeError", "empty_strided: stride: got %d values, expected %d", stride->n, size->n);
  tide_options o = read_options(L, c, c->x);
  o.dtype = dtype_or_default(o.dtype);
  return ltide_finish(L, c, tide_empty_strided(ltide_result(L, c), size->sizes, stride->sizes, size->n, &o));
}

/* {==== Ranges */

static double value_of(tide_scalar s) { return s.kind == 'F' ? s.re : (double)s.i; }

/* How many values start, start + step, ... there are up to stop, exactly where all are integers. */
static int64_t range_count(lua_State *L, tide_scalar start, tide_scalar stop, tide_scalar step, bool is_closed) {
  double span_of = value_of(stop) - value_of(start);
  if (value_of(step) == 0) ltide_fail(L, "ValueError", "step: got 0, expected another number");
  if (start.kind == 'I' && stop.kind == 'I' && step.kind == 'I') {
    __int128 span = (__int128)stop.i - start.i, by = step.i;
    if (by < 0) span = -span, by = -by;
    if (is_closed) return span < 0 ? 0 : (int64_t)(span / by + 1);
    return span <= 0 ? 0 : (int64_t)((span + by - 1) / by);
  }
  double n = span_of / value_of(step);
  /* A closed range keeps its end in spite of the rounding of the division. */
  n = is_closed ? floor(n + 1e-9 * fmax(1, fabs(n))) + 1 : ceil(n);
  if (!(n < 0x1p62)) ltide_fail(L, "ValueError", "the range has no end");
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
  ltide_fail(L, "ValueError",
             "step: got %s, which leads away from %s to %s, expected a %s one; tide.range gives an empty tensor",
             text[0], text[1], text[2], towards > 0 ? "positive" : "negative");
}

static int lrange(lua_State *L, ltide_call *c) {
  bool is_closed = c->row->tag;
  for (int i = 1; i <= c->n || i == 1; i++)
    if (lua_type(L, i) != LUA_TNUMBER)
      return ltide_arg_error(L, i, c->n <= 1 || i == 2 ? "stop" : i == 3 ? "step" : "start", "a number");
  tide_scalar start = c->v[0].given ? c->v[0].scalar : tide_int(is_closed), stop = c->v[1].scalar,
              step = c->v[2].scalar;
  if (!is_closed) check_direction(L, start, stop, step);
  int64_t count = range_count(L, start, stop, step, is_closed);
  tide_options o = read_options(L, c, NULL);
  if (o.dtype == TIDE_DTYPE_NONE)
    o.dtype = start.kind == 'I' && stop.kind == 'I' && step.kind == 'I' ? TIDE_INT64 : tide_get_default_dtype();
  return ltide_finish(L, c, tide_arange(ltide_result(L, c), start, step, count, &o));
}

static int llinspace(lua_State *L, ltide_call *c) {
  tide_options o = read_options(L, c, NULL);
  return ltide_finish(L, c, tide_linspace(ltide_result(L, c), c->v[0].number, c->v[1].number, c->v[2].i, &o));
}

/* The exponents are spaced and raised in float64 and cast once, at the end. */
static int llogspace(lua_State *L, ltide_call *c) {
  tide_options o = read_options(L, c, NULL);
  o.dtype = dtype_or_default(o.dtype);
  tide_operand in[2] = {{NULL, tide_float(c->v[3].number)}, {NULL, tide_int(0)}};
  tide_options wide = {TIDE_FLOAT64, o.device, false};
  ltide_tensor *exponents = ltide_new_tensor(L, c->S), *powers = ltide_new_tensor(L, c->S),
               *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_linspace(&exponents->t, c->v[0].number, c->v[1].number, c->v[2].i, &wide));
  in[1].tensor = exponents->t;
  ltide_try(L, tide_elementwise(&powers->t, TIDE_OP_pow, in, NULL, NULL));
  ltide_try(L, tide_to(&u->t, powers->t, &o, false, false));
  ltide_close_tensor(exponents);
  ltide_close_tensor(powers);
  return ltide_finish(L, c, TIDE_OK);
}

static int leye(lua_State *L, ltide_call *c) {
  tide_options o = read_options(L, c, NULL);
  o.dtype = dtype_or_default(o.dtype);
  return ltide_finish(L, c, tide_eye(ltide_result(L, c), c->v[0].i, c->v[c->v[1].given].i, &o));
}

static int ltriangle_indices(lua_State *L, ltide_call *c) {
  tide_options o = read_options(L, c, NULL);
  return ltide_finish(L, c, tide_tril_indices(ltide_result(L, c), c->v[0].i, c->v[1].i, c->v[2].i, c->row->tag, &o));
}

/* {==== Foreign memory */

typedef struct owner_node {
  struct owner_node *next; /* the Lua state's list */
  _Atomic int state;       /* 0: both hold it; 1: core let go; 2: the Lua state has closed */
  int ref;                 /* the owner, in the registry */
} owner_node;

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

/* The Lua state closes. */
static void end_owners(void *list) {
  for (owner_node *node = list, *next; node; node = next) {
    next = node->next;
    if (atomic_exchange(&node->state, 2) == 1) free(node);
  }
}

/* The head of the list is what an object owns; NULL: it has ended. */
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

static int lfrom_ptr(lua_State *L, ltide_call *c) {
  void *ptr = check_pointer(L, 1);
  const ltide_value *size = &c->v[1], *stride = ltide_get(L, c, "stride");
  tide_options o = read_options(L, c, NULL);
  o.dtype = dtype_or_default(o.dtype);
  if (stride->given && stride->n != size->n)
    return ltide_error(L, "ShapeError", "from_ptr: stride: got %d values, expected %d", stride->n, size->n);
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  int result = lua_gettop(L);
  owner_node *node = ltide_push_option(L, c->opts, "owner") ? new_owner(L) : NULL;
  tide_status status = tide_from_ptr(&u->t, ptr, size->sizes, stride->given ? stride->sizes : NULL, size->n, &o,
                                     node ? owner_release : NULL, node);
  if (status != TIDE_OK && node) atomic_store(&node->state, 1);
  ltide_try(L, status);
  ltide_made(L, c->S);
  lua_settop(L, result);
  return 1;
}

#include <rows/factory.inc>

void ltide_open_factory(lua_State *L, ltide_state *S) {
  ltide_open_finaliser(L, "tide.owner_sentinel", sentinel_gc);
  ltide_new_owned(L, end_owners);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_owners);
  ltide_register_rows(L, "tide", factory_rows);
}
