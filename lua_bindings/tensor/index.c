/* index.c: what stands behind a tensor: x.field, x[...] read and written, and the selections by index and mask.
 *
 * A table of entries is resolved from left to right into a chain of views: a number selects and drops a dimension, {a,
 * b} and {a, b, step} keep a range of it, {} keeps it whole. Entries that are tensors, of integers or bool, are applied
 * last, to the view that the other entries made: core takes them together, for they name elements one by one. A key
 * that is a tensor by itself is a mask when its dtype is bool.
 *
 * The views of the chain live in one closed handle that is refilled, so that an error on the way loses nothing. */
#include "tide/fuse.h"
#include "tide/scatter.h"
#include "call/did_you_mean.h"
#include "fuse/fuse.h"
#include "tensor.h"

/* What an entry keeps of a dimension of the chain; step 0: the one place `start`, and the dimension goes. */
typedef struct part {
  int dim;
  int64_t start, length, step;
} part;

typedef struct selection {
  ltide_tensor *view;                /* the handle that resolve pushed */
  ltide_tensor *positions;           /* where a mask with fewer dimensions than x holds */
  part part[TIDE_MAX_DIMS];          /* the chain, from left to right */
  tide_tensor *entry[TIDE_MAX_DIMS]; /* of the view's dimensions, as tide_index_get_many takes them */
  int parts, entries, dims, tensors; /* how many; of how many dimensions; how many of them are not NULL */
  int taken;                         /* dimensions of x that have been read */
} selection;

static bool is_mask(const tide_tensor *x) { return tide_tensor_dtype(x) == TIDE_BOOL; }

/* Puts the next view of the chain in the place of the last one. */
static void advance(lua_State *L, ltide_tensor *u, tide_tensor *next) {
  tide_tensor *last = u->t;
  u->t = next;
  tide_tensor_release(last);
}

/* The entry is {}, {a}, {a, b} or {a, b, step}; n: the size of the dimension. */
static void read_range(lua_State *L, selection *s, int64_t n, int entry) {
  int64_t range[3];
  part p = {.dim = s->dims, .step = 1};
  int count = ltide_check_integers(L, entry, range, 3, "range");
  if (!count) return;
  ltide_check_range(L, range[0], count > 1 ? range[1] : range[0], n, &p.start, &p.length);
  if (count > 2) p.step = range[2];
  if (p.step < 1) ltide_error(L, "ValueError", "index: range: got step %I, expected at least 1", (lua_Integer)p.step);
  s->part[s->parts++] = p;
}

/* The positions at which a mask of one dimension holds; pushes a handle that keeps them. */
static ltide_tensor *mask_positions(lua_State *L, ltide_state *S, const tide_tensor *mask) {
  ltide_tensor *u = ltide_new_tensor(L, S);
  tide_tensor *flat;
  ltide_try(L, tide_nonzero(&u->t, mask));
  ltide_try(L, tide_select(&flat, u->t, 1, 0));
  advance(L, u, flat);
  return u;
}

/* Reads the entry on top of the stack, which is about the next dimension of x. It leaves the entry there when it is a
 * tensor. */
static void read_entry(lua_State *L, ltide_state *S, const tide_tensor *x, selection *s) {
  int entry = lua_gettop(L), left = tide_tensor_ndim(x) - s->taken;
  tide_tensor *tensor = ltide_test_tensor(L, S, entry);
  int takes = tensor && is_mask(tensor) ? tide_tensor_ndim(tensor) : 1;
  if (!takes)
    ltide_error(L, "IndexError",
                "index: key: got a mask without dimensions among the entries, expected it alone: x[mask]");
  if (takes > left)
    ltide_error(L, "IndexError", "index: got more entries than the tensor has dimensions, %d", tide_tensor_ndim(x));
  int64_t n = tide_tensor_size(x)[s->taken];
  s->taken += takes;
  if (lua_type(L, entry) == LUA_TNUMBER) {
    int64_t i = ltide_index(L, ltide_check_integer(L, entry, "key"), n, "key");
    s->part[s->parts++] = (part){.dim = s->dims, .start = i};
    lua_settop(L, entry - 1);
    return;
  }
  if (lua_istable(L, entry)) {
    ltide_plain_shape(L, entry);
    read_range(L, s, n, entry);
  } else if (!tensor)
    ltide_arg_error(L, entry, "key", "an integer, a range {first, last [, step]}, {} or a tensor");
  s->entry[s->entries++] = tensor;
  s->dims += takes;
  s->tensors += tensor != NULL;
  if (!tensor) lua_settop(L, entry - 1);
}

