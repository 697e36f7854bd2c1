/* memory.h: what the files about memory share: memory.c and memory_*.c. */
#pragma once

#include "call/row.h"
#include "tide/history.h"

/* The device asked for, after what finalisers let go of has been counted. Opens nothing. */
int ltide_memory_device(lua_State *L, const ltide_value *device);
/* With the module at the top of the stack: sets the functions in tide.cuda and in tide.cuda.memory. */
void ltide_register_memory(lua_State *L, ltide_row *rows);
/* Warns, once in a Lua state, that `old` is an old name of `now`. */
void ltide_deprecated(lua_State *L, const char *old, const char *now);
/* Pushes {{line=, bytes=, blocks=}, ...}. */
void ltide_push_sites(lua_State *L, const tide_memory_site *site, int n);
