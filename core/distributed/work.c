/* work.c: what a script does with an operation: starts it, waits for it, or has a stream wait.
 *
 * Work on tensors of a device is a job of the host there (tide/host_job.h): the stream waits for its end, and writes
 * what it gives. progress.c goes on with it. What a script waits for itself goes on while it waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "distributed/room.h"

static uint64_t groups;

static int device_of(const tide_work *w) { return w->out.device != TIDE_CPU ? w->out.device : w->in.device; }

/* ---- the end ---- */

void tide__work_release(tide_work *w) {
  if (!w) return;
  tide__progress_lock();
  bool is_free = --w->refs == 0;
  if (is_free && !mpi) tide__message_forget(w);
  is_free = is_free && !w->is_queued && !w->is_running; /* it goes when it has begun, or ended */
  bool is_over = tide__work_is_over(w) || !mpi;
  if (is_free && is_over && w->pieces) tide__parts_remove(w); /* with the lock held */
  if (is_free && !is_over && w->state != WORK_FAILED)         /* requests that nothing ends keep their memory */
    tide__work_abandon(w);
  tide__progress_unlock();
  if (is_free && is_over) tide__work_free(w);
}

static tide_status fail_again(const tide_work *w) {
  return tide__dist_fail(w->status, "%s", w->message ? w->message : "distributed: it has failed before");
}

static tide_status write_back(tide_work *w) {
  bool is_root = w->root == w->group->rank, has_result = w->out.count > 0;
  if (w->note.kind == TIDE_BROADCAST_RANKS) has_result = !is_root;
  if (w->note.kind == TIDE_REDUCE_RANKS) has_result = is_root;
  return has_result ? tide__side_write_back(&w->out, w->op == TIDE_RANK_AVG ? w->group->size : 1) : TIDE_OK;
}

static tide_status finish(tide_work *w) {
  w->state = WORK_DONE;
  if (w->is_new_group)
    TRY(tide__group_split(&w->made, w->new_ranks, w->new_count, w->note.extra ? (uint64_t)w->note.extra : 1));
  return write_back(w);
}

/* ---- on streams ---- */

static tide_status mark_written(tide_work *w, tide_stream *stream) {
  TRY(host.event_new(&w->written, 0));
  return host.event_record(w->written, stream);
}

/* The stream waits for the end. One that has sent does not have to, but another one that may change the values. */
static tide_status wait_for_jobs(const tide_work *w, tide_stream *stream) {
  if (w->note.kind == TIDE_SEND_RANKS && stream == w->stream) return TIDE_OK;
  if (w->in.job) TRY(host.host_job_wait(w->in.job, stream));
  return w->out.job ? host.host_job_wait(w->out.job, stream) : TIDE_OK;
}

/* Once: the current stream waits for the end, and writes what it gives. */
static tide_status deliver(tide_work *w, tide_stream *stream) {
  tide__progress_lock();
  tide_status status = w->state == WORK_FAILED ? fail_again(w) : wait_for_jobs(w, stream); /* which the lock keeps */
  if (status == TIDE_OK) w->is_awaited = true;
  tide__progress_unlock();
  TRY(status);
  TRY(write_back(w));
  return mark_written(w, stream);
}

tide_status tide__work_order(bool *ordered, tide_work *w) {
  tide_stream *stream;
  *ordered = w->is_streamed;
  if (!*ordered) return TIDE_OK;
  TRY(host.current_stream(&stream, device_of(w)));
  return w->written ? host.stream_wait_event(stream, w->written) : deliver(w, stream);
}

/* ---- waiting ---- */

/* With the lock held. */
static tide_status look(tide_work *w, const char **notice, double *nap) {
  static char shown[2048]; /* another thread may report meanwhile */
  const char *text = NULL;
  if (!tide__world && w->state < WORK_COMPLETE)
    return tide__dist_fail(TIDE_STATE, "%s: the group of processes has been left before this was done", w->note.name);
  int spins = tide__crowded ? 20 : 1000;
  int rounds = w->tests < spins ? spins : 1;
  for (int i = 0; i < rounds && w->state < WORK_COMPLETE; i++) {
    tide__work_advance(w);
    if (i % 16 == 0) tide__message_progress(tide__work_advance);
  }
  w->tests += rounds;
  if (w->state < WORK_COMPLETE) TRY(tide__work_wait(w, &text, nap));
  if (text) snprintf(shown, sizeof shown, "%s", text);
  if (text && notice) *notice = shown;
  return TIDE_OK;
}

