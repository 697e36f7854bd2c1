/* work.c: operations from their start to their end.
 *
 * An operation is queued, and begins when its bytes are on the host and all before it have begun: so every rank begins
 * them in the order of its program, whatever devices do. It runs as requests of MPI, which only Test looks at: no call
 * of MPI waits. Beside it runs the comparison: the hash of the note and its complement, whose maxima over all ranks are
 * the hash and the complement again only where all hashes are equal. Where they are not, all ranks see it, and exchange
 * their notes for a message that names both sides.
 *
 * Work on tensors of a device is a job of the host there (tide/host_job.h): the stream waits for its end, and writes
 * what it gives. progress.c goes on with it. What a script waits for itself goes on while it waits.
 *
 * Invariant: the memory that a request reads or writes lives until the request is done, also where the operation has
 * failed or nobody waits for it any more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "distributed/room.h"

tide_rank_check tide__check = TIDE_RANK_CHECK_INFO;
static tide_work *queue, **queue_end = &queue; /* not begun */
static tide_work *orphans;                     /* released while they run */
static uint64_t groups;

static tide_host_job *job_of(const tide_work *w) { return w->out.job ? w->out.job : w->in.job; }
static int device_of(const tide_work *w) { return w->out.device != TIDE_CPU ? w->out.device : w->in.device; }

/* ---- errors ---- */

tide_status tide__work_fail(tide_work *w, tide_status status) {
  const char *message = host.error_get()->message;
  w->state = WORK_FAILED, w->status = status;
  w->message = strdup(message);
  if (w->group->size > 1 && !tide__is_message(w)) tide__group_fail(w->group, message);
  return status;
}

/* The notes are there: an error that all ranks of the group raise, and the lowest one reports. */
static void fail_compared(tide_work *w) {
  char text[2048];
  tide__note_compare(text, sizeof text, w->group, w->notes);
  tide__work_fail(w, tide__dist_fail(TIDE_STATE, "%s: %s", w->note.name, text));
  tide__tell_elsewhere(text, w->group->rank > 0);
}

/* ---- the comparison ---- */

static tide_status begin_check(tide_work *w) {
  uint64_t hash = tide__note_hash(&w->note);
  w->check[0] = hash, w->check[1] = ~hash;
  memset(w->check_requests, 0, sizeof w->check_requests);
  w->is_checked = true;
  uint64_t comm = w->group->check, type = mpi_const.uint64;
  if (w->group->size > 2) {
    TRY_MPI(Iallreduce, (w->check, w->greatest, 2, type, mpi_const.max, comm, &w->check_requests[0]));
    return TIDE_OK;
  }
  int other = 1 - w->group->rank; /* a message each way takes half the time */
  TRY_MPI(Irecv, (w->greatest, 2, type, other, TIDE__HASH_TAG, comm, &w->check_requests[0]));
  TRY_MPI(Isend, (w->check, 2, type, other, TIDE__HASH_TAG, comm, &w->check_requests[1]));
  return TIDE_OK;
}

/* Is the request done? */
static tide_status is_done(bool *done, uint64_t *request, int *status) {
  int flag = 0;
  TRY_MPI(Test, (request, &flag, status));
  *done = flag;
  return TIDE_OK;
}

/* Each rank sends its note to each other one. No collective: ranks that do not agree yet may have begun the next
 * operation's comparison, so the order of collectives on this communicator is not the same on all. */
static tide_status begin_notes(tide_work *w) {
  const tide_group *g = w->group;
  int n = (int)sizeof w->note, tag = TIDE__NOTES_TAG + (int)(w->note.sequence % TIDE__NOTES_TAGS);
  w->is_comparing = true;
  w->notes = calloc((size_t)g->size, sizeof *w->notes);
  w->note_requests = calloc(2 * (size_t)g->size, sizeof *w->note_requests);
  if (!w->notes || !w->note_requests)
    return tide__dist_fail(TIDE_MEMORY, "%s: no memory for notes of ranks that differ", w->note.name);
  for (int i = 0; i < g->size; i++) {
    w->notes[i] = w->note;
    if (i == g->rank) continue;
    TRY_MPI(Irecv, (&w->notes[i], n, mpi_const.byte, i, tag, g->check, &w->note_requests[w->note_count]));
    w->note_count++;
    TRY_MPI(Isend, (&w->note, n, mpi_const.byte, i, tag, g->check, &w->note_requests[w->note_count]));
    w->note_count++;
  }
  return TIDE_OK;
}

