/* raw.c: tide.cuda.compile_kernel: raw CUDA C kernels.
 *
 * A kernel is a userdata that is called: k({grid=, block=, shared_mem=, stream=}, ...). What it takes is checked by
 * core, which knows the signature; here values of Lua become operands and the table of sizes is read, one look at each
 * of its keys. k:bind{...} packs all that once and gives a function without arguments.
 *
 * Invariant: the __call and methods check their first argument by its metatable, so no other userdata gets in. */

#include "call/fields.h"
#include "call/row.h"
#include "call/did_you_mean.h"
#include "call/block.h"
#include "tide/jit.h"

#define KERNEL_META "tide.cuda.Kernel"
#define BOUND_META  "tide.cuda.BoundKernel"

enum { ARGUMENTS = 64 };

static tide_raw_kernel *check_kernel(lua_State *L, int arg) {
  tide_raw_kernel **u = ltide_test_object(L, arg, KERNEL_META);
  if (!u) ltide_arg_error(L, arg, "k", "a kernel of tide.cuda.compile_kernel");
  if (!*u) ltide_error(L, "StateError", "compile_kernel: the kernel is gone");
  return *u;
}

static int kernel_gc(lua_State *L) {
  tide_raw_kernel_free(ltide_take_pointer(L, KERNEL_META));
  return 0;
}

static int bound_gc(lua_State *L) {
  tide_raw_kernel_bound_free(ltide_take_pointer(L, BOUND_META));
  return 0;
}

/* {==== Sizes and arguments */

static int64_t read_size(lua_State *L, const tide_raw_kernel *k, const char *key, int arg) {
  int is_integer = 0, least = strcmp(key, "grid") ? 1 : 0;
  lua_Integer i = lua_type(L, arg) == LUA_TNUMBER ? lua_tointegerx(L, arg, &is_integer) : 0;
  if (!is_integer)
    ltide_error(L, "ArgumentError", "%s: %s: got %s, expected an integer, or a table of one to three",
                tide_raw_kernel_name(k), key, ltide_typename(L, arg));
  if (i < least)
    ltide_error(L, "ValueError", "%s: %s: got %I, expected at least %d", tide_raw_kernel_name(k), key, (LUAI_UACINT)i,
                least);
  return i;
}

/* The value at the top: 256, {16, 16} or {x, y, z}. Gives whether one of them is 0. */
static bool read_sizes(lua_State *L, const tide_raw_kernel *k, const char *key, int64_t *out) {
  int at = lua_gettop(L);
  if (!lua_istable(L, at)) {
    out[0] = read_size(L, k, key, at);
    return out[0] == 0;
  }
  ltide_plain_shape(L, at);
  int n = (int)lua_rawlen(L, at);
  if (n < 1 || n > 3)
    ltide_error(L, "ArgumentError", "%s: %s: got %d sizes, expected one to three", tide_raw_kernel_name(k), key, n);
  lua_pushinteger(L, n);
  if (lua_next(L, at)) {
    if (lua_type(L, -2) == LUA_TSTRING)
      ltide_error(L, "ArgumentError", "%s: %s: got '%s' among the sizes, expected one to three integers",
                  tide_raw_kernel_name(k), key, lua_tostring(L, -2));
    lua_pop(L, 2);
  }
  bool none = false;
  for (int d = 0; d < n; d++) {
    lua_rawgeti(L, at, d + 1);
    out[d] = read_size(L, k, key, at + 1);
    none |= out[d] == 0;
    lua_pop(L, 1);
  }
  return none;
}

static void bad_option(lua_State *L, const tide_raw_kernel *k, const char *key, const char *expected) {
  ltide_error(L, "ArgumentError", "%s: %s: got %s, expected %s", tide_raw_kernel_name(k), key,
              ltide_typename(L, lua_gettop(L)), expected);
}

static lua_Integer read_shared(lua_State *L, const tide_raw_kernel *k) {
  int is_integer = 0;
  lua_Integer bytes = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &is_integer) : 0;
  if (!is_integer) bad_option(L, k, "shared_mem", "an integer: bytes");
  return bytes;
}

static tide_stream *read_stream(lua_State *L, const tide_raw_kernel *k) {
  tide_stream **u = ltide_test_meta(L, lua_gettop(L), ltide_handle_of(ltide_enter(L))->stream_meta);
  if (!u) bad_option(L, k, "stream", "a tide.cuda.Stream");
  if (!*u) ltide_freed_error(L, "stream", "stream");
  return *u;
}

