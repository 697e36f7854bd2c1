/* device.h: streams and events as objects. */
#pragma once

#include "call/bindings.h"

void ltide_push_stream(lua_State *L, tide_stream *stream); /* takes a reference of its own */
tide_stream **ltide_new_stream(lua_State *L);              /* pushes a closed handle, to be filled */
tide_event **ltide_new_event(lua_State *L);                /* likewise */
