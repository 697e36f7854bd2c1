/* move.c: tensors to other devices and dtypes, copies, and filling.
 *
 * What core gives back is the tensor itself where nothing changes, and then the script gets the same handle again, as
 * torch's `to` gives self. tide.to walks a tree of tables (call/tree.lua) and copies nothing but tensors and tables. */
#include "call/block.h"
#include "fuse/fuse.h"
#include "tensor.h"

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

/* The row may have the options non_blocking and copy. */
static int finish_move(lua_State *L, ltide_call *c, const tide_options *o) {
  bool non_blocking = ltide_opt_boolean(L, c->opts, "non_blocking", false),
       copy = ltide_opt_boolean(L, c->opts, "copy", false);
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  if (c->S->is_fusing && ltide_fuse_cast(L, c->S, &u->t, c->x, o, copy)) return 1;
  ltide_try(L, tide_to(&u->t, c->x, o, non_blocking, copy));
  return ltide_result_or_self(L, c->S, u, c->x, 1);
}

static int move_to(lua_State *L, bool may_wait);
static int move_now(lua_State *L) { return move_to(L, false); }
static int ltensor_to(lua_State *L) { return move_to(L, true); }

/* may_wait: a move that waits for the device's work lets others run first, and then begins anew. */
static int move_to(lua_State *L, bool may_wait) {
  int top = lua_gettop(L);
  ltide_call c;
  ltide_call_read(L, &c);
  tide_options o = {TIDE_DTYPE_NONE, tide_tensor_device(c.x), false};
  ltide_opt_options(L, c.opts, &o);
  if (c.n < 2 && !c.opts) return ltide_arg_error(L, 2, "target", "a device, a dtype or a tensor");
  if (c.v[1].given) read_target(L, c.S, c.v[1].at, &o);
  if (c.v[2].given) o.dtype = c.v[2].dtype;
  if (may_wait && o.device == TIDE_CPU && tide_tensor_device(c.x) >= 0) {
    lua_settop(L, top);
    return ltide_waiting(L, move_now);
  }
  return finish_move(L, &c, &o);
}

static int ltensor_cuda(lua_State *L, ltide_call *c) {
  return finish_move(L, c, &(tide_options){TIDE_DTYPE_NONE, c->v[1].device, false});
}

static int ltensor_cpu(lua_State *L, ltide_call *c) {
  return finish_move(L, c, &(tide_options){TIDE_DTYPE_NONE, TIDE_CPU, false});
}

static int ltensor_pin_memory(lua_State *L, ltide_call *c) {
  if (tide_tensor_device(c->x) != TIDE_CPU)
    return ltide_error(L, "DeviceError", "pin_memory: x: got a tensor on a GPU, expected one on the cpu");
  return finish_move(L, c, &(tide_options){TIDE_DTYPE_NONE, TIDE_CPU, true});
}

/* {==== Casts */

static int cast(lua_State *L, ltide_call *c, tide_dtype dtype) {
  return finish_move(L, c, &(tide_options){dtype, tide_tensor_device(c->x), false});
}

static int lcast(lua_State *L, ltide_call *c) { return cast(L, c, (tide_dtype)c->row->tag); }

/* Without a dtype it names the one there is, as torch's `type` does. */
static int ltensor_type(lua_State *L, ltide_call *c) {
  if (c->v[1].given) return cast(L, c, c->v[1].dtype);
  return ltide_push_dtype(L, tide_tensor_dtype(c->x)), 1;
}

static int ltensor_type_as(lua_State *L, ltide_call *c) {
  const tide_tensor *y = c->v[1].tensor;
  return finish_move(L, c, &(tide_options){tide_tensor_dtype(y), tide_tensor_device(y), false});
}

/* {==== Copies and filling */

static int ltensor_contiguous(lua_State *L, ltide_call *c) {
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_contiguous(&u->t, c->x));
  return ltide_result_or_self(L, c->S, u, c->x, 1);
}

static int ltensor_copy_(lua_State *L, ltide_call *c) {
  int source = c->v[1].given ? c->v[1].at : 2;
  if (lua_istable(L, source)) {
    tide_options o = {tide_tensor_dtype(c->x), tide_tensor_device(c->x), false};
    ltide_push_converted(L, c->S, source, &o);
    lua_replace(L, source);
  }
  return ltide_self(L, tide_copy(c->x, ltide_check_tensor(L, c->S, source, "source"), c->v[2].boolean));
}
/* Of two tensors, without options, it costs no look at the row. */
static int lcopy_(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  ltide_tensor *x = ltide_test_handle(L, S, 1), *source = ltide_test_handle(L, S, 2);
  if (lua_gettop(L) != 2 || !x || !source || !x->t || !source->t) return ltide_run(L);
  return ltide_self(L, tide_copy(x->t, source->t, false));
}

static int ltensor_fill_(lua_State *L, ltide_call *c) {
  const tide_operand *value = &c->v[1].operand;
  if (value->tensor && tide_tensor_ndim(value->tensor))
    return ltide_error(L, "ShapeError",
                       "fill_: value: got a tensor of %d dimensions, expected a number or a tensor without dimensions",
                       tide_tensor_ndim(value->tensor));
  return ltide_self(L, value->tensor ? tide_copy(c->x, value->tensor, false) : tide_fill(c->x, value->number));
}

static int ltensor_zero_(lua_State *L, ltide_call *c) { return ltide_self(L, tide_fill(c->x, tide_int(0))); }

/* {==== Trees */

typedef struct mover {
  ltide_state *S;
  tide_options options;
  bool non_blocking, copy;
} mover;

/* Pushes x, which is at the index, moved: the same handle where nothing changes. */
static int push_moved(lua_State *L, const mover *m, tide_tensor *x, int index) {
  ltide_tensor *u = ltide_new_tensor(L, m->S);
  if (m->S->is_fusing && ltide_fuse_cast(L, m->S, &u->t, x, &m->options, m->copy)) return 1;
  ltide_try(L, tide_to(&u->t, x, &m->options, m->non_blocking, m->copy));
  return ltide_result_or_self(L, m->S, u, x, index);
}

static int moved(lua_State *L) {
  const mover *m = lua_touserdata(L, lua_upvalueindex(1));
  ltide_enter(L);
  return push_moved(L, m, ltide_check_tensor(L, m->S, 1, "tree"), 1);
}

static int lto(lua_State *L, ltide_call *c) {
  if (c->n < 2) return ltide_arg_error(L, 2, "target", "a device, a dtype or a tensor");
  mover m = {.S = c->S, .options = {TIDE_DTYPE_NONE, TIDE_CPU, false}};
  tide_tensor *x = ltide_test_tensor(L, c->S, 1);
  if (x)
    m.options.device = tide_tensor_device(x);
  else if (!lua_istable(L, 1))
    return ltide_arg_error(L, 1, "tree", "a tensor or a table of tensors");
  else if (!ltide_is_device(L, 2) && !lua_isinteger(L, 2) && !ltide_test_tensor(L, c->S, 2))
    return ltide_arg_error(L, 2, "target", "a device, or a tensor for its device and dtype");
  read_target(L, c->S, 2, &m.options);
  m.non_blocking = c->v[2].boolean, m.copy = c->v[3].boolean;
  if (x) return push_moved(L, &m, x, 1);
  lua_pushlightuserdata(L, &m);
  lua_pushcclosure(L, moved, 1);
  ltide_map_tree(L, 1);
  return 1;
}

#define NOUN move
#include "call/api/open_noun.def"
