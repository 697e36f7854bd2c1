/* format.c: tensors as text, in the style of PyTorch 2.11: columns aligned, four decimals, whole floats as "3.",
 * scientific notation where the values span more than a thousand, exceed 1e8 or fall under 1e-4; large tensors
 * summarised.
 *
 * Only what is shown is copied: a summarised tensor is read corner by corner (the first and last items of every long
 * dim), at most a few hundred elements, converted on its device to float64, int64, bool or complex128. */
#include <math.h>

#include "tensor.h"

typedef struct print_options {
  int precision, threshold, edgeitems, linewidth, sci_mode; /* sci_mode: -1 as the values ask for */
} print_options;
static _Thread_local print_options options = {4, 1000, 3, 80, -1};

/* What is shown, in row-major order: `size` elements of each dim, without the middle where elided. */
typedef struct visible {
  int ndim;
  int64_t size[TIDE_MAX_DIMS], numel;
  bool elided[TIDE_MAX_DIMS], summarised;
  char kind; /* 'F', 'I', 'B' or 'C' */
  size_t bytes;
  char *data;
} visible;

/* How numbers are written: one for real values, a second one for imaginary parts. */
typedef struct number_style {
  bool whole, sci;
  int width;
} number_style;

/* {==== Reading what is shown */

static tide_dtype shown_dtype(visible *v, tide_dtype dtype) {
  switch (tide_dtype_kind(dtype)) {
  case 'F': return v->kind = 'F', v->bytes = 8, TIDE_FLOAT64;
  case 'C': return v->kind = 'C', v->bytes = 16, TIDE_COMPLEX128;
  case 'B': return v->kind = 'B', v->bytes = 1, TIDE_BOOL;
  default: return v->kind = 'I', v->bytes = 8, TIDE_INT64;
  }
}

static void plan_visible(visible *v, const tide_tensor *x) {
  v->ndim = tide_tensor_ndim(x);
  v->summarised = tide_tensor_numel(x) > options.threshold;
  v->numel = tide_tensor_numel(x) ? 1 : 0;
  for (int d = 0; d < v->ndim; d++) {
    int64_t n = tide_tensor_size(x)[d];
    v->elided[d] = v->summarised && n > 2 * (int64_t)options.edgeitems;
    v->size[d] = v->elided[d] ? 2 * (int64_t)options.edgeitems : n;
    if (v->numel) v->numel *= v->size[d]; /* at most as many as x has */
  }
}

/* Copies the dense values of a corner to their places. */
static void place_corner(visible *v, const char *corner, const int64_t *start, const int64_t *length) {
  int64_t index[TIDE_MAX_DIMS] = {0}, inner = v->ndim ? length[v->ndim - 1] : 1, total = 1;
  for (int d = 0; d < v->ndim; d++) total *= length[d];
  for (int64_t done = 0; done < total; done += inner) {
    int64_t at = 0;
    for (int d = 0; d < v->ndim; d++) at = at * v->size[d] + start[d] + index[d];
    memcpy(v->data + (size_t)at * v->bytes, corner + (size_t)done * v->bytes, (size_t)inner * v->bytes);
    for (int d = v->ndim - 2; d >= 0 && ++index[d] == length[d]; d--) index[d] = 0;
  }
}

static tide_status read_view(char *host, const tide_tensor *view, tide_dtype dtype) {
  tide_options o = {dtype, tide_tensor_device(view), false};
  tide_tensor *converted;
  tide_status status = tide_to(&converted, view, &o, false, false);
  if (status != TIDE_OK) return status;
  status = tide_read(host, converted);
  tide_tensor_release(converted);
  return status;
}

/* Reads the corner that `ends` names: bit d set means the last items of dim d. */
static tide_status read_corner(visible *v, const tide_tensor *x, tide_dtype dtype, unsigned ends, char *scratch) {
  int64_t start[TIDE_MAX_DIMS], length[TIDE_MAX_DIMS];
  tide_tensor *view = (tide_tensor *)x;
  tide_status status = TIDE_OK;
  tide_tensor_retain(view);
  for (int d = 0; d < v->ndim && status == TIDE_OK; d++) {
    bool last = ends >> d & 1;
    length[d] = v->elided[d] ? options.edgeitems : v->size[d];
    start[d] = last ? length[d] : 0;
    if (!v->elided[d]) continue;
    tide_tensor *narrow;
    status = tide_narrow(&narrow, view, d, last ? tide_tensor_size(x)[d] - length[d] : 0, length[d]);
    if (status != TIDE_OK) break;
    tide_tensor_release(view);
    view = narrow;
  }
  if (status == TIDE_OK) status = read_view(scratch, view, dtype);
  if (status == TIDE_OK) place_corner(v, scratch, start, length);
  tide_tensor_release(view);
  return status;
}

