/* stream.h: the face of stream: what other rooms include of it. Private to core. */
#pragma once

#include "capture_state.h"
#include "hooks.h"
#include "observe.h"
#include "order.h"

void tide__stream_start(void); /* registers with the rooms below, once */
void tide__preload_stop(void); /* waits for the one kernel that each device is loading; tide_preload begins again */
