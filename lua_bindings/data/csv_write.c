/* csv_write.c: tide.save_csv, numbers to text.
 *
 * A float is written with the fewest decimals that read back as the same number: v * 10^k is rounded to an integer m
 * for k = 0, 1, ... until m / 10^k, which is correctly rounded while m < 2^53 and k <= 22, is v again. A number that
 * has no such form gets 9 or 17 significant digits. */
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "csv.h"
#include "file.h"
#include "tensor/tensor.h"

enum { PIECE = 1 << 16, LONGEST = 64 };

typedef struct writer {
  lua_State *L;
  ltide_file *own;
  FILE *file;
  const char *name;
  char delimiter;
  const char *missing;
  size_t missing_size;
  char bytes[PIECE];
  size_t used;
} writer;

static void flush(writer *w) {
  lua_State *L = w->L;
  if (fwrite(w->bytes, 1, w->used, w->file) != w->used) ltide_file_error(L, "written", w->name);
  w->used = 0;
  ltide_poll_hooks(L);
  ltide_check_time(L);
  if (!w->own) { /* a hook may have closed it */
    ltide_file *own;
    const char *name;
    w->file = ltide_check_file(L, 1, true, &own, &name);
  }
}

static void put(writer *w, const char *text, size_t n) {
  for (size_t part; n; text += part, n -= part) {
    if (w->used == PIECE) flush(w);
    part = n < PIECE - w->used ? n : PIECE - w->used;
    memcpy(w->bytes + w->used, text, part);
    w->used += part;
  }
}

static void put_char(writer *w, char c) { put(w, &c, 1); }

/* The digits of v, behind which the text ends; returns where they begin. */
static char *digits_of(uint64_t v, char *end) {
  do *--end = (char)('0' + v % 10);
  while (v /= 10);
  return end;
}

static void put_integer(writer *w, int64_t v) {
  char text[LONGEST], *end = text + LONGEST, *at = digits_of(v < 0 ? 0 - (uint64_t)v : (uint64_t)v, end);
  if (v < 0) *--at = '-';
  put(w, at, (size_t)(end - at));
}

/* m / 10^k. */
static void put_decimal(writer *w, bool minus, uint64_t m, int k) {
  char text[LONGEST], *end = text + LONGEST, *at = end;
  for (int i = 0; i < k; i++, m /= 10) *--at = (char)('0' + m % 10);
  if (k) *--at = '.';
  at = digits_of(m, at);
  if (minus) *--at = '-';
  put(w, at, (size_t)(end - at));
}

static void put_float(writer *w, double v, bool is_single) {
  static const double power[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14};
  char text[LONGEST];
  double size = fabs(v), most = is_single ? 1e9 : 9e15;
  if (isnan(v)) return put(w, w->missing, w->missing_size);
  if (isinf(v)) return put(w, v < 0 ? "-inf" : "inf", v < 0 ? 4 : 3);
  for (int k = 0; k < (int)(sizeof power / sizeof *power) && size * power[k] < most; k++) {
    double m = nearbyint(size * power[k]), back = m / power[k];
    if (is_single ? (float)back == (float)size : back == size) return put_decimal(w, signbit(v), (uint64_t)m, k);
  }
  int few = is_single ? 6 : 15, n = 0;
  bool is_far = size >= most || size < 1e-5, fits = false; /* the loop has tried the others */
  if (is_far) n = snprintf(text, sizeof text, "%.*g", few, v);
  if (is_far) fits = is_single ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v;
  if (!fits) n = snprintf(text, sizeof text, "%.*g", few + (is_single ? 3 : 2), v);
  char *point = strchr(text, *localeconv()->decimal_point);
  if (point) *point = '.';
  put(w, text, (size_t)n);
}

