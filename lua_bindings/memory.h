/* memory.h: what the files about memory share: memory.c and memory_*.c. */
#ifndef LTIDE_MEMORY_H
#define LTIDE_MEMORY_H

#include "row.h"
#include "tide/history.h"

/* The device asked for, after what finalisers let go of has been counted. Opens nothing. */
int ltide_memory_device(lua_State *L, const ltide_value *device);
/* With tide.cuda at the top of the stack: sets the functions there and in tide.cuda.memory. */
void ltide_register_memory(lua_State *L, ltide_row *rows);
/* Likewise, in tide.cuda.memory alone. */
void ltide_register_memory_only(lua_State *L, ltide_row *rows);
/* Warns, once in a Lua state, that `old` is an old name of `now`. */
void ltide_deprecated(lua_State *L, const char *old, const char *now);
/* Pushes {{line=, bytes=, blocks=}, ...}. */
void ltide_push_sites(lua_State *L, const tide_memory_site *site, int n);

/* Each with tide.cuda at the top of the stack; called by ltide_open_memory. */
void ltide_open_memory_stats(lua_State *L);
void ltide_open_memory_scope(lua_State *L);
void ltide_open_memory_history(lua_State *L);
void ltide_open_allocator(lua_State *L);
/* With the module at the top of the stack. */
void ltide_open_memory_cpu(lua_State *L);

#endif
