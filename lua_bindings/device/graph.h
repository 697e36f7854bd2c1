/* graph.h: what graph.c and graphed.c share. */
#pragma once

#include "call/bindings.h"
#include "tide/graph.h"

struct ltide_graph_part {
  const void *meta;
};
LTIDE_PART(graph)

/* The graph at arg; raises when it is none. */
tide_graph *ltide_check_graph(lua_State *L, int arg, const char *name);
tide_graph **ltide_new_graph(lua_State *L); /* pushes a closed handle, to be filled */
/* The pool that the token at arg names; raises when it is none. */
tide_mempool *ltide_check_graph_pool(lua_State *L, int arg, const char *name);
/* graphed.c, called by ltide_open_graph with tide.cuda at the top of the stack. */
void ltide_open_graphed(lua_State *L);