/* A name, in quotes where it has to be. */
static void put_name(writer *w, const char *text, size_t n) {
  const char special[] = {w->delimiter, '"', '\n', '\r', ' ', 0};
  if (n && !text[strcspn(text, special)] && strlen(text) == n) return put(w, text, n);
  put_char(w, '"');
  for (size_t i = 0; i < n; i++) {
    if (text[i] == '"') put_char(w, '"');
    put_char(w, text[i]);
  }
  put_char(w, '"');
}

static void put_header(writer *w, const ltide_value *header, int64_t columns) {
  lua_State *L = w->L;
  int n = ltide_check_list(L, header->at, 1 << 20, "header", "names");
  if (n != columns)
    ltide_fail(L, "ValueError", "header: got %d names, expected %I, one for each column", n, (LUAI_UACINT)columns);
  for (int i = 1; i <= n; i++) {
    size_t size;
    if (i > 1) put_char(w, w->delimiter);
    if (lua_rawgeti(L, header->at, i) != LUA_TSTRING) ltide_arg_error(L, -1, "header", "names");
    const char *name = lua_tolstring(L, -1, &size);
    put_name(w, name, size);
    lua_pop(L, 1);
  }
  put_char(w, '\n');
}

/* A copy of x with 8 bytes a value, on the CPU: int64, float64 or, for what is written with 9 digits, float32. */
static const tide_tensor *push_values(lua_State *L, ltide_state *S, const tide_tensor *x, tide_dtype *dtype) {
  tide_dtype of = tide_tensor_dtype(x);
  char kind = tide_dtype_kind(of);
  *dtype = kind != 'F' ? TIDE_INT64 : of == TIDE_FLOAT64 ? TIDE_FLOAT64 : TIDE_FLOAT32;
  const tide_options o = {*dtype, TIDE_CPU, false};
  ltide_tensor *u = ltide_new_tensor(L, S), *whole = ltide_new_tensor(L, S);
  ltide_try(L, tide_to(&u->t, x, &o, false, false));
  ltide_try(L, tide_contiguous(&whole->t, u->t));
  return whole->t;
}

int lsave_csv(lua_State *L, ltide_call *c) {
  const tide_tensor *x = c->v[1].tensor;
  int ndim = tide_tensor_ndim(x);
  tide_dtype dtype;
  if (tide_dtype_kind(tide_tensor_dtype(x)) == 'C')
    ltide_fail(L, "DtypeError", "x: got %s, expected real numbers", tide_dtype_name(tide_tensor_dtype(x)));
  if (ndim != 1 && ndim != 2) ltide_fail(L, "ShapeError", "x: got %d dimensions, expected 1 or 2", ndim);
  int64_t rows = tide_tensor_size(x)[0], columns = ndim == 2 ? tide_tensor_size(x)[1] : 1;
  writer *w = lua_newuserdatauv(L, sizeof *w, 0);
  w->L = L, w->used = 0;
  w->delimiter = ltide_csv_char(L, &c->v[3], "delimiter", ',');
  w->missing = c->v[4].given ? c->v[4].text : "nan";
  w->missing_size = strlen(w->missing);
  if (strpbrk(w->missing, "\"\r\n") || strchr(w->missing, w->delimiter))
    ltide_fail(L, "ValueError", "missing: got '%s', expected text without quotes, line ends and the delimiter",
               w->missing);
  const void *values = tide_tensor_data(push_values(L, c->S, x, &dtype));
  w->file = ltide_check_file(L, 1, true, &w->own, &w->name);
  if (c->v[2].given) put_header(w, &c->v[2], columns);
  for (int64_t i = 0; i < rows * columns; i++) {
    if (i % columns) put_char(w, w->delimiter);
    if (dtype == TIDE_INT64)
      put_integer(w, ((const int64_t *)values)[i]);
    else
      put_float(w, dtype == TIDE_FLOAT64 ? ((const double *)values)[i] : ((const float *)values)[i],
                dtype == TIDE_FLOAT32);
    if ((i + 1) % columns == 0) put_char(w, '\n');
  }
  flush(w);
  ltide_file_finish(L, w->own);
  return 0;
}
