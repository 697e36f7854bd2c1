/* csv.c: tide.load_csv, numbers out of text.
 *
 * The file is read in pieces. A record (a line, or several where a quoted field holds line ends) is parsed where it
 * lies; one that does not end in its piece is parsed again once more has been read. Numbers of at most 19 digits whose
 * mantissa fits in 53 bits and whose power of ten is exact (22 or less) need one multiplication or division, which
 * rounds correctly (W. D. Clinger, "How to Read Floating Point Numbers Accurately", 1990); the others go to strtod.
 *
 * Invariant: what the hooks of a script may run between two pieces finds everything owned by the stack. */
#include "csv.h"

#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "file.h"
#include "tensor/tensor.h"

enum { PIECE = 1 << 18, MOST_COLUMNS = 1 << 20, LONGEST_NUMBER = 1 << 10 };

/* {==== Numbers */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* The value of [from, to), which has the form of a number. */
static double slow_double(const char *from, const char *to) {
  char text[LONGEST_NUMBER + 1];
  size_t n = (size_t)(to - from);
  memcpy(text, from, n);
  text[n] = 0;
  char *dot = strchr(text, '.');
  if (dot) *dot = *localeconv()->decimal_point; /* strtod reads the locale's */
  return strtod(text, NULL);
}

bool ltide_csv_double(double *out, const char *from, const char *to) {
  static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const char *p = from;
  bool minus = p < to && *p == '-';
  if (p < to && (*p == '-' || *p == '+')) p++;
  uint64_t mantissa = 0;
  int digits = 0, exponent = 0;
  const char *first = p;
  for (; p < to && is_digit(*p); p++) mantissa = mantissa * 10 + (uint64_t)(*p - '0');
  digits = p - first > INT_MAX / 2 ? INT_MAX / 2 : (int)(p - first);
  if (p < to && *p == '.') {
    const char *behind = ++p;
    for (; p < to && is_digit(*p); p++) mantissa = mantissa * 10 + (uint64_t)(*p - '0');
    if (p - behind > LONGEST_NUMBER) return false;
    digits += (int)(p - behind), exponent = -(int)(p - behind);
  }
  if (!digits) return false;
  if (p < to && (*p == 'e' || *p == 'E')) {
    int sign = 1, e = 0;
    p++;
    if (p < to && (*p == '-' || *p == '+')) sign = *p++ == '-' ? -1 : 1;
    if (p == to) return false;
    for (; p < to && is_digit(*p); p++) e = e < 100000 ? e * 10 + (*p - '0') : e;
    exponent += sign * e;
  }
  if (p != to || to - from > LONGEST_NUMBER) return false;
  if (digits > 19 || mantissa > (uint64_t)1 << 53 || exponent < -22 || exponent > 22) {
    *out = slow_double(from, to);
    return true;
  }
  double value = exponent < 0 ? (double)mantissa / power[-exponent] : (double)mantissa * power[exponent];
  *out = minus ? -value : value;
  return true;
}

static bool is_word(const char *from, const char *to, const char *word) {
  size_t n = strlen(word);
  if ((size_t)(to - from) != n) return false;
  for (size_t i = 0; i < n; i++) {
    char c = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] + 32) : from[i];
    if (c != word[i]) return false;
  }
  return true;
}

static bool is_missing(const char *from, const char *to) {
  return from == to || is_word(from, to, "na") || is_word(from, to, "n/a") || is_word(from, to, "nan") ||
         is_word(from, to, "null") || is_word(from, to, "none");
}

/* inf, true and false; false: it is none of them. */
static bool read_word(double *out, const char *from, const char *to) {
  if (is_word(from, to, "true")) return *out = 1, true;
  if (is_word(from, to, "false")) return *out = 0, true;
  bool minus = from < to && *from == '-';
  if (from < to && (*from == '-' || *from == '+')) from++;
  if (!is_word(from, to, "inf") && !is_word(from, to, "infinity")) return false;
  return *out = minus ? -INFINITY : INFINITY, true;
}

