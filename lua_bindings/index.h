/* index.h: x[...] read and written, for the metatable in tensor.c. */
#ifndef LTIDE_INDEX_H
#define LTIDE_INDEX_H

#include "bindings.h"

int ltide_index_get(lua_State *L); /* __index with a key that is no string */
int ltide_index_set(lua_State *L); /* __newindex likewise */
/* tensor.c: is it the iterator of ipairs that calls the running __index? It counts up until it reads a nil, where every
 * other reader is told that it is past the end. */
bool ltide_is_read_by_ipairs(lua_State *L);

#endif
