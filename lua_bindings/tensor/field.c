/* field.c: operations on pictures, volumes and other fields on a grid. */
#include <math.h>

#include "tide/field.h"

#include "tensor.h"

static int lpad(lua_State *L, ltide_call *c) {
  int64_t pads[2 * TIDE_MAX_DIMS];
  int n = ltide_check_list(L, c->v[1].at, 2 * TIDE_MAX_DIMS, "pad", "integers");
  if (n % 2)
    ltide_fail(L, "ValueError",
               "pad: got %d integers, expected pairs: before and behind each dimension, the last "
               "one first",
               n);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, c->v[1].at, i + 1);
    pads[i] = ltide_check_integer(L, -1, "pad");
    lua_pop(L, 1);
  }
  const ltide_value *mode = &c->v[2], *value = &c->v[3];
  return ltide_finish(L, c, tide_pad(ltide_result(L, c), c->x, pads, n / 2, (tide_pad_mode)mode->i, value->scalar));
}

/* An integer for each of rank dims, or one for all of them; `standard` where nothing is given. */
static void read_each(lua_State *L, const ltide_value *v, const char *name, int rank, const int64_t *standard,
                      int64_t *out) {
  if (v->given && v->n != 1 && v->n != rank)
    ltide_fail(L, "ValueError", "%s: got %d integers, expected 1%s", name, v->n,
               rank == 1   ? ""
               : rank == 2 ? " or 2"
                           : " or 3");
  for (int i = 0; i < rank; i++) out[i] = v->given ? v->sizes[v->n == 1 ? 0 : i] : standard[i];
}

static void read_pool(lua_State *L, ltide_call *c, tide_pool *p) {
  static const int64_t zeros[3];
  int rank = c->row->tag;
  read_each(L, &c->v[1], "kernel", rank, zeros, p->kernel);
  read_each(L, &c->v[2], "stride", rank, p->kernel, p->stride);
  read_each(L, &c->v[3], "padding", rank, zeros, p->padding);
  p->ceil_mode = ltide_get(L, c, "ceil_mode")->boolean;
}

static int lmax_pool(lua_State *L, ltide_call *c) {
  static const int64_t ones[3] = {1, 1, 1};
  tide_pool p = {0};
  bool both = ltide_get(L, c, "return_indices")->boolean;
  read_pool(L, c, &p);
  read_each(L, &c->v[4], "dilation", c->row->tag, ones, p.dilation);
  ltide_check_out(L, c->S, c->opts, both ? 2 : 1);
  ltide_tensor *values = ltide_new_tensor(L, c->S), *indices = both ? ltide_new_tensor(L, c->S) : NULL;
  ltide_try(L, tide_max_pool(&values->t, both ? &indices->t : NULL, c->x, c->row->tag, &p));
  return ltide_deliver(L, c->S, c->opts, both ? 2 : 1);
}

static int lavg_pool(lua_State *L, ltide_call *c) {
  tide_pool p = {.count_include_pad = ltide_get(L, c, "count_include_pad")->boolean};
  read_pool(L, c, &p);
  p.divisor = ltide_get(L, c, "divisor_override")->i;
  return ltide_finish(L, c, tide_avg_pool(ltide_result(L, c), c->x, c->row->tag, &p));
}

/* How many dimensions x has in this mode; 0: 3 to 5. */
static int dims_of_mode(const char *mode) {
  static const char *const names[] = {"linear", "bilinear", "trilinear", "bicubic"};
  for (int i = 0; i < 4; i++)
    if (!strcmp(mode, names[i])) return i < 3 ? i + 3 : 4;
  return 0;
}

/* size= or scale_factor= as a size for each spatial dim; true: `scale` holds the factors. */
static bool read_size(lua_State *L, ltide_call *c, int rank, int64_t *size, double *scale) {
  const ltide_value *wanted = ltide_get(L, c, "size"), *factor = ltide_get(L, c, "scale_factor");
  static const int64_t none[3];
  if (wanted->given == factor->given)
    ltide_fail(L, "ArgumentError", "got %s, expected one of size and scale_factor",
               wanted->given ? "both" : "neither size nor scale_factor");
  if (wanted->given) return read_each(L, wanted, "size", rank, none, size), false;
  bool is_list = lua_istable(L, factor->at);
  if (is_list && ltide_check_list(L, factor->at, 3, "scale_factor", "numbers") != rank)
    ltide_fail(L, "ValueError", "scale_factor: expected %d numbers, or one", rank);
  for (int i = 0; i < rank; i++) {
    if (is_list) lua_rawgeti(L, factor->at, i + 1);
    scale[i] = ltide_check_number(L, is_list ? -1 : factor->at, "scale_factor");
    if (is_list) lua_pop(L, 1);
    double n = floor((double)tide_tensor_size(c->x)[i + 2] * scale[i]);
    if (!(scale[i] > 0 && n >= 1 && n < 9e15))
      ltide_fail(L, "ValueError", "scale_factor: got %f of %I elements, expected one that gives 1 to 9e15 elements",
                 scale[i], (lua_Integer)tide_tensor_size(c->x)[i + 2]);
    size[i] = (int64_t)n;
  }
  return true;
}