/* An integer of 64 bits, exactly, or false. */
static bool read_int64(int64_t *out, const char *from, const char *to) {
  const char *p = from;
  bool minus = p < to && *p == '-';
  if (p < to && (*p == '-' || *p == '+')) p++;
  if (p == to || to - p > 19) return false;
  uint64_t value = 0;
  for (; p < to; p++) {
    if (!is_digit(*p)) return false;
    value = value * 10 + (uint64_t)(*p - '0');
  }
  if (value > (uint64_t)INT64_MAX + minus) return false;
  *out = minus ? (int64_t)(0 - value) : (int64_t)value;
  return true;
}

/* {==== The file */

typedef struct reader {
  lua_State *L;
  const char *name; /* of the file */
  FILE *file;
  bool is_own, at_end;
  int buffer;             /* the stack index of the userdata that holds the bytes */
  char *bytes, *at, *end; /* what is left to parse: from at to end */
  size_t room;
  int64_t line; /* of `at`, from 1 */

  char delimiter, comment; /* comment: 0 for none */
  bool any_blanks;
  int64_t columns;  /* of the file; -1: no record has been read */
  int64_t *place;   /* where the value of a column goes in its row, or -1 */
  int64_t width;    /* values of a row */
  int names;        /* the stack index of the names of the columns, or 0 */
  bool integers;    /* values are int64_t, not double */
  bool has_missing; /* was missing= given? */
  double missing;
  int64_t missing_integer, least, greatest; /* of the integer dtype */
  tide_dtype dtype;

  ltide_tensor *values; /* 1-D, of 64-bit values */
  int64_t count, space; /* values that are there, and that fit */
} reader;

/* Reads on, behind what is left, and at least as much again: a long record is parsed few times. Moves what is left to
 * the beginning of the bytes. */
static void fill(reader *r) {
  lua_State *L = r->L;
  size_t left = (size_t)(r->end - r->at), piece = left > PIECE ? left : PIECE;
  if (left + piece + 1 > r->room) {
    size_t room = r->room * 2 > left + piece + 1 ? r->room * 2 : left + piece + 1;
    char *bytes = lua_newuserdatauv(L, room, 0);
    memcpy(bytes, r->at, left);
    lua_replace(L, r->buffer);
    r->bytes = bytes, r->room = room;
  } else {
    memmove(r->bytes, r->at, left);
  }
  r->at = r->bytes, r->end = r->bytes + left;
  ltide_poll_hooks(L);
  ltide_check_time(L);
  if (!r->is_own) { /* a hook may have closed it */
    ltide_file *own;
    const char *name;
    r->file = ltide_check_file(L, 1, false, &own, &name);
  }
  size_t n = fread(r->end, 1, piece, r->file);
  if (n < piece) {
    if (ferror(r->file)) ltide_file_error(L, "read", r->name);
    r->at_end = true;
  }
  r->end += n;
  *r->end = 0;
}

static int fail(reader *r, int64_t column, const char *format, ...) {
  lua_State *L = r->L;
  va_list list;
  va_start(list, format);
  const char *text = lua_pushvfstring(L, format, list);
  va_end(list);
  if (column < 0) return ltide_fail(L, "FileError", "%s: line %I: %s", r->name, (LUAI_UACINT)r->line, text);
  const char *name = "";
  if (r->names && lua_rawgeti(L, r->names, column + 1) == LUA_TSTRING)
    name = lua_pushfstring(L, " ('%s')", lua_tostring(L, -1));
  return ltide_fail(L, "FileError", "%s: line %I, column %I%s: %s", r->name, (LUAI_UACINT)r->line,
                    (LUAI_UACINT)(column + ltide_base(L)), name, text);
}

/* A field of a record: [from, to) without blanks and quotes around it. */
typedef struct field {
  const char *from, *to;
  bool is_quoted, has_pairs; /* has_pairs: two quotes in it mean one */
  bool is_last;              /* of its record */
  int64_t lines;             /* line ends in it */
} field;

static bool is_blank(const reader *r, char c) { return c == ' ' || (c == '\t' && r->delimiter != '\t'); }

