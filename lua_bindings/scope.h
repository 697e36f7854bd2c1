/* scope.h: what state.c and scope.c share: the record of a coroutine and its open scopes. */
#ifndef LTIDE_SCOPE_H
#define LTIDE_SCOPE_H

#include "bindings.h"

typedef struct ltide_record {
  tide_current *current;
  struct ltide_arena *arena;   /* innermost tide.scope, while the coroutine is not the running one */
  struct ltide_scope **scopes; /* open scopes, outermost first */
  int depth, capacity;
  bool turns; /* of tide.parallel: other replicas run while it would wait */
} ltide_record;

/* Is all that the open scopes have set the coroutine's own, so that others may run in the middle of them? */
bool ltide_scopes_own(const ltide_record *r);

#endif
