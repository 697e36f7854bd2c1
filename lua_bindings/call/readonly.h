/* readonly.h: the module as a script sees it that must not change it. */
#ifndef LTIDE_FROZEN_H
#define LTIDE_FROZEN_H

#include "bindings.h"

/* Puts an object in the place of the table at the top that reads as it does, and cannot be written; likewise of every
 * table in it. */
void ltide_freeze(lua_State *L);
/* Pushes the table that the object at arg stands for, or returns false. */
bool ltide_push_thawed(lua_State *L, int arg);

#endif
