/* jiterator.c: tide.cuda.jiterator: elementwise functions from C++ text.
 *
 * A function that create_jit_fn makes is a C closure over its userdata, so that a call looks nothing up: it reads its
 * tensors, makes the handles of its results and calls core. Scalars are read from the table of options by the names
 * that the code has; a key that is none of them is an error. */

#include "call/fields.h"
#include "call/block.h"
#include "tensor/tensor.h"
#include "tide/jit.h"

#define JIT_META "tide.jiterator.function"

static int ljit_gc(lua_State *L) {
  tide_jit_free(ltide_take_pointer(L, JIT_META));
  return 0;
}

/* {==== Calling */

/* Fills scalars from the options at arg; every key has to be one of the function's. */
static void read_scalars(lua_State *L, const tide_jit *j, int arg, tide_scalar *scalars) {
  int n = tide_jit_scalars(j);
  for (int k = 0; k < n; k++) scalars[k] = tide_jit_scalar_default(j, k);
  for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
    int k = 0;
    while (key && k < n && strcmp(key, tide_jit_scalar_name(j, k))) k++;
    if (key && k == n && !strcmp(key, "out")) continue;
    if (!key || k == n) {
      const char *got = key ? key : ltide_typename(L, -2);
      ltide_error(L, "ArgumentError", "%s: unknown parameter '%s', expected %s", tide_jit_name(j), got,
                  n ? "one that create_jit_fn gave a default" : "none: the function has no scalar parameters");
    }
    if (!ltide_test_scalar(L, -1, &scalars[k]))
      ltide_error(L, "ArgumentError", "%s: %s: got %s, expected a number", tide_jit_name(j), key,
                  ltide_typename(L, -1));
  }
}

static bool has_scalar(const tide_jit *j, const char *name) {
  for (int k = 0; k < tide_jit_scalars(j); k++)
    if (!strcmp(tide_jit_scalar_name(j, k), name)) return true;
  return false;
}

/* The destinations of {out=} at opts, which are pushed: a tensor, or a list of as many as there are results. False:
 * none. */
static bool read_out(lua_State *L, ltide_state *S, const tide_jit *j, int opts, tide_tensor **into) {
  int outputs = tide_jit_outputs(j);
  if (has_scalar(j, "out") || !ltide_push_option(L, opts, "out")) return false;
  int at = lua_gettop(L), n = lua_istable(L, at) ? (int)lua_rawlen(L, at) : 1;
  bool list = lua_istable(L, at);
  if (n != outputs)
    ltide_error(L, "ArgumentError", "%s: out: got %d tensor%s, expected %d", tide_jit_name(j), n, n == 1 ? "" : "s",
                outputs);
  luaL_checkstack(L, outputs, "jiterator");
  for (int k = 0; k < outputs; k++) {
    if (list)
      lua_rawgeti(L, at, k + 1);
    else
      lua_pushvalue(L, at);
    ltide_tensor *x = ltide_test_handle(L, S, lua_gettop(L));
    if (!x || !x->t)
      ltide_error(L, x ? "StateError" : "ArgumentError", "%s: out: got %s, expected %s", tide_jit_name(j),
                  ltide_typename(L, lua_gettop(L)), outputs > 1 ? "a list of tensors" : "a tensor");
    into[k] = x->t;
  }
  return true;
}

/* The tensors at `first` and above, of which there have to be as many as the function takes. */
static void read_tensors(lua_State *L, ltide_state *S, const tide_jit *j, int first, int n, tide_tensor **in) {
  if (n != tide_jit_inputs(j))
    ltide_error(L, "ArgumentError", "%s: wrong number of tensors, got %d, expected %d", tide_jit_name(j), n,
                tide_jit_inputs(j));
  for (int k = 0; k < n; k++) {
    ltide_tensor *x = ltide_test_handle(L, S, first + k);
    if (!x || !x->t)
      ltide_error(L, x ? "StateError" : "ArgumentError",
                  "%s: argument %d: got %s, expected a tensor (numbers are given by name)", tide_jit_name(j), k + 1,
                  ltide_typename(L, first + k));
    in[k] = x->t;
  }
}

static int ljit_call(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_jit *j = *(tide_jit **)lua_touserdata(L, lua_upvalueindex(1));
  tide_tensor *in[TIDE_JIT_TENSORS], *out[TIDE_JIT_TENSORS];
  tide_scalar scalars[TIDE_JIT_SCALARS];
  ltide_tensor *u[TIDE_JIT_TENSORS];
  if (!j) return ltide_error(L, "StateError", "jiterator: the function is gone");
  int top = lua_gettop(L), n = top, outputs = tide_jit_outputs(j);
  bool has_options = n > 0 && lua_istable(L, n), ready = true;
  if (has_options) read_scalars(L, j, n--, scalars);
  read_tensors(L, S, j, 1, n, in);
  luaL_checkstack(L, outputs, "jiterator");
  bool has_out = has_options && read_out(L, S, j, n + 1, out);
  if (ltide_may_yield(L, S)) ltide_try(L, tide_jit_ready(&ready, j, in, n, has_out ? out : NULL));
  if (!ready) {
    lua_settop(L, top);
    return ltide_yield_again(L, ljit_call);
  }
  if (has_out) {
    ltide_try(L, tide_jit_call_into(out, j, in, n, scalars));
    return outputs;
  }
  for (int k = 0; k < outputs; k++) u[k] = ltide_new_tensor(L, S);
  ltide_try(L, tide_jit_call(out, j, in, n, has_options ? scalars : NULL));
  for (int k = 0; k < outputs; k++) u[k]->t = out[k];
  ltide_made(L, S);
  return outputs;
}

