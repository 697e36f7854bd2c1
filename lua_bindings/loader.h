/* loader.h: what loader.c and loader_collate.c share: the copies that one batch needs. */
#ifndef LTIDE_LOADER_H
#define LTIDE_LOADER_H

#include "bindings.h"

/* One tensor of a batch: `items` are stacked into `into`, or the only one is copied to it. Holds references. */
typedef struct ltide_loader_copy {
  struct ltide_loader_copy *next;
  bool stacked;
  int n, held; /* how many items there will be, and how many are held already */
  tide_tensor *into, *items[];
} ltide_loader_copy;

/* One batch. Made by the Lua thread, copied by the worker or at once, let go by the Lua thread. */
typedef struct ltide_loader_job {
  struct ltide_loader_job *next;
  ltide_loader_copy *copies;
  bool done;
  tide_status status; /* the first failure of a copy, and its text */
  char message[512];
} ltide_loader_job;

/* What collating one batch needs to know. */
typedef struct ltide_loader_batch {
  ltide_state *S;
  ltide_loader_job *job;
  const int64_t *index; /* the items' numbers in the dataset */
  int n, handles;       /* items; stack index of the list that takes the handles made */
  bool pin;
} ltide_loader_batch;

/* Pushes the batch of the list of items at `items`; the tensors in it are filled once the job is done. */
void ltide_loader_collate(lua_State *L, ltide_loader_batch *b, int items);
/* Replaces the value at the top by one whose tensors are in pinned memory, once the job is done. */
void ltide_loader_pin(lua_State *L, ltide_loader_batch *b);

#endif