static void read_grid(lua_State *L, const tide_raw_kernel *k, int arg, tide_grid *g) {
  bool has_grid = false, has_block = false;
  *g = (tide_grid){.stream = NULL};
  if (!lua_istable(L, arg))
    ltide_error(L, "ArgumentError", "%s: got %s, expected a table {grid=, block=, shared_mem=, stream=} first",
                tide_raw_kernel_name(k), ltide_typename(L, arg));
  for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (!strcmp(key, "grid"))
      g->empty = read_sizes(L, k, key, g->grid), has_grid = true;
    else if (!strcmp(key, "block"))
      read_sizes(L, k, key, g->block), has_block = true;
    else if (!strcmp(key, "shared_mem"))
      g->shared = read_shared(L, k);
    else if (!strcmp(key, "stream"))
      g->stream = read_stream(L, k);
    else
      ltide_error(L, "ArgumentError", "%s: unknown option '%s', expected grid, block, shared_mem, stream",
                  tide_raw_kernel_name(k), *key ? key : ltide_typename(L, -2));
  }
  if (!has_grid || !has_block)
    ltide_error(L, "ArgumentError", "%s: %s is missing, expected {grid=, block=}", tide_raw_kernel_name(k),
                has_grid ? "block" : "grid");
}

/* The arguments from `first` on; returns how many. */
static int read_arguments(lua_State *L, ltide_state *S, const tide_raw_kernel *k, int first, tide_operand *args) {
  int n = lua_gettop(L) - first + 1;
  if (n != tide_raw_kernel_params(k))
    ltide_error(L, "ArgumentError", "%s: wrong number of arguments, got %d, expected %d", tide_raw_kernel_name(k), n,
                tide_raw_kernel_params(k));
  for (int i = 0; i < n; i++) {
    ltide_tensor *u = ltide_test_handle(L, S, first + i);
    args[i].tensor = u ? u->t : NULL;
    if (!args[i].tensor && (u || !ltide_test_scalar(L, first + i, &args[i].number)))
      ltide_error(L, u ? "StateError" : "ArgumentError", "%s: argument %d (%s %s): got %s, expected %s",
                  tide_raw_kernel_name(k), i + 1, tide_raw_kernel_param_get(k, i)->type,
                  tide_raw_kernel_param_get(k, i)->name, ltide_typename(L, first + i),
                  tide_raw_kernel_param_get(k, i)->kind == TIDE_PARAM_POINTER ? "a tensor" : "a number");
  }
  return n;
}

/* {==== Calling */

static int device_of(const tide_grid *g, const tide_operand *args, int n) {
  if (g->stream) return tide_stream_device(g->stream);
  for (int i = 0; i < n; i++)
    if (args[i].tensor) return tide_tensor_device(args[i].tensor);
  return TIDE_CURRENT;
}

/* False where the host is to have its turn until the kernel is compiled. */
static bool is_ready(lua_State *L, const ltide_state *S, tide_raw_kernel *k, const tide_grid *g,
                     const tide_operand *args, int n) {
  bool ready = true;
  if (ltide_may_yield(L, S)) ltide_try(L, tide_raw_kernel_ready(&ready, k, device_of(g, args, n)));
  return ready;
}

/* Upvalue 1 is the metatable of kernels. */
static int lraw_call(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_operand args[ARGUMENTS];
  tide_grid g;
  tide_raw_kernel **u = ltide_test_meta(L, 1, lua_topointer(L, lua_upvalueindex(1))), *k = u ? *u : NULL;
  if (!u) return ltide_arg_error(L, 1, "k", "a kernel of tide.cuda.compile_kernel");
  if (!k) return ltide_error(L, "StateError", "compile_kernel: the kernel is gone");
  luaL_checkstack(L, 8, "compile_kernel");
  read_grid(L, k, 2, &g);
  int n = read_arguments(L, S, k, 3, args);
  if (!is_ready(L, S, k, &g, args, n)) return ltide_yield_again(L, lraw_call);
  return ltide_done(L, tide_raw_kernel_launch(k, &g, args, n));
}

static int lbound_call(lua_State *L) {
  ltide_enter(L);
  tide_raw_kernel_bound *b = *(tide_raw_kernel_bound **)lua_touserdata(L, lua_upvalueindex(1));
  if (!b) return ltide_error(L, "StateError", "launch: what was bound is gone");
  return ltide_done(L, tide_raw_kernel_bound_launch(b));
}

static int lraw_bind(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_operand args[ARGUMENTS];
  tide_grid g;
  tide_raw_kernel *k = check_kernel(L, 1);
  luaL_checkstack(L, 8, "bind");
  read_grid(L, k, 2, &g);
  int n = read_arguments(L, S, k, 3, args);
  if (!is_ready(L, S, k, &g, args, n)) return ltide_yield_again(L, lraw_bind);
  if (g.stream) ltide_hold_stream(L, S, g.stream); /* the table may let go of it while the handle is made */
  ltide_try(L, tide_raw_kernel_bind((tide_raw_kernel_bound **)ltide_new_pointer(L, BOUND_META), k, &g, args, n));
  lua_pushcclosure(L, lbound_call, 1);
  return 1;
}

