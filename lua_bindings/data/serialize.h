/* serialize.h: values as bytes, for serialize.c and spawn.c. */
#pragma once

#include <stdio.h>

#include "call/bindings.h"
#include "tide/file.h"

/* Writes the value at index; raises when it holds something that cannot be written. `handles`: stack index of a table
 * that takes the IPC handles of tensors of accelerators, which are shared then instead of copied; or 0. Without a file
 * it is only looked at. Returns 0, or the errno of what could not be written. */
int ltide_write_value(lua_State *L, FILE *file, int index, int handles);
/* Reads what the above has written and pushes it. `name`: of the file, for messages. `map`: stack index of
 * map_location, or 0. `shared`: may the bytes name shared tensors? mapping: the file as memory, or NULL. */
void ltide_read_value(lua_State *L, FILE *file, const char *name, int map, bool shared, tide_mapping *mapping);
/* The value at index as a string of these bytes, and the other way. */
void ltide_push_serialized(lua_State *L, int index);
void ltide_push_deserialized(lua_State *L, const char *bytes, size_t n);
