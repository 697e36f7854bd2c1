/* sandbox.h: scripts that the host does not trust. */
#pragma once

#include "call/bindings.h"

/* Where a host has opened the module with options: grants what they say, and freezes the module at the top. */
void ltide_sandbox(lua_State *L, ltide_state *S);
int ltide_quota_set(lua_State *L, tide_quota_kind kind, int64_t limit); /* tide_lua_quota_set */
int64_t ltide_quota_used(lua_State *L, tide_quota_kind kind);
int64_t ltide_quota_overrun(lua_State *L, tide_quota_kind kind);
int ltide_restrict(lua_State *L, unsigned capabilities); /* tide_lua_restrict */
