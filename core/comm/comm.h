/* comm.h: what the files about collectives share. Private. See comm.c for the design. */
#pragma once

#include "tensor/tensor.h"
#include "tide/comm.h"

/* ---- communicator.c: those of the backend's own collectives ---- */

typedef struct tide__communicator tide__communicator;
const tide_collective *tide__collective_table(void); /* NULL where the backend has none */
/* Runs the call on the communicator of these devices, *used, which is made if there is none yet. One that fails is
 * gone. */
tide_status tide__communicator_run(tide__communicator **used, const int *devices, const tide_collective_call *call);
/* ACCELERATOR, naming *rank, if the communicator has met an error. */
tide_status tide__communicator_health(tide__communicator *c, int *rank);
void tide__communicator_abort(tide__communicator *c); /* ends what runs there: the streams go on */
void tide__communicator_shutdown(void);
void tide__rank_shutdown(void);       /* rank.c */
void tide__comm_watch_shutdown(void); /* comm_watch.c */

/* ---- comm_watch.c: who takes part in an operation, and how far each has come ---- */

/* The parts that are no member of the list of devices or tensors that the caller gave. */
enum { TIDE__RANK_SOURCE = -1, TIDE__RANK_DESTINATION = -2 };

enum { TIDE__TRACKER_MOST = 3 * TIDE_MAX_DEVICES };
/* One operation while it is queued: the points at which each device comes to it and has done its part. */
typedef struct tide__collective_tracker {
  const char *what;
  tide__communicator *communicator; /* whose work hangs where one rank does; else NULL */
  int n;
  struct tide__collective_entry {
    int rank;
    bool arrival; /* the point stands before the operation, not behind it */
    tide__point point;
  } entry[TIDE__TRACKER_MOST];
} tide__collective_tracker;
static inline void tide__tracker_begin(tide__collective_tracker *tracker, const char *what) {
  tracker->what = what, tracker->communicator = NULL, tracker->n = 0;
}
/* Sets a point on the stream, which the tracker holds: *out is borrowed until the tracker ends. */
tide_status tide__tracker_point(const tide__point **out, tide__collective_tracker *tracker, tide_stream *stream,
                                int rank, bool arrival);
/* Ends it: the points are watched from now on if the operation was queued whole. Returns status. */
tide_status tide__tracker_end(tide__collective_tracker *tracker, tide_status status);

/* ---- fan_out.c: checks, one copy, several ---- */

/* An accelerator that there is; `i` counts from 0 and is named in the message. */
tide_status tide__comm_device(int *out, int device, int i, const char *what);
/* A live tensor; `i` as above, `name` as in "tensor". */
tide_status tide__comm_tensor(const tide_tensor *x, int i, const char *name, const char *what);
/* Likewise, on an accelerator. */
tide_status tide__comm_cuda(const tide_tensor *x, int i, const char *name, const char *what);
/* Makes every stream part of the capture that one of them is in, if any. */
tide_status tide__comm_join(tide_stream *const *streams, int n, const char *what);
/* May the copy run at once on a stream of `device`: as bytes that travel, or by a kernel there? */
bool tide__comm_direct(const tide_tensor *dst, const tide_tensor *src, int device);
/* Queues it on the stream, of the source's or the destination's device. Both uses are ordered and noted by the
 * caller. */
tide_status tide__comm_send(tide_stream *on, tide_tensor *dst, const tide_tensor *src);
/* Can kernels of `device` read this memory? */
static inline bool tide__comm_reaches(int device, const tide_storage *s) {
  return s->device == device || (s->block && tide__block_of_driver(s->block) && tide__peer_path(device, s->device));
}
/* One copy of a fan-out: src, on one device for all of them, becomes *dst, which is made on the stream's device, like
 * src, where it is NULL. */
typedef struct tide__fan_copy {
  tide_tensor **dst;
  const tide_tensor *src;
  tide_stream *on; /* of the destination's device */
  int rank;
} tide__fan_copy;
/* From one device to others, or to given tensors of its own; on failure what was made is released. */
tide_status tide__copies_fan_out(tide__fan_copy *copies, int n, const char *what);
void tide__tensors_drop(tide_tensor **list, int n);

/* ---- comm_reduce.c: sums on one stream of the destination ---- */

/* The destination waits for the streams of ranks 0 to n - 1, and in the end they for it. */
tide_status tide__sum_begin(tide__collective_tracker *tracker, tide_stream *const *streams, int n,
                            tide_stream *destination);
tide_status tide__sum_end(tide__collective_tracker *tracker, tide_stream *const *streams, int n,
                          tide_stream *destination);
/* out = op(a, x) in between: out and a lie on the device of `on`, its current stream; x anywhere. */
tide_status tide__fold(tide_op op, tide_tensor *out, const tide_tensor *a, const tide_tensor *x, tide_stream *on);

/* ---- collective.c ---- */

/* made[i] becomes x on devices[i], unless it lies there, by the backend's collectives or by copies; all are NULL at the
 * start, and again on failure. */
tide_status tide__collective_broadcast(tide_tensor **made, const tide_tensor *x, const int *devices, int n,
                                       const char *what);

/* ---- comm_watch.c: collective operations that do not end ---- */

void tide__comm_start(void); /* start.c: registers with the rooms below, once */
tide_status tide__comm_overdue(int device);
void tide__comm_ending(void);   /* the devices are about to be waited for, for the last time */
void tide__comm_shutdown(void); /* they have been */

/* ---- ipc.c ---- */

void tide__ipc_shutdown(void);

/* ---- external.c ---- */

void tide__external_shutdown(void); /* nothing is queued, and no storage waits to be freed */
