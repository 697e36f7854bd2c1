/* wake.c: what specs do with simulated devices and no script may: it ends the long sleeps of their streams. The specs
 * load it into the runner, which holds both Lua and tide. */
#include <lua.h>

#include "tide/sim.h"

__attribute__((visibility("default"))) int wake(lua_State *L);

int wake(lua_State *L) {
  (void)L;
  tide_sim_wake();
  return 0;
}
