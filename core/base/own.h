/* own.h: memory that goes where its block is left, and lists that grow. Private to core. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline void tide__freed(void *variable) {
  void *memory;
  memcpy(&memory, variable, sizeof memory);
  free(memory);
}
/* A pointer, or a struct that begins with one, whose memory is freed wherever its block is left; begin it with NULL. */
#define TIDE_FREED __attribute__((cleanup(tide__freed)))

/* Makes room for another item behind the `count` ones of a list, whose pointer is at `list`. False: there is no memory,
 * and nothing has changed. */
bool tide__grow(void *list, int *room, int count, size_t item);
