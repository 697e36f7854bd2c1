/* kernel.c: tide.kernel: kernels written in Lua, their calls.
 *
 * A kernel is a userdata that is called: k(grid, ...). A call reads the kinds of its arguments and looks among what was
 * compiled for one made for these (ltide_special), the last one first; numbers and tensors that the function has as
 * upvalues are read where they are, and go along. No table and no string is made. What is not there yet is made by
 * kernel/kernel.lua; then the call begins anew, since that may have run anything.
 *
 * A prebound call keeps all of that, packed, until its kernel has another body. Kernels with results make these anew at
 * each call, and so have little to keep.
 *
 * Invariant: what was made belongs to the kernel's own list; a call holds none of it while Lua code may run. */
#include "kernel.h"

#include "call/class.h"
#include "call/block.h"
#include "tensor/tensor.h"
#include "tide/jit.h"

typedef struct call {
  ltide_state *S;
  ltide_kernel *k;
  int at; /* where the kernel lies */
  int ndim, first, args, opts, device;
  tide_kernel_layout layout;
  int64_t grid[TIDE_KERNEL_DIMS];
  uint16_t code[TIDE_KERNEL_OPERANDS];
  tide_operand operand[TIDE_KERNEL_OPERANDS];
} call;

/* {==== Reading */

static int64_t read_size(lua_State *L, const ltide_kernel *k, int arg) {
  int is_integer = 0;
  lua_Integer i = lua_type(L, arg) == LUA_TNUMBER ? lua_tointegerx(L, arg, &is_integer) : 0;
  if (!is_integer)
    ltide_error(L, "ArgumentError",
                "kernel: %s: grid: got %s, expected an integer, or a table of one to three, before the arguments: "
                "k(grid, ...)",
                k->name, ltide_typename(L, arg));
  if (i < 0) ltide_error(L, "ValueError", "kernel: %s: grid: got %I, expected at least 0", k->name, (LUAI_UACINT)i);
  return i;
}

static void read_grid(lua_State *L, call *c, int arg) {
  if (lua_type(L, arg) == LUA_TNUMBER) {
    c->grid[0] = read_size(L, c->k, arg), c->ndim = 1;
    return;
  }
  if (lua_type(L, arg) == LUA_TUSERDATA) ltide_plain_shape(L, arg);
  if (!lua_istable(L, arg)) read_size(L, c->k, arg); /* raises */
  c->ndim = (int)lua_rawlen(L, arg);
  if (c->ndim == 0) ltide_plain_shape(L, arg), c->ndim = (int)lua_rawlen(L, arg);
  if (c->ndim < 1 || c->ndim > TIDE_KERNEL_DIMS)
    ltide_error(L, "ArgumentError", "kernel: %s: grid: got %d sizes, expected one to three", c->k->name, c->ndim);
  for (int d = 0; d < c->ndim; d++, lua_pop(L, 1)) {
    lua_rawgeti(L, arg, d + 1);
    c->grid[d] = read_size(L, c->k, lua_gettop(L));
  }
}

/* The kind of the value at arg, which goes to *out; NONE where it is neither a tensor nor a number. */
static inline uint16_t read_value(lua_State *L, ltide_state *S, int arg, tide_operand *out) {
  ltide_tensor *u;
  out->tensor = NULL;
  switch (lua_type(L, arg)) {
  case LUA_TUSERDATA:
    u = ltide_test_handle(L, S, arg);
    if (!u || !u->t) return LTIDE_IS_NONE;
    out->tensor = u->t;
    return ltide_tensor_code(tide_tensor_dtype(u->t), tide_tensor_ndim(u->t));
  case LUA_TNUMBER:
    if (lua_isinteger(L, arg)) return out->number = tide_int(lua_tointeger(L, arg)), LTIDE_IS_INTEGER;
    return out->number = tide_float(lua_tonumber(L, arg)), LTIDE_IS_FLOAT;
  case LUA_TBOOLEAN: return out->number = tide_bool(lua_toboolean(L, arg)), LTIDE_IS_BOOLEAN;
  default: return LTIDE_IS_NONE;
  }
}

