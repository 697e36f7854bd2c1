/* interruptible_patterns.c: string.find, match, gmatch and gsub for a state that the host may end. Lua's own run to
 * their end, and a pattern that goes back often has none that anybody would see: these count their steps (ltide_steps),
 * and give what those give, errors included. */
#include "interruptible_stdlib.h"
#include "call/object.h"

#include <ctype.h>

#if !LTIDE_FFI

#  define ESCAPE '%'

enum { IN_WORK = -1, POSITION = -2 }; /* lengths of captures that are not closed, and of those that are a place */
enum { DEEPEST = 200, MOST = 32 };    /* matches in matches, and captures, as in Lua's */

typedef struct matcher {
  lua_State *L;
  ltide_state *S;
  const char *begin, *end, *pattern_end; /* of the text, and of the pattern */
  int depth, captures;
  struct {
    const char *at;
    ptrdiff_t length;
  } capture[MOST];
} matcher;

static void count(const matcher *m, size_t steps) { ltide_steps(m->L, m->S, steps); }

static void start(matcher *m) { m->captures = 0, m->depth = 0; }

/* {==== One character */

static bool is_of(int c, int class) {
  bool is;
  switch (tolower(class)) {
  case 'a': is = isalpha(c); break;
  case 'c': is = iscntrl(c); break;
  case 'd': is = isdigit(c); break;
  case 'g': is = isgraph(c); break;
  case 'l': is = islower(c); break;
  case 'p': is = ispunct(c); break;
  case 's': is = isspace(c); break;
  case 'u': is = isupper(c); break;
  case 'w': is = isalnum(c); break;
  case 'x': is = isxdigit(c); break;
  default: return class == c;
  }
  return isupper(class) ? !is : is;
}

/* Where the item at p ends, without what says how often it comes. */
static const char *item_end(const matcher *m, const char *p) {
  if (*p == ESCAPE) {
    if (p + 1 == m->pattern_end) luaL_error(m->L, "malformed pattern (ends with '%%')");
    return p + 2;
  }
  if (*p++ != '[') return p;
  if (*p == '^') p++;
  do {
    if (p == m->pattern_end) luaL_error(m->L, "malformed pattern (missing ']')");
    if (*p++ == ESCAPE && p < m->pattern_end) p++;
  } while (*p != ']');
  return p + 1;
}

/* set is at its '[', and last at its ']'. */
static bool is_in_set(int c, const char *set, const char *last) {
  bool found = true;
  if (set[1] == '^') found = false, set++;
  while (++set < last) {
    if (*set == ESCAPE) {
      if (is_of(c, (unsigned char)*++set)) return found;
    } else if (set[1] == '-' && set + 2 < last) {
      if ((unsigned char)*set <= c && c <= (unsigned char)set[2]) return found;
      set += 2;
    } else if ((unsigned char)*set == c)
      return found;
  }
  return !found;
}

static bool fits(const matcher *m, const char *s, const char *p, const char *p_end) {
  if (s >= m->end) return false;
  int c = (unsigned char)*s;
  switch (*p) {
  case '.': return true;
  case ESCAPE: return is_of(c, (unsigned char)p[1]);
  case '[': return is_in_set(c, p, p_end - 1);
  default: return (unsigned char)*p == c;
  }
}

/* {==== The whole */

static const char *match(matcher *m, const char *s, const char *p);

static const char *match_balanced(matcher *m, const char *s, const char *p) {
  if (p >= m->pattern_end - 1) luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
  if (s >= m->end || *s != *p) return NULL;
  const char *from = s;
  for (int open = 1; ++s < m->end;) {
    if (*s == p[1]) {
      if (!--open) break;
    } else if (*s == *p)
      open++;
  }
  count(m, (size_t)(s - from));
  return s < m->end ? s + 1 : NULL;
}

static const char *match_most(matcher *m, const char *s, const char *p, const char *p_end) {
  ptrdiff_t n = 0;
  while (fits(m, s + n, p, p_end)) {
    n++;
    if (n % 64 == 0) count(m, 64 * (1 + (size_t)(p_end - p) / 8));
  }
  count(m, (size_t)(n % 64) * (1 + (size_t)(p_end - p) / 8));
  for (; n >= 0; n--) {
    const char *after = match(m, s + n, p_end + 1);
    if (after) return after;
  }
  return NULL;
}

static const char *match_least(matcher *m, const char *s, const char *p, const char *p_end) {
  for (;; s++) {
    const char *after = match(m, s, p_end + 1);
    if (after) return after;
    if (!fits(m, s, p, p_end)) return NULL;
    count(m, (size_t)(p_end - p) / 8);
  }
}

