/* repl_local.c: local variables of the prompt that live as long as the session.
 *
 * A chunk typed at the prompt is a function of its own, so its locals would end with it. Here they are those of Lua in
 * all else: behind each `local` statement of the chunk's outermost block stands a call that gets, for every name, a
 * function which has the variable as its upvalue, and the session keeps that. A later chunk that mentions the name
 * becomes a function with an upvalue of that name, which is joined to the kept one. So functions share variables as
 * they would in one text; a second `local x` makes a new x and leaves the old one to those who have it; what was
 * declared before an error stays; <const> is kept, and <close> ends with its chunk as it must.
 *
 * A chunk is compiled as it was typed first: so errors and "it goes on" are told of what the user wrote. */
#include <string.h>

#include "repl.h"

static const char key_kept; /* name -> a function whose first upvalue is the variable */
static const char key_constant;

#define KEEP "_tide_keep_"

typedef struct parser {
  lua_State *L;
  luaL_Buffer *out;
  const char *copied; /* the text is in out up to here */
  repl_scanner scan;
  repl_token t;       /* the one looked at */
  const char *behind; /* the end of the one before it */
} parser;

static void next(parser *p) {
  p->behind = p->t.text + p->t.size;
  repl_scan(&p->scan, &p->t);
}

static bool is(const parser *p, const char *text) { return repl_token_is(&p->t, text); }
static bool is_one_of(const parser *p, const char *const *list) {
  for (; *list; list++)
    if (is(p, *list)) return true;
  return false;
}
static bool is_over(const parser *p) { return p->t.kind == REPL_END || p->t.kind == REPL_COMMENT; }
static bool is_variable(const parser *p) { return p->t.kind == REPL_NAME && !repl_token_is_word(&p->t); }

/* How the token changes the depth of blocks and brackets. The `do` of a loop opens it. */
static int deeper(const parser *p) {
  static const char *const opening[] = {"(", "{", "[", "function", "do", "if", "repeat", NULL};
  static const char *const closing[] = {")", "}", "]", "end", "until", NULL};
  return is_one_of(p, opening) ? 1 : is_one_of(p, closing) ? -1 : 0;
}

/* From an opening token to behind the one that closes it. */
static void skip_block(parser *p) {
  int depth = 0;
  do {
    depth += deeper(p);
    next(p);
  } while (depth > 0 && !is_over(p));
}

/* An operand with what stands before and behind it. False where none stands there. */
static bool skip_operand(parser *p) {
  static const char *const before[] = {"-", "not", "#", "~", NULL}, *const values[] = {"nil", "true", "false", "...",
                                                                                       NULL};
  while (is_one_of(p, before)) next(p);
  if (is(p, "function") || is(p, "(") || is(p, "{"))
    skip_block(p);
  else if (is_variable(p) || p->t.kind == REPL_NUMBER || p->t.kind == REPL_STRING || is_one_of(p, values))
    next(p);
  else
    return false;
  for (;;) {
    if (is(p, ".") || is(p, ":")) {
      next(p);
      if (!is_variable(p)) return false;
      next(p);
    } else if (is(p, "(") || is(p, "[") || is(p, "{"))
      skip_block(p);
    else if (p->t.kind == REPL_STRING)
      next(p);
    else
      return true;
  }
}

static bool skip_expressions(parser *p) {
  static const char *const binary[] = {"+",  "-",  "*", "/", "//", "%",  "^",  "..",  "==", "~=", "<", ">",
                                       "<=", ">=", "&", "|", "~",  "<<", ">>", "and", "or", ",",  NULL};
  for (;; next(p)) {
    if (!skip_operand(p)) return false;
    if (!is_one_of(p, binary)) return true;
  }
}

/* The calls that keep the names which lie as pairs of tokens, name and attribute, on the list. */
typedef struct names {
  repl_token name[200], attribute[200]; /* Lua takes no more in a function */
  int count;
} names;

