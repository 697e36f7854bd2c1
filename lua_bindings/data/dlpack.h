/* dlpack.h: capsules of DLPack, for tide_lua.h. */
#pragma once

#include "call/bindings.h"
#include "tide/dlpack.h"

void ltide_push_dlpack(lua_State *L, struct DLManagedTensorVersioned *managed);
struct DLManagedTensorVersioned *ltide_take_dlpack(lua_State *L, int index);