static void fail_value(lua_State *L, ltide_state *S, const ltide_kernel *k, int arg, int n) {
  bool freed = ltide_test_handle(L, S, arg) != NULL;
  const char *hint = lua_istable(L, arg) ? "; the last one may be options: {out=}" : "";
  if (ltide_is_small(L, arg))
    hint = "; pass its components, v.x and so on, or use a local from outside of the function";
  ltide_error(L, freed ? "StateError" : "ArgumentError",
              "kernel: %s: argument %d: got %s, expected a tensor, a number or a boolean%s", k->name, n,
              ltide_typename(L, arg), hint);
}

/* A table at the end: {out=}. A list or a vector is none, but a value that no kernel takes. */
static bool is_options(lua_State *L, const ltide_kernel *k, int arg) {
  int top = lua_gettop(L);
  if (ltide_is_small(L, arg)) return false;
  for (lua_pushnil(L); lua_next(L, arg); lua_settop(L, top + 1)) {
    if (lua_type(L, top + 1) != LUA_TSTRING) return lua_settop(L, top), false;
    if (strcmp(lua_tostring(L, top + 1), "out"))
      ltide_error(L, "ArgumentError",
                  "kernel: %s: unknown option '%s', expected out; the function can use a table of tensors from outside",
                  k->name, lua_tostring(L, top + 1));
  }
  return true;
}

/* The arguments from `first` to `last`, of which the last one may be options. */
static void read_args(lua_State *L, call *c, int first, int last) {
  c->opts = last >= first && lua_istable(L, last) && is_options(L, c->k, last) ? last-- : 0;
  c->first = first, c->args = last - first + 1;
  if (c->args > TIDE_KERNEL_OPERANDS)
    ltide_error(L, "ArgumentError", "kernel: %s: got %d arguments, expected at most %d", c->k->name, c->args,
                TIDE_KERNEL_OPERANDS);
  for (int i = 0; i < c->args; i++) {
    c->code[i] = read_value(L, c->S, first + i, &c->operand[i]);
    if (!c->code[i]) fail_value(L, c->S, c->k, first + i, i + 1);
  }
}

/* {==== What lies outside */

/* Pushes the value, by raw reads alone; nil where nothing is there any more. `list` holds the places. */
static void push_outer(lua_State *L, const ltide_outer *o, int list) {
  int at = o->at;
  lua_rawgeti(L, list, at++);
  if (o->upvalue) {
    if (!lua_getupvalue(L, -1, o->upvalue)) lua_pushnil(L);
    lua_remove(L, -2);
  } else { /* of the table that stands before its name */
    lua_rawgeti(L, list, at++);
    lua_rawget(L, -2);
    lua_remove(L, -2);
  }
  for (int i = 0; i < o->fields; i++) {
    if (!lua_istable(L, -1)) {
      lua_pop(L, 1);
      lua_pushnil(L);
      return;
    }
    lua_rawgeti(L, list, at++);
    lua_rawget(L, -2);
    lua_remove(L, -2);
  }
}

/* Reads them behind the arguments; false: they are of other kinds now, or others. Tensors stay on the stack. */
static bool read_outers(lua_State *L, call *c, const ltide_special *s) {
  int top = lua_gettop(L), n = c->args;
  if (!s->outers) return true;
  luaL_checkstack(L, s->outers + LUA_MINSTACK, "kernel");
  lua_getiuservalue(L, c->at, 2);
  lua_rawgeti(L, -1, s->number);
  int list = lua_gettop(L);
  bool same = true;
  for (int i = 0; same && i < s->outers; i++) {
    const ltide_outer *o = &s->outer[i];
    push_outer(L, o, list);
    if (o->fixed)
      same = lua_topointer(L, -1) == o->fixed;
    else
      same = read_value(L, c->S, lua_gettop(L), &c->operand[n++]) == o->code;
    if (o->fixed || (same && !c->operand[n - 1].tensor)) lua_pop(L, 1);
  }
  if (!same) lua_settop(L, top);
  return same;
}