/* {==== Looking */

static int lraw_ready(lua_State *L, ltide_call *c) {
  bool ready;
  ltide_try(L, tide_raw_kernel_ready(&ready, c->v[0].object, c->v[1].given ? c->v[1].device : TIDE_CURRENT));
  return ltide_give_boolean(L, ready);
}

static int lraw_params(lua_State *L, ltide_call *c) {
  static const ltide_field fields[] = LTIDE_FIELDS(tide_raw_kernel_param, name, type, read_only);
  const tide_raw_kernel *k = c->v[0].object;
  lua_createtable(L, tide_raw_kernel_params(k), 0);
  for (int i = 0; i < tide_raw_kernel_params(k); i++) {
    lua_createtable(L, 0, 3);
    ltide_set_fields(L, fields, tide_raw_kernel_param_get(k, i), false);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int kernel_tostring(lua_State *L) {
  tide_raw_kernel *k = check_kernel(L, 1);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  lua_pushfstring(L, "tide.cuda.Kernel(%s(", tide_raw_kernel_name(k));
  luaL_addvalue(&b);
  for (int i = 0; i < tide_raw_kernel_params(k); i++) {
    const tide_raw_kernel_param *p = tide_raw_kernel_param_get(k, i);
    lua_pushfstring(L, "%s%s%s%s", i ? ", " : "", p->type, p->name[0] ? " " : "", p->name);
    luaL_addvalue(&b);
  }
  luaL_addstring(&b, "))");
  luaL_pushresult(&b);
  return 1;
}

/* {==== Making */

/* The strings of the list at `arg`, which stay alive in their table. */
static int read_strings(lua_State *L, int arg, const char *name, const char **out) {
  int n = ltide_check_list(L, arg, ARGUMENTS, name, "strings");
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, arg, i + 1);
    out[i] = ltide_check_cstring(L, lua_gettop(L), name, "strings");
    lua_pop(L, 1);
  }
  return n;
}

/* options: {"-DN=4", "-lineinfo"}, or {options={...}, params={...}}. */
static void read_opts(lua_State *L, int arg, tide_raw_kernel_text *t, const char **options, const char **params) {
  if (!lua_istable(L, arg)) ltide_arg_error(L, arg, "options", "a table of options for the compiler: {\"-DN=4\"}");
  if (lua_rawlen(L, arg) > 0) {
    t->options_count = read_strings(L, arg, "options", options);
    return;
  }
  ltide_check_keys(L, arg, LTIDE_NAMES("options", "params"));
  if (ltide_push_option(L, arg, "options")) t->options_count = read_strings(L, lua_gettop(L), "options", options);
  if (ltide_push_option(L, arg, "params"))
    t->params = params, t->params_count = read_strings(L, lua_gettop(L), "params", params);
}

static int lcompile_kernel(lua_State *L, ltide_call *c) {
  const char *options[ARGUMENTS], *params[ARGUMENTS];
  tide_raw_kernel_text t = {.struct_size = sizeof t, .options = options};
  t.source = ltide_check_cstring(L, c->v[0].at, "src", "a string of CUDA C");
  t.name = ltide_check_cstring(L, c->v[1].at, "name", "the name of a kernel in the source");
  if (c->v[2].given) read_opts(L, c->v[2].at, &t, options, params);
  return ltide_give(L, tide_raw_kernel_new((tide_raw_kernel **)ltide_new_pointer(L, KERNEL_META), &t));
}

#include <rows/jit_kernel_cuda.inc>

#include <rows/raw_kernel.inc>

/* Upvalue 1: the methods. */
static int kernel_index(lua_State *L) {
  tide_raw_kernel *k = check_kernel(L, 1);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "name")) return ltide_no_field(L, "Kernel", key, lua_upvalueindex(1), "name");
  lua_pushstring(L, tide_raw_kernel_name(k));
  return 1;
}

void ltide_open_jit_kernel(lua_State *L, ltide_state *S) {
  static const luaL_Reg bound_meta[] = {{"__gc", bound_gc}, {0}},
                        meta[] = {{"__gc", kernel_gc}, {"__tostring", kernel_tostring}, {0}};
  ltide_new_class(L, BOUND_META, bound_meta, NULL, NULL, NULL);
  ltide_new_class(L, KERNEL_META, meta, "Kernel", raw_kernel_rows, kernel_index);
  luaL_getmetatable(L, KERNEL_META);
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, lraw_call, 1);
  lua_setfield(L, -2, "__call");
  lua_getfield(L, -2, "cuda");
  ltide_register_rows(L, "tide.cuda", jit_kernel_cuda_rows);
  lua_getfield(L, -1, "compile_kernel");
  lua_setfield(L, -2, "_compile_kernel");
  lua_pop(L, 2);
}