/* *done: nothing is left to compare, or the work has failed. */
static tide_status test_check(bool *done, tide_work *w) {
  int status[TIDE__MPI_STATUS];
  *done = !w->is_checked;
  if (*done) return TIDE_OK;
  TRY(is_done(done, w->is_comparing ? &w->note_requests[w->note_count - 1] : &w->check_requests[0], status));
  if (*done && !w->is_comparing && w->group->size == 2) TRY(is_done(done, &w->check_requests[1], status));
  if (!*done) return TIDE_OK;
  if (w->is_comparing && --w->note_count) return *done = false, TIDE_OK;
  if (w->is_comparing) return fail_compared(w), TIDE_OK;
  if (w->greatest[0] == w->check[0] && w->greatest[1] == w->check[1]) {
    w->is_checked = false;
    return TIDE_OK;
  }
  *done = false;
  return begin_notes(w);
}

static bool is_compared(const tide_work *w) {
  return tide__check != TIDE_RANK_CHECK_OFF && w->group->size > 1 && !tide__is_message(w);
}

/* ---- going on ---- */

static tide_status is_ready(bool *ready, const tide_work *w) {
  if (w->is_nccl) return *ready = true, TIDE_OK;
  TRY(tide__side_ready(ready, &w->in));
  return *ready ? tide__side_ready(ready, &w->out) : TIDE_OK;
}

/* *begun: the one behind it may begin. */
static tide_status try_begin(bool *begun, tide_work *w) {
  *begun = false;
  if (w->state == WORK_QUEUED) {
    bool ready;
    TRY(is_ready(&ready, w));
    if (!ready) return TIDE_OK;
    if (is_compared(w)) TRY(begin_check(w));
    w->state = WORK_CHECKING;
  }
  if (tide__check == TIDE_RANK_CHECK_DETAIL && w->is_checked) {
    bool done = false;
    TRY(test_check(&done, w));
    if (!done || w->state == WORK_FAILED) return TIDE_OK;
  }
  *begun = true;
  if (tide__is_message(w)) return tide__message_post(w);
  TRY(tide__post(w));
  w->state = WORK_RUNNING;
  return TIDE_OK;
}

static void begin_queued(void) {
  while (queue) {
    tide_work *w = queue, *next = w->next;
    bool begun = false;
    w->next = NULL; /* it may go to another list */
    tide_status status = w->state == WORK_FAILED ? TIDE_OK : try_begin(&begun, w);
    if (status != TIDE_OK) tide__work_fail(w, status);
    if (!begun && w->state != WORK_FAILED) {
      w->next = next;
      return;
    }
    queue = next, w->is_queued = false;
    if (!queue) queue_end = &queue;
    if (!w->refs && !w->is_running) w->next = orphans, orphans = w;
  }
}

static tide_status test_requests(bool *done, tide_work *w) {
  int status[TIDE__MPI_STATUS];
  for (*done = true; *done && w->tested < w->count;) {
    TRY(is_done(done, &w->requests[w->tested], status));
    if (*done && !w->tested++) w->from = status[mpi_const.status_source];
    if (*done && w->landing && w->tested % 2 == 0) TRY(tide__post_join(w));
  }
  return TIDE_OK;
}