/* {==== Finding */

static inline bool is_for(const ltide_special *s, const call *c) {
  return s->ndim == c->ndim && s->args == c->args && !memcmp(s->code, c->code, (size_t)c->args * sizeof *c->code);
}

static bool is_shaped(const ltide_special *s, const call *c) {
  for (int i = 0; i < c->args; i++) {
    const tide_tensor *x = c->operand[i].tensor;
    const ltide_shape *of = &s->shape[i];
    if (!x || tide_tensor_ndim(x) < 2 || of->like == LTIDE_ANY_SHAPE) continue;
    if (ltide_like(c->operand, i) != of->like || (of->row && ltide_is_packed(x, of->row) != of->packed)) return false;
  }
  return true;
}

/* The first one of out=, or NULL. */
static tide_tensor *destination(lua_State *L, const call *c) {
  int top = lua_gettop(L);
  const ltide_tensor *u = NULL;
  if (c->opts && ltide_push_option(L, c->opts, "out")) {
    if (lua_istable(L, -1)) lua_rawgeti(L, -1, 1);
    u = ltide_test_handle(L, c->S, lua_gettop(L));
  }
  lua_settop(L, top);
  return u ? u->t : NULL;
}

/* The device of the first tensor among the first operands. */
static int device_of(lua_State *L, const call *c, int operands) {
  for (int i = 0; i < operands; i++)
    if (c->operand[i].tensor) return tide_tensor_device(c->operand[i].tensor);
  const tide_tensor *out = destination(L, c);
  if (out) return tide_tensor_device(out);
  return tide_is_available() ? tide_current_device() : TIDE_CPU;
}

static ltide_special *find(lua_State *L, call *c) {
  ltide_kernel *k = c->k;
  for (ltide_special **p = &k->specials; *p; p = &(*p)->next) {
    ltide_special *s = *p;
    if (!is_for(s, c) || !is_shaped(s, c)) continue;
    int top = lua_gettop(L);
    if (!read_outers(L, c, s)) continue;
    c->layout = tide_kernel_layout_of(c->grid, c->ndim, c->operand, c->args + s->passed);
    c->device = device_of(L, c, c->args + s->passed);
    if (s->layout != c->layout || s->gpu != ltide_is_gpu(c->device)) {
      lua_settop(L, top);
      continue;
    }
    *p = s->next;
    s->next = k->specials, k->specials = s;
    return s;
  }
  return NULL;
}

/* The layout, and the device, of what comes from outside is known only once something was compiled. */
static ltide_special *find_or_make(lua_State *L, call *c, int grid, int last) {
  int top = lua_gettop(L);
  for (int tries = 0;; tries++) {
    read_grid(L, c, grid);
    read_args(L, c, grid + 1, last);
    c->layout = tide_kernel_layout_of(c->grid, c->ndim, c->operand, c->args);
    c->device = device_of(L, c, c->args);
    ltide_special *s = find(L, c);
    if (s) return s;
    if (tries == 3)
      ltide_error(L, "StateError", "kernel: %s: what it reads from outside changes while it is compiled", c->k->name);
    ltide_special_make(L, c->at, c->ndim, c->layout, c->device, c->first, c->operand, c->args);
    c->S = ltide_enter(L);
    c->k = ltide_check_kernel(L, c->at);
    lua_settop(L, top);
  }
}

/* {==== Results */

static bool has_out(lua_State *L, const call *c) {
  bool has = c->opts && ltide_push_option(L, c->opts, "out");
  if (has) lua_pop(L, 1);
  return has;
}

