/* work.c: operations from their start to their end.
 *
 * An operation is queued, and begins when its bytes are on the host and all before it have begun: so every rank begins
 * them in the order of its program, whatever devices do. It runs as requests of MPI, which only Test looks at: no call
 * of MPI waits. Beside it runs the comparison: the hash of the note and its complement, whose maxima over all ranks are
 * the hash and the complement again only where all hashes are equal. Where they are not, all ranks see it, and exchange
 * their notes for a message that names both sides.
 *
 * A wait spins first, then lets other processes have the processor, then naps.
 *
 * Invariant: the memory that a request reads or writes lives until the request is done, also where the operation has
 * failed or nobody waits for it any more. */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "distributed/room.h"

tide_rank_check tide__check = TIDE_RANK_CHECK_INFO;
static tide_work *queue, **queue_end = &queue; /* not begun */
static tide_work *orphans;                     /* released while they run */
static tide_work *alone;                       /* messages to this rank itself that have no partner yet */
static uint64_t groups;

static bool is_message(const tide_work *w) {
  return w->note.kind == TIDE_SEND_RANKS || w->note.kind == TIDE_RECV_RANKS;
}

/* ---- errors ---- */

static tide_status fail_work(tide_work *w, tide_status status) {
  const char *message = host.error_get()->message;
  w->state = WORK_FAILED, w->status = status;
  w->message = strdup(message);
  if (w->group->size > 1 && !is_message(w)) tide__group_fail(w->group, message);
  return status;
}

/* The notes are there: an error that all ranks of the group raise, and the lowest one reports. */
static void fail_compared(tide_work *w) {
  char text[2048];
  tide__note_compare(text, sizeof text, w->group, w->notes);
  fail_work(w, tide__dist_fail(TIDE_STATE, "%s: %s", w->note.name, text));
  tide__tell_elsewhere(text, w->group->rank > 0);
}

/* ---- the comparison ---- */

static tide_status begin_check(tide_work *w) {
  uint64_t hash = tide__note_hash(&w->note);
  w->check[0] = hash, w->check[1] = ~hash;
  w->check_request = 0;
  w->is_checked = true;
  TRY_MPI(Iallreduce, (w->check, w->greatest, 2, mpi_const.uint64, mpi_const.max, w->group->check, &w->check_request));
  return TIDE_OK;
}

/* Is the request done? */
static tide_status is_done(bool *done, uint64_t *request, int *status) {
  int flag = 0;
  TRY_MPI(Test, (request, &flag, status));
  *done = flag;
  return TIDE_OK;
}

/* *done: nothing is left to compare, or the work has failed. */
static tide_status test_check(bool *done, tide_work *w) {
  int status[TIDE__MPI_STATUS];
  *done = !w->is_checked;
  if (*done) return TIDE_OK;
  TRY(is_done(done, &w->check_request, status));
  if (!*done) return TIDE_OK;
  if (w->is_comparing) return fail_compared(w), TIDE_OK;
  if (w->greatest[0] == w->check[0] && w->greatest[1] == w->check[1]) {
    w->is_checked = false;
    return TIDE_OK;
  }
  *done = false, w->is_comparing = true;
  w->notes = calloc((size_t)w->group->size, sizeof *w->notes);
  if (!w->notes) return tide__dist_fail(TIDE_MEMORY, "%s: no memory for notes of ranks that differ", w->note.name);
  int n = (int)sizeof w->note;
  w->check_request = 0;
  TRY_MPI(Iallgather, (&w->note, n, mpi_const.byte, w->notes, n, mpi_const.byte, w->group->check, &w->check_request));
  return TIDE_OK;
}

static bool is_compared(const tide_work *w) {
  return tide__check != TIDE_RANK_CHECK_OFF && w->group->size > 1 && !is_message(w);
}

/* ---- messages to this rank, where there is no MPI ---- */