/* Reads the key at 2 over x: whatever a finaliser does to the key later, it is this one. Pushes tensors that must stay
 * alive. */
static selection read_key(lua_State *L, ltide_state *S, const tide_tensor *x) {
  selection s = {.view = NULL};
  int ndim = tide_tensor_ndim(x);
  ltide_plain_shape(L, 2);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
  if (!n && ltide_is_options(L, 2)) ltide_arg_error(L, 2, "key", "a table of entries without keys");
  if (n > ndim)
    ltide_error(
        L, "IndexError",
        "index: got %I entries, expected at most %d, one for each dimension; a range is a table in it: x[{ {1, 2} }]",
        n, ndim);
  luaL_checkstack(L, TIDE_MAX_DIMS + 8, "index");
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 2, i);
    read_entry(L, S, x, &s);
  }
  return s;
}

/* Pushes the handle of the view of x, which has the shape of that whose key was read. */
static void resolve(lua_State *L, ltide_state *S, selection *s, tide_tensor *x) {
  s->view = ltide_new_tensor(L, S);
  tide_tensor_retain(s->view->t = x);
  for (int i = 0; i < s->parts; i++) {
    part p = s->part[i];
    tide_tensor *next, *now = s->view->t;
    ltide_try(L, !p.step                    ? tide_select(&next, now, p.dim, p.start)
                 : p.step == 1 || !p.length ? tide_narrow(&next, now, p.dim, p.start, p.length)
                                            : tide_slice(&next, now, p.dim, p.start, p.start + p.length - 1, p.step));
    advance(L, s->view, next);
  }
}

static void refuse_key(lua_State *L) {
  ltide_arg_error(L, 2, "key", "an integer, a table of integers, ranges and tensors, a mask or an index tensor");
}

static void check_has_dims(lua_State *L, const tide_tensor *x) {
  if (!tide_tensor_ndim(x))
    ltide_error(L, "IndexError",
                "index: the tensor has no dimensions; use x:item() to read it and x:fill_(v) to write it");
}

/* The index of x[i] for an integer key. */
static int64_t first_index(lua_State *L, const tide_tensor *x) {
  check_has_dims(L, x);
  return ltide_index(L, ltide_check_integer(L, 2, "key"), tide_tensor_size(x)[0], "key");
}

/* {==== Masks with fewer dimensions than x */

static bool is_part_mask(const tide_tensor *x, const tide_tensor *key) {
  return is_mask(key) && tide_tensor_ndim(key) && tide_tensor_ndim(key) < tide_tensor_ndim(x);
}

/* The masked dimensions of x joined to one, and the positions in it where the mask holds; pushes the handles of
 * both. */
static selection select_parts(lua_State *L, ltide_state *S, const tide_tensor *x, const tide_tensor *mask) {
  int n = tide_tensor_ndim(mask), ndim = tide_tensor_ndim(x);
  int64_t size[TIDE_MAX_DIMS] = {tide_tensor_numel(mask)}, all = -1;
  for (int d = 0; d < ndim; d++)
    if (d >= n)
      size[d - n + 1] = tide_tensor_size(x)[d];
    else if (tide_tensor_size(mask)[d] != tide_tensor_size(x)[d])
      ltide_error(L, "ShapeError",
                  "index: key: the mask has %I elements in dimension %d, expected %I as the tensor has",
                  (lua_Integer)tide_tensor_size(mask)[d], d + ltide_base(L), (lua_Integer)tide_tensor_size(x)[d]);
  selection s = {.view = ltide_new_tensor(L, S)};
  ltide_tensor *flat = ltide_new_tensor(L, S);
  ltide_try(L, tide_view(&s.view->t, x, size, ndim - n + 1));
  ltide_try(L, tide_reshape(&flat->t, mask, &all, 1));
  s.positions = mask_positions(L, S, flat->t);
  ltide_close_tensor(flat);
  return s;
}