/* May the kernel write to it at once? It reads no other operand's elements there. */
static bool is_direct(const call *c, const ltide_special *s, const tide_tensor *out, int i) {
  bool same = tide_tensor_dtype(out) == s->dtype[i] && tide_tensor_ndim(out) == c->ndim;
  for (int d = 0; same && d < c->ndim; d++) same = tide_tensor_size(out)[d] == c->grid[d];
  for (int k = 0; same && k < c->args + s->passed + i; k++)
    same = !c->operand[k].tensor || tide_tensor_storage(c->operand[k].tensor) != tide_tensor_storage(out);
  return same;
}

/* Pushes the destinations, and sets the operands where all of them may be written at once. False: pushes nothing. */
static bool push_destinations(lua_State *L, call *c, const ltide_special *s) {
  tide_operand *to = c->operand + c->args + s->passed;
  int top = lua_gettop(L);
  bool direct = c->k->reduce < 0;
  ltide_check_out(L, c->S, c->opts, s->results);
  for (int i = 0; i < s->results; i++) {
    ltide_push_option(L, c->opts, "out");
    if (s->results > 1) lua_rawgeti(L, -1, i + 1), lua_remove(L, -2);
    tide_tensor *out = ltide_check_tensor(L, c->S, lua_gettop(L), "out");
    direct = direct && is_direct(c, s, out, i);
    to[i].tensor = out;
  }
  if (!direct) lua_settop(L, top);
  return direct;
}

/* Does each block write one result? */
static bool is_joined(const call *c, const ltide_special *s) { return s->rounds > 1 && c->k->reduce >= 0 && s->gpu; }

/* As many dims as the grid has, whose last one is as many blocks of threads as there are. */
static void count_blocks(int64_t *size, const call *c, const ltide_special *s) {
  int64_t blocks = 1;
  for (int d = 0; d < c->ndim; d++) {
    int64_t of = s->block[d] * (d < c->ndim - 1 ? 1 : s->rounds);
    blocks *= (c->grid[d] + of - 1) / of;
    size[d] = 1;
  }
  size[c->ndim - 1] = blocks;
}

static void push_new(lua_State *L, call *c, const ltide_special *s) {
  tide_operand *to = c->operand + c->args + s->passed;
  int64_t blocks[TIDE_KERNEL_DIMS];
  bool joined = is_joined(c, s);
  if (joined) count_blocks(blocks, c, s);
  for (int i = 0; i < s->results; i++) {
    const tide_options o = {s->dtype[i], c->device, false};
    ltide_tensor *u = ltide_new_tensor(L, c->S);
    ltide_try(L, tide_empty(&u->t, joined ? blocks : c->grid, c->ndim, &o));
    to[i].tensor = u->t;
  }
}

/* Over all places, in the place of the results at the top. */
static void reduce_results(lua_State *L, const call *c, const ltide_special *s) {
  int first = lua_gettop(L) - s->results + 1;
  const tide_reduce_options o = TIDE_REDUCE_OPTIONS;
  for (int i = 0; i < s->results; i++) {
    ltide_tensor *all = lua_touserdata(L, first + i), *u = ltide_new_tensor(L, c->S);
    ltide_try(L, tide_reduce(&u->t, (tide_reduction)c->k->reduce, all->t, &o, NULL));
    ltide_close_tensor(all);
    lua_replace(L, first + i);
  }
}

/* {==== Calling */

static void check_options(lua_State *L, const call *c, const ltide_special *s) {
  if (c->opts && s->results == 0)
    ltide_error(L, "ArgumentError", "kernel: %s: got options, expected none: the kernel returns nothing", c->k->name);
}

/* Is the host to have its turn until the kernel is compiled? */
static bool must_yield(lua_State *L, const call *c, const ltide_special *s) {
  bool ready = true;
  if (ltide_may_yield(L, c->S)) ltide_try(L, tide_kernel_ready(&ready, s->kernel, c->device));
  return !ready;
}

static tide_status launch(const call *c, const ltide_special *s) {
  return tide_kernel_launch(s->kernel, c->grid, c->operand, c->args + s->passed + s->results, c->device);
}

