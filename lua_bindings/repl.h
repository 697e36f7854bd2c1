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

/* ---- repl_terminal.c: what comes from the terminal while a line is edited ---- */

enum { TERMINAL_END = -1, TERMINAL_CANCELLED = -2, TERMINAL_PASTE = -3, TERMINAL_RESIZED = -4, TERMINAL_RESUMED = -5 };
/* Between these two a signal is heard only where a byte is waited for, and pastes are marked by the terminal. `rest` is
 * called before a signal stops or ends the process. */
void terminal_begin(void (*rest)(void));
void terminal_end(void);
/* The next byte, or one of the above. */
int terminal_byte(void);
/* What the last TERMINAL_PASTE brought; valid until the next one. */
char *terminal_paste(size_t *size);
bool terminal_has_more(void); /* has more come already? */
/* Likewise, where the terminal edits lines itself and marks no pastes. */
int terminal_plain_byte(void);

/* ---- repl_edit.c: lines ---- */

typedef enum repl_input { REPL_LINE, REPL_LAST, REPL_CANCELLED } repl_input;
void edit_open(lua_State *L);
void edit_close(void);
/* Pushes a line without its newline, or nothing at the end of input or for Ctrl-C. `before` is what the chunk has so
 * far. */
repl_input edit_read(lua_State *L, const char *prompt, const char *before);
void edit_remember(const char *text); /* in the history */

/* ---- repl_complete.c ---- */

typedef struct repl_names {
  char **name; /* whole words */
  int count;
  size_t head; /* so many bytes of a word stand before the cursor */
} repl_names;
/* What may follow the text; runs no code of the user's. To be freed. */
void repl_complete(lua_State *L, const char *text, size_t size, repl_names *out);
void repl_names_free(repl_names *names);

/* ---- repl.c ---- */

void repl_open(lua_State *L); /* what exists beside the prompt too: help, and what commands need */
void repl_run(lua_State *L);  /* reads and runs lines until the end of input; after repl_open */

void repl_push_last(lua_State *L); /* the last result, or nil */
/* Compiles the text at the top of the stack, as an expression if it is one, and puts the function or message there. */
int repl_load(lua_State *L);
int repl_print_help(lua_State *L); /* the global help at the prompt */

/* ---- repl_command.c: lines that begin with ':' ---- */

extern const char *const repl_commands[]; /* ends with NULL */
typedef enum repl_done { REPL_DONE, REPL_FAILED, REPL_LEAVES } repl_done;
repl_done repl_command(lua_State *L, const char *line);

#endif
