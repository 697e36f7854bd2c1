/* index.h: x[...] read and written, for the metatable in tensor.c. */
#ifndef LTIDE_INDEX_H
#define LTIDE_INDEX_H

#include "bindings.h"

int ltide_index_get(lua_State *L); /* __index with a key that is no string */
int ltide_index_set(lua_State *L); /* __newindex likewise */

#endif
