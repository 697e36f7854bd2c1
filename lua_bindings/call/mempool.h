/* mempool.h: pools, for the files that take one as an argument. */
#ifndef LTIDE_MEMPOOL_H
#define LTIDE_MEMPOOL_H

#include "bindings.h"
#include "tide/memory.h"

/* The pool of the tide.cuda.MemPool at arg; NULL if it is none. */
tide_mempool *ltide_test_mempool(lua_State *L, int arg);
/* Likewise, or that of a graph's token. */
tide_mempool *ltide_test_graph_pool(lua_State *L, int arg);
/* pins.c: as ltide_hold_stream. */
void ltide_hold_pool(lua_State *L, ltide_state *S, tide_mempool *p);

#endif
