/* loader.h: what the loader's files share: the copies that one batch needs, and their way to a GPU. */
#ifndef LTIDE_LOADER_H
#define LTIDE_LOADER_H

#include "bindings.h"

typedef struct ltide_loader_ring ltide_loader_ring;

/* One tensor of a batch: `items` are stacked into `into`, or the only one is copied to it; what lies on a GPU is filled
 * through the job's ring. Holds references. */
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
  ltide_loader_ring *ring; /* borrowed from the lane, or NULL */
  tide_event *sent;        /* recorded behind what went through it, or NULL */
  int line;                /* of the script, 0: unknown */
  char source[128];
  bool done;
  tide_status status; /* the first failure of a copy, and its text */
  char message[512];
} ltide_loader_job;

/* loader_job.c: does what the job says, on any thread. */
void ltide_loader_run(ltide_loader_job *job);
/* May be called in a finaliser. */
void ltide_loader_free(ltide_loader_job *job);

/* What collating one batch needs to know. */
typedef struct ltide_loader_batch {
  ltide_state *S;
  ltide_loader_job *job;
  const int64_t *index;           /* the items' numbers in the dataset */
  int n, handles;                 /* items; stack index of the list that takes the handles made */
  bool pin, device;               /* device: it goes on to one */
  struct ltide_loader_lane *lane; /* through whose ring, or NULL: once the batch is given out */
} ltide_loader_batch;

/* loader_columns.c: where the dataset at 1 is a table of tensors, puts a function f(i) of their rows in its place,
 * which has `size` items. */
void ltide_loader_columns(lua_State *L, lua_Integer size);

/* Pushes the batch of the list of items at `items`; the tensors in it are filled once the job is done. */
void ltide_loader_collate(lua_State *L, ltide_loader_batch *b, int items);
/* The value at the top is what a function of the script's gave: replaces it by one whose tensors are in pinned memory
 * where b->pin says so, once the job is done, and those that go on to a device the loader's own. */
void ltide_loader_pin(lua_State *L, ltide_loader_batch *b);

/* Slots of page-locked memory that are filled and copied to the device in turn. Whoever runs the jobs of an iteration
 * has it. */
enum { LTIDE_LOADER_SLOTS = 4 };
struct ltide_loader_ring {
  ltide_loader_ring *next; /* a smaller one, which jobs may have still */
  tide_stream *stream;     /* borrowed from the lane */
  int64_t bytes;           /* of a slot */
  int turn;
  tide_tensor *slot[LTIDE_LOADER_SLOTS];
  tide_event *copied[LTIDE_LOADER_SLOTS];
};

/* loader_lane.c: how an iteration's batches go on to its device. Without one, nothing is done. */
typedef struct ltide_loader_lane {
  int device;
  tide_stream *stream; /* NULL: no device */
  ltide_loader_ring *ring;
  tide_event **left; /* [slots] */
  lua_Integer slots;
} ltide_loader_lane;
/* *kept is the loader's stream, made where there is none. */
tide_status ltide_loader_lane_open(ltide_loader_lane *lane, tide_stream **kept, int device, lua_Integer prefetch);
void ltide_loader_lane_close(ltide_loader_lane *lane);
/* The loop asks for another batch after the one of this number, from 1. */
void ltide_loader_lane_asked(lua_State *L, ltide_loader_lane *lane, lua_Integer given);
/* Memory on the device for what will be filled through the ring. */
tide_status ltide_loader_lane_empty(ltide_loader_lane *lane, tide_tensor **out, const int64_t *size, int ndim,
                                    tide_dtype dtype);
/* Moves the tensors of batch k, whose handles are in the list at `handles`, so far as they are not there; sent: as the
 * job says. After an error it can be called again. */
tide_status ltide_loader_lane_move(lua_State *L, ltide_loader_lane *lane, lua_Integer k, int handles, tide_event *sent);

/* loader.c: no job runs on a thread of a loader's between these. */
void ltide_loader_pause(void);
void ltide_loader_resume(void);

#endif
