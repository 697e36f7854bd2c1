/* move.c: tensors to other devices and dtypes, copies, and filling.
 *
 * What core gives back is the tensor itself where nothing changes, and then the script gets the same handle again, as
 * torch's `to` gives self. tide.to walks a tree of tables (tree.c) and copies nothing but tensors and tables. */
#include "args.h"
#include "tree.h"

static const char *const move_keys[] = {"non_blocking", "copy", NULL};
static const char *const copy_keys[] = {"non_blocking", NULL};

/* {==== to, cuda, cpu */

/* Reads what x:to(...) accepts at `arg`: a device, a dtype or a tensor whose device and dtype are taken. */
static void read_target(lua_State *L, ltide_state *S, int arg, tide_options *o) {
  tide_tensor *like = ltide_test_tensor(L, S, arg);
  if (like)
    o->device = tide_tensor_device(like), o->dtype = tide_tensor_dtype(like);
  else if (ltide_test_dtype(L, arg, &o->dtype))
    return;
  else if (ltide_is_device(L, arg) || lua_isinteger(L, arg))
    o->device = ltide_check_device(L, arg, "device", LTIDE_CPU_OK);
  else
    ltide_arg_error(L, arg, "target", "a device, a dtype or a tensor");
}

static int finish_move(lua_State *L, ltide_state *S, const tide_tensor *x, const tide_options *o, int opts) {
  bool non_blocking = ltide_opt_boolean(L, opts, "non_blocking", false),
       copy = ltide_opt_boolean(L, opts, "copy", false);
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_to(&u->t, x, o, non_blocking, copy));
  return ltide_result_or_self(L, S, u, x, 1);
}

static int move_to(lua_State *L, bool may_wait);
static int move_now(lua_State *L) { return move_to(L, false); }
static int ltensor_to(lua_State *L) { return move_to(L, true); }

/* may_wait: a move that waits for the device's work lets others run first, and then begins anew. */
static int move_to(lua_State *L, bool may_wait) {
  static const char *const keys[] = {"non_blocking", "copy", "device", "dtype", NULL};
  ltide_state *S = ltide_begin(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args a = ltide_split(L, 1);
  ltide_check_count(L, a, 3);
  ltide_check_keys(L, a.opts, keys);
  tide_options o = {TIDE_DTYPE_NONE, tide_tensor_device(x), false};
  ltide_opt_options(L, a.opts, &o);
  if (a.n < 2 && !a.opts) return ltide_arg_error(L, 2, "target", "a device, a dtype or a tensor");
  if (a.n > 1) read_target(L, S, 2, &o);
  if (a.n > 2) o.dtype = ltide_check_dtype(L, 3, "dtype");
  if (may_wait && o.device == TIDE_CPU && tide_tensor_device(x) >= 0) return ltide_waiting(L, move_now);
  return finish_move(L, S, x, &o, a.opts);
}

static int ltensor_cuda(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args a = ltide_split(L, 1);
  ltide_check_count(L, a, 2);
  ltide_check_keys(L, a.opts, move_keys);
  tide_options o = {TIDE_DTYPE_NONE, TIDE_CURRENT, false};
  if (a.n > 1) o.device = ltide_check_device(L, 2, "device", LTIDE_NIL_OK);
  return finish_move(L, S, x, &o, a.opts);
}

static int tensor_cpu_now(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args a = ltide_split(L, 1);
  ltide_check_count(L, a, 1);
  ltide_check_keys(L, a.opts, move_keys);
  tide_options o = {TIDE_DTYPE_NONE, TIDE_CPU, false};
  return finish_move(L, S, x, &o, a.opts);
}
static int ltensor_cpu(lua_State *L) { return ltide_waiting(L, tensor_cpu_now); }

static int ltensor_pin_memory(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 1);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  if (tide_tensor_device(x) != TIDE_CPU)
    return ltide_error(L, "DeviceError", "pin_memory: x: got a tensor on a GPU, expected one on the cpu");
  tide_options o = {TIDE_DTYPE_NONE, TIDE_CPU, true};
  return finish_move(L, S, x, &o, 0);
}

/* {==== Casts */

static int cast(lua_State *L, tide_dtype dtype) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  tide_options o = {dtype, tide_tensor_device(x), false};
  return finish_move(L, S, x, &o, 0);
}

#define DTYPE(name, NAME, type, bytes, kind, alias)                                                                    \
  static int lcast_##NAME(lua_State *L) {                                                                              \
    ltide_no_options(L, 1);                                                                                            \
    return cast(L, TIDE_##NAME);                                                                                       \
  }
#include "tide/dtype.def"
#undef DTYPE

/* Without a dtype it names the one there is, as torch's `type` does. */
static int ltensor_type(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 2);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  if (!lua_isnoneornil(L, 2)) return cast(L, ltide_check_dtype(L, 2, "dtype"));
  ltide_push_dtype(L, tide_tensor_dtype(x));
  return 1;
}

static int ltensor_type_as(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 2);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x"), *y = ltide_check_tensor(L, S, 2, "y");
  tide_options o = {tide_tensor_dtype(y), tide_tensor_device(y), false};
  return finish_move(L, S, x, &o, 0);
}

/* {==== Copies and filling */

static int ltensor_clone(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  ltide_no_options(L, 1);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_clone(&u->t, x));
  ltide_made(L, S);
  return 1;
}

static int ltensor_contiguous(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 1);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_contiguous(&u->t, x));
  return ltide_result_or_self(L, S, u, x, 1);
}