static tide_status read_visible(visible *v, const tide_tensor *x, char *scratch) {
  tide_dtype dtype = shown_dtype(v, tide_tensor_dtype(x));
  unsigned elided = 0;
  for (int d = 0; d < v->ndim; d++) elided |= (unsigned)v->elided[d] << d;
  unsigned ends = 0;
  do {
    tide_status status = read_corner(v, x, dtype, ends, scratch);
    if (status != TIDE_OK) return status;
    ends = (ends - elided) & elided; /* the next subset of the bits of elided */
  } while (ends);
  return TIDE_OK;
}

/* {==== Numbers */

static double value_at(const visible *v, int64_t i, bool imaginary) {
  double f;
  if (v->kind == 'C')
    memcpy(&f, v->data + 16 * i + (imaginary ? 8 : 0), 8);
  else
    memcpy(&f, v->data + 8 * i, 8);
  return f;
}

static number_style float_style(const visible *v, bool imaginary) {
  number_style s = {true, false, 1};
  double low = INFINITY, high = 0;
  for (int64_t i = 0; i < v->numel; i++) {
    double f = value_at(v, i, imaginary);
    if (!isfinite(f) || f == 0) continue;
    if (f != ceil(f)) s.whole = false;
    if (fabs(f) < low) low = fabs(f);
    if (fabs(f) > high) high = fabs(f);
  }
  if (high == 0) return s;
  s.sci = options.sci_mode >= 0 ? options.sci_mode : high / low > 1000 || high > 1e8 || low < 1e-4;
  for (int64_t i = 0; i < v->numel; i++) {
    double f = value_at(v, i, imaginary);
    if (!isfinite(f) || f == 0) continue;
    int n = s.sci     ? snprintf(NULL, 0, "%.*e", options.precision, f)
            : s.whole ? snprintf(NULL, 0, "%.0f", f) + 1
                      : snprintf(NULL, 0, "%.*f", options.precision, f);
    if (n > s.width) s.width = n;
  }
  return s;
}

static number_style integer_style(const visible *v) {
  number_style s = {true, false, 1};
  for (int64_t i = 0; i < v->numel; i++) {
    int64_t n;
    int width = v->data[i] ? 4 : 5;
    if (v->kind == 'I') {
      memcpy(&n, v->data + 8 * i, 8);
      width = snprintf(NULL, 0, "%lld", (long long)n);
    }
    if (width > s.width) s.width = width;
  }
  return s;
}

static int write_float(char *text, size_t size, double f, number_style s) {
  char bare[512];
  if (isnan(f))
    snprintf(bare, sizeof bare, "nan");
  else if (isinf(f))
    snprintf(bare, sizeof bare, f < 0 ? "-inf" : "inf");
  else if (s.sci)
    snprintf(bare, sizeof bare, "%.*e", options.precision, f);
  else if (s.whole)
    snprintf(bare, sizeof bare, "%.0f.", f);
  else
    snprintf(bare, sizeof bare, "%.*f", options.precision, f);
  return snprintf(text, size, "%*s", s.width, bare);
}

typedef struct printer {
  luaL_Buffer *b;
  const visible *v;
  number_style re, im;
} printer;

static void add_value(printer *p, int64_t i) {
  char text[1100];
  const visible *v = p->v;
  if (v->kind == 'F')
    write_float(text, sizeof text, value_at(v, i, false), p->re);
  else if (v->kind == 'B')
    snprintf(text, sizeof text, "%*s", p->re.width, v->data[i] ? "True" : "False");
  else if (v->kind == 'I') {
    int64_t n;
    memcpy(&n, v->data + 8 * i, 8);
    snprintf(text, sizeof text, "%*lld", p->re.width, (long long)n);
  } else {
    char imaginary[540];
    int n = write_float(text, sizeof text, value_at(v, i, false), p->re);
    write_float(imaginary, sizeof imaginary, value_at(v, i, true), p->im);
    const char *bare = imaginary + strspn(imaginary, " ");
    snprintf(text + n, sizeof text - (size_t)n, "%s%sj", *bare == '-' ? "" : "+", bare);
  }
  luaL_addstring(p->b, text);
}