static tide_status meet(tide_work *send, tide_work *recv) {
  int64_t bytes = send->in.numel * (int64_t)host.dtype_size(send->in.dtype);
  int64_t room = recv->out.numel * (int64_t)host.dtype_size(recv->out.dtype);
  if (bytes != room)
    return tide__dist_fail(TIDE_SHAPE, "recv: got a message of %lld bytes, expected the %lld of the tensor",
                           (long long)bytes, (long long)room);
  if (bytes) memcpy(recv->out.bytes, send->in.bytes, (size_t)bytes);
  send->state = recv->state = WORK_COMPLETE;
  recv->source = 0;
  return TIDE_OK;
}

static tide_status begin_alone(tide_work *w) {
  w->state = WORK_RUNNING;
  tide_work **at = &alone;
  for (; *at; at = &(*at)->next) {
    if ((*at)->note.kind == w->note.kind || (*at)->tag != w->tag) continue;
    tide_work *other = *at;
    *at = other->next, other->next = NULL;
    tide_status status = w->note.kind == TIDE_RECV_RANKS ? meet(other, w) : meet(w, other);
    if (status != TIDE_OK) fail_work(other, status);
    return status;
  }
  *at = w, w->next = NULL;
  return TIDE_OK;
}

static void forget_alone(tide_work *w) {
  for (tide_work **at = &alone; *at; at = &(*at)->next) {
    if (*at != w) continue;
    *at = w->next;
    return;
  }
}

void tide__work_end(void) {
  while (alone) {
    tide_work *w = alone;
    alone = w->next, w->next = NULL;
  }
}

/* ---- going on ---- */

static tide_status is_ready(bool *ready, const tide_work *w) {
  *ready = true;
  if (w->in.ready) TRY(host.event_query(ready, w->in.ready));
  if (*ready && w->out.ready) TRY(host.event_query(ready, w->out.ready));
  return TIDE_OK;
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
  if (is_message(w) && tide__world->size == 1 && !mpi) return begin_alone(w);
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
    if (status != TIDE_OK) fail_work(w, status);
    if (!begun && w->state != WORK_FAILED) {
      w->next = next;
      return;
    }
    queue = next, w->is_queued = false;
    if (!queue) queue_end = &queue;
    if (!w->refs) w->next = orphans, orphans = w;
  }
}

/* A message has come: from whom, and is it as long as its place? */
static tide_status look_at(tide_work *w, const int *status, int64_t expected) {
  int bytes = 0;
  if (expected < 0) return TIDE_OK;
  TRY_MPI(Get_count, (status, mpi_const.byte, &bytes));
  if (w->note.kind == TIDE_RECV_RANKS) w->source = w->group->ranks[status[mpi_const.status_source]];
  if (bytes == expected) return TIDE_OK;
  return tide__dist_fail(TIDE_SHAPE, "%s: got a message of %d bytes from rank %d, expected the %lld of the tensor",
                         w->note.name, bytes, w->group->ranks[status[mpi_const.status_source]], (long long)expected);
}

static tide_status test_requests(tide_work *w) {
  int status[TIDE__MPI_STATUS];
  while (w->tested < w->count) {
    bool done = false;
    tide_status failed = is_done(&done, &w->requests[w->tested], status);
    if (failed != TIDE_OK && w->note.kind == TIDE_RECV_RANKS)
      return tide__dist_fail(TIDE_SHAPE, "%s: a message from rank %d does not fit the %lld bytes of the tensor: %s",
                             w->note.name, w->note.peer, (long long)w->expected[w->tested], host.error_get()->message);
    TRY(failed);
    if (!done) return TIDE_OK;
    w->tested++;
    TRY(look_at(w, status, w->expected[w->tested - 1]));
  }
  return TIDE_OK;
}

/* What a message that was too short has left would take the next one. */
static void cancel_rest(tide_work *w) {
  for (int i = w->tested; i < w->count && w->note.kind == TIDE_RECV_RANKS; i++) mpi->Cancel(&w->requests[i]);
}