/* {==== Reading */

static int get_by_table(lua_State *L, ltide_state *S, tide_tensor *x) {
  selection s = read_key(L, S, x);
  resolve(L, S, &s, x);
  if (!s.tensors) return 1;
  tide_tensor *next;
  ltide_try(L, tide_index_get_many(&next, s.view->t, s.entry, s.entries));
  advance(L, s.view, next);
  ltide_made(L, S);
  return 1;
}

/* Several dimensions can be joined only where x is contiguous. */
static void get_parts(lua_State *L, ltide_state *S, ltide_tensor *u, tide_tensor *x, const tide_tensor *mask) {
  int top = lua_gettop(L);
  ltide_tensor *dense = ltide_new_tensor(L, S);
  if (tide_tensor_ndim(mask) > 1)
    ltide_try(L, tide_contiguous(&dense->t, x));
  else
    tide_tensor_retain(dense->t = x);
  selection s = select_parts(L, S, dense->t, mask);
  ltide_try(L, tide_index_get(&u->t, s.view->t, 0, s.positions->t));
  ltide_tensor *const temporary[] = {dense, s.view, s.positions};
  for (int i = 0; i < 3; i++) ltide_close_tensor(temporary[i]);
  lua_settop(L, top);
}

/* A mask without dimensions takes all of x or nothing, in a dimension of its own in front. */
static int get_whole(lua_State *L, ltide_state *S, tide_tensor *x, const tide_tensor *mask) {
  int64_t one = 1;
  ltide_tensor *u = ltide_new_tensor(L, S), *line = ltide_new_tensor(L, S), *flat = ltide_new_tensor(L, S);
  ltide_try(L, tide_unsqueeze(&line->t, x, 0));
  ltide_try(L, tide_view(&flat->t, mask, &one, 1));
  ltide_tensor *positions = mask_positions(L, S, flat->t);
  ltide_try(L, tide_index_get(&u->t, line->t, 0, positions->t));
  ltide_tensor *const temporary[] = {line, flat, positions};
  for (int i = 0; i < 3; i++) ltide_close_tensor(temporary[i]);
  lua_settop(L, 3);
  ltide_made(L, S);
  return 1;
}

static int get_values(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  lua_settop(L, 2);
  if (lua_type(L, 2) == LUA_TNUMBER) {
    bool is_past = tide_tensor_ndim(x) && lua_tointeger(L, 2) == tide_tensor_size(x)[0] + ltide_base(L);
    if (is_past && ltide_is_read_by_ipairs(L)) return 0;
    int64_t i = first_index(L, x);
    ltide_tensor *u = ltide_new_tensor(L, S);
    return ltide_give(L, tide_select(&u->t, x, 0, i));
  }
  if (lua_istable(L, 2)) return get_by_table(L, S, x);
  tide_tensor *key = ltide_test_tensor(L, S, 2);
  if (!key) refuse_key(L);
  if (is_mask(key) && !tide_tensor_ndim(key)) return get_whole(L, S, x, key);
  check_has_dims(L, x);
  ltide_tensor *u = ltide_new_tensor(L, S);
  if (is_part_mask(x, key))
    get_parts(L, S, u, x, key);
  else if (is_mask(key))
    ltide_try(L, tide_mask_get(&u->t, x, key));
  else if (!S->is_fusing || !ltide_fuse_gather(L, S, &u->t, x, key, 0, TIDE_FUSE_SLICES))
    ltide_try(L, tide_index_get(&u->t, x, 0, key));
  ltide_made(L, S);
  return 1;
}

/* {==== Writing */

