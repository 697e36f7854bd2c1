/* hooks.c: what others set for streams to read. It calls nothing, so every file may. */
#include "hooks.h"
#include "capture_state.h"
#include "observe.h"

const tide__stream_hooks_table *tide__stream_hooks;
_Atomic int tide__sync_watch, tide__overdue_watched;
_Thread_local tide_status tide__early;

_Thread_local tide__capture *tide__capturing;
bool tide_thread_is_capturing(void) { return tide__capturing != NULL; }