static tide_status end_of(bool *done, tide_work *w, tide__state state) {
  if (state == WORK_FAILED) return fail_again(w);
  if (state < WORK_COMPLETE) return TIDE_OK;
  if (w->is_streamed) {
    bool ordered;
    if (!w->written) TRY(tide__work_order(&ordered, w));
    return host.event_query(done, w->written);
  }
  if (w->note.kind == TIDE_LEAVE_RANKS) TRY(tide__progress_failure());
  tide__progress_lock(); /* to make a group waits for the others, who come at once */
  tide_status status = state == WORK_COMPLETE ? finish(w) : TIDE_OK;
  if (status != TIDE_OK) tide__work_fail(w, status);
  tide__progress_unlock();
  *done = status == TIDE_OK;
  return status;
}

tide_status tide__work_poll(bool *done, tide_work *w, const char **notice) {
  double nap = -1;
  *done = false;
  if (notice) *notice = NULL;
  tide__progress_lock();
  tide_status status = look(w, notice, &nap);
  tide__state state = w->state;
  tide__progress_unlock();
  TRY(status);
  if (nap >= 0) tide__progress_nap(nap);
  return end_of(done, w, state);
}

/* ---- starting ---- */

static bool overlap(const tide__side *a, const tide__side *b) {
  const char *ends[2] = {a->bytes + a->numel * (int64_t)host.dtype_size(a->dtype),
                         b->bytes + b->numel * (int64_t)host.dtype_size(b->dtype)};
  return a->count && b->count && a->bytes < ends[1] && b->bytes < ends[0];
}

static bool is_in_place(const tide_work *w) {
  int kind = w->note.kind;
  return kind == TIDE_ALL_REDUCE_RANKS || kind == TIDE_REDUCE_RANKS ||
         (kind == TIDE_BROADCAST_RANKS && w->root == w->group->rank);
}

static tide_status make_sides(tide_work *w, const tide_distributed_call *c) {
  bool is_root = w->root == w->group->rank, may_be_job = tide__progress_can();
  bool takes = c->kind != TIDE_SCATTER_RANKS || is_root, gives = c->kind != TIDE_GATHER_RANKS || is_root;
  tide_dtype dtype = (tide_dtype)w->note.dtype;
  if (tide__reduces(c->kind) && host.dtype_kind(dtype) == 'F' && host.dtype_size(dtype) == 2) dtype = TIDE_FLOAT32;
  tide__side_use out = {is_in_place(w), false, may_be_job, false}, in = {true, false, may_be_job, true};
  TRY(tide__side_make(&w->out, c->out, gives ? c->outs : 0, dtype, out));
  in.apart = w->out.job; /* the script may go on and change it */
  TRY(tide__side_make(&w->in, c->in, takes ? c->ins : 0, dtype, in));
  if (!overlap(&w->in, &w->out)) return TIDE_OK;
  tide__side_clear(&w->in);
  in.apart = true;
  return tide__side_make(&w->in, c->in, c->ins, dtype, in);
}

/* A rank alone moves values on its device, as work of the current stream. */
static bool is_passed(const tide_work *w, const tide_distributed_call *c) {
  int device = c->outs ? host.tensor_device(c->out[0]) : TIDE_CPU;
  return w->group->size == 1 && !tide__is_message(w) && device != TIDE_CPU &&
         (!c->ins || host.tensor_device(c->in[0]) == device);
}

/* What fits of the text; the place is all 0. */
static void keep_text(char *out, size_t size, const char *text) { memcpy(out, text, strnlen(text, size - 1)); }

