/* fiber.h: the threads of a block that wait for each other, all on one thread of the CPU. */
#pragma once

#include "backend/backend.h"
#include "base/base.h"

typedef struct tide__fibers tide__fibers;

/* Room for n threads, 1 to 1024; NULL without memory. Given back by tide__fibers_put. */
tide__fibers *tide__fibers_get(unsigned n);
void tide__fibers_put(tide__fibers *f);
/* Runs body(arg, 0 .. n-1) until all have returned, in turns from one wait to the next. False: one has left. */
bool tide__fibers_run(tide__fibers *f, unsigned n, void (*body)(const void *arg, unsigned i), const void *arg);
/* In a body: comes back when all that have not returned have waited. */
void tide__fibers_wait(tide__fibers *f);
/* Waits, and tells how many of those that waited said yes, and how many there were. */
unsigned tide__fibers_vote(tide__fibers *f, bool yes, unsigned *voters);
/* Ends the run for all of them; does not return. */
void tide__fibers_leave(tide__fibers *f);
/* Lets go of the stacks that nobody uses. */
void tide__fibers_trim(void);
