/* repl.h: what the files of the prompt share: repl.c and repl_*.c. */
#pragma once

#include "call/bindings.h"

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

/* ---- repl.c ---- */

void repl_run(lua_State *L); /* reads and runs lines until the end of input; after repl_open */

/* ---- repl_session.c ---- */

void repl_open(lua_State *L); /* what exists beside the prompt too: help, and what commands need */
int repl_call(lua_State *L, const char *name, int n); /* a function of runner/repl.lua: as ltide_script_call */
/* Compiles the text at the top of the stack, as an expression if it is one, and puts the function or message there. */
int repl_load(lua_State *L);
int repl_print_help(lua_State *L);       /* the global help at the prompt */
void repl_prepare_globals(lua_State *L); /* `_`, and the note of undefined names */
void repl_name_chunks(const char *name); /* of what is compiled next; "stdin" at the prompt */
/* Runs the function that is alone on the stack, warns of undefined names and sets `_`. Leaves results or a message. */
int repl_run_function(lua_State *L);
int repl_collect(lua_State *L); /* frees what the last chunk has dropped */

/* ---- runner_manual.c ---- */

void manual_open(lua_State *L); /* gives help/manual.lua what it needs of the system */

/* ---- runner_notebook.c ---- */

void notebook_run(lua_State *L, const char *folder); /* serves requests until the end of input; after repl_open */

/* ---- repl_command.c: lines that begin with ':' ---- */

typedef enum repl_done { REPL_DONE, REPL_FAILED, REPL_LEAVES } repl_done;
repl_done repl_command(lua_State *L, const char *line);