static void copy_to(parser *p, const char *end) {
  luaL_addlstring(p->out, p->copied, (size_t)(end - p->copied));
  p->copied = end;
}

static void add_calls(parser *p, const names *list) {
  copy_to(p, p->behind);
  for (int i = 0; i < list->count; i++) {
    const repl_token *name = &list->name[i], *attribute = &list->attribute[i];
    if (repl_token_is(name, "_") || repl_token_is(name, "_ENV") || repl_token_is(attribute, "close")) continue;
    luaL_addstring(p->out, ";" KEEP "('");
    if (repl_token_is(attribute, "const")) luaL_addchar(p->out, '!');
    luaL_addlstring(p->out, name->text, name->size);
    luaL_addstring(p->out, "',function()return ");
    luaL_addlstring(p->out, name->text, name->size);
    luaL_addstring(p->out, " end);");
  }
}

static bool read_names(parser *p, names *list) {
  do {
    next(p);
    if (!is_variable(p) || list->count == 200) return false;
    repl_token *attribute = &list->attribute[list->count];
    list->name[list->count++] = p->t, *attribute = (repl_token){.text = ""};
    next(p);
    if (!is(p, "<")) continue;
    next(p);
    *attribute = p->t;
    next(p);
    if (!is(p, ">")) return false;
    next(p);
  } while (is(p, ","));
  return true;
}

/* From `local` to the statement behind. What Lua would not take is left alone. */
static int declare(parser *p) {
  names list;
  list.count = 0;
  repl_scanner scan = p->scan;
  repl_token ahead;
  if (repl_scan(&scan, &ahead) && repl_token_is(&ahead, "function")) {
    next(p);
    repl_scan(&scan, &list.name[0]);
    list.attribute[0] = (repl_token){.text = ""};
    if (list.name[0].kind != REPL_NAME) return 0;
    list.count = 1;
    skip_block(p);
  } else {
    if (!read_names(p, &list)) return 0;
    if (is(p, "=")) {
      next(p);
      if (!skip_expressions(p)) return 0;
    }
  }
  add_calls(p, &list);
  return list.count;
}

/* Adds the text with its calls to out; how many names were declared. */
static int add_text(lua_State *L, luaL_Buffer *out, const char *text, size_t size) {
  parser p = {.L = L, .out = out, .copied = text, .scan = {text, text + size}, .t = {.text = text}};
  int declared = 0, depth = 0;
  next(&p);
  while (!is_over(&p)) {
    if (depth == 0 && is(&p, "local")) {
      declared += declare(&p);
      continue;
    }
    depth += deeper(&p);
    next(&p);
  }
  copy_to(&p, text + size);
  return declared;
}

/* {==== What is kept */

/* keep(name, function): "!name" is a constant. One that the compiler has put in place has no upvalue and gets one. */
static int keep(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  bool constant = *name == '!';
  if (!lua_getupvalue(L, 2, 1)) {
    static const char box[] = "local v = ... return function() return v end";
    if (luaL_loadbuffer(L, box, sizeof box - 1, "=stdin") != LUA_OK) return lua_error(L);
    lua_pushvalue(L, 2);
    lua_call(L, 0, 1);
    lua_call(L, 1, 1);
    lua_replace(L, 2);
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_constant);
  lua_pushboolean(L, constant);
  lua_setfield(L, -2, name + constant);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_kept);
  lua_pushvalue(L, 2);
  lua_setfield(L, -2, name + constant);
  return 0;
}

void repl_local_open(lua_State *L) {
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_kept);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_constant);
}