/* Reads the field at *p and steps behind its delimiter or line end. False: more bytes are needed. */
static bool read_field(reader *r, const char **p, field *f) {
  const char *s = *p, *end = r->end;
  const char delimiter = r->delimiter;
  while (s < end && is_blank(r, *s)) s++;
  f->is_quoted = s < end && *s == '"', f->has_pairs = false, f->lines = 0;
  if (f->is_quoted) {
    f->from = ++s;
    for (;; s++) {
      while (s < end && *s != '"') f->lines += *s++ == '\n';
      if (s == end && !r->at_end) return false;
      if (s == end) return fail(r, -1, "a quote that does not end");
      if (s + 1 == end && !r->at_end) return false;
      if (s + 1 == end || s[1] != '"') break;
      f->has_pairs = true, s++;
    }
    f->to = s++;
    while (s < end && is_blank(r, *s)) s++;
    if (s < end && *s == '\r') s++;
    bool ends = s == end || *s == '\n' || *s == delimiter || (r->any_blanks && is_blank(r, s[-1]));
    if (!ends)
      return fail(r, -1, "got '%s' behind a closing quote, expected the delimiter", lua_pushlstring(r->L, s, 1));
    if (r->any_blanks && s < end && *s != '\n') return *p = s, f->is_last = false, true;
  } else {
    f->from = s;
    if (r->any_blanks)
      while (s < end && !is_blank(r, *s) && *s != '\n') s++;
    else
      while (s < end && *s != delimiter && *s != '\n') s++;
    f->to = s;
    while (f->to > f->from && (is_blank(r, f->to[-1]) || f->to[-1] == '\r')) f->to--;
    if (r->any_blanks) {
      while (s < end && (is_blank(r, *s) || *s == '\r')) s++;
      if (s < end && *s != '\n') return *p = s, f->is_last = false, true;
    }
  }
  if (s == end && !r->at_end) return false;
  f->is_last = s == end || *s == '\n';
  *p = s < end ? s + 1 : s;
  return true;
}

/* {==== Records */

static void make_room(reader *r) {
  lua_State *L = r->L;
  if (r->values->t && r->count + r->width <= r->space) return;
  const tide_options o = {r->integers ? TIDE_INT64 : TIDE_FLOAT64, TIDE_CPU, false};
  int64_t space = r->space * 2 > r->count + r->width ? r->space * 2 : r->count + r->width;
  if (space < 4096) space = 4096;
  tide_tensor *larger;
  ltide_try(L, tide_empty(&larger, &space, 1, &o));
  if (r->values->t) {
    memcpy(tide_tensor_data(larger), tide_tensor_data(r->values->t), (size_t)r->count * 8);
    tide_tensor_release(r->values->t);
  }
  r->values->t = larger, r->space = space;
}

/* The delimiter that stands in the text of the one column that there is. */
static const char *delimiter_hint(const reader *r, const char *from, const char *to) {
  size_t n = r->columns == 1 ? (size_t)(to - from) : 0;
  if (memchr(from, ';', n)) return "; delimiter = ';' splits such lines";
  if (memchr(from, '\t', n)) return "; delimiter = '\\t' splits such lines";
  return memchr(from, ' ', n) ? "; delimiter = ' ' splits such lines" : "; columns = {...} reads some columns only";
}

static int refuse_field(reader *r, int64_t column, const field *f, const char *expected) {
  size_t n = (size_t)(f->to - f->from);
  if (memchr(f->from, '\r', n)) return fail(r, column, "got a lone CR, expected lines that end in LF or CRLF");
  const char *more = n > 40 ? "..." : "";
  return fail(r, column, "got '%s%s', expected %s", lua_pushlstring(r->L, f->from, n > 40 ? 40 : n), more, expected);
}

static int64_t integer_of(reader *r, int64_t column, const field *f) {
  int64_t i;
  double d;
  if (is_missing(f->from, f->to)) {
    if (!r->has_missing) return refuse_field(r, column, f, "an integer; missing = n gives a number for missing fields");
    return r->missing_integer;
  }
  if (!read_int64(&i, f->from, f->to)) {
    bool found = ltide_csv_double(&d, f->from, f->to) || read_word(&d, f->from, f->to);
    if (!found || d != floor(d) || fabs(d) > 9007199254740992.0) return refuse_field(r, column, f, "an integer");
    i = (int64_t)d;
  }
  if (i < r->least || i > r->greatest)
    return refuse_field(r, column, f, lua_pushfstring(r->L, "an integer that fits in %s", tide_dtype_name(r->dtype)));
  return i;
}

static double double_of(reader *r, int64_t column, const field *f) {
  double d;
  if (ltide_csv_double(&d, f->from, f->to)) return d;
  if (is_missing(f->from, f->to)) return r->missing;
  if (!read_word(&d, f->from, f->to))
    refuse_field(r, column, f, lua_pushfstring(r->L, "a number%s", delimiter_hint(r, f->from, f->to)));
  return d;
}

