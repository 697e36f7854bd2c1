/* repl.h: what repl.c and repl_complete.c share. */
#ifndef LTIDE_REPL_H
#define LTIDE_REPL_H

#include <lua.h>

/* Sets libedit, opened as `lib`, to complete globals, fields and methods. */
void repl_complete_open(lua_State *L, void *lib);

#endif
