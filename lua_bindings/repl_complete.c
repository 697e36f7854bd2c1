/* repl_complete.c: what may stand where the cursor is.
 *
 * Before the cursor stands a chain, a.b.c or x:exp():sum, and the beginning of a word. The chain is followed without
 * running any code of the user's: by raw reads, where objects of tide keep the tables of their methods and fields in
 * the upvalues of their __index, the methods first; and behind a call by what the called function's help says that it
 * gives. Such a result is known by its metatable alone. Within the braces of a call the words are those of the options
 * in its help, within help '...' the names that help knows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "repl.h"
#include "row.h"

typedef struct completion {
  lua_State *L;
  repl_names *out;
  repl_token *token; /* of all the text, without the word that is begun */
  int count;
  const char *word; /* what is begun; ends with the text */
  size_t size;
} completion;

static void add(completion *c, const char *name, const char *more) {
  repl_names *out = c->out;
  if (strncmp(name, c->word, c->size) || (!c->size && name[0] == '_')) return;
  size_t size = strlen(name) + strlen(more) + 1;
  char *text = malloc(size);
  char **grown = realloc(out->name, sizeof *grown * (size_t)(out->count + 1));
  if (grown) out->name = grown;
  if (text) snprintf(text, size, "%s%s", name, more);
  for (int i = 0; grown && text && i < out->count; i++)
    if (!strcmp(grown[i], text)) grown = NULL; /* a field may be a method too */
  if (grown && text)
    grown[out->count++] = text;
  else
    free(text);
}

/* {==== Values: the one at the top of the stack, or an object that is known by its metatable */

typedef enum known { NOTHING, VALUE, OBJECT } known;

static const char *const tensor_meta = "tide.Tensor";

static bool is_tensor(lua_State *L, known what) {
  int top = lua_gettop(L);
  if (what == OBJECT)
    lua_pushvalue(L, -1);
  else if (what == NOTHING || !lua_getmetatable(L, -1))
    return false;
  luaL_getmetatable(L, tensor_meta);
  bool is = lua_rawequal(L, -1, -2);
  lua_settop(L, top);
  return is;
}

/* Pushes __index, or nil. */
static void push_index(lua_State *L, known what) {
  if (what == OBJECT)
    lua_getfield(L, -1, "__index");
  else if (!luaL_getmetafield(L, -1, "__index"))
    lua_pushnil(L);
}

/* Visits the tables in which names behind the value at the top are found: its own keys, then those that __index has.
 * Stops where visit says so, leaving what it has pushed above the value. */
typedef bool (*table_visit)(completion *c, void *ctx);
static bool visit_tables(completion *c, known what, table_visit visit, void *ctx) {
  lua_State *L = c->L;
  int top = lua_gettop(L);
  if (what == VALUE && lua_istable(L, -1) && visit(c, ctx)) return true;
  lua_settop(L, top);
  push_index(L, what);
  if (lua_istable(L, -1) && visit(c, ctx)) return true;
  lua_settop(L, top + 1);
  for (int i = 1; lua_iscfunction(L, -1) && lua_getupvalue(L, -1, i); i++, lua_settop(L, top + 1))
    if (lua_istable(L, -1) && visit(c, ctx)) return true;
  lua_settop(L, top);
  return false;
}

static bool add_keys(completion *c, void *ctx) {
  bool functions = *(bool *)ctx;
  for (lua_pushnil(c->L); lua_next(c->L, -2); lua_pop(c->L, 1))
    if (lua_type(c->L, -2) == LUA_TSTRING && (!functions || lua_isfunction(c->L, -1)))
      add(c, lua_tostring(c->L, -2), "");
  return false;
}

static bool find_key(completion *c, void *ctx) {
  const repl_token *t = ctx;
  lua_pushlstring(c->L, t->text, t->size);
  return lua_rawget(c->L, -2) != LUA_TNIL;
}

static known keep_top(lua_State *L, int at, known what) {
  if (what == NOTHING) lua_pushnil(L);
  lua_replace(L, at);
  lua_settop(L, at);
  return what;
}

/* The value at the top makes way for what is called so behind it. */
static known go_to_member(completion *c, known what, const repl_token *name) {
  int at = lua_gettop(c->L);
  if (is_tensor(c->L, what) && (repl_token_is(name, "T") || repl_token_is(name, "mT") || repl_token_is(name, "H")))
    return what;
  bool found = what != NOTHING && visit_tables(c, what, find_key, (void *)name);
  return keep_top(c->L, at, found ? VALUE : NOTHING);
}