/* {==== Layout */

static void add_spaces(luaL_Buffer *b, int n) {
  while (n-- > 0) luaL_addchar(b, ' ');
}

/* One row of the innermost dim, broken into lines. */
static void add_vector(printer *p, int64_t first, int indent) {
  const visible *v = p->v;
  int d = v->ndim - 1, each = p->re.width + 2 + (v->kind == 'C' ? p->im.width + 1 : 0);
  int line = (options.linewidth - indent) / each, on_line = 0;
  int64_t shown = v->size[d] + v->elided[d], middle = v->elided[d] ? v->size[d] / 2 : -1;
  if (line < 1) line = 1;
  luaL_addchar(p->b, '[');
  for (int64_t i = 0, item = 0; i < shown; i++) {
    if (on_line == line) {
      luaL_addstring(p->b, ",\n");
      add_spaces(p->b, indent + 1);
      on_line = 0;
    } else if (i)
      luaL_addstring(p->b, ", ");
    on_line++;
    if (i == middle)
      luaL_addstring(p->b, " ...");
    else
      add_value(p, first + item++);
  }
  luaL_addchar(p->b, ']');
}

static void add_tensor(printer *p, int d, int64_t first, int indent) {
  const visible *v = p->v;
  if (v->ndim == 0) {
    add_value(p, 0);
    return;
  }
  if (d == v->ndim - 1) {
    add_vector(p, first, indent);
    return;
  }
  int64_t inner = 1, shown = v->size[d] + v->elided[d], middle = v->elided[d] ? v->size[d] / 2 : -1;
  for (int k = d + 1; k < v->ndim; k++) inner *= v->size[k];
  luaL_addchar(p->b, '[');
  for (int64_t i = 0, item = 0; i < shown; i++) {
    if (i) {
      luaL_addchar(p->b, ',');
      for (int k = d; k < v->ndim - 1; k++) luaL_addchar(p->b, '\n');
      add_spaces(p->b, indent + 1);
    }
    if (i == middle)
      luaL_addstring(p->b, "...");
    else
      add_tensor(p, d + 1, first + inner * item++, indent + 1);
  }
  luaL_addchar(p->b, ']');
}

/* Pushes "2, 3". */
static const char *push_sizes(lua_State *L, const tide_tensor *x) {
  lua_pushliteral(L, "");
  for (int d = 0; d < tide_tensor_ndim(x); d++) {
    lua_pushfstring(L, d ? ", %I" : "%I", (lua_Integer)tide_tensor_size(x)[d]);
    lua_concat(L, 2);
  }
  return lua_tostring(L, -1);
}

/* Pushes the suffix texts ("device='cuda:0'", ...) and returns their number. */
static int push_suffixes(lua_State *L, const tide_tensor *x) {
  int n = 0;
  tide_dtype dtype = tide_tensor_dtype(x), real = tide_get_default_dtype();
  bool is_empty = !tide_tensor_numel(x), is_told = dtype != real; /* is its dtype? */
  if (!is_empty && (dtype == TIDE_INT64 || dtype == TIDE_BOOL)) is_told = false;
  if (!is_empty && dtype == (real == TIDE_FLOAT64 ? TIDE_COMPLEX128 : TIDE_COMPLEX64)) is_told = false;
  if (tide_tensor_device(x) >= 0) lua_pushfstring(L, "device='cuda:%d'", tide_tensor_device(x)), n++;
  if (is_empty && tide_tensor_ndim(x) != 1) {
    lua_pushfstring(L, "size=(%s)", push_sizes(L, x)), n++;
    lua_remove(L, -2);
  }
  if (is_told) lua_pushfstring(L, "dtype=tide.%s", tide_dtype_name(dtype)), n++;
  return n;
}

