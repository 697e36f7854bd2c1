/* fuse.h: the operations of a fused function, which are noted. */
#pragma once

#include "call/bindings.h"

struct ltide_fuse_part {
  struct tide_fuse *pending; /* where pending operations are noted; NULL before the first */
  const void *meta;
};
LTIDE_PART(fuse)

void ltide_fuse_end(ltide_state *S); /* the state ends */
/* Where S->is_fusing is set: does what tide_to does, or what the functions of `places` (tide_fuse_places) do;
 * false: it is to be done. */
bool ltide_fuse_cast(lua_State *L, ltide_state *S, tide_tensor **out, tide_tensor *x, const tide_options *o, bool copy);
bool ltide_fuse_gather(lua_State *L, ltide_state *S, tide_tensor **out, const tide_tensor *x, const tide_tensor *index,
                       int dim, int places);