/* Pushes the first line of the help for the value at the top, or nil. */
static const char *push_signature(lua_State *L) {
  int at = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "tide");
  if (lua_istable(L, -1)) lua_getfield(L, -1, "help");
  lua_pushvalue(L, at);
  bool found = lua_iscfunction(L, -2) && lua_pcall(L, 1, 1, 0) == LUA_OK && lua_isstring(L, -1);
  if (!found) lua_pushnil(L);
  lua_replace(L, at + 1);
  lua_settop(L, at + 1);
  const char *text = lua_tostring(L, -1);
  if (!text || !strncmp(text, "See: ", 5)) return NULL;
  return lua_pushlstring(L, text, strcspn(text, "\n"));
}

/* Replaces the function or class at the top by what a call of it gives. */
static known go_to_result(completion *c) {
  lua_State *L = c->L;
  int at = lua_gettop(L);
  const char *text = push_signature(L), *arrow = text ? strstr(text, "-> ") : NULL;
  static const char *const rooms[] = {"tide.", "tide.cuda.", "tide.data.", "tide.parallel."};
  for (size_t i = 0; arrow && i < sizeof rooms / sizeof *rooms; i++) {
    lua_pushstring(L, rooms[i]);
    lua_pushlstring(L, arrow + 3, strspn(arrow + 3, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"));
    lua_concat(L, 2);
    if (lua_rawget(L, LUA_REGISTRYINDEX) == LUA_TTABLE) return keep_top(L, at, OBJECT);
  }
  return keep_top(L, at, NOTHING);
}

/* {==== Chains */

static known push_variable(completion *c, const repl_token *name) {
  lua_State *L = c->L;
  if (repl_local_push(L, name->text, name->size)) return VALUE;
  lua_pushglobaltable(L);
  lua_pushlstring(L, name->text, name->size);
  lua_rawget(L, -2);
  if (lua_isnil(L, -1) && repl_token_is(name, "_")) lua_pop(L, 1), repl_push_last(L);
  lua_remove(L, -2);
  return lua_isnil(L, -1) ? NOTHING : VALUE;
}

static bool is_sign(const completion *c, int i, const char *text) {
  return i >= 0 && i < c->count && repl_token_is(&c->token[i], text);
}
static bool is_variable(const completion *c, int i) {
  return i >= 0 && c->token[i].kind == REPL_NAME && !repl_token_is_word(&c->token[i]);
}
static bool opens(const completion *c, int i) { return is_sign(c, i, "(") || is_sign(c, i, "[") || is_sign(c, i, "{"); }
static bool closes(const completion *c, int i) {
  return is_sign(c, i, ")") || is_sign(c, i, "]") || is_sign(c, i, "}");
}
static bool ends_callee(const completion *c, int i) {
  return is_variable(c, i) || is_sign(c, i, ")") || is_sign(c, i, "]");
}

/* The place of the bracket that opens what closes at i; -1: none. */
static int opening_of(const completion *c, int i) {
  for (int depth = 0; i >= 0; i--) {
    depth += closes(c, i) - opens(c, i);
    if (depth == 0) return i;
  }
  return -1;
}

/* Where the chain begins whose last token is at i; -1 if there is none. */
static int chain_start(const completion *c, int i) {
  while (i >= 0) {
    if (is_variable(c, i)) {
      if (!is_sign(c, i - 1, ".") && !is_sign(c, i - 1, ":")) return i;
      i -= 2;
    } else if (c->token[i].kind == REPL_STRING) {
      if (!ends_callee(c, i - 1)) return i;
      i--;
    } else if (closes(c, i)) {
      bool paren = is_sign(c, i, ")");
      i = opening_of(c, i);
      if (!ends_callee(c, i - 1)) return paren ? i : -1;
      i--;
    } else
      return -1;
  }
  return -1;
}

/* (x + 1): a tensor where one of the names in the brackets is one. */
static known push_bracket(completion *c, int from, int to) {
  for (int i = from + 1; i < to; i++) {
    if (!is_variable(c, i) || is_sign(c, i - 1, ".") || is_sign(c, i - 1, ":")) continue;
    if (is_tensor(c->L, push_variable(c, &c->token[i]))) return VALUE;
    lua_pop(c->L, 1);
  }
  lua_pushnil(c->L);
  return NOTHING;
}

/* x[...]: of a tensor a tensor; of a table what it has for a number, a name or a string. */
static known go_to_element(completion *c, known what, int from, int to) {
  lua_State *L = c->L;
  int at = lua_gettop(L);
  const repl_token *t = &c->token[from + 1];
  if (is_tensor(L, what)) return what;
  if (what != VALUE || !lua_istable(L, -1) || to != from + 2) return keep_top(L, at, NOTHING);
  if (t->kind == REPL_STRING)
    lua_pushlstring(L, t->text + 1, t->size - 2);
  else if (t->kind == REPL_NUMBER) {
    lua_pushlstring(L, t->text, t->size);
    lua_arith(L, LUA_OPUNM), lua_arith(L, LUA_OPUNM); /* to the number */
  } else
    push_variable(c, t);
  if (lua_isnil(L, -1)) return keep_top(L, at, NOTHING);
  lua_rawget(L, at);
  return keep_top(L, at, lua_isnil(L, -1) ? NOTHING : VALUE);
}

static int closing_of(const completion *c, int i) {
  for (int depth = 0; i < c->count; i++) {
    depth += opens(c, i) - closes(c, i);
    if (depth == 0) return i;
  }
  return c->count - 1;
}

/* Pushes what the chain of the tokens from..to is, or nil. */
static known push_chain(completion *c, int from, int to) {
  int i = from + 1;
  known what = NOTHING;
  luaL_checkstack(c->L, 20, "completion");
  if (is_sign(c, from, "(")) {
    int close = closing_of(c, from);
    what = push_bracket(c, from, close);
    i = close + 1;
  } else if (is_variable(c, from))
    what = push_variable(c, &c->token[from]);
  else {
    lua_pushlstring(c->L, c->token[from].text, c->token[from].size);
    what = VALUE;
  }
  while (i <= to && what != NOTHING) {
    int close = closing_of(c, i);
    if (is_sign(c, i, ".") || is_sign(c, i, ":")) {
      what = go_to_member(c, what, &c->token[i + 1]);
      close = i + 1;
    } else if (is_sign(c, i, "["))
      what = go_to_element(c, what, i, close);
    else
      what = what == VALUE ? go_to_result(c) : NOTHING;
    i = close + 1;
  }
  return what;
}

/* {==== What is asked for */

static void complete_member(completion *c) {
  bool functions = is_sign(c, c->count - 1, ":");
  int to = c->count - 2, from = chain_start(c, to);
  if (from < 0) return;
  known what = push_chain(c, from, to);
  if (what != NOTHING) visit_tables(c, what, add_keys, &functions);
}

static void add_name(void *ctx, const char *name) { add(ctx, name, ""); }

static void complete_variable(completion *c) {
  bool all = false;
  repl_local_each(c->L, add_name, c);
  lua_pushglobaltable(c->L);
  add_keys(c, &all);
}

/* The innermost bracket that is open before place i. */
static int open_bracket(const completion *c, int i) {
  for (int depth = 0; i >= 0; i--) {
    depth += closes(c, i) - opens(c, i);
    if (depth < 0) return i;
  }
  return -1;
}

/* The words before "=" in the braces of a class's signature; functions have a row. */
static void add_options(completion *c, const char *text) {
  int depth = 0;
  for (const char *p = text; *p; p++) {
    depth += (*p == '{') - (*p == '}');
    if (depth < 1 || (*p != '{' && *p != ',')) continue;
    const char *name = p + 1 + strspn(p + 1, " ");
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789");
    if (!n || name[n + strspn(name + n, " ")] != '=') continue;
    add(c, lua_pushlstring(c->L, name, n), " = ");
    lua_pop(c->L, 1);
  }
}

/* In the braces of a call, where a key may stand. */
static void complete_option(completion *c) {
  int brace = open_bracket(c, c->count - 1), callee = brace - 1;
  if (!is_sign(c, brace, "{") || !(brace == c->count - 1 || is_sign(c, c->count - 1, ","))) return;
  if (!ends_callee(c, callee)) {
    int paren = open_bracket(c, callee);
    if (!is_sign(c, paren, "(")) return;
    callee = paren - 1;
  }
  int from = callee >= 0 ? chain_start(c, callee) : -1;
  if (from < 0 || push_chain(c, from, callee) != VALUE) return;
  const ltide_row *row = ltide_row_at(c->L, -1);
  const ltide_sig *sig = row ? ltide_row_sig(row) : NULL;
  for (const char *const *key = sig ? sig->keys : NULL; key && *key; key++) add(c, *key, " = ");
  const char *text = sig ? NULL : push_signature(c->L);
  if (text) add_options(c, text);
}

/* A name as help takes it: "cuda.stream", "tide.zeros", "Tensor:view", "matmul". */
static void complete_help(completion *c, const char *text, const char *end) {
  lua_State *L = c->L;
  known what = VALUE;
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "tide");
  for (bool first = true;; first = false) {
    repl_token name = {.text = text, .kind = REPL_NAME};
    while (text < end && *text != '.' && *text != ':') text++;
    name.size = (size_t)(text - name.text);
    if (text == end) {
      bool functions = false;
      c->word = name.text, c->size = name.size;
      if (what != NOTHING) visit_tables(c, what, add_keys, &functions);
      if (!first) return;
      add(c, "tide", ""), add(c, "Tensor", "");
      luaL_getmetatable(L, tensor_meta);
      visit_tables(c, OBJECT, add_keys, &functions);
      return;
    }
    text++;
    if (first && repl_token_is(&name, "tide")) continue;
    if (first && repl_token_is(&name, "Tensor")) {
      luaL_getmetatable(L, tensor_meta);
      what = OBJECT;
    } else
      what = go_to_member(c, what, &name);
  }
}

static void complete_command(completion *c, const char *text, const char *end) {
  static const char help[] = ":help ";
  c->word = text, c->size = (size_t)(end - text);
  if (c->size >= sizeof help - 1 && !memcmp(text, help, sizeof help - 1)) {
    complete_help(c, text + sizeof help - 1, end);
    return;
  }
  for (int i = 0; repl_commands[i]; i++) add(c, repl_commands[i], "");
}

/* Reads the tokens; false where the cursor stands in a comment, or memory is short. */
static bool read_tokens(completion *c, const char *text, const char *end) {
  repl_scanner scan = {text, end};
  repl_token t;
  while (repl_scan(&scan, &t)) {
    if (c->count % 64 == 0) {
      repl_token *grown = realloc(c->token, sizeof *grown * (size_t)(c->count + 64));
      if (!grown) return false;
      c->token = grown;
    }
    c->token[c->count++] = t;
  }
  return t.kind != REPL_COMMENT;
}

static void complete_code(completion *c, const char *text, const char *end) {
  if (!read_tokens(c, text, end)) return;
  const repl_token *last = c->count ? &c->token[c->count - 1] : NULL;
  if (last && last->kind == REPL_OPEN_STRING) {
    int before = is_sign(c, c->count - 2, "(") ? c->count - 3 : c->count - 2;
    if (is_sign(c, before, "help")) complete_help(c, last->text + 1, end);
    return;
  }
  if (last && last->text + last->size == end && last->kind == REPL_NUMBER) return;
  c->word = end, c->size = 0;
  if (last && last->text + last->size == end && last->kind == REPL_NAME) {
    c->word = last->text, c->size = last->size;
    c->count--;
  }
  if (is_sign(c, c->count - 1, ".") || is_sign(c, c->count - 1, ":")) {
    complete_member(c);
    return;
  }
  complete_option(c);
  if (!c->out->count) complete_variable(c);
}

typedef struct request {
  completion c;
  const char *text;
  size_t size;
} request;

static int run(lua_State *L) {
  request *r = lua_touserdata(L, 1);
  static const char time[] = ":time ";
  const char *end = r->text + r->size;
  if (r->size >= sizeof time - 1 && !memcmp(r->text, time, sizeof time - 1))
    complete_code(&r->c, r->text + sizeof time - 1, end);
  else if (r->size && r->text[0] == ':' && !(r->size > 1 && r->text[1] == ':'))
    complete_command(&r->c, r->text, end);
  else
    complete_code(&r->c, r->text, end);
  return 0;
}

void repl_complete(lua_State *L, const char *text, size_t size, repl_names *out) {
  request r = {.c = {.L = L, .out = out}, .text = text, .size = size};
  int top = lua_gettop(L);
  *out = (repl_names){0};
  r.c.word = text;
  lua_pushcfunction(L, run);
  lua_pushlightuserdata(L, &r);
  lua_pcall(L, 1, 0, 0); /* what was found before memory ran out */
  lua_settop(L, top);
  out->head = r.c.size;
  free(r.c.token);
}

void repl_names_free(repl_names *names) {
  for (int i = 0; i < names->count; i++) free(names->name[i]);
  free(names->name);
}