/* The text at `body` and the n suffixes above it -> one string. A suffix that does not fit goes on a line of its
 * own. */
static void join_suffixes(lua_State *L, int body, int n) {
  const char *text = lua_tostring(L, body), *line = strrchr(text, '\n');
  int length = (int)strlen(line ? line : text) + (line ? 1 : 2);
  lua_pushvalue(L, body);
  for (int i = 1; i <= n; i++) {
    int suffix = (int)lua_rawlen(L, body + i);
    bool fits = length + suffix + 2 <= options.linewidth;
    lua_pushstring(L, fits ? ", " : ",\n       ");
    lua_pushvalue(L, body + i);
    lua_concat(L, 3);
    length = fits ? length + suffix + 2 : 7 + suffix;
  }
  lua_pushliteral(L, ")");
  lua_concat(L, 2);
}

/* While a graph is captured there are no values: "tensor(..., device='cuda:0', size=(2, 3))". */
static int push_without_values(lua_State *L, const tide_tensor *x) {
  return lua_pushfstring(L, "tensor(..., device='cuda:%d', size=(%s%s), dtype=tide.%s)", tide_tensor_device(x),
                         push_sizes(L, x), tide_tensor_ndim(x) == 1 ? "," : "", tide_dtype_name(tide_tensor_dtype(x))),
         1;
}

static int ltensor_tostring(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  ltide_tensor *u = ltide_test_handle(L, S, 1);
  if (!u) return ltide_arg_error(L, 1, "x", "a tensor");
  if (!u->t) { return lua_pushliteral(L, "tensor(freed)"), 1; }
  const tide_tensor *t = u->t; /* stays for this call, also where a finaliser frees the handle */
  if (tide_tensor_device(t) >= 0 && tide_thread_is_capturing()) return push_without_values(L, t);
  visible v;
  plan_visible(&v, t);
  size_t room = v.numel ? (size_t)v.numel * 16 : 1;
  v.data = ltide_new_object(L, room, 0);
  char *scratch = ltide_new_object(L, room, 0);
  if (v.numel) ltide_try(L, read_visible(&v, t, scratch));
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addstring(&b, "tensor(");
  if (v.numel == 0)
    luaL_addstring(&b, "[]");
  else {
    printer p = {&b, &v, {0}, {0}};
    if (v.kind == 'F' || v.kind == 'C')
      p.re = float_style(&v, false);
    else
      p.re = integer_style(&v);
    if (v.kind == 'C') p.im = float_style(&v, true);
    add_tensor(&p, 0, 0, 7);
  }
  luaL_pushresult(&b);
  int body = lua_gettop(L);
  join_suffixes(L, body, push_suffixes(L, t));
  return 1;
}

/* {==== Options */

/* What is not given stays as it is, but for sci_mode. */
static int lset_printoptions(lua_State *L, ltide_call *c) {
  print_options o = options;
  int *const to[] = {&o.precision, &o.threshold, &o.edgeitems, &o.linewidth};
  static const int least[] = {0, 0, 1, 10}, most[] = {64, 1 << 30, 1 << 30, 1 << 30};
  if (!c->opts)
    return ltide_arg_error(L, 1, "opts", "a table {precision=, threshold=, edgeitems=, linewidth=, sci_mode=}");
  for (int i = 0; i < 4; i++) {
    int ok;
    if (!c->v[i].given) continue;
    lua_Integer n = lua_tointegerx(L, c->v[i].at, &ok);
    if (!ok || n < least[i] || n > most[i])
      return ltide_error(L, "ValueError", "set_printoptions: %s: got %s, expected an integer from %d to %d",
                         c->sig->param[i].name, ltide_typename(L, c->v[i].at), least[i], most[i]);
    *to[i] = (int)n;
  }
  o.sci_mode = c->v[4].given ? c->v[4].boolean : -1;
  options = o;
  return 0;
}

void ltide_open_format(lua_State *L, ltide_state *S) {
#include <rows/format.inc>
#include <rows/tensor.inc>
  ltide_register_rows(L, "tide", format_rows);
  lua_rawgeti(L, LUA_REGISTRYINDEX, S->tensor_ref);
  ltide_register_rows(L, "Tensor", tensor_rows);
  lua_pop(L, 1);
}
