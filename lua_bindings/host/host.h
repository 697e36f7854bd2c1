/* host.h: what a host asks of a state through tide_lua.h, as its functions of these names say. */
#pragma once

#include "tide_lua.h"

/* Of a process that tide.multiprocessing.spawn has started. */
extern struct ltide_task {
  bool is_task;
  int (*end)(void); /* the runner's: asked for the exit code when the task has failed */
} ltide_task;

/* In the registry: true where this program is the runner. */
#define LTIDE_RUNNER "tide.runner"

int ltide_host_error(lua_State *L, int index, tide_lua_error_info *error, size_t size);
tide_status ltide_host_readback(tide_tensor **host, tide_event **ready, lua_State *L, int index);
tide_stream *ltide_host_stream(lua_State *L, int device);