/* A nested table as a value becomes a tensor of the destination's dtype and device, whose handle is returned. */
static ltide_tensor *check_value(lua_State *L, ltide_state *S, const tide_tensor *x, tide_operand *value) {
  ltide_tensor *converted = NULL;
  if (lua_istable(L, 3)) {
    tide_options o = {tide_tensor_dtype(x), tide_tensor_device(x), false};
    ltide_push_converted(L, S, 3, &o);
    lua_replace(L, 3);
    converted = lua_touserdata(L, 3);
  }
  ltide_check_operand(L, S, 3, value, "value");
  return converted;
}

static tide_status assign(tide_tensor *view, const tide_operand *value) {
  return value->tensor ? tide_copy(view, value->tensor, false) : tide_fill(view, value->number);
}

/* x[i] = v and x[{...}] = v: through a view. */
static void set_by_view(lua_State *L, ltide_state *S, tide_tensor *x, const tide_operand *value) {
  if (lua_istable(L, 2)) {
    selection s = read_key(L, S, x);
    resolve(L, S, &s, x);
    ltide_try(L, s.tensors ? tide_index_put(s.view->t, s.entry, s.entries, value, false) : assign(s.view->t, value));
    ltide_close_tensor(s.view);
    return;
  }
  int64_t i = first_index(L, x);
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_select(&u->t, x, 0, i));
  ltide_try(L, assign(u->t, value));
  ltide_close_tensor(u);
}

static int set_values(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  tide_operand value;
  ltide_tensor *converted = check_value(L, S, x, &value);
  if (lua_type(L, 2) == LUA_TNUMBER || lua_istable(L, 2))
    set_by_view(L, S, x, &value);
  else {
    tide_tensor *key = ltide_test_tensor(L, S, 2);
    if (!key) refuse_key(L);
    if (!is_mask(key) || tide_tensor_ndim(key)) check_has_dims(L, x);
    if (is_part_mask(x, key)) {
      selection s = select_parts(L, S, x, key);
      ltide_try(L, tide_index_set(s.view->t, 0, s.positions->t, &value));
      ltide_close_tensor(s.view);
      ltide_close_tensor(s.positions);
    } else
      ltide_try(L, is_mask(key) ? tide_mask_set(x, key, &value) : tide_index_set(x, 0, key, &value));
  }
  if (converted) ltide_close_tensor(converted);
  ltide_made(L, S);
  return 0;
}

/* {==== Functions */

/* x[key] = value with a table of entries, or what is added there; in a copy of x, whose handle is pushed, or
 * in x itself. */
static void put_by_table(lua_State *L, ltide_call *c, bool copies) {
  ltide_state *S = c->S;
  bool sums = c->v[3].boolean;
  if (!lua_istable(L, 2)) ltide_arg_error(L, 2, "index", "a table of integers, ranges and tensors");
  selection s = read_key(L, S, c->x);
  tide_operand value;
  ltide_tensor *converted = check_value(L, S, c->x, &value);
  ltide_tensor *copy = copies ? ltide_new_tensor(L, S) : NULL;
  int at = lua_gettop(L);
  if (copy) ltide_try(L, tide_clone(&copy->t, c->x));
  resolve(L, S, &s, copy ? copy->t : c->x);
  tide_operand sum[2] = {{.tensor = s.view->t}, value};
  if (s.tensors)
    ltide_try(L, tide_index_put(s.view->t, s.entry, s.entries, &value, sums));
  else
    ltide_try(L, sums ? tide_elementwise(NULL, TIDE_OP_add, sum, NULL, s.view->t) : assign(s.view->t, &value));
  ltide_close_tensor(s.view);
  if (converted) ltide_close_tensor(converted);
  ltide_made(L, S);
  lua_settop(L, at);
}

static int lindex_put_(lua_State *L, ltide_call *c) {
  put_by_table(L, c, false);
  return ltide_self(L, TIDE_OK);
}

static int lindex_put(lua_State *L, ltide_call *c) {
  put_by_table(L, c, true);
  return ltide_finish(L, c, TIDE_OK);
}

/* {==== Fields */

