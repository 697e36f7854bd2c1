/* reload.h: a module's text again while what it holds stays. */
#pragma once

#include "call/bindings.h"

/* tide_lua_reload: pushes the module, or the error whose status it returns. */
int ltide_reload(lua_State *L, const char *name, const char *text, size_t size);
