/* allocation_scope.h: what the allocator tells an allocation scope. */
#pragma once

#include "memory.h"

/* A block was allocated, or freed, under the allocation scope: it and its outer ones count that. */
void tide__allocation_scope_add(tide_allocation_scope *scope, size_t bytes);
void tide__allocation_scope_sub(tide_allocation_scope *scope, size_t bytes);
