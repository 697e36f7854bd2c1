/* lex.c: the words of a Lua text, for the compiler of kernels (kernel/parse.lua).
 *
 * All of Lua 5.4's words are read, those that no kernel has as well: what is wrong with a text is said by whoever knows
 * what stands around the word. Integers and floats are told apart by their text. An integer that a double does not hold
 * is a string of digits, without a sign and modulo 2^64, because LuaJIT has no other form for it.
 *
 * Invariant: every byte of the text is looked at from its beginning, so that no word begins within a long string. */
#include <stdio.h>
#include <stdlib.h>

#include "call/did_you_mean.h"
#include "call/each.h"
#include "call/script.h"
#include "call/handle.h"

typedef struct lexer {
  lua_State *L;
  const char *text, *end, *at, *line_begin;
  int line, first, last; /* words of these lines are kept */
  lua_Integer count;     /* what the table at 1 of the result holds */
} lexer;

static const char *const words[] = {"and",      "break",  "do",   "else", "elseif", "end",   "false", "for",
                                    "function", "goto",   "if",   "in",   "local",  "nil",   "not",   "or",
                                    "repeat",   "return", "then", "true", "until",  "while", NULL};
static const char *const signs[] = {"...", "..", "::", "<<", ">>", "//", "==", "~=", "<=", ">=", NULL};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static char peek(const lexer *x, int ahead) { return x->end - x->at > ahead ? x->at[ahead] : 0; }

static void new_line(lexer *x) { /* at a line end of one or two bytes */
  char c = *x->at++;
  if (x->at < x->end && (*x->at == '\n' || *x->at == '\r') && *x->at != c) x->at++;
  x->line++, x->line_begin = x->at;
}

/* The level of a long bracket that begins here, or -1. */
static int long_level(const lexer *x) {
  int level = 0;
  while (peek(x, level + 1) == '=') level++;
  return peek(x, level + 1) == '[' ? level : -1;
}

/* Behind a long bracket, whose text is from *begin on for *length bytes. */
static bool skip_long(lexer *x, int level, const char **begin, size_t *length) {
  x->at += level + 2;
  *begin = x->at;
  while (x->at < x->end) {
    if (*x->at == '\n' || *x->at == '\r') {
      new_line(x);
      continue;
    }
    int n = 0;
    if (*x->at++ != ']') continue;
    while (peek(x, n) == '=') n++;
    if (n != level || peek(x, n) != ']') continue;
    *length = (size_t)(x->at - 1 - *begin);
    x->at += n + 1;
    return true;
  }
  return false;
}

/* Over blanks and comments; false: a comment has no end. */
static bool skip_blanks(lexer *x) {
  while (x->at < x->end) {
    char c = *x->at;
    if (c == '\n' || c == '\r') {
      new_line(x);
    } else if (c == ' ' || c == '\t' || c == '\f' || c == '\v') {
      x->at++;
    } else if (c == '-' && peek(x, 1) == '-') {
      const char *begin;
      size_t length;
      x->at += 2;
      int level = peek(x, 0) == '[' ? long_level(x) : -1;
      if (level >= 0 && !skip_long(x, level, &begin, &length)) return false;
      while (level < 0 && x->at < x->end && *x->at != '\n' && *x->at != '\r') x->at++;
    } else {
      break;
    }
  }
  return true;
}

static void add_word(lexer *x, const char *kind, int line, int column) { /* its value is at the top, and is popped */
  lua_State *L = x->L;
  if (line < x->first || line > x->last) return lua_pop(L, 1);
  lua_rawseti(L, -2, x->count + 2);
  lua_pushstring(L, kind);
  lua_rawseti(L, -2, x->count + 1);
  lua_pushinteger(L, line);
  lua_rawseti(L, -2, x->count + 3);
  lua_pushinteger(L, column);
  lua_rawseti(L, -2, x->count + 4);
  x->count += 4;
}

/* Pushes an integer: a number where a double holds it, else its digits. */
static void push_whole(lua_State *L, uint64_t value) {
  int64_t i = (int64_t)value;
  if (i >= -(1ll << 53) && i <= 1ll << 53) return lua_pushinteger(L, i);
  char text[24];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  lua_pushstring(L, text);
}