/* Parses the record at `at`. False: more bytes are needed, and nothing has changed. */
static bool read_row(reader *r) {
  const char *p = r->at;
  int64_t column = 0, lines = 0;
  field f;
  make_room(r);
  void *row = (char *)tide_tensor_data(r->values->t) + r->count * 8;
  do {
    if (!read_field(r, &p, &f)) return false;
    int64_t to = column < r->columns ? r->place[column] : -1;
    if (to >= 0 && r->integers)
      ((int64_t *)row)[to] = integer_of(r, column, &f);
    else if (to >= 0)
      ((double *)row)[to] = double_of(r, column, &f);
    lines += f.lines;
    column++;
  } while (!f.is_last);
  if (column != r->columns)
    fail(r, -1, "got %I field%s, expected %I, as in the first line%s", (LUAI_UACINT)column, column == 1 ? "" : "s",
         (LUAI_UACINT)r->columns, r->columns == 1 ? "; delimiter = ';', skip = 1 and comment = '#' are options" : "");
  r->at += p - r->at;
  r->line += lines + 1;
  r->count += r->width;
  return true;
}

/* Steps over lines that are empty or comments. False: the file has ended. */
static bool skip_empty(reader *r) {
  for (;;) {
    char *p = r->at;
    while (p < r->end && (is_blank(r, *p) || *p == '\r')) p++;
    bool is_comment = p < r->end && r->comment && *p == r->comment;
    if (is_comment) {
      char *newline = memchr(p, '\n', (size_t)(r->end - p));
      p = newline ? newline : r->end;
    }
    if (p == r->end) {
      if (r->at_end) return r->at = p, false;
      fill(r);
      continue;
    }
    if (*p != '\n') return true;
    r->at = p + 1, r->line++;
  }
}

static void skip_lines(reader *r, int64_t count) {
  while (count > 0) {
    char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
    if (newline)
      r->at = newline + 1, r->line++, count--;
    else if (r->at_end)
      return (void)(r->at = r->end);
    else
      r->at = r->end, fill(r);
  }
}

/* {==== The first record */

static void push_field(lua_State *L, const field *f) {
  lua_pushlstring(L, f->from, (size_t)(f->to - f->from));
  if (f->has_pairs) {
    luaL_gsub(L, lua_tostring(L, -1), "\"\"", "\"");
    lua_remove(L, -2);
  }
}

/* Pushes the fields of the record at `at`, as a list of texts; *are_numbers: could they be a row of values? Steps over
 * the record where `step`. */
static void push_first(reader *r, bool *are_numbers) {
  lua_State *L = r->L;
  int top = lua_gettop(L);
  for (;;) {
    const char *p = r->at;
    bool more = true;
    field f = {0};
    double d;
    lua_settop(L, top);
    lua_newtable(L);
    *are_numbers = true;
    for (r->columns = 0; more && read_field(r, &p, &f); r->columns++) {
      if (r->columns == MOST_COLUMNS) fail(r, -1, "got more than %d fields", MOST_COLUMNS);
      push_field(L, &f);
      if (!f.is_quoted && memchr(f.from, '\r', (size_t)(f.to - f.from))) refuse_field(r, r->columns, &f, "");
      lua_rawseti(L, -2, r->columns + 1);
      bool is_number = ltide_csv_double(&d, f.from, f.to) || is_missing(f.from, f.to) || read_word(&d, f.from, f.to);
      *are_numbers = *are_numbers && is_number;
      more = !f.is_last;
    }
    if (!more) return;
    fill(r);
  }
}

/* Steps over the record at `at`, which is whole. */
static void step_over(reader *r) {
  const char *p = r->at;
  field f;
  do {
    if (!read_field(r, &p, &f)) return;
    r->line += f.lines;
  } while (!f.is_last);
  r->at += p - r->at;
  r->line++;
}