static int run(lua_State *L, call *c, ltide_special *s) {
  check_options(L, c, s);
  s->ran = true, s->device = c->device;
  if (!s->results) return ltide_done(L, launch(c, s));
  luaL_checkstack(L, s->results + LUA_MINSTACK, "kernel");
  bool out = has_out(L, c), direct = out && push_destinations(L, c, s);
  if (!direct) push_new(L, c, s);
  ltide_try(L, launch(c, s));
  int n = s->results;
  if (c->k->reduce >= 0) reduce_results(L, c, s);
  if (out && !direct) return ltide_deliver(L, c->S, c->opts, n);
  ltide_made(L, c->S);
  return n;
}

/* Upvalue 1 is the metatable of kernels. */
static int lkernel_call(lua_State *L) {
  call c = {.S = ltide_enter(L), .at = 1};
  int top = lua_gettop(L);
  c.k = ltide_test_meta(L, 1, lua_topointer(L, lua_upvalueindex(1)));
  if (!c.k) return ltide_arg_error(L, 1, "k", "a kernel of tide.kernel");
  luaL_checkstack(L, LUA_MINSTACK, "kernel");
  ltide_special *s = find_or_make(L, &c, 2, top);
  if (!must_yield(L, &c, s)) return run(L, &c, s);
  lua_settop(L, top);
  return ltide_yield_again(L, lkernel_call);
}

/* {==== Prebound calls */

/* User values: 1 the kernel, 2 the list of its arguments, the grid first and options last. */
typedef struct bound {
  const ltide_kernel *k;
  tide_kernel_bound *packed; /* NULL: to be packed at the next call */
  uint32_t body;             /* of the kernel, when it was packed */
  int special;               /* its number */
  int listed, args;          /* with and without options */
  bool has_outers;
} bound;

static bound *check_bound(lua_State *L, int arg) {
  bound *b = ltide_test_object(L, arg, LTIDE_BOUND_META);
  if (!b) ltide_arg_error(L, arg, "call", "what k:on(grid, ...) gives");
  return b;
}

static void bound_release(void *object) {
  bound *b = object;
  tide_kernel_bound_free(b->packed);
  b->packed = NULL;
}

static void pack(lua_State *L, bound *b, const call *c, ltide_special *s) {
  s->ran = true, s->device = c->device;
  bound_release(b);
  b->body = c->k->body, b->special = s->number, b->args = c->args, b->has_outers = s->outers > 0;
  ltide_try(L, tide_kernel_bind(&b->packed, s->kernel, c->grid, c->operand, c->args + s->passed, c->device));
}

/* As k(grid, ...), and packs what the next call needs. The bound kernel is at 1. */
static int call_and_pack(lua_State *L, bound *b) {
  luaL_checkstack(L, b->listed + LUA_MINSTACK, "kernel");
  lua_getiuservalue(L, 1, 1);
  call c = {.S = ltide_enter(L), .at = 2, .k = ltide_check_kernel(L, 2)};
  lua_getiuservalue(L, 1, 2);
  for (int i = 0; i <= b->listed; i++) lua_rawgeti(L, 3, i + 1);
  lua_remove(L, 3);
  ltide_special *s = find_or_make(L, &c, 3, lua_gettop(L));
  if (must_yield(L, &c, s)) return -1;
  if (s->results) return run(L, &c, s);
  check_options(L, &c, s);
  pack(L, b, &c, s);
  return ltide_done(L, tide_kernel_bound_launch(b->packed));
}

/* Reads what lies outside of the functions again; false: it is of another kind now, or a tensor. */
static bool renew_outers(lua_State *L, const bound *b) {
  lua_getiuservalue(L, 1, 1);
  call c = {.S = ltide_enter(L), .at = 2, .k = ltide_check_kernel(L, 2), .args = b->args};
  const ltide_special *s = c.k->specials;
  while (s && s->number != b->special) s = s->next;
  if (!s || !read_outers(L, &c, s)) return false;
  for (int i = c.args; i < c.args + s->passed; i++) {
    if (c.operand[i].tensor) return false;
    ltide_try(L, tide_kernel_bound_set(b->packed, i, c.operand[i].number));
  }
  return true;
}

