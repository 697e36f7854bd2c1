/* repl.h: what the files of the prompt share: repl.c and repl_*.c. */
#ifndef LTIDE_REPL_H
#define LTIDE_REPL_H

#include "bindings.h"

/* ---- repl_scan.c: tokens of Lua text ---- */

typedef enum repl_kind {
  REPL_END,
  REPL_NAME, /* a word of Lua too */
  REPL_NUMBER,
  REPL_STRING,
  REPL_OPEN_STRING, /* one that does not end before the text does */
  REPL_COMMENT,     /* likewise; the last token */
  REPL_SIGN,
} repl_kind;
typedef struct repl_token {
  const char *text;
  size_t size;
  repl_kind kind;
} repl_token;
typedef struct repl_scanner {
  const char *at, *end;
} repl_scanner;

/* The next token; false at the end of the text, where its kind is REPL_END or REPL_COMMENT. */
bool repl_scan(repl_scanner *s, repl_token *t);
bool repl_token_is(const repl_token *t, const char *text); /* this name, word or sign? */
bool repl_token_is_word(const repl_token *t);              /* a word of Lua, which is no name? */

/* ---- repl_local.c: local variables that live as long as the session ---- */

void repl_local_open(lua_State *L);
/* Compiles as luaL_loadbuffer does a chunk "stdin" that sees the session's local variables, and whose own ones stay. */
int repl_local_load(lua_State *L, const char *text, size_t size);
/* Pushes the value of the session's local variable; false, and nothing, if there is none. */
bool repl_local_push(lua_State *L, const char *name, size_t size);
/* Calls visit for the name of each. */
void repl_local_each(lua_State *L, void (*visit)(void *ctx, const char *name), void *ctx);

/* Sets libedit, opened as `lib`, to complete globals, fields and methods. */
void repl_complete_open(lua_State *L, void *lib);

#endif