/* The column that the value at the top names, which is popped. */
static int64_t column_of(reader *r) {
  lua_State *L = r->L;
  int base = ltide_base(L), is_integer = 0;
  lua_Integer i = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &is_integer) - base : 0;
  if (is_integer && i >= 0 && i < r->columns) return lua_pop(L, 1), i;
  if (is_integer)
    ltide_fail(L, "ValueError", "columns: got column %I, expected one of %d to %I", (LUAI_UACINT)(i + base), base,
               (LUAI_UACINT)(r->columns + base - 1));
  if (lua_type(L, -1) != LUA_TSTRING) ltide_arg_error(L, -1, "columns", "names or numbers of columns");
  if (!r->names) ltide_fail(L, "ValueError", "columns: got name '%s', but the file has no header", lua_tostring(L, -1));
  for (int64_t k = 0; k < r->columns; k++) {
    lua_rawgeti(L, r->names, k + 1);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
    if (same) return lua_pop(L, 1), k;
  }
  luaL_Buffer b;
  int name = lua_gettop(L);
  luaL_buffinit(L, &b);
  for (int64_t k = 0; k < r->columns && k < 20; k++) {
    luaL_addstring(&b, k ? ", " : "");
    lua_rawgeti(L, r->names, k + 1);
    luaL_addvalue(&b);
  }
  luaL_addstring(&b, r->columns > 20 ? ", ..." : "");
  luaL_pushresult(&b);
  return ltide_fail(L, "ValueError", "columns: got '%s', expected one of: %s", lua_tostring(L, name),
                    lua_tostring(L, -1));
}

/* Fills r->place from the option at `columns`. */
static void choose_columns(reader *r, const ltide_value *columns) {
  lua_State *L = r->L;
  r->place = lua_newuserdatauv(L, (size_t)(r->columns ? r->columns : 1) * sizeof *r->place, 0);
  for (int64_t k = 0; k < r->columns; k++) r->place[k] = columns->given ? -1 : k;
  r->width = r->columns;
  if (!columns->given) return;
  bool is_list = lua_istable(L, columns->at);
  r->width = is_list ? ltide_check_list(L, columns->at, MOST_COLUMNS, "columns", "names or numbers of columns") : 1;
  if (!r->width) ltide_fail(L, "ValueError", "columns: got an empty list");
  for (int64_t k = 0; k < r->width; k++) {
    if (is_list)
      lua_rawgeti(L, columns->at, k + 1);
    else
      lua_pushvalue(L, columns->at);
    int64_t column = column_of(r);
    if (r->place[column] >= 0)
      ltide_fail(L, "ValueError", "columns: got column %I twice", (LUAI_UACINT)(column + ltide_base(L)));
    r->place[column] = k;
  }
}

/* Pushes the names of the chosen columns in their order, or nil. */
static void push_names(reader *r) {
  lua_State *L = r->L;
  if (!r->names) return lua_pushnil(L);
  lua_createtable(L, (int)r->width, 0);
  for (int64_t k = 0; k < r->columns; k++)
    if (r->place[k] >= 0) lua_rawgeti(L, r->names, k + 1), lua_rawseti(L, -2, r->place[k] + 1);
}

/* {==== tide.load_csv */

char ltide_csv_char(lua_State *L, const ltide_value *v, const char *name, char standard) {
  if (!v->given) return standard;
  if (strlen(v->text) != 1 || strchr("\n\r\"0123456789.+-", *v->text))
    ltide_fail(L, "ValueError", "%s: got '%s', expected one character that is in no number", name, v->text);
  return *v->text;
}

/* What an integer dtype holds. */
static void set_range(reader *r, tide_dtype dtype) {
  static const struct {
    tide_dtype dtype;
    int64_t least, greatest;
  } ranges[] = {{TIDE_BOOL, 0, 1},
                {TIDE_UINT8, 0, UINT8_MAX},
                {TIDE_INT8, INT8_MIN, INT8_MAX},
                {TIDE_INT16, INT16_MIN, INT16_MAX},
                {TIDE_INT32, INT32_MIN, INT32_MAX},
                {TIDE_INT64, INT64_MIN, INT64_MAX}};
  r->dtype = dtype;
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (ranges[i].dtype == dtype) r->integers = true, r->least = ranges[i].least, r->greatest = ranges[i].greatest;
}