static void fail_arguments(lua_State *L, const bound *b) {
  ltide_error(
      L, "ArgumentError",
      "kernel: %s: got %s for a call that has its arguments, expected none: call() runs it, call:set(n, v) changes "
      "argument n",
      b->k->name, ltide_typename(L, 2));
}

/* Upvalue 1 is the metatable of bound kernels. */
static int lbound_call(lua_State *L) {
  ltide_enter(L);
  bound *b = ltide_test_meta(L, 1, lua_topointer(L, lua_upvalueindex(1)));
  if (!b) return ltide_arg_error(L, 1, "call", "what k:on(grid, ...) gives");
  if (lua_gettop(L) > 1) fail_arguments(L, b);
  if (b->packed && b->body == b->k->body && (!b->has_outers || renew_outers(L, b)))
    return ltide_done(L, tide_kernel_bound_launch(b->packed));
  lua_settop(L, 1);
  int n = call_and_pack(L, b);
  if (n >= 0) return n;
  lua_settop(L, 1);
  return ltide_yield_again(L, lbound_call);
}

static int lbound_set(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  bound *b = check_bound(L, 1);
  tide_operand value, before;
  ltide_no_options(L, 3);
  int64_t n = ltide_check_integer(L, 2, "n");
  if (n < 1 || n > b->args)
    return ltide_error(L, "ValueError", "kernel: %s: set: got argument %I, expected 1 to %d", b->k->name,
                       (LUAI_UACINT)n, b->args);
  lua_settop(L, 3);
  uint16_t code = read_value(L, S, 3, &value);
  if (!code) fail_value(L, S, b->k, 3, (int)n);
  lua_getiuservalue(L, 1, 2);
  lua_rawgeti(L, 4, (lua_Integer)n + 1);
  bool same = code == read_value(L, S, 5, &before) && !value.tensor;
  lua_pushvalue(L, 3);
  lua_rawseti(L, 4, (lua_Integer)n + 1);
  if (b->packed && same)
    ltide_try(L, tide_kernel_bound_set(b->packed, (int)n - 1, value.number));
  else
    bound_release(b);
  lua_settop(L, 1);
  return 1;
}

static int bound_tostring(lua_State *L, void *object) {
  const bound *b = object;
  return lua_pushfstring(L, "tide.kernel(%s):on(...)", b->k->name), 1;
}

/* k:on(grid, ...): everything is checked and made at once, and nothing is run. */
static int lkernel_on(lua_State *L) {
  int top = lua_gettop(L);
  ltide_enter(L);
  ltide_kernel *k = ltide_check_kernel(L, 1);
  if (top < 2) read_size(L, k, 2); /* raises */
  luaL_checkstack(L, top + LUA_MINSTACK, "kernel");
  bound *b = memset(ltide_new_object(L, sizeof *b, 2), 0, sizeof *b);
  ltide_setmetatable(L, LTIDE_BOUND_META);
  b->k = k, b->listed = top > 2 ? top - 2 : 0;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  lua_createtable(L, top, 0);
  for (int i = 2; i <= top; i++) lua_pushvalue(L, i), lua_rawseti(L, -2, i - 1);
  lua_setiuservalue(L, -2, 2);
  call c = {.S = ltide_enter(L), .at = 1, .k = k};
  ltide_special *s = find_or_make(L, &c, 2, top);
  if (must_yield(L, &c, s)) return lua_settop(L, top), ltide_yield_again(L, lkernel_on);
  check_options(L, &c, s);
  b->args = c.args;
  if (!s->results) pack(L, b, &c, s);
  lua_settop(L, top + 1);
  return 1;
}

/* {==== The class */