static const char *open_capture(matcher *m, const char *s, const char *p, int how) {
  if (m->captures == MOST) luaL_error(m->L, "too many captures");
  m->capture[m->captures].at = s;
  m->capture[m->captures].length = how;
  m->captures++;
  const char *after = match(m, s, p);
  if (!after) m->captures--;
  return after;
}

static const char *close_capture(matcher *m, const char *s, const char *p) {
  int i = m->captures;
  while (i-- && m->capture[i].length != IN_WORK) {}
  if (i < 0) luaL_error(m->L, "invalid pattern capture");
  m->capture[i].length = s - m->capture[i].at;
  const char *after = match(m, s, p);
  if (!after) m->capture[i].length = IN_WORK;
  return after;
}

/* The text that a capture has, once more. */
static const char *match_again(matcher *m, const char *s, int digit) {
  int i = digit - '1';
  if (i < 0 || i >= m->captures || m->capture[i].length == IN_WORK)
    luaL_error(m->L, "invalid capture index %%%d", i + 1);
  size_t length = (size_t)m->capture[i].length;
  if ((size_t)(m->end - s) < length) return NULL;
  count(m, length / 16);
  return memcmp(m->capture[i].at, s, length) ? NULL : s + length;
}

static bool is_edge(const matcher *m, const char *s, const char *set, const char *last) {
  int before = s == m->begin ? 0 : (unsigned char)s[-1], here = s < m->end ? (unsigned char)*s : 0;
  return !is_in_set(before, set, last) && is_in_set(here, set, last);
}

/* An item of the pattern, and how often it comes. Where the match goes on in the text, and where in the pattern, unless
 * all is matched (NULL); or NULL. */
static const char *match_item(matcher *m, const char *s, const char **p) {
  const char *item = *p, *end = item_end(m, item), *after;
  if (end - item > 8) count(m, (size_t)(end - item) / 4);
  char times = end < m->pattern_end ? *end : '\0';
  bool may_lack = times == '*' || times == '?' || times == '-';
  if (!fits(m, s, item, end)) {
    *p = end + 1;
    return may_lack ? s : NULL;
  }
  *p = NULL;
  switch (times) {
  case '+': return match_most(m, s + 1, item, end);
  case '*': return match_most(m, s, item, end);
  case '-': return match_least(m, s, item, end);
  case '?':
    after = match(m, s + 1, end + 1);
    if (after) return after;
    *p = end + 1;
    return s;
  default: *p = end; return s + 1;
  }
}

/* Where a match of the pattern from p on ends that begins at s, or NULL. */
static const char *match(matcher *m, const char *s, const char *p) {
  if (m->depth++ == DEEPEST) luaL_error(m->L, "pattern too complex");
  while (s && p && p != m->pattern_end) {
    count(m, 1);
    char next = p + 1 < m->pattern_end ? p[1] : '\0';
    if (*p == '(') {
      s = next == ')' ? open_capture(m, s, p + 2, POSITION) : open_capture(m, s, p + 1, IN_WORK);
      p = NULL;
    } else if (*p == ')') {
      s = close_capture(m, s, p + 1), p = NULL;
    } else if (*p == '$' && p + 1 == m->pattern_end) {
      s = s == m->end ? s : NULL, p = NULL;
    } else if (*p == ESCAPE && next == 'b') {
      s = match_balanced(m, s, p + 2), p += 4;
    } else if (*p == ESCAPE && next == 'f') {
      p += 2;
      if (p == m->pattern_end || *p != '[') luaL_error(m->L, "missing '[' after '%%f' in pattern");
      const char *end = item_end(m, p);
      count(m, (size_t)(end - p) / 2);
      if (!is_edge(m, s, p, end - 1)) s = NULL;
      p = end;
    } else if (*p == ESCAPE && isdigit((unsigned char)next)) {
      s = match_again(m, s, next), p += 2;
    } else
      s = match_item(m, s, &p);
  }
  m->depth--;
  return s;
}

/* {==== What was captured */

/* Of the capture, or of the whole match where there is none: its text; a place is pushed, and the length says so. */
static ptrdiff_t captured(matcher *m, int i, const char *s, const char *e, const char **text) {
  if (i >= m->captures) {
    if (i) luaL_error(m->L, "invalid capture index %%%d", i + 1);
    *text = s;
    return e - s;
  }
  ptrdiff_t length = m->capture[i].length;
  *text = m->capture[i].at;
  if (length == IN_WORK) luaL_error(m->L, "unfinished capture");
  if (length == POSITION) lua_pushinteger(m->L, *text - m->begin + 1);
  return length;
}