/* A number's kind, and its value pushed; NULL: it is none. */
static const char *read_number(lexer *x) {
  const char *begin = x->at;
  bool hex = *begin == '0' && (peek(x, 1) == 'x' || peek(x, 1) == 'X'), whole = true, fits = true;
  if (hex) x->at += 2;
  uint64_t value = 0;
  for (char c; x->at < x->end; x->at++) {
    c = *x->at;
    if (hex ? c == 'p' || c == 'P' : c == 'e' || c == 'E') {
      whole = false;
      if (peek(x, 1) == '+' || peek(x, 1) == '-') x->at++;
    } else if (c == '.') {
      whole = false;
    } else if (hex && is_hex(c)) {
      value = value * 16 + (uint64_t)(is_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
    } else if (is_digit(c)) {
      if (value > (uint64_t)INT64_MAX / 10 || value * 10 > (uint64_t)INT64_MAX - (uint64_t)(c - '0')) fits = false;
      value = value * 10 + (uint64_t)(c - '0');
    } else if (is_letter(c)) {
      return NULL;
    } else {
      break;
    }
  }
  if (hex && x->at == begin + 2) return NULL;
  if (whole && (hex || fits)) return push_whole(x->L, value), "integer";
  lua_pushlstring(x->L, begin, (size_t)(x->at - begin));
  const char *text = lua_tostring(x->L, -1);
  char *behind;
  double number = strtod(text, &behind);
  bool ok = !*behind;
  lua_pop(x->L, 1);
  if (!ok) return NULL;
  return lua_pushnumber(x->L, number), "float";
}

/* A string in quotes, as it is written but for escapes, which stay; false: it has no end. */
static bool read_string(lexer *x) {
  char quote = *x->at++;
  const char *begin = x->at;
  while (x->at < x->end && *x->at != quote) {
    if (*x->at == '\n' || *x->at == '\r') return false;
    if (*x->at++ != '\\') continue;
    bool skips = peek(x, 0) == 'z';
    if (skips) x->at++;
    do {
      if (peek(x, 0) == '\n' || peek(x, 0) == '\r')
        new_line(x);
      else if (!skips || strchr(" \t\f\v", peek(x, 0)))
        x->at++;
      else
        break;
    } while (skips && x->at < x->end && peek(x, 0));
  }
  if (x->at >= x->end) return false;
  lua_pushlstring(x->L, begin, (size_t)(x->at++ - begin));
  return true;
}

static const char *word_kind(const char *text, const char *const *list) {
  for (; *list; list++)
    if (!strcmp(text, *list)) return *list;
  return NULL;
}

static const char *read_name(lexer *x) {
  const char *begin = x->at;
  while (x->at < x->end && (is_letter(*x->at) || is_digit(*x->at))) x->at++;
  const char *kind = word_kind(lua_pushlstring(x->L, begin, (size_t)(x->at - begin)), words);
  return kind ? kind : "name";
}

static const char *read_sign(lexer *x) {
  for (int i = 0; signs[i]; i++) {
    size_t n = strlen(signs[i]);
    if ((size_t)(x->end - x->at) < n || memcmp(x->at, signs[i], n)) continue;
    x->at += n;
    return lua_pushstring(x->L, signs[i]);
  }
  if (!strchr("+-*/%^#&~|<>=(){}[];:,.", *x->at) || !*x->at) return NULL;
  return lua_pushlstring(x->L, x->at++, 1);
}

/* Adds the next word. A message: there is none that Lua has. */
static const char *read_word(lexer *x) {
  char c = *x->at;
  int line = x->line, column = (int)(x->at - x->line_begin) + 1, level = c == '[' ? long_level(x) : -1;
  const char *kind;
  if (level >= 0) {
    const char *begin;
    size_t length;
    if (!skip_long(x, level, &begin, &length)) return "got a long string without an end, expected ]]";
    lua_pushlstring(x->L, begin, length), kind = "string";
  } else if (c == '"' || c == '\'') {
    if (!read_string(x)) return "got a string without an end, expected another quote";
    kind = "string";
  } else if (is_digit(c) || (c == '.' && is_digit(peek(x, 1)))) {
    kind = read_number(x);
    if (!kind) return "got digits that are no number, expected one such as 12, 0x1F, 1.5 or 1e-3";
  } else if (is_letter(c)) {
    kind = read_name(x);
  } else {
    kind = read_sign(x);
    if (!kind && c == '!') return "got !, expected ~= for not equal, or not";
    if (!kind && c == '?') return "got ?, expected condition and a or b: that is how Lua chooses";
    if (!kind && c > ' ' && c < 127)
      return lua_pushfstring(x->L, "got %c, which Lua has no use for, expected a word of Lua", c);
    if (!kind) return "got a character that Lua has no use for, expected a word of Lua";
  }
  add_word(x, kind, line, column);
  return NULL;
}

/* kernel_words(text, first, last): {kind, value, line, column, ...} of the words of these lines, and the number of all
 * entries; or nil, what is wrong, line and column. */
static int script_words(lua_State *L) {
  size_t size;
  const char *text = lua_tolstring(L, 1, &size), *message = NULL;
  lexer x = {.L = L, .text = text, .end = text + size, .at = text, .line_begin = text, .line = 1};
  x.first = (int)lua_tointeger(L, 2), x.last = (int)lua_tointeger(L, 3);
  if (size && *text == '#')
    while (x.at < x.end && *x.at != '\n') x.at++;
  lua_newtable(L);
  while (!message) {
    if (!skip_blanks(&x)) message = "got a comment without an end, expected ]]";
    if (message || x.at == x.end || x.line > x.last) break;
    message = read_word(&x);
  }
  if (!message) return lua_pushinteger(L, x.count), 2;
  lua_pushnil(L), lua_pushstring(L, message), lua_pushinteger(L, x.line);
  lua_pushinteger(L, x.at - x.line_begin + 1);
  return 4;
}

/* kernel_blank(text, line, column, to_line, to_column): the text with blanks from the one place up to the other. */
static int script_blank(lua_State *L) {
  size_t size;
  const char *text = lua_tolstring(L, 1, &size);
  lexer x = {.L = L, .text = text, .end = text + size, .at = text, .line_begin = text, .line = 1};
  size_t place[2];
  luaL_Buffer b;
  for (int i = 0; i < 2; i++) {
    while (x.at < x.end && x.line < lua_tointeger(L, 2 + 2 * i))
      if (*x.at == '\n' || *x.at == '\r')
        new_line(&x);
      else
        x.at++;
    place[i] = (size_t)(x.line_begin - text) + (size_t)lua_tointeger(L, 3 + 2 * i) - 1;
  }
  luaL_buffinit(L, &b);
  for (size_t i = 0; i < size; i++) {
    bool blank = i >= place[0] && i < place[1] && text[i] != '\n' && text[i] != '\r';
    luaL_addchar(&b, blank ? ' ' : text[i]);
  }
  luaL_pushresult(&b);
  return 1;
}

/* kernel_shape(fn): {first =, last =, params = {name...}} of a Lua function, and nothing of another. */
static int script_shape(lua_State *L) {
  lua_Debug ar;
  const char *name;
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  lua_getinfo(L, ">S", &ar);
  if (*ar.what == 'C') return 0;
  lua_createtable(L, 0, 3);
  lua_pushinteger(L, ar.linedefined), lua_setfield(L, 2, "first");
  lua_pushinteger(L, ar.lastlinedefined), lua_setfield(L, 2, "last");
  lua_newtable(L);
  for (int i = 1; lua_pushvalue(L, 1), name = lua_getlocal(L, NULL, i); i++, lua_settop(L, 3))
    lua_pushstring(L, name), lua_rawseti(L, 3, i);
  lua_settop(L, 3);
  lua_setfield(L, 2, "params");
  return 1;
}

/* kernel_global(name [, fn]): what a function, or a text of its own, finds outside of itself under that name, and the
 * table that has it: that of its globals, one that stands behind it (__index), or the state's. Only raw reads. */
static int script_global(lua_State *L) {
  lua_settop(L, 2);
  lua_pushglobaltable(L);
#ifdef LTIDE_LUAJIT
  if (lua_isfunction(L, 2)) lua_getfenv(L, 2), lua_replace(L, 3);
#endif
  const char *name;
  for (int n = 1; lua_isfunction(L, 2) && (name = lua_getupvalue(L, 2, n)); n++, lua_settop(L, 3))
    if (!strcmp(name, "_ENV") && lua_istable(L, 4)) lua_replace(L, 3);
  for (int depth = 0; depth < 16 && lua_istable(L, 3); depth++) {
    lua_pushvalue(L, 1);
    if (lua_rawget(L, 3) != LUA_TNIL) return lua_insert(L, 3), 2;
    lua_settop(L, 3);
    if (!lua_getmetatable(L, 3)) break;
    lua_pushliteral(L, "__index");
    lua_rawget(L, 4);
    lua_replace(L, 3), lua_settop(L, 3);
  }
  return lua_pushnil(L), 1;
}

/* kernel_thawed(value): a table, or the one that a read-only object of ours stands for; of another value nil. */
static int script_thawed(lua_State *L) {
  lua_settop(L, 1);
  if (!ltide_push_thawed(L, 1) && !lua_istable(L, 1)) lua_pushnil(L);
  return 1;
}

/* kernel_tensor(value): dtype and ndim of a tensor; of another value nothing. */
static int script_tensor(lua_State *L) {
  tide_tensor *x = ltide_test_tensor(L, ltide_enter(L), 1);
  if (!x) return 0;
  lua_pushstring(L, tide_dtype_name(tide_tensor_dtype(x)));
  lua_pushinteger(L, tide_tensor_ndim(x));
  return 2;
}

/* kernel_dtype_name(value): of a dtype. */
static int script_dtype_name(lua_State *L) {
  const tide_dtype *d = ltide_dtype_of(L, 1);
  return d ? (lua_pushstring(L, tide_dtype_name(*d)), 1) : 0;
}

/* kernel_nearest(word, names): the key of the table that was meant, or nil. */
static int script_nearest(lua_State *L) {
  ltide_nearest near = {.wanted = lua_tostring(L, 1)};
  lua_settop(L, 2);
  for (lua_pushnil(L); near.wanted && lua_next(L, 2); lua_settop(L, 3))
    if (lua_type(L, 3) == LUA_TSTRING) ltide_nearest_try(&near, lua_tostring(L, 3));
  return lua_pushstring(L, near.name), 1; /* the table has it still */
}

void ltide_open_kernel_lex(lua_State *L, ltide_state *S) {
  LTIDE_GIVE(L, "kernel/lex.c", words, shape, global, tensor, dtype_name, thawed, nearest, blank);
}