static int linterpolate(lua_State *L, ltide_call *c) {
  static const tide_interpolate_mode modes[] = {
      TIDE_INTERPOLATE_NEAREST, TIDE_INTERPOLATE_EXACT,  TIDE_INTERPOLATE_LINEAR, TIDE_INTERPOLATE_LINEAR,
      TIDE_INTERPOLATE_CUBIC,   TIDE_INTERPOLATE_LINEAR, TIDE_INTERPOLATE_AREA};
  static const char *const names[] = {"nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"};
  const ltide_value *mode = ltide_get(L, c, "mode"), *align = ltide_get(L, c, "align_corners");
  int ndim = tide_tensor_ndim(c->x);
  int64_t size[3];
  double scale[3];
  int wanted = dims_of_mode(names[mode->i]);
  if (ndim < 3 || ndim > 5 || (wanted && ndim != wanted))
    ltide_fail(L, "ShapeError", "x: got %d dimensions, expected %s for mode %s: batch, channels, and those to resize",
               ndim,
               !wanted       ? "3 to 5"
               : wanted == 3 ? "3"
               : wanted == 4 ? "4"
                             : "5",
               names[mode->i]);
  bool scaled = read_size(L, c, ndim - 2, size, scale);
  if (align->given && (mode->i < 2 || mode->i == 6))
    ltide_fail(L, "ArgumentError", "align_corners: got it with mode %s, expected it with linear and cubic modes",
               names[mode->i]);
  return ltide_finish(
      L, c, tide_interpolate(ltide_result(L, c), c->x, size, scaled ? scale : NULL, modes[mode->i], align->boolean));
}

/* padding: integers, 'valid' for none, or 'same'. */
static void read_padding(lua_State *L, const ltide_value *v, int rank, tide_convolution *p) {
  static const int64_t zeros[3];
  int64_t list[TIDE_MAX_DIMS];
  ltide_value given = *v;
  const char *word = v->given && lua_type(L, v->at) == LUA_TSTRING ? lua_tostring(L, v->at) : NULL;
  if (word && strcmp(word, "same") && strcmp(word, "valid"))
    ltide_fail(L, "ArgumentError", "padding: got '%s', expected integers, 'same' or 'valid'", word);
  p->same = word && !strcmp(word, "same");
  given.given = v->given && !word;
  if (given.given) given.n = ltide_check_integers(L, v->at, list, TIDE_MAX_DIMS, "padding"), given.sizes = list;
  read_each(L, &given, "padding", rank, zeros, p->padding);
}

static int lconv(lua_State *L, ltide_call *c) {
  static const int64_t ones[3] = {1, 1, 1}, zeros[3];
  bool transposed = c->row->tag > 3;
  if (tide_dtype_kind(tide_tensor_dtype(c->x)) == 'C')
    return ltide_compose(L, c, transposed ? "tensor/complex.conv_transpose" : "tensor/complex.conv");
  int rank = transposed ? c->row->tag - 3 : c->row->tag;
  tide_convolution p = {.groups = ltide_get(L, c, "groups")->i};
  read_each(L, ltide_get(L, c, "stride"), "stride", rank, ones, p.stride);
  read_each(L, ltide_get(L, c, "dilation"), "dilation", rank, ones, p.dilation);
  read_padding(L, ltide_get(L, c, "padding"), rank, &p);
  if (transposed) read_each(L, ltide_get(L, c, "output_padding"), "output_padding", rank, zeros, p.output_padding);
  if (transposed && p.same) ltide_fail(L, "ArgumentError", "padding: got 'same', expected integers");
  const tide_tensor *bias = c->v[2].given ? c->v[2].tensor : NULL;
  tide_tensor **out = ltide_result(L, c);
  return ltide_finish(L, c,
                      transposed ? tide_conv_transpose(out, c->x, c->v[1].tensor, bias, rank, &p)
                                 : tide_conv(out, c->x, c->v[1].tensor, bias, rank, &p));
}

static int lgrid_sample(lua_State *L, ltide_call *c) {
  return ltide_finish(L, c,
                      tide_grid_sample(ltide_result(L, c), c->x, c->v[1].tensor, (tide_sample_mode)c->v[2].i,
                                       (tide_sample_beyond)c->v[3].i, c->v[4].boolean));
}

#define NOUN field
#include "call/api/open_noun.def"