static void push_captured(matcher *m, int i, const char *s, const char *e) {
  const char *text;
  ptrdiff_t length = captured(m, i, s, e, &text);
  if (length > 1 << 12) ltide_charge(m->L, m->S, (double)length);
  if (length != POSITION) lua_pushlstring(m->L, text, (size_t)length);
}

/* s NULL: nothing for the whole match. */
static int push_all(matcher *m, const char *s, const char *e) {
  int n = m->captures || !s ? m->captures : 1;
  luaL_checkstack(m->L, n, "too many captures");
  for (int i = 0; i < n; i++) push_captured(m, i, s, e);
  return n;
}

/* {==== find, match, gmatch */

static matcher matcher_of(lua_State *L, const char **pattern, bool *anchored) {
  size_t length, pattern_length;
  matcher m; /* its captures are not read before they are written */
  bool is_usual = lua_gettop(L) <= 2 || (lua_type(L, 3) == LUA_TNUMBER && lua_type(L, 4) != LUA_TSTRING);
  double numerals = is_usual ? 0 : ltide_cost_of_arguments(L, lua_type(L, 4) == LUA_TSTRING ? 4 : 3, LTIDE_NUMERAL);
  if (numerals > 0) ltide_charge(L, ltide_bounding(L), numerals);
  m.L = L, m.S = ltide_bounding(L), m.begin = luaL_checklstring(L, 1, &length);
  *pattern = luaL_checklstring(L, 2, &pattern_length);
  m.end = m.begin + length, m.pattern_end = *pattern + pattern_length;
  *anchored = **pattern == '^';
  *pattern += *anchored;
  return m;
}

/* The third argument, from 0; beyond the end: the length and 1. */
static size_t begin_of(lua_State *L, size_t length) {
  lua_Integer at = luaL_optinteger(L, 3, 1);
  if (at > 0) return (size_t)at - 1 > length ? length + 1 : (size_t)at - 1;
  return at == 0 || at < -(lua_Integer)length ? 0 : length - (size_t)-at;
}

static bool is_plain(const matcher *m, const char *p, const char *end) {
  for (const char *begin = p; p < end; p++) {
    if ((p - begin) % 256 == 255) count(m, 256);
    if (*p && strchr("^$*+?.([%-", *p)) return false;
  }
  return true;
}

static const char *find_text(matcher *m, const char *s, const char *text, size_t length) {
  if (!length) return s;
  for (; (size_t)(m->end - s) >= length; s++) {
    const char *at = memchr(s, *text, (size_t)(m->end - s) - length + 1);
    count(m, 1 + (size_t)((at ? at : m->end) - s) / 16 + length / 16);
    if (!at || !memcmp(at, text, length)) return at;
    s = at;
  }
  return NULL;
}

static int find(lua_State *L, bool wants_place) {
  bool anchored;
  const char *p, *e;
  matcher m = matcher_of(L, &p, &anchored);
  size_t at = begin_of(L, (size_t)(m.end - m.begin)), length = (size_t)(m.pattern_end - p) + anchored;
  const char *s = m.begin + at, *whole = p - anchored;
  if (at > (size_t)(m.end - m.begin)) return luaL_pushfail(L), 1;
  if (wants_place && (lua_toboolean(L, 4) || is_plain(&m, whole, m.pattern_end))) {
    s = find_text(&m, s, whole, length);
    if (!s) return luaL_pushfail(L), 1;
    lua_pushinteger(L, s - m.begin + 1);
    lua_pushinteger(L, s - m.begin + (lua_Integer)length);
    return 2;
  }
  do {
    start(&m);
    e = match(&m, s, p);
  } while (!e && s++ < m.end && !anchored);
  if (!e) return luaL_pushfail(L), 1;
  if (!wants_place) return push_all(&m, s, e);
  lua_pushinteger(L, s - m.begin + 1);
  lua_pushinteger(L, e - m.begin);
  return push_all(&m, NULL, NULL) + 2;
}

static int string_find(lua_State *L) { return find(L, true); }
static int string_match(lua_State *L) { return find(L, false); }

typedef struct walk { /* of gmatch: the text, the pattern, from where it goes on, and where the last match has ended */
  const char *begin, *end, *pattern, *pattern_end, *at, *last;
} walk;

/* Upvalues: the state's struct, text, pattern, walk. */
static int next_match(lua_State *L) {
  walk *w = lua_touserdata(L, lua_upvalueindex(4));
  const char *e = NULL, *s = w->at;
  matcher m; /* its captures are not read before they are written */
  m.L = L, m.S = ltide_bounding(L), m.begin = w->begin, m.end = w->end, m.pattern_end = w->pattern_end;
  for (; s <= m.end; s++) {
    start(&m);
    e = match(&m, s, w->pattern);
    if (e && e != w->last) break;
  }
  if (s > m.end) return 0;
  w->at = w->last = e;
  return push_all(&m, s, e);
}