/* Pushes what a registry table has for the name; false, and nothing, if that is nil or false. */
static bool push_entry(lua_State *L, const void *key, const char *name, size_t size) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) == LUA_TTABLE) {
    lua_pushlstring(L, name, size);
    lua_rawget(L, -2);
    lua_remove(L, -2);
  }
  if (lua_toboolean(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

bool repl_local_push(lua_State *L, const char *name, size_t size) {
  if (!push_entry(L, &key_kept, name, size)) return false;
  lua_getupvalue(L, -1, 1);
  lua_remove(L, -2);
  return true;
}

void repl_local_each(lua_State *L, void (*visit)(void *ctx, const char *name), void *ctx) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_kept) == LUA_TTABLE)
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) visit(ctx, lua_tostring(L, -2));
  lua_pop(L, 1);
}

/* {==== Chunks */

/* Adds the declaration of what the text mentions of the session's, once each: those are the keys of the table at
 * `seen`. Returns how many. */
static int add_mentioned(lua_State *L, luaL_Buffer *out, int seen, const char *text, size_t size) {
  repl_scanner scan = {text, text + size};
  repl_token t;
  int count = 0;
  while (repl_scan(&scan, &t)) {
    if (t.kind != REPL_NAME || !push_entry(L, &key_kept, t.text, t.size)) continue;
    lua_pop(L, 1);
    lua_pushlstring(L, t.text, t.size);
    bool known = lua_rawget(L, seen) != LUA_TNIL;
    lua_pop(L, 1);
    if (known) continue;
    lua_pushlstring(L, t.text, t.size);
    lua_pushboolean(L, 1);
    lua_rawset(L, seen);
    luaL_addchar(out, ',');
    luaL_addlstring(out, t.text, t.size);
    if (push_entry(L, &key_constant, t.text, t.size)) {
      lua_pop(L, 1);
      luaL_addstring(out, "<const>");
    }
    count++;
  }
  return count;
}

/* Joins the upvalues of the function at the top that the session has, and that the table at `seen` names. */
static void join(lua_State *L, int seen) {
  int function = lua_gettop(L);
  const char *name;
  for (int i = 1; (name = lua_getupvalue(L, function, i)) != NULL; i++) {
    lua_settop(L, function);
    bool mentioned = lua_getfield(L, seen, name) != LUA_TNIL;
    if (mentioned && push_entry(L, &key_kept, name, strlen(name))) lua_upvaluejoin(L, function, i, -1, 1);
    lua_settop(L, function);
  }
}

/* With the text at index 1 and the table of names at 2: pushes the text as the session needs it; false if it needs
 * nothing. */
static bool push_source(lua_State *L) {
  size_t size;
  const char *text = lua_tolstring(L, 1, &size);
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  luaL_addstring(&out, "local " KEEP);
  int changes = add_mentioned(L, &out, 2, text, size);
  luaL_addstring(&out, " = ... return function(...) ");
  changes += add_text(L, &out, text, size);
  luaL_addstring(&out, "\nend");
  luaL_pushresult(&out);
  return changes > 0;
}

/* Gets text and gives the function, or false and the message. */
static int load_chunk(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  lua_settop(L, 1);
  lua_newtable(L);
  if (!push_source(L)) {
    if (luaL_loadbuffer(L, text, size, "=stdin") == LUA_OK) return 1;
  } else {
    const char *source = lua_tolstring(L, 3, &size);
    if (luaL_loadbuffer(L, source, size, "=stdin") == LUA_OK) {
      lua_pushcfunction(L, keep);
      lua_call(L, 1, 1);
      join(L, 2);
      return 1;
    }
  }
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  return 2;
}

int repl_local_load(lua_State *L, const char *text, size_t size) {
  int status = luaL_loadbufferx(L, text, size, "=stdin", "t"), top = lua_gettop(L);
  if (status != LUA_OK) return status;
  lua_pop(L, 1);
  lua_pushcfunction(L, load_chunk);
  lua_pushlstring(L, text, size);
  status = lua_pcall(L, 1, LUA_MULTRET, 0);
  if (status == LUA_OK && lua_gettop(L) > top) { /* false, message */
    lua_remove(L, top);
    return LUA_ERRSYNTAX;
  }
  return status;
}