static void make_note(tide_work *w, const tide_distributed_call *c, const int *ranks, int n) {
  tide__note *note = &w->note;
  *note = (tide__note){.group = w->group->id, .kind = (int)c->kind, .op = (int)c->op, .peer = c->peer, .line = c->line};
  note->dtype = c->outs  ? (int)host.tensor_dtype(c->out[0])
                : c->ins ? (int)host.tensor_dtype(c->in[0])
                         : TIDE_DTYPE_NONE;
  note->rank = tide__world->rank;
  for (int i = 0; i < n; i++)
    note->extra = (int64_t)(((uint64_t)note->extra + (uint64_t)ranks[i] + 1) * 0x9e3779b97f4a7c15);
  if (ranks) note->extra = (int64_t)((uint64_t)note->extra + ++groups);
  keep_text(note->name, sizeof note->name, c->name);
  keep_text(note->file, sizeof note->file, c->file ? c->file : "");
}

static tide_status prepare(tide_work *w, const tide_distributed_call *c) {
  tide_stream *stream;
  TRY(tide__check_call(w, c));
  if (c->kind == TIDE_CONNECT_RANKS) return tide__connect_begin(w, c->peer, c->tag);
  if (tide__nccl_can(w, c)) {
    w->is_nccl = w->is_streamed = w->is_awaited = true;
    w->note.extra = 1;
    TRY(tide__nccl_queue(w, c));
  } else if (is_passed(w, c)) {
    w->state = WORK_DONE, w->is_streamed = true;
    TRY(tide__side_pass(&w->in, &w->out, c));
    tide__side_drop(&w->in), tide__side_drop(&w->out);
  } else {
    TRY(make_sides(w, c));
    TRY(tide__parts_make(w));
    w->is_streamed = tide__work_job(w) && (w->out.job || !w->out.count);
    return w->is_streamed ? host.current_stream(&w->stream, device_of(w)) : TIDE_OK;
  }
  TRY(host.current_stream(&stream, w->out.device));
  return mark_written(w, stream);
}

/* With the lock held: it begins, if it can. */
static void enter(tide_work *w) {
  if (!tide__is_message(w)) w->note.sequence = ++w->group->sequence;
  if (w->state == WORK_DONE) return;
  tide__work_enqueue(w);
  if (w->is_streamed) tide__progress_add(w);
}

static tide_status check_group(const tide_distributed_call *c, const tide_group *g) {
  if (!g)
    return tide__dist_fail(TIDE_STATE, "%s: there is no group of processes, expected init_process_group before",
                           c->name);
  if (g->rank < 0) return tide__dist_fail(TIDE_STATE, "%s: group: this rank is not in it", c->name);
  TRY(tide__progress_failure());
  if (g->failure && c->kind != TIDE_LEAVE_RANKS)
    return tide__dist_fail(TIDE_STATE, "%s: the group has failed before: %s", c->name, g->failure);
  return TIDE_OK;
}

tide_status tide__work_start(tide_work **out, const tide_distributed_call *c, const int *ranks, int n) {
  tide_group *g = c->group ? c->group : tide__world;
  TRY(check_group(c, g));
  tide_work *w = malloc(sizeof *w);
  int *kept = ranks ? malloc((size_t)n * sizeof *kept) : NULL;
  if (!w || (ranks && !kept))
    return free(w), free(kept), tide__dist_fail(TIDE_MEMORY, "%s: no memory for the operation", c->name);
  *w = (tide_work){
      .refs = 1, .group = g, .op = c->op, .tag = c->tag, .is_new_group = ranks, .new_ranks = kept, .new_count = n};
  g->refs++;
  w->limit = c->timeout > 0 ? c->timeout : tide__timeout;
  if (ranks) memcpy(kept, ranks, (size_t)n * sizeof *kept);
  make_note(w, c, ranks, n);
  if (tide__is_message(w)) w->parts = tide__message_parts(c, (tide_dtype)w->note.dtype);
  tide_status status = prepare(w, c);
  if (status != TIDE_OK) return tide__work_free(w), status;
  tide__progress_lock();
  enter(w);
  tide__progress_unlock();
  *out = w;
  return TIDE_OK;
}
