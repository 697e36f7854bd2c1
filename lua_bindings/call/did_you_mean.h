/* did_you_mean.h: the nearest of the names that exist, for errors about one that does not. */
#pragma once

#include "bindings.h"

typedef struct ltide_nearest {
  const char *wanted, *name; /* name: the nearest so far, or NULL: none is near */
  int distance;
} ltide_nearest;
/* nearest.c: looks whether the name, which must live as long as the search, is nearer than the last ones. */
void ltide_nearest_try(ltide_nearest *near, const char *name);

/* The same for all string keys of the table. */
void ltide_nearest_keys(lua_State *L, int table, ltide_nearest *near);

/* call/api/instead.def: what there is instead of a name that people look for, or NULL. where: the rows to search. */
enum { LTIDE_OF_TENSOR = 1, LTIDE_OF_MODULE = 2, LTIDE_OF_ANY = 4, LTIDE_OF_HELP = 7 };
const char *ltide_instead(const char *name, unsigned where);
/* The hint of row i and its names, with blanks around each; NULL behind the last row. */
const char *ltide_instead_at(int i, const char **names);

/* The end of a tensor's __index for the string at 2, which no table has: raises, or returns 0 for a name that libraries
 * look for in anything. */
int ltide_no_tensor_name(lua_State *L, int methods, int fields);
/* The same for other objects: their __index raises. methods: the table of their methods, or 0; fields: further
 * names. */
int ltide_no_field(lua_State *L, const char *object, const char *name, int methods, const char *fields);
void ltide_push_module(lua_State *L); /* tide */
/* Is the value tide, or one of its tables: what stands before a dot? */
bool ltide_is_module(lua_State *L, int arg);

/* A hint for a message about the argument at arg of the running function, where `expected` is no such thing: a dot
 * where a colon belongs, a method that is not called, a dtype or device that belongs into the options; "" where there
 * is none. */
const char *ltide_arg_hint(lua_State *L, int arg, const char *expected);
/* Pushes the first line of the running function's help, or NULL. */
const char *ltide_usage(lua_State *L);

/* Is there a function of that name in the module `library`, or, of NULL, among the methods of tensors? */
bool ltide_has_function(lua_State *L, const char *library, const char *name);
/* For the runner: a hint about a message of Lua's own, such as that of x.item + 1, or "". It pushes values. */
const char *ltide_lua_hint(lua_State *L, const char *message);
/* For the runner: a hint about an undefined global, or "". more: a table with further names as its keys, or 0. */
const char *ltide_global_hint(lua_State *L, const char *name, int more);