static void advance(tide_work *w) {
  bool compared = true;
  if (queue) begin_queued();
  if (w->state != WORK_RUNNING) return;
  if (w->is_checked) {
    tide_status status = test_check(&compared, w);
    if (status != TIDE_OK) fail_work(w, status);
    if (w->state == WORK_FAILED) return;
  }
  if (w->message) return; /* only what the comparison says is missing */
  tide_status status = test_requests(w);
  if (status != TIDE_OK && w->is_checked) { /* perhaps because ranks do not agree, which says more */
    w->message = strdup(host.error_get()->message);
    w->status = status, w->seen = tide__dist_now();
  } else if (status != TIDE_OK) {
    fail_work(w, status);
    cancel_rest(w);
  } else if (w->tested == w->count && compared && (mpi || !is_message(w))) {
    w->state = WORK_COMPLETE;
  }
}

/* ---- the end ---- */

static void free_work(tide_work *w) {
  tide__side_clear(&w->in), tide__side_clear(&w->out);
  tide__group_release(w->group), tide__group_release(w->made);
  free(w->in_split), free(w->out_split), free(w->requests), free(w->expected), free(w->notes), free(w->new_ranks);
  free(w->message);
  free(w);
}

/* Does nothing use its memory any more? */
static bool is_over(const tide_work *w) {
  bool ended = w->state == WORK_FAILED && w->tested == w->count && !w->is_checked;
  return ended || w->state == WORK_COMPLETE || w->state == WORK_DONE;
}

static void sweep_orphans(void) {
  for (tide_work **at = &orphans; *at;) {
    tide_work *w = *at;
    *at = w->next, w->next = NULL;
    advance(w);
    if (is_over(w)) {
      free_work(w);
    } else if (w->state != WORK_FAILED) { /* one that failed keeps its memory */
      w->next = *at, *at = w;
      at = &w->next;
    }
  }
}