static int string_gmatch(lua_State *L) {
  size_t length, pattern_length;
  double numeral = lua_type(L, 3) == LUA_TSTRING ? ltide_cost_of_arguments(L, 3, LTIDE_NUMERAL) : 0;
  if (numeral > 0) ltide_charge(L, ltide_bounding(L), numeral);
  const char *text = luaL_checklstring(L, 1, &length), *pattern = luaL_checklstring(L, 2, &pattern_length);
  walk w = {text, text + length, pattern, pattern + pattern_length, text + begin_of(L, length), NULL};
  lua_settop(L, 2);
  ltide_insert_upvalue(L, 1);
  *(walk *)ltide_new_userdata(L, sizeof w, 0) = w;
  return lua_pushcclosure(L, next_match, 4), 1;
}

/* {==== gsub */

static void add_bytes(matcher *m, luaL_Buffer *out, const char *text, size_t length) {
  ltide_grow(m->L, m->S, out, length);
  luaL_addlstring(out, text, length);
}

/* The replacement's text, with %0 to %9 in it. */
static void add_text(matcher *m, luaL_Buffer *out, const char *s, const char *e) {
  size_t length;
  const char *text = lua_tolstring(m->L, 3, &length), *end = text + length;
  count(m, length / 8);
  for (const char *mark; (mark = memchr(text, ESCAPE, (size_t)(end - text))) != NULL; text = mark + 2) {
    add_bytes(m, out, text, (size_t)(mark - text));
    if (mark[1] == ESCAPE) {
      luaL_addchar(out, ESCAPE);
    } else if (mark[1] == '0') {
      count(m, (size_t)(e - s) / 8);
      add_bytes(m, out, s, (size_t)(e - s));
    } else if (isdigit((unsigned char)mark[1])) {
      const char *part;
      ptrdiff_t n = captured(m, mark[1] - '1', s, e, &part);
      if (n == POSITION)
        luaL_addvalue(out);
      else
        count(m, (size_t)n / 8), add_bytes(m, out, part, (size_t)n);
    } else
      luaL_error(m->L, "invalid use of '%c' in replacement string", ESCAPE);
  }
  add_bytes(m, out, text, (size_t)(end - text));
}

/* What stands for the match from s to e; false: itself. */
static bool add_replacement(matcher *m, luaL_Buffer *out, const char *s, const char *e) {
  lua_State *L = m->L;
  int type = lua_type(L, 3);
  if (type == LUA_TFUNCTION) {
    if (lua_iscfunction(L, 3)) ltide_look(L, m->S); /* it may take long each time */
    lua_pushvalue(L, 3);
    int n = push_all(m, s, e);
    lua_call(L, n, 1);
  } else if (type == LUA_TTABLE) {
    push_captured(m, 0, s, e);
    lua_gettable(L, 3);
  } else
    return add_text(m, out, s, e), true;
  if (!lua_toboolean(L, -1)) {
    lua_pop(L, 1);
    add_bytes(m, out, s, (size_t)(e - s));
    return false;
  }
  if (!lua_isstring(L, -1)) luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
  ltide_grow(L, m->S, out, lua_rawlen(L, -1));
  luaL_addvalue(out);
  return true;
}

static int string_gsub(lua_State *L) {
  bool anchored, changed = false, goes_on = true;
  const char *p, *last = NULL;
  matcher m = matcher_of(L, &p, &anchored);
  int type = lua_type(L, 3);
  lua_Integer most = luaL_optinteger(L, 4, m.end - m.begin + 1), n = 0;
  luaL_argexpected(L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE, 3,
                   "string/function/table");
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  const char *s = m.begin;
  while (n < most && goes_on) {
    start(&m);
    const char *e = match(&m, s, p);
    if (e && e != last) {
      n++;
      changed |= add_replacement(&m, &out, s, e);
      s = last = e;
    } else if (s < m.end)
      luaL_addchar(&out, *s++);
    else
      goes_on = false;
    goes_on &= !anchored;
  }
  if (changed) {
    ltide_charge(L, m.S, (double)(m.end - s) + (double)luaL_bufflen(&out));
    luaL_addlstring(&out, s, (size_t)(m.end - s));
    luaL_pushresult(&out);
  } else
    lua_pushvalue(L, 1);
  lua_pushinteger(L, n);
  return 2;
}

const luaL_Reg ltide_patterns[] = {
    {"find", string_find}, {"match", string_match}, {"gmatch", string_gmatch}, {"gsub", string_gsub}, {NULL, NULL}};
#endif
