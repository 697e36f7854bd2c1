/* fuse_follow.h: what the files share that follow a fused function whose numbers have changed. Private to them. */
#ifndef LTIDE_FUSE_FOLLOW_H
#define LTIDE_FUSE_FOLLOW_H

#include "fuse.h"

struct ltide_follower {
  lua_State *L;
  ltide_state *S;
  fuse_record *record;
  const fuse_trace *trace;       /* NULL: it is followed no longer */
  int next, step, values, slots; /* next: event; step: the first one that has not run */
  const void *handles[FUSE_INPUTS];
  lua_CFunction index, close, length; /* of tensors */
  const void *frame;                  /* of the record's call that is being made, or NULL */
  lua_Hook hook;
  int mask, count;
  tide_tensor **tensor;  /* of each value, with a reference */
  bool *has_values;      /* of each value */
  fuse_numbers *numbers; /* of each event */
};
typedef struct ltide_follower follower;

/* User values of the object that it lies in. */
enum { FOLLOWER_REFS = 1, FOLLOWER_COROUTINE, FOLLOWER_VALUES = FOLLOWER_COROUTINE };

static inline bool fuse_is_value(const follower *w, int value, const tide_tensor *x) {
  return value >= 0 && w->tensor[value] == x;
}
/* Is it the record's, but no part of a kernel? It is made when the function makes it. */
static inline bool fuse_is_made(const fuse_event *e) { return e->step >= 0; }
/* A cast to the dtype that its argument has, which it gives. */
static inline bool fuse_is_idle_cast(const fuse_event *e) {
  bool moves = e->what == FUSE_CALL && fuse_may_cast(e) && strcmp(e->row->name, "contiguous") != 0;
  return moves && e->call.args && e->call.results == 1 && e->call.arg[0].value == e->call.result[0];
}

/* Does everything that was put off, one by one: the function goes on alone. */
tide_status fuse_do_all(lua_State *L, follower *w);
/* Runs the kernels before that step; the calls between them have been made. */
void fuse_advance(lua_State *L, follower *w, int step);
/* fuse_watch.c: sees the calls that the function makes. */
void fuse_follow_hook(lua_State *L, lua_Debug *ar);

#endif
