/* host.h: what a host asks of a state through tide_lua.h, as its functions of these names say. */
#ifndef LTIDE_HOST_H
#define LTIDE_HOST_H

#include "tide_lua.h"

int ltide_host_error(lua_State *L, int index, tide_lua_error_info *error, size_t size);
tide_status ltide_host_readback(tide_tensor **host, tide_event **ready, lua_State *L, int index);
tide_stream *ltide_host_stream(lua_State *L, int device);

#endif
