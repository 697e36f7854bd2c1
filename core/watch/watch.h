/* watch.h: the face of watch: starting and ending those who watch every operation. Private to core. */
#pragma once

#include "graph/graph.h"

/* The sanitizer is switched on where the environment asks for it; it forgets what it knows of devices that end. */
void tide__sanitizer_start(void);
void tide__sanitizer_forget(void);
void tide__profile_shutdown(void); /* drops a recording that nobody ended */
