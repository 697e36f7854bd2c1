/* script.h: the parts of the bindings that are written in Lua, ROOM/NAME.lua. */
#pragma once

#include "bindings.h"

/* Is that the frame of a chunk's function (script.c)? Needs "S" of lua_getinfo. */
static inline bool ltide_script_is(const lua_Debug *ar) {
  return *ar->source == '=' && !strncmp(ar->source, "=[tide ", 7);
}

/* Lets hooks run, an interruption among them, in a long loop that calls no Lua function; `i` counts its steps.
 * A hook may do what it likes, so the loop reads no argument afterwards that it does not hold. */
void ltide_poll_hooks(lua_State *L);
static inline void ltide_poll(lua_State *L, int64_t i) {
  if ((i & 1023) == 0) ltide_poll_hooks(L);
}

/* Raises where the host's quota is used up: for what may take long, is no operation and may come again before the next
 * hook does. */
void ltide_check_time(lua_State *L);

/* Gives the chunks the functions of a C file, "ROOM/NAME.c": what they cannot do themselves. The list ends with {NULL}
 * and lives as long as the state. */
void ltide_script_give(lua_State *L, const char *name, const luaL_Reg *list);
/* The functions in the table at the top, which is popped, are globals of all chunks too: before one is loaded. */
void ltide_script_add(lua_State *L);
/* source_text.c: the text at the top, of a chunk whose name tells nothing, is remembered for a while. */
void ltide_keep_text(lua_State *L);
void ltide_script_push(lua_State *L, const char *name); /* a function of a chunk, "ROOM/NAME.function" */
/* Calls the function of that name with the n values at the top of the stack, which it may yield in. For
 * `return`: whatever it returns is what the running function returns. */
int ltide_script_call(lua_State *L, const char *name, int n);

/* Pushes a copy of the tree of tensors at index: tables are made anew with their metatables, each tensor becomes what
 * leaf(x) gives for it, once, and other values are kept. What is shared, or refers to itself, is so in the copy. The
 * closure `leaf` is at the top, and is popped. */
void ltide_map_tree(lua_State *L, int index);