static int lready(lua_State *L, ltide_call *c) {
  tide_tensor *in[TIDE_JIT_TENSORS];
  bool ready, is_one = lua_tocfunction(L, 1) == ljit_call && lua_getupvalue(L, 1, 1);
  tide_jit *j = is_one ? *(tide_jit **)lua_touserdata(L, -1) : NULL;
  if (!is_one) return ltide_arg_error(L, 1, "f", "a function that create_jit_fn has made");
  if (!j) return ltide_error(L, "StateError", "ready: the function is gone");
  lua_pop(L, 1);
  read_tensors(L, c->S, j, 2, lua_gettop(L) - 1, in);
  ltide_try(L, tide_jit_ready(&ready, j, in, tide_jit_inputs(j), NULL));
  return ltide_give_boolean(L, ready);
}

/* {==== Making */

/* Reads {alpha=1.0}. The strings stay alive in the table. */
static int read_defaults(lua_State *L, const ltide_value *v, const char **names, tide_scalar *values) {
  int n = 0, arg = v->at;
  if (!v->given) return 0;
  if (!lua_istable(L, arg)) ltide_arg_error(L, arg, "defaults", "a table of scalar parameters: {alpha=1.0}");
  for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) ltide_arg_error(L, arg, "defaults", "names and numbers: {alpha=1.0}");
    if (n == TIDE_JIT_SCALARS)
      ltide_error(L, "ValueError", "%s: defaults: too many, expected at most %d", ltide_function_name(L),
                  TIDE_JIT_SCALARS);
    names[n] = lua_tostring(L, -2);
    if (!ltide_test_scalar(L, -1, &values[n])) ltide_arg_error(L, -1, names[n], "a number");
    n++;
  }
  return n;
}

static int create(lua_State *L, const ltide_call *c, int outputs, const ltide_value *defaults) {
  const char *names[TIDE_JIT_SCALARS];
  tide_scalar values[TIDE_JIT_SCALARS];
  const char *code = ltide_check_cstring(L, c->v[0].at, "code", "a string of C++ code");
  int n = read_defaults(L, defaults, names, values);
  tide_jit **u = (tide_jit **)ltide_new_pointer(L, JIT_META);
  ltide_try(L, tide_jit_new(u, code, names, values, n, outputs));
  lua_pushcclosure(L, ljit_call, 1);
  return 1;
}

static int lcreate_jit_fn(lua_State *L, ltide_call *c) { return create(L, c, 0, &c->v[1]); }

static int lcreate_multi_output_jit_fn(lua_State *L, ltide_call *c) {
  int64_t n = c->v[1].i;
  if (n < 1 || n > TIDE_JIT_TENSORS)
    return ltide_error(L, "ValueError", "create_multi_output_jit_fn: num_outputs: got %I, expected 1 to %d",
                       (LUAI_UACINT)n, TIDE_JIT_TENSORS);
  return create(L, c, (int)n, &c->v[2]);
}

/* {==== The cache */

static int lcache_info(lua_State *L, ltide_call *c) {
  static const ltide_field fields[] = LTIDE_FIELDS(tide_jit_stats, memory_hits, disk_hits, misses, ahead, stored,
                                                   damaged, pending, compile_seconds, compiler_opened);
  char path[4096];
  tide_jit_stats s;
  tide_jit_get_stats(&s);
  lua_createtable(L, 0, 11);
  ltide_set_fields(L, fields, &s, false);
  ltide_set_integer(L, "hits", s.memory_hits + s.disk_hits);
  ltide_set_text(L, "path", tide_jit_cache_path(path, sizeof path) ? path : NULL);
  return 1;
}

static int lcache_clear(lua_State *L, ltide_call *c) { return ltide_done(L, tide_jit_cache_clear()); }

#include <rows/jit.inc>

void ltide_open_jit(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {{"__gc", ljit_gc}, {0}};
  ltide_new_class(L, JIT_META, meta, NULL, NULL, NULL);
  ltide_register_in(L, "tide.cuda.jiterator", jit_rows);
  lua_getfield(L, -1, "cuda");
  lua_getfield(L, -1, "jiterator");
  lua_getfield(L, -1, "create_jit_fn");
  lua_setfield(L, -2, "_create_jit_fn");
  lua_getfield(L, -1, "create_multi_output_jit_fn");
  lua_setfield(L, -2, "_create_multi_output_jit_fn");
  lua_pop(L, 2);
}