void tide__work_advance(tide_work *w) {
  bool compared = true, done = true;
  if (queue) begin_queued();
  if (w->state == WORK_FAILED && w->awaits_head) /* later receives wait for its head */
    if (test_requests(&done, w) == TIDE_OK && done) tide__message_next(&done, w);
  if (w->state != WORK_RUNNING) return;
  if (w->is_checked) {
    tide_status status = test_check(&compared, w);
    if (status != TIDE_OK) tide__work_fail(w, status);
    if (w->state == WORK_FAILED) return;
  }
  if (w->message) return; /* only what the comparison says is missing */
  tide_status status = test_requests(&done, w);
  if (w->is_nccl && w->is_behind)
    done = false;
  else if (status == TIDE_OK && w->is_nccl)
    status = tide__nccl_test(&done, w);
  if (status == TIDE_OK && done && w->head) status = tide__message_next(&done, w);
  if (status == TIDE_OK && done && w->connect) status = tide__connect_next(&done, w);
  if (status != TIDE_OK && w->is_checked) { /* perhaps because ranks do not agree, which says more */
    w->message = strdup(host.error_get()->message);
    w->status = status, w->seen = tide__dist_now();
  } else if (status != TIDE_OK) {
    tide__work_fail(w, status);
  } else if (w->note.kind == TIDE_LEAVE_RANKS && tide__progress_is_busy()) {
    return; /* nothing ends before all that was begun */
  } else if (done && w->tested == w->count && compared && (mpi || !tide__is_message(w))) {
    w->state = WORK_COMPLETE;
  }
}

/* ---- the end ---- */

void tide__work_free(tide_work *w) {
  tide__side_clear(&w->in), tide__side_clear(&w->out);
  tide__group_release(w->group), tide__group_release(w->made);
  host.tensor_release(w->landing);
  free(w->in_split), free(w->out_split), free(w->notes), free(w->note_requests), free(w->new_ranks), free(w->message);
  if (w->requests != w->few) free(w->requests);
  tide__message_free(w);
  tide__connect_free(w);
  host.event_release(w->written);
  free(w);
}

bool tide__work_is_over(const tide_work *w) {
  bool ended = w->state == WORK_FAILED && w->tested == w->count && !w->is_checked;
  return ended || w->state == WORK_COMPLETE || w->state == WORK_DONE;
}

static void sweep_orphans(void) {
  for (tide_work **at = &orphans; *at;) {
    tide_work *w = *at;
    *at = w->next, w->next = NULL;
    tide__work_advance(w);
    if (tide__work_is_over(w)) {
      tide__work_free(w);
    } else if (w->state != WORK_FAILED) { /* one that failed keeps its memory */
      w->next = *at, *at = w;
      at = &w->next;
    }
  }
}

void tide__work_release(tide_work *w) {
  if (!w) return;
  tide__progress_lock();
  bool is_free = --w->refs == 0;
  if (is_free && !mpi) tide__message_forget(w);
  is_free = is_free && !w->is_queued && !w->is_running; /* it goes when it has begun, or ended */
  bool is_over = tide__work_is_over(w) || !mpi;
  if (is_free && !is_over && w->state != WORK_FAILED) /* requests that nothing ends keep their memory */
    w->next = orphans, orphans = w;
  tide__progress_unlock();
  if (is_free && is_over) tide__work_free(w);
}

static bool has_result(const tide_work *w) {
  bool is_root = w->root == w->group->rank;
  if (w->note.kind == TIDE_BROADCAST_RANKS) return !is_root;
  return w->note.kind == TIDE_REDUCE_RANKS ? is_root : w->out.count > 0;
}