static int ltensor_copy_(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args a = ltide_split(L, 2);
  ltide_check_count(L, a, 2);
  ltide_check_keys(L, a.opts, copy_keys);
  if (lua_istable(L, 2)) {
    tide_options o = {tide_tensor_dtype(x), tide_tensor_device(x), false};
    ltide_push_converted(L, S, 2, &o);
    lua_replace(L, 2);
  }
  ltide_try(L,
            tide_copy(x, ltide_check_tensor(L, S, 2, "source"), ltide_opt_boolean(L, a.opts, "non_blocking", false)));
  lua_settop(L, 1);
  return 1;
}

static int ltensor_fill_(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  ltide_no_options(L, 2);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  tide_operand value;
  ltide_check_operand(L, S, 2, &value, "value");
  if (value.tensor && tide_tensor_ndim(value.tensor))
    return ltide_error(L, "ShapeError",
                       "fill_: value: got a tensor of %d dimensions, expected a number or a tensor without dimensions",
                       tide_tensor_ndim(value.tensor));
  ltide_try(L, value.tensor ? tide_copy(x, value.tensor, false) : tide_fill(x, value.number));
  lua_settop(L, 1);
  return 1;
}

static int ltensor_zero_(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  ltide_no_options(L, 1);
  ltide_try(L, tide_fill(ltide_check_tensor(L, S, 1, "x"), tide_int(0)));
  lua_settop(L, 1);
  return 1;
}

/* {==== Trees */

typedef struct mover {
  ltide_state *S;
  tide_options options;
  bool non_blocking, copy;
} mover;

static void push_moved(lua_State *L, void *user, int index, tide_tensor *x) {
  const mover *m = user;
  ltide_tensor *u = ltide_new_tensor(L, m->S);
  ltide_try(L, tide_to(&u->t, x, &m->options, m->non_blocking, m->copy));
  if (u->t != x) return;
  tide_tensor_release(u->t);
  u->t = NULL;
  lua_pop(L, 1);
  lua_pushvalue(L, index);
}

static int lto(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_args a = ltide_split(L, 2);
  if (a.n < 2) return ltide_arg_error(L, 2, "target", "a device, a dtype or a tensor");
  ltide_check_count(L, a, 2);
  ltide_check_keys(L, a.opts, move_keys);
  mover m = {.S = S, .options = {TIDE_DTYPE_NONE, TIDE_CPU, false}};
  tide_tensor *x = ltide_test_tensor(L, S, 1);
  if (x)
    m.options.device = tide_tensor_device(x);
  else if (!lua_istable(L, 1))
    return ltide_arg_error(L, 1, "tree", "a tensor or a table of tensors");
  else if (!ltide_is_device(L, 2) && !lua_isinteger(L, 2) && !ltide_test_tensor(L, S, 2))
    return ltide_arg_error(L, 2, "target", "a device, or a tensor for its device and dtype");
  read_target(L, S, 2, &m.options);
  m.non_blocking = ltide_opt_boolean(L, a.opts, "non_blocking", false);
  m.copy = ltide_opt_boolean(L, a.opts, "copy", false);
  ltide_map_tree(L, S, 1, push_moved, &m);
  ltide_made(L, S);
  return 1;
}

#define CAST_DOC(name) "x:" name "() -> Tensor\nx with that dtype; x itself if it has it already."

void ltide_open_move(lua_State *L) {
  static const ltide_reg methods[] = {
      {"to", ltensor_to,
       "x:to(target [, dtype] [, {non_blocking=false, copy=false, device=, dtype=}]) -> Tensor\nx on the target, a "
       "device, "
       "or with it, a dtype, or both as of a tensor; x itself if nothing changes and copy is false. Waits for the copy "
       "unless non_blocking and the host side is "
       "pinned."},
      {"cuda", ltensor_cuda,
       "x:cuda([device] [, {non_blocking=false, copy=false}]) -> Tensor\nx on that GPU, or on the current one. "
       "Asynchronous from "
       "pinned memory with non_blocking."},
      {"cpu", ltensor_cpu,
       "x:cpu() -> Tensor\nx in host memory. Synchronises, unless non_blocking into pinned memory."},
      {"pin_memory", ltensor_pin_memory,
       "x:pin_memory() -> Tensor\nA copy in page-locked host memory; x itself if it is there."},
      {"type", ltensor_type, "x:type([dtype]) -> Tensor\nx with that dtype; without an argument, the dtype."},
      {"type_as", ltensor_type_as, "x:type_as(y) -> Tensor\nx with the dtype and the device of y."},
      {"clone", ltensor_clone, "x:clone() -> Tensor\nA copy in memory of its own, on the same device."},
      {"contiguous", ltensor_contiguous, "x:contiguous() -> Tensor\nA row-major copy; x itself if it is row-major."},
      {"copy_", ltensor_copy_,
       "x:copy_(source [, {non_blocking=false}]) -> x\nWrites source into x: broadcasts, casts, and crosses devices."},
      {"fill_", ltensor_fill_, "x:fill_(value) -> x\nSets every element."},
      {"zero_", ltensor_zero_, "x:zero_() -> x\nSets every element to 0."},
#define DTYPE(name, NAME, type, bytes, kind, alias)                                                                    \
  {#name, lcast_##NAME, CAST_DOC(#name)}, {#alias, lcast_##NAME, CAST_DOC(#alias)},
#include "tide/dtype.def"
#undef DTYPE
      {NULL, NULL, NULL}};
  static const ltide_reg list[] = {{"to", lto,
                                    "tide.to(tree, target [, {non_blocking=false, copy=false}]) -> tree\nA copy of the "
                                    "nested tables with every tensor moved; "
                                    "what is shared stays shared, and other values are kept."},
                                   {NULL, NULL, NULL}};
  ltide_register_methods(L, methods);
  ltide_register(L, "tide", list);
}