void tide__work_release(tide_work *w) {
  if (!w || --w->refs > 0) return;
  if (!mpi) forget_alone(w);
  if (w->is_queued) return; /* it becomes an orphan when it begins */
  if (is_over(w) || !mpi) return free_work(w);
  if (w->state == WORK_FAILED) return; /* requests that nothing ends keep their memory */
  w->next = orphans;
  orphans = w;
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

/* ---- waiting ---- */

static tide_status rest(tide_work *w, const char **notice) {
  double now = tide__dist_now();
  bool is_over = false;
  if (!w->started) w->started = now;
  double waited = now - w->started;
  if (w->message && w->state == WORK_RUNNING && now - w->seen > 2) {
    tide_status status = tide__dist_fail(w->status, "%s", w->message);
    return free(w->message), w->message = NULL, fail_work(w, status);
  }
  if (!mpi && is_message(w) && w->state == WORK_RUNNING && !queue)
    return fail_work(
        w, tide__dist_fail(TIDE_STATE,
                           "%s: this rank is alone, and has not started the other half of the message, expected "
                           "sendrecv, or isend and irecv before their waits",
                           w->note.name));
  const char *text = waited > 0.01 ? tide__missing_report(w, waited, &is_over) : NULL;
  if (is_over && w->note.kind != TIDE_LEAVE_RANKS && text) return fail_work(w, tide__dist_fail(TIDE_STATE, "%s", text));
  if (text && notice) *notice = text;
  if (waited < (tide__crowded ? 2e-5 : 0.01)) return sched_yield(), TIDE_OK;
  nanosleep(&(struct timespec){0, waited < 0.01 ? 10000 : waited < 1 ? 50000 : 500000}, NULL);
  return TIDE_OK;
}

tide_status tide__work_poll(bool *done, tide_work *w, const char **notice) {
  if (!tide__world && w->state < WORK_COMPLETE)
    return tide__dist_fail(TIDE_STATE, "%s: the group of processes has been left before this was done", w->note.name);
  int spins = tide__crowded ? 20 : 1000;
  *done = false;
  if (notice) *notice = NULL;
  int rounds = w->tests < spins ? spins : 1;
  for (int i = 0; i < rounds && w->state < WORK_COMPLETE; i++) advance(w);
  w->tests += rounds;
  if (w->state < WORK_COMPLETE) TRY(rest(w, notice));
  if (w->state == WORK_COMPLETE) {
    tide_status status = finish(w);
    if (status != TIDE_OK) return fail_work(w, status);
  }
  if (w->state == WORK_FAILED)
    return tide__dist_fail(w->status, "%s", w->message ? w->message : "distributed: it has failed");
  *done = w->state == WORK_DONE;
  return TIDE_OK;
}

/* ---- starting ---- */

static const char *arg_in(const tide_work *w) { return w->note.kind == TIDE_SEND_RANKS ? "x" : "input"; }

/* The tensors of a side have one dtype, and lie on one device. */
static tide_status check_list(const tide_work *w, const char *what, tide_tensor *const *list, int n) {
  for (int i = 0; i < n; i++) {
    tide_dtype dtype = host.tensor_dtype(list[i]);
    if ((int)dtype != w->note.dtype)
      return tide__dist_fail(TIDE_DTYPE, "%s: %s[%d]: got %s, expected %s as the others", w->note.name, what, i + 1,
                             host.dtype_name(dtype), host.dtype_name((tide_dtype)w->note.dtype));
    if (host.tensor_device(list[i]) != host.tensor_device(list[0]))
      return tide__dist_fail(TIDE_DEVICE, "%s: %s[%d]: it is on another device than the first, expected the same",
                             w->note.name, what, i + 1);
  }
  return TIDE_OK;
}

/* A list has one part for each rank, all of the same number of elements, or is one tensor of all parts. */
static tide_status check_parts(const tide_work *w, const char *what, tide_tensor *const *list, int n, int64_t part) {
  int size = w->group->size;
  if (n != 1 && n != size)
    return tide__dist_fail(TIDE_VALUE, "%s: %s: got %d tensors, expected one for each of the %d ranks", w->note.name,
                           what, n, size);
  int64_t expected = n == size ? part : part * size;
  for (int i = 0; i < n; i++)
    if (host.tensor_numel(list[i]) != expected)
      return tide__dist_fail(TIDE_SHAPE, "%s: %s%s: got %lld elements, expected %lld%s", w->note.name, what,
                             n == size && n > 1 ? " of a rank" : "", (long long)host.tensor_numel(list[i]),
                             (long long)expected, n == size ? "" : ", a part for each rank");
  return TIDE_OK;
}

static tide_status split_of(int64_t **out, const tide_work *w, const char *what, tide_tensor *const *list, int n,
                            const int64_t *rows) {
  int size = w->group->size;
  int64_t *split = calloc((size_t)size, sizeof *split), numel = n ? host.tensor_numel(list[0]) : 0, total = 0;
  *out = split;
  if (!split) return tide__dist_fail(TIDE_MEMORY, "%s: no memory for %d sizes", w->note.name, size);
  int64_t first = n && host.tensor_ndim(list[0]) ? host.tensor_size(list[0])[0] : 1, row = first ? numel / first : 0;
  for (int i = 0; i < size; i++) {
    split[i] = n == size && !rows ? host.tensor_numel(list[i]) : rows ? rows[i] * row : numel / size;
    if (split[i] < 0)
      return tide__dist_fail(TIDE_VALUE, "%s: %s: got a negative size for rank %d", w->note.name, what, i);
    total += split[i];
  }
  if (n == 1 && total != numel)
    return tide__dist_fail(TIDE_SHAPE,
                           "%s: %s: the sizes for ranks have %lld elements, expected the %lld of the tensor",
                           w->note.name, what, (long long)total, (long long)numel);
  if (n != 1 && n != size)
    return tide__dist_fail(TIDE_VALUE, "%s: %s: got %d tensors, expected one for each of the %d ranks", w->note.name,
                           what, n, size);
  return TIDE_OK;
}

static tide_status check_all_to_all(tide_work *w, const tide_distributed_call *c) {
  int size = w->group->size;
  bool equal = c->ins == 1 && c->outs == 1 && !c->in_split && !c->out_split;
  w->note.numel = equal ? host.tensor_numel(c->in[0]) : -1;
  if (equal && (w->note.numel % size || host.tensor_numel(c->out[0]) != w->note.numel))
    return tide__dist_fail(TIDE_SHAPE,
                           "%s: got %lld and %lld elements, expected as many in both, a multiple of the %d ranks",
                           w->note.name, (long long)w->note.numel, (long long)host.tensor_numel(c->out[0]), size);
  if (equal) return TIDE_OK;
  TRY(split_of(&w->in_split, w, "input", c->in, c->ins, c->in_split));
  TRY(split_of(&w->out_split, w, "output", c->out, c->outs, c->out_split));
  int me = w->group->rank;
  if (w->in_split[me] != w->out_split[me])
    return tide__dist_fail(TIDE_SHAPE, "%s: got %lld elements for this rank itself and room for %lld, expected as many",
                           w->note.name, (long long)w->in_split[me], (long long)w->out_split[me]);
  return TIDE_OK;
}

static bool reduces(int kind) {
  return kind == TIDE_ALL_REDUCE_RANKS || kind == TIDE_REDUCE_RANKS || kind == TIDE_REDUCE_SCATTER_RANKS;
}

static tide_status check_op(const tide_work *w) {
  char kind = w->note.dtype < 0 ? 'F' : host.dtype_kind((tide_dtype)w->note.dtype);
  const char *dtype = w->note.dtype < 0 ? "" : host.dtype_name((tide_dtype)w->note.dtype);
  if (!reduces(w->note.kind)) return TIDE_OK;
  if (kind == 'C' && (w->op == TIDE_RANK_MIN || w->op == TIDE_RANK_MAX))
    return tide__dist_fail(TIDE_DTYPE, "%s: op: got min or max of %s, expected sum, prod or avg", w->note.name, dtype);
  if (kind != 'C' && kind != 'F' && w->op == TIDE_RANK_AVG)
    return tide__dist_fail(TIDE_DTYPE, "%s: op: got avg of %s, expected a floating dtype, or sum", w->note.name, dtype);
  return TIDE_OK;
}

static tide_status check_sizes(tide_work *w, const tide_distributed_call *c) {
  bool is_root = w->root == w->group->rank;
  const tide_tensor *one = c->outs ? c->out[0] : NULL;
  switch (c->kind) {
  case TIDE_ALL_GATHER_RANKS:
    w->note.numel = host.tensor_numel(c->in[0]);
    return check_parts(w, "output", c->out, c->outs, w->note.numel);
  case TIDE_GATHER_RANKS:
    w->note.numel = host.tensor_numel(c->in[0]);
    return is_root ? check_parts(w, "gather_list", c->out, c->outs, w->note.numel) : TIDE_OK;
  case TIDE_SCATTER_RANKS:
    w->note.numel = host.tensor_numel(one);
    return is_root ? check_parts(w, "scatter_list", c->in, c->ins, w->note.numel) : TIDE_OK;
  case TIDE_REDUCE_SCATTER_RANKS:
    w->note.numel = host.tensor_numel(one);
    return check_parts(w, "input", c->in, c->ins, w->note.numel);
  case TIDE_ALL_TO_ALL_RANKS: return check_all_to_all(w, c);
  default: w->note.numel = one ? host.tensor_numel(one) : c->ins ? host.tensor_numel(c->in[0]) : 0;
  }
  return TIDE_OK;
}

static tide_status check_peer(tide_work *w, const tide_distributed_call *c) {
  bool any = c->kind == TIDE_RECV_RANKS && c->peer == TIDE_ANY_RANK;
  w->root = any ? TIDE_ANY_RANK : tide__group_find(w->group, c->peer);
  bool needs = is_message(w) || c->kind == TIDE_BROADCAST_RANKS || c->kind == TIDE_REDUCE_RANKS ||
               c->kind == TIDE_GATHER_RANKS || c->kind == TIDE_SCATTER_RANKS;
  if (needs && w->root < 0 && !any)
    return tide__dist_fail(TIDE_VALUE, "%s: got rank %d, expected one of the %d ranks of the group, counted from 0",
                           c->name, c->peer, w->group->size);
  if (is_message(w) && (c->tag < 0 || c->tag >= 32000))
    return tide__dist_fail(TIDE_VALUE, "%s: tag: got %d, expected 0 to 31999", c->name, c->tag);
  return TIDE_OK;
}

static bool overlap(const tide__side *a, const tide__side *b) {
  const char *ends[2] = {a->bytes + a->numel * (int64_t)host.dtype_size(a->dtype),
                         b->bytes + b->numel * (int64_t)host.dtype_size(b->dtype)};
  return a->count && b->count && a->bytes < ends[1] && b->bytes < ends[0];
}

static tide_status make_sides(tide_work *w, const tide_distributed_call *c) {
  bool is_root = w->root == w->group->rank;
  bool takes = c->kind != TIDE_SCATTER_RANKS || is_root, gives = c->kind != TIDE_GATHER_RANKS || is_root;
  tide_dtype dtype = (tide_dtype)w->note.dtype;
  if (reduces(c->kind) && host.dtype_kind(dtype) == 'F' && host.dtype_size(dtype) == 2) dtype = TIDE_FLOAT32;
  bool in_place =
      c->kind == TIDE_ALL_REDUCE_RANKS || c->kind == TIDE_REDUCE_RANKS || (c->kind == TIDE_BROADCAST_RANKS && is_root);
  TRY(tide__side_make(&w->out, c->out, gives ? c->outs : 0, dtype, in_place, false));
  TRY(tide__side_make(&w->in, c->in, takes ? c->ins : 0, dtype, true, false));
  if (!overlap(&w->in, &w->out)) return TIDE_OK;
  tide__side_clear(&w->in);
  return tide__side_make(&w->in, c->in, c->ins, dtype, true, true);
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
  TRY(check_peer(w, c));
  TRY(check_list(w, arg_in(w), c->in, c->ins));
  TRY(check_list(w, "output", c->out, c->outs));
  TRY(check_op(w));
  TRY(check_sizes(w, c));
  return make_sides(w, c);
}

static tide_status check_group(const tide_distributed_call *c, const tide_group *g) {
  if (!g)
    return tide__dist_fail(TIDE_STATE, "%s: there is no group of processes, expected init_process_group before",
                           c->name);
  if (g->rank < 0) return tide__dist_fail(TIDE_STATE, "%s: group: this rank is not in it", c->name);
  if (g->failure && c->kind != TIDE_LEAVE_RANKS)
    return tide__dist_fail(TIDE_STATE, "%s: the group has failed before: %s", c->name, g->failure);
  return TIDE_OK;
}

tide_status tide__work_start(tide_work **out, const tide_distributed_call *c, const int *ranks, int n) {
  tide_group *g = c->group ? c->group : tide__world;
  TRY(check_group(c, g));
  if (orphans) sweep_orphans();
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
  tide_status status = prepare(w, c);
  if (status != TIDE_OK) return free_work(w), status;
  if (!is_message(w)) w->note.sequence = ++g->sequence;
  w->is_queued = true;
  *queue_end = w, queue_end = &w->next;
  begin_queued();
  *out = w;
  return TIDE_OK;
}