static tide_status finish(tide_work *w) {
  w->state = WORK_DONE;
  if (w->is_new_group)
    TRY(tide__group_split(&w->made, w->new_ranks, w->new_count, w->note.extra ? (uint64_t)w->note.extra : 1));
  if (!has_result(w)) return TIDE_OK;
  return tide__side_write_back(&w->out, w->op == TIDE_RANK_AVG ? w->group->size : 1);
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
  tide_status status = TIDE_OK;
  if (w->state == WORK_FAILED)
    status = tide__dist_fail(w->status, "%s", w->message ? w->message : "distributed: it has failed before");
  else
    status = wait_for_jobs(w, stream); /* which the lock keeps */
  if (status == TIDE_OK) w->is_awaited = true;
  tide__progress_unlock();
  TRY(status);
  if (has_result(w)) TRY(tide__side_write_back(&w->out, w->op == TIDE_RANK_AVG ? w->group->size : 1));
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

/* A look at the time; *nap: seconds until the next look; 0: lets other threads run; -1: none. */
tide_status tide__work_wait(tide_work *w, const char **notice, double *nap) {
  double now = tide__dist_now();
  bool is_over = false;
  if (!w->started) w->started = now;
  double waited = now - w->started;
  double moves =
      5e-9 * (double)(tide__side_bytes(&w->in) + tide__side_bytes(&w->out)); /* libraries move in Test alone */
  *nap = waited < moves && !tide__crowded                 ? -1
         : waited < (tide__crowded ? 2e-5 : 0.01) + moves ? 0
         : waited < 0.01                                  ? 1e-5
         : waited < 1                                     ? 5e-5
                                                          : 5e-4;
  if (w->message && w->state == WORK_RUNNING && now - w->seen > 2) {
    tide_status status = tide__dist_fail(w->status, "%s", w->message);
    return free(w->message), w->message = NULL, tide__work_fail(w, status);
  }
  if (!mpi && tide__is_message(w) && w->state == WORK_RUNNING && !queue && (waited > 1 || !job_of(w)))
    return tide__work_fail(
        w, tide__dist_fail(TIDE_STATE,
                           "%s: this rank is alone, and has not started the other half of the message, expected "
                           "sendrecv, or isend and irecv before their waits",
                           w->note.name));
  const char *text = waited > 0.01 ? tide__missing_report(w, waited, &is_over) : NULL;
  if (is_over && w->note.kind != TIDE_LEAVE_RANKS && text)
    return tide__work_fail(w, tide__dist_fail(TIDE_STATE, "%s", text));
  if (text) *notice = text;
  return TIDE_OK;
}

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
    if (i % 16 == 0) tide__message_progress();
  }
  w->tests += rounds;
  if (w->state < WORK_COMPLETE) TRY(tide__work_wait(w, &text, nap));
  if (text) snprintf(shown, sizeof shown, "%s", text);
  if (text && notice) *notice = shown;
  return TIDE_OK;
}

static tide_status end_of(bool *done, tide_work *w, tide__state state) {
  if (state == WORK_FAILED)
    return tide__dist_fail(w->status, "%s", w->message ? w->message : "distributed: it has failed before");
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

static tide_status make_landing(tide_work *w) {
  bool joins = w->note.kind == TIDE_ALL_REDUCE_RANKS || w->note.kind == TIDE_REDUCE_SCATTER_RANKS;
  tide_options options = {w->out.dtype, TIDE_CPU, false, sizeof options};
  return joins && w->group->size == 2 ? host.empty(&w->landing, &w->out.numel, 1, &options) : TIDE_OK;
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
    TRY(host.current_stream(&stream, w->out.device));
    return mark_written(w, stream);
  }
  if (!is_passed(w, c)) {
    TRY(make_sides(w, c));
    TRY(make_landing(w));
    w->is_streamed = job_of(w) && (w->out.job || !w->out.count);
    return w->is_streamed ? host.current_stream(&w->stream, device_of(w)) : TIDE_OK;
  }
  w->state = WORK_DONE, w->is_streamed = true;
  TRY(tide__side_pass(&w->in, &w->out, c));
  tide__side_drop(&w->in), tide__side_drop(&w->out);
  TRY(host.current_stream(&stream, w->out.device));
  return mark_written(w, stream);
}

/* With the lock held: it begins, if it can. */
static void enter(tide_work *w) {
  if (!tide__is_message(w)) w->note.sequence = ++w->group->sequence;
  if (w->state == WORK_DONE) return;
  w->is_queued = true;
  *queue_end = w, queue_end = &w->next;
  begin_queued();
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
  tide__progress_lock();
  if (orphans) sweep_orphans();
  tide__progress_unlock();
  tide_work *w = calloc(1, sizeof *w);
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