enum { FIELD_SHAPE = 1, FIELD_NDIM, FIELD_DTYPE, FIELD_DEVICE, FIELD_IS_CUDA, FIELD_IS_CPU, FIELD_T, FIELD_MT };
static const char *const field_names[] = {"shape", "ndim", "dtype", "device", "is_cuda", "is_cpu", "T", "mT", NULL};

/* x.T turns all dimensions round, x.mT the last two. */
static int push_transposed(lua_State *L, ltide_state *S, const tide_tensor *x, bool is_matrix) {
  int n = tide_tensor_ndim(x), dims[TIDE_MAX_DIMS];
  ltide_tensor *u = ltide_new_tensor(L, S);
  for (int d = 0; d < n; d++) dims[d] = n - 1 - d;
  return ltide_give(L, is_matrix ? tide_transpose(&u->t, x, -2, -1) : tide_permute(&u->t, x, dims, n));
}

static int push_field(lua_State *L, ltide_state *S, const tide_tensor *x, lua_Integer field) {
  switch (field) {
  case FIELD_SHAPE: ltide_push_shape(L, tide_tensor_size(x), tide_tensor_ndim(x)); return 1;
  case FIELD_NDIM: lua_pushinteger(L, tide_tensor_ndim(x)); return 1;
  case FIELD_DTYPE: ltide_push_dtype(L, tide_tensor_dtype(x)); return 1;
  case FIELD_DEVICE: ltide_push_device(L, tide_tensor_device(x)); return 1;
  case FIELD_IS_CUDA: lua_pushboolean(L, tide_tensor_device(x) != TIDE_CPU); return 1;
  case FIELD_IS_CPU: lua_pushboolean(L, tide_tensor_device(x) == TIDE_CPU); return 1;
  default: return push_transposed(L, S, x, field == FIELD_MT);
  }
}

/* Looks a string up among the methods first and among the fields second, both tables being upvalues; an unknown name is
 * an error that names the nearest: did_you_mean.c. Anything else is an index into the values. */
static int ltensor_index(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return get_values(L);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(2)) == LUA_TNIL)
    return ltide_no_tensor_name(L, lua_upvalueindex(1), lua_upvalueindex(2));
  ltide_state *S = ltide_enter(L);
  return push_field(L, S, ltide_check_tensor(L, S, 1, "x"), lua_tointeger(L, -1));
}

static int ltensor_newindex(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return set_values(L);
  const char *name = lua_tostring(L, 2), *hint = ltide_instead(name, LTIDE_OF_TENSOR | LTIDE_OF_ANY);
  return ltide_error(L, "ArgumentError", "x.%s: fields cannot be assigned; %s", name,
                     hint ? hint : "values are assigned as x[...] = v");
}

/* {==== Selections */

static int lindex_select(lua_State *L, ltide_call *c) {
  const tide_tensor *index = c->v[2].tensor;
  if (tide_tensor_ndim(index) > 1)
    return ltide_error(L, "ShapeError", "index_select: index: got %d dimensions, expected 1", tide_tensor_ndim(index));
  tide_tensor **slot = ltide_slot(L, c);
  int ndim = tide_tensor_ndim(c->x), dim = c->v[1].dim < 0 ? c->v[1].dim + ndim : c->v[1].dim;
  if (!c->into || dim < 0 || dim >= ndim) {
    tide_tensor **out = slot ? slot : ltide_result(L, c);
    bool done = c->S->is_fusing && !c->into && ltide_fuse_gather(L, c->S, out, c->x, index, dim, TIDE_FUSE_SLICES);
    return ltide_finish_into(L, c, done ? TIDE_OK : tide_index_get(out, c->x, c->v[1].dim, index));
  }
  /* Only this writes to a destination itself. */
  int64_t size[TIDE_MAX_DIMS];
  for (int d = 0; d < ndim; d++) size[d] = d == dim ? tide_tensor_numel(index) : 1;
  tide_tensor **line = &ltide_new_tensor(L, c->S)->t;
  ltide_try(L, tide_view(line, index, size, ndim));
  return ltide_finish_into(L, c, tide_take_along_dim(NULL, c->x, *line, dim, c->into));
}

