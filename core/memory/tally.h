/* tally.h: what the allocator tells a tally. */
#ifndef TIDE_TALLY_H
#define TIDE_TALLY_H

#include "core.h"
#include "tide/history.h"

/* A block was allocated, or freed, under the tally: it and its outer ones count that. */
void tide__tally_add(tide_tally *tally, size_t bytes);
void tide__tally_sub(tide_tally *tally, size_t bytes);

#endif
