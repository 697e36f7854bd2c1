/* dlpack.h: capsules of DLPack, for tide_lua.h. */
#ifndef LTIDE_DLPACK_H
#define LTIDE_DLPACK_H

#include "call/bindings.h"
#include "tide/dlpack.h"

void ltide_push_dlpack(lua_State *L, struct DLManagedTensorVersioned *managed);
struct DLManagedTensorVersioned *ltide_take_dlpack(lua_State *L, int index);

#endif
