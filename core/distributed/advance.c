/* advance.c: operations from the queue to their end.
 *
 * An operation is queued, and begins when its bytes are on the host and all before it have begun: so every rank begins
 * them in the order of its program, whatever devices do. It runs as requests of MPI, which only Test looks at: no call
 * of MPI waits. Beside it runs the comparison: the hash of the note and its complement, whose maxima over all ranks are
 * the hash and the complement again only where all hashes are equal. Where they are not, all ranks see it, and exchange
 * their notes for a message that names both sides.
 *
 * Invariant: the memory that a request reads or writes lives until the request is done, also where the operation has
 * failed or nobody waits for it any more. */
#include <stdlib.h>
#include <string.h>

#include "distributed/room.h"

tide_rank_check tide__check = TIDE_RANK_CHECK_INFO;
tide_work *tide__work_running;
static tide_work *queue, **queue_end = &queue; /* not begun */
static tide_work *orphans;                     /* released while they run */

/* ---- the comparison ---- */

/* The notes are there: an error that all ranks of the group raise, and the lowest one reports. */
static void fail_compared(tide_work *w) {
  char text[2048];
  tide__note_compare(text, sizeof text, w->group, w->notes);
  tide__work_fail(w, tide__dist_fail(TIDE_STATE, "%s: %s", w->note.name, text));
  tide__tell_elsewhere(text, w->group->rank > 0);
}

static tide_status begin_check(tide_work *w) {
  uint64_t hash = tide__note_hash(&w->note);
  w->check[0] = hash, w->check[1] = ~hash;
  w->is_checked = true;
  if (tide__has_letters(w->group)) return tide__letters_post(w, hash);
  w->check_count = 1;
  TRY_MPI(Iallreduce,
          (w->check, w->greatest, 2, mpi_const.uint64, mpi_const.max, w->group->check, &w->check_requests[0]));
  return TIDE_OK;
}

/* All hashes are here. */
static bool agrees(const tide_work *w) {
  if (w->letters) return tide__letters_agree(w);
  return w->greatest[0] == w->check[0] && w->greatest[1] == w->check[1];
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
    TRY_MPI(Irecv, (&w->notes[i], n, mpi_const.byte, i, tag, g->check, &w->note_requests[w->check_count]));
    w->check_count++;
    TRY_MPI(Isend, (&w->note, n, mpi_const.byte, i, tag, g->check, &w->note_requests[w->check_count]));
    w->check_count++;
  }
  return TIDE_OK;
}

/* *done: nothing is left to compare, or the work has failed. */
static tide_status test_check(bool *done, tide_work *w) {
  int status[TIDE__MPI_STATUS];
  uint64_t *requests = w->is_comparing ? w->note_requests : w->check_requests;
  for (*done = true; w->is_checked && w->check_count; w->check_count--) {
    TRY(is_done(done, &requests[w->check_count - 1], status));
    if (!*done) return TIDE_OK;
  }
  if (w->is_checked && w->is_comparing) return fail_compared(w), TIDE_OK;
  if (w->is_checked && !agrees(w)) return *done = false, begin_notes(w);
  w->is_checked = false;
  return TIDE_OK;
}

static bool is_compared(const tide_work *w) {
  return w->pieces || (tide__check != TIDE_RANK_CHECK_OFF && w->group->size > 1 && !tide__is_message(w));
}

/* ---- going on ---- */

void tide__work_abandon(tide_work *w) { w->next = orphans, orphans = w; }

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
  TRY(w->connect ? tide__connect_post(w) : tide__post(w));
  w->state = WORK_RUNNING;
  if (w->pieces) tide__parts_add(w);
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
    if (!w->refs && !w->is_running) tide__work_abandon(w);
  }
}

void tide__work_enqueue(tide_work *w) {
  w->is_queued = true;
  *queue_end = w, queue_end = &w->next;
  begin_queued();
}

/* Does a stream's operation run that will end? */
static bool is_busy(void) {
  const tide_work *w = tide__work_running;
  while (w && w->note.kind == TIDE_RECV_RANKS && !w->is_awaited) w = w->running;
  return w;
}

static tide_status test_requests(bool *done, tide_work *w) {
  int status[TIDE__MPI_STATUS];
  TRY(tide__parts_join(w));
  for (*done = true; *done && w->tested < w->count;) {
    TRY(is_done(done, &w->requests[w->tested], status));
    if (*done && !w->tested++) w->from = status[mpi_const.status_source];
    if (*done) TRY(tide__parts_join(w));
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
  if (w->pieces && !compared) return; /* the first one comes with it */
  if (w->message) return;             /* only what the comparison says is missing */
  tide_status status = test_requests(&done, w);
  if (w->is_nccl && w->is_behind)
    done = false;
  else if (status == TIDE_OK && w->is_nccl)
    status = tide__nccl_test(&done, w);
  if (status == TIDE_OK && done && w->head) status = tide__message_next(&done, w);
  if (status == TIDE_OK && done && w->connect) status = tide__connect_next(&done, w);
  bool is_all = done && w->tested == w->count && compared && (mpi || !tide__is_message(w));
  if (status != TIDE_OK && w->is_checked) { /* perhaps because ranks do not agree, which says more */
    w->message = strdup(host.error_get()->message);
    w->status = status, w->seen = tide__dist_now();
  } else if (status != TIDE_OK) {
    tide__work_fail(w, status);
  } else if (w->note.kind == TIDE_LEAVE_RANKS && is_busy()) {
    return; /* nothing ends before all that was begun */
  } else if (is_all) {
    tide__parts_end(w);
    if (w->pieces) tide__parts_remove(w);
    w->state = WORK_COMPLETE;
  }
}

/* ---- the end ---- */

void tide__work_free(tide_work *w) {
  tide__side_clear(&w->in), tide__side_clear(&w->out);
  tide__group_release(w->group), tide__group_release(w->made);
  host.tensor_release(w->landing);
  free(w->letters), free(w->in_split), free(w->out_split), free(w->notes), free(w->note_requests), free(w->new_ranks),
      free(w->message);
  if (w->requests != w->few) free(w->requests);
  if (w->pieces) tide__parts_remove(w);
  tide__message_free(w);
  tide__connect_free(w);
  host.event_release(w->written);
  free(w);
}

bool tide__work_is_over(const tide_work *w) {
  bool ended = w->state == WORK_FAILED && w->tested == w->count && !w->is_checked;
  return ended || w->state == WORK_COMPLETE || w->state == WORK_DONE;
}

void tide__work_sweep(void) {
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
  if (tide__missing_network(w, waited))
    return tide__work_fail(w, tide__dist_fail(TIDE_STATE, "%s: gave up after %.0f s without an answer of other hosts",
                                              w->note.name, waited));
  if (!mpi && tide__is_message(w) && w->state == WORK_RUNNING && !queue && (waited > 1 || !tide__work_job(w)))
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