ltide_kernel *ltide_check_kernel(lua_State *L, int arg) {
  ltide_kernel *k = ltide_test_object(L, arg, LTIDE_LUA_KERNEL_META);
  if (!k) ltide_arg_error(L, arg, "k", "a kernel of tide.kernel");
  return k;
}

static void kernel_release(void *object) { ltide_specials_free(object); }

static int kernel_tostring(lua_State *L, void *object) {
  return lua_pushfstring(L, "tide.kernel(%s)", ((const ltide_kernel *)object)->name), 1;
}

/* A method that kernel/kernel.lua does: its name, with what it keeps of the kernel in front of the arguments. */
static int call_method(lua_State *L, const char *name) {
  ltide_enter(L);
  ltide_check_kernel(L, 1);
  lua_getiuservalue(L, 1, 1);
  lua_insert(L, 2);
  return ltide_script_call(L, name, lua_gettop(L));
}

static int lkernel_replace(lua_State *L) { return call_method(L, "kernel/kernel.replace"); }
static int lkernel_source(lua_State *L) { return call_method(L, "kernel/kernel.text_of"); }

static int lkernel_ready(lua_State *L) {
  ltide_enter(L);
  const ltide_kernel *k = ltide_check_kernel(L, 1);
  ltide_no_options(L, 1);
  return ltide_give_boolean(L, ltide_specials_ready(L, k, false));
}

static int lkernel_wait(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const ltide_kernel *k = ltide_check_kernel(L, 1);
  ltide_no_options(L, 1);
  lua_settop(L, 1);
  if (ltide_may_yield(L, S) && !ltide_specials_ready(L, k, false)) return ltide_yield_again(L, lkernel_wait);
  ltide_specials_ready(L, k, true);
  return 1;
}

static int lcache_stats(lua_State *L, ltide_call *c) {
  tide_jit_stats s;
  tide_jit_get_stats(&s);
  lua_createtable(L, 0, 4);
  ltide_set_integer(L, "hits", s.memory_hits);
  ltide_set_integer(L, "misses", s.disk_hits + s.misses);
  ltide_set_integer(L, "disk_hits", s.disk_hits);
  ltide_set_integer(L, "compiled", s.misses);
  return 1;
}

/* The metatable of the class is the upvalue of its call. */
static void set_call(lua_State *L, const char *meta, lua_CFunction f) {
  luaL_getmetatable(L, meta);
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, f, 1);
  lua_setfield(L, -2, "__call");
  lua_pop(L, 1);
}

#include <rows/kernel.inc>
#include <rows/kernel_functions.inc>

#include <rows/kernel_methods.inc>

#include <rows/kernel_bound.inc>

void ltide_open_kernel(lua_State *L, ltide_state *S) {
  static const ltide_field members[] = LTIDE_FIELDS(ltide_kernel, name);
  static const ltide_class class = {.meta = LTIDE_LUA_KERNEL_META,
                                    .name = "LuaKernel",
                                    .rows = kernel_methods_rows,
                                    .members = members,
                                    .size = sizeof(ltide_kernel),
                                    .release = kernel_release,
                                    .tostring = kernel_tostring},
                           bound_class = {.meta = LTIDE_BOUND_META,
                                          .name = "BoundLuaKernel",
                                          .rows = kernel_bound_rows,
                                          .size = sizeof(bound),
                                          .release = bound_release,
                                          .tostring = bound_tostring};
  ltide_open_class(L, &class);
  ltide_open_class(L, &bound_class);
  set_call(L, LTIDE_LUA_KERNEL_META, lkernel_call);
  set_call(L, LTIDE_BOUND_META, lbound_call);
  ltide_script_give(L, "kernel/specialize.c", ltide_kernel_script);
  ltide_script_give(L, "kernel/source_text.c", ltide_kernel_texts);
  ltide_register_rows(L, "tide", kernel_rows);
  lua_getfield(L, -1, "kernel");
  ltide_register_rows(L, "tide.kernel", kernel_functions_rows);
  lua_pop(L, 1);
}