static int lmasked_fill_(lua_State *L, ltide_call *c) {
  const tide_operand *value = &c->v[2].operand;
  if (value->tensor && tide_tensor_ndim(value->tensor))
    return ltide_error(
        L, "ShapeError",
        "masked_fill_: value: got a tensor of %d dimensions, expected a number or a tensor without dimensions",
        tide_tensor_ndim(value->tensor));
  ltide_try(L, tide_mask_set(c->x, c->v[1].tensor, value));
  ltide_made(L, c->S);
  return ltide_self(L, TIDE_OK);
}

static int ltril(lua_State *L, ltide_call *c) {
  return ltide_finish(L, c, tide_tril(ltide_result(L, c), c->x, c->v[1].i, c->row->tag));
}

/* A matrix with x on diagonal k, or the diagonal k of a matrix: a copy in both cases. */
static int ldiag(lua_State *L, ltide_call *c) {
  tide_tensor *x = c->x;
  int64_t k = c->v[1].i;
  int ndim = tide_tensor_ndim(x);
  if (ndim != 1 && ndim != 2) return ltide_error(L, "ShapeError", "diag: x: got %d dimensions, expected 1 or 2", ndim);
  ltide_tensor *view = ltide_new_tensor(L, c->S), *u = ltide_new_tensor(L, c->S);
  if (ndim == 2) {
    ltide_try(L, tide_diagonal(&view->t, x, k, 0, 1));
    ltide_try(L, tide_clone(&u->t, view->t));
  } else {
    if (k > INT32_MAX || k < -INT32_MAX)
      return ltide_error(L, "ValueError", "diag: k: got %I, expected -2147483647 to 2147483647", (LUAI_UACINT)k);
    int64_t n = tide_tensor_size(x)[0] + (k < 0 ? -k : k), size[2] = {n, n};
    tide_options o = {tide_tensor_dtype(x), tide_tensor_device(x), false};
    ltide_try(L, tide_full(&u->t, size, 2, tide_int(0), &o));
    ltide_try(L, tide_diagonal(&view->t, u->t, k, 0, 1));
    ltide_try(L, tide_copy(view->t, x, false));
  }
  ltide_close_tensor(view);
  return ltide_finish(L, c, TIDE_OK);
}

static int lfill_diagonal_(lua_State *L, ltide_call *c) {
  tide_tensor *x = c->x;
  int ndim = tide_tensor_ndim(x);
  const int64_t *size = tide_tensor_size(x), *stride = tide_tensor_stride(x);
  if (ndim < 2) return ltide_error(L, "ShapeError", "fill_diagonal_: x: got %d dimensions, expected at least 2", ndim);
  int64_t length = size[0] < size[1] ? size[0] : size[1], step = 0;
  for (int d = 0; d < ndim; d++) {
    if (ndim > 2 && size[d] != size[0])
      return ltide_error(L, "ShapeError",
                         "fill_diagonal_: x: got %I and %I for the sizes of dimensions %d and %d, expected equal ones "
                         "with more than two dimensions",
                         (lua_Integer)size[0], (lua_Integer)size[d], ltide_base(L), d + ltide_base(L));
    step += stride[d];
  }
  ltide_tensor *view = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_as_strided(&view->t, x, &length, &step, 1, tide_tensor_offset(x)));
  ltide_try(L, tide_fill(view->t, c->v[1].scalar));
  ltide_close_tensor(view);
  return ltide_self(L, TIDE_OK);
}

#include <rows/index.inc>

void ltide_open_index(lua_State *L, ltide_state *S) {
  ltide_register_rows(L, "tide", index_rows);
  luaL_getmetatable(L, "tide.Tensor");
  ltide_push_methods(L);
  lua_createtable(L, 0, 8);
  for (int i = 0; field_names[i]; i++) {
    lua_pushinteger(L, i + 1);
    lua_setfield(L, -2, field_names[i]);
  }
  lua_pushcclosure(L, ltensor_index, 2);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, ltensor_newindex);
  lua_setfield(L, -2, "__newindex");
  lua_pop(L, 1);
}