static void set_missing(reader *r, const ltide_value *missing) {
  lua_State *L = r->L;
  r->has_missing = missing->given, r->missing = missing->given ? missing->number : NAN;
  if (!r->integers || !missing->given) return;
  bool fits = r->missing == floor(r->missing) && r->missing >= (double)r->least && r->missing <= (double)r->greatest &&
              fabs(r->missing) <= 9007199254740992.0;
  if (!fits)
    ltide_fail(L, "ValueError", "missing: got %f, expected an integer that fits in %s", r->missing,
               tide_dtype_name(r->dtype));
  r->missing_integer = (int64_t)r->missing;
}

/* Begins with the bytes, without UTF-8's mark. */
static void begin(reader *r) {
  lua_State *L = r->L;
  r->room = 2 * PIECE;
  r->bytes = r->at = r->end = lua_newuserdatauv(L, r->room, 0);
  r->buffer = lua_gettop(L);
  fill(r);
  size_t n = (size_t)(r->end - r->at);
  if (n >= 2 && (!memcmp(r->at, "\xff\xfe", 2) || !memcmp(r->at, "\xfe\xff", 2)))
    ltide_fail(L, "FileError", "%s: got text in UTF-16, expected UTF-8 or ASCII", r->name);
  if (n >= 3 && !memcmp(r->at, "\xef\xbb\xbf", 3)) r->at += 3;
}

/* Pushes the tensor [rows, width], or [rows] where there is one column that was asked for alone. */
static void push_result(reader *r, bool is_list, int device) {
  lua_State *L = r->L;
  const tide_options o = {r->dtype, device, false};
  int64_t size[2] = {r->width ? r->count / r->width : 0, r->width};
  ltide_tensor *u = ltide_new_tensor(L, ltide_enter(L));
  tide_tensor *part = NULL;
  make_room(r);
  ltide_tensor *parts = ltide_new_tensor(L, ltide_enter(L)); /* owns it if the copy fails */
  ltide_try(L, tide_narrow(&part, r->values->t, 0, 0, r->count));
  parts->t = part;
  ltide_tensor *rows = ltide_new_tensor(L, ltide_enter(L));
  ltide_try(L, tide_view(&rows->t, part, size, is_list ? 2 : 1));
  ltide_try(L, tide_to(&u->t, rows->t, &o, false, true));
  tide_tensor_release(rows->t), rows->t = NULL;
  tide_tensor_release(parts->t), parts->t = NULL;
  tide_tensor_release(r->values->t), r->values->t = NULL;
  lua_pop(L, 2);
}

static int lload_csv(lua_State *L, ltide_call *c) {
  reader r = {.L = L, .columns = -1, .line = 1};
  ltide_file *own;
  const ltide_value *header = &c->v[1], *columns = &c->v[3];
  tide_options o = {tide_get_default_dtype(), TIDE_CPU, false};
  r.delimiter = ltide_csv_char(L, &c->v[2], "delimiter", ',');
  r.any_blanks = r.delimiter == ' ';
  r.comment = ltide_csv_char(L, &c->v[6], "comment", 0);
  ltide_opt_options(L, c->opts, &o);
  if (tide_dtype_kind(o.dtype) == 'C')
    ltide_fail(L, "DtypeError", "dtype: got %s, expected a real one", tide_dtype_name(o.dtype));
  set_range(&r, o.dtype);
  set_missing(&r, &c->v[5]);
  if (columns->given && lua_type(L, columns->at) != LUA_TSTRING && lua_type(L, columns->at) != LUA_TNUMBER &&
      !lua_istable(L, columns->at))
    ltide_arg_error(L, columns->at, "columns", "a name, a number or a list of them");
  r.file = ltide_check_file(L, 1, false, &own, &r.name);
  r.is_own = own != NULL;
  r.values = ltide_new_tensor(L, c->S);
  begin(&r);
  skip_lines(&r, c->v[4].i);
  if (skip_empty(&r)) {
    bool are_numbers;
    push_first(&r, &are_numbers);
    if (header->given ? header->boolean : !are_numbers) {
      r.names = lua_gettop(L);
      step_over(&r);
    }
  } else {
    r.columns = 0;
    if (columns->given) ltide_fail(L, "ValueError", "columns: %s is empty", r.name);
  }
  choose_columns(&r, columns);
  while (skip_empty(&r))
    while (!read_row(&r)) fill(&r);
  push_result(&r, !columns->given || lua_istable(L, columns->at), o.device);
  push_names(&r);
  ltide_made(L, c->S);
  return 2;
}

#define NOUN csv
#include "call/api/open_noun.def"
