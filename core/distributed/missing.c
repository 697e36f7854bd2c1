/* missing.c: who is late, and where the others are.
 *
 * A rank that has waited for long sends its note to all others, every second, in small messages that leave at once,
 * whatever the receivers do. Waiting ranks read them. A rank of which no note has come is not waiting: it has not come.
 * The lowest rank that waits in an operation reports for all that wait in it.
 *
 * Invariant: nothing here waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "distributed/room.h"

/* By rank of all: what came last, and when; 0: nothing. */
static tide__note *heard;
static double *heard_at;
/* What is on its way. */
static tide__note sent;
static uint64_t *sends;
static int sending;

static char told[2048]; /* the message that another rank reports */

void tide__tell_elsewhere(const char *message, bool is_elsewhere) {
  snprintf(told, sizeof told, "%s", is_elsewhere ? message : "");
}

bool tide__is_told_elsewhere(const char *message) { return *told && strstr(message, told); }

static bool prepare(void) {
  size_t n = (size_t)tide__world->size;
  if (!heard) heard = calloc(n, sizeof *heard);
  if (!heard_at) heard_at = calloc(n, sizeof *heard_at);
  if (!sends) sends = calloc(n, sizeof *sends);
  return heard && heard_at && sends;
}

static void finish_sends(void) {
  int status[TIDE__MPI_STATUS], flag;
  while (sending && !mpi->Test(&sends[sending - 1], &flag, status) && flag) sending--;
}

static void send_note(const tide_work *w) {
  finish_sends();
  if (sending) return;
  sent = w->note;
  for (int i = 0; i < tide__world->size; i++) {
    if (i == tide__world->rank) continue;
    sends[sending] = 0;
    if (mpi->Isend(&sent, sizeof sent, mpi_const.byte, i, TIDE__LONG_TAG, tide__world->check, &sends[sending])) return;
    sending++;
  }
}

void tide__missing_receive(void) {
  int status[TIDE__MPI_STATUS], flag = 0;
  while (!mpi->Iprobe(mpi_const.any_source, TIDE__LONG_TAG, tide__world->check, &flag, status) && flag) {
    int from = status[mpi_const.status_source];
    tide__note note;
    uint64_t request = 0;
    if (mpi->Irecv(&note, sizeof note, mpi_const.byte, from, TIDE__LONG_TAG, tide__world->check, &request)) return;
    for (flag = 0; !flag;) /* it is there */
      if (mpi->Test(&request, &flag, status)) return;
    heard[from] = note, heard_at[from] = tide__dist_now();
  }
}

/* Is the rank waiting in the same operation, in another one, or has it not come? */
enum { ABSENT, PRESENT, ELSEWHERE };
static int where_is(const tide_work *w, int rank, double now) {
  const tide__note *n = &heard[rank];
  if (rank == tide__world->rank) return PRESENT;
  if (!heard_at[rank] || now - heard_at[rank] > 5) return ABSENT;
  if (n->group != w->note.group || n->kind != w->note.kind) return ELSEWHERE;
  if (n->sequence == w->note.sequence) return PRESENT;
  return n->sequence < w->note.sequence ? ABSENT : ELSEWHERE;
}

static void describe(char *text, size_t size, const tide_work *w, double waited, double now, bool *is_told) {
  const tide_group *g = w->group;
  bool is_message = w->note.kind == TIDE_SEND_RANKS || w->note.kind == TIDE_RECV_RANKS;
  int *mark = calloc((size_t)g->size, sizeof *mark), absent = 0;
  snprintf(text, size, waited < w->limit ? "waiting %.0f s in " : "gave up after %.0f s in ", waited);
  tide__note_text(text, size, &w->note, false);
  if (!mark) return;
  if (!is_message) tide__append(text, size, ", operation %llu of the group", (unsigned long long)w->note.sequence);
  if (is_message && w->note.peer >= 0) tide__append(text, size, ", rank %d", w->note.peer);
  tide__append(text, size, ": ");
  for (int i = 0; i < g->size; i++) {
    bool counts = !is_message || g->ranks[i] == w->note.peer;
    mark[i] = counts ? where_is(w, g->ranks[i], now) : PRESENT;
    absent += mark[i] == ABSENT;
    if (!is_message && mark[i] == PRESENT && i < g->rank) *is_told = true;
  }
  if (absent) {
    tide__append_ranks(text, size, g->ranks, mark, g->size, ABSENT);
    tide__append(text, size, absent == 1 ? " has not come" : " have not come");
  } else if (is_message) {
    tide__append(text, size, "no message that fits");
  }
  const char *joint = absent || is_message ? "; " : "";
  for (int i = 0; i < g->size; i++) {
    if (mark[i] != ELSEWHERE) continue;
    tide__append(text, size, "%srank %d is in ", joint, g->ranks[i]);
    joint = "; ";
    tide__note_text(text, size, &heard[g->ranks[i]], false);
  }
  free(mark);
}

const char *tide__missing_report(tide_work *w, double waited, bool *is_over) {
  static char text[2048];
  double now = tide__dist_now(), first = tide__notice < w->limit / 2 ? tide__notice : w->limit / 2;
  *is_over = waited >= w->limit;
  if (!mpi || w->note.kind == TIDE_LEAVE_RANKS || waited < first || !prepare()) return NULL;
  if (now - w->reported >= 1) {
    w->reported = now;
    send_note(w);
  }
  tide__missing_receive();
  bool is_told = false, is_due = !w->has_noticed && waited >= tide__notice + 1;
  if (!*is_over && !is_due) return NULL;
  w->has_noticed |= is_due;
  describe(text, sizeof text, w, waited, now, &is_told);
  if (*is_over) tide__tell_elsewhere(text, is_told);
  return *is_over || !is_told ? text : NULL;
}

/* ---- at the end ---- */

bool tide__missing_network(tide_work *w, double waited) {
  static double looked;
  double now = tide__dist_now();
  bool is_leaving = w->note.kind == TIDE_LEAVE_RANKS && tide__local_size < tide__world->size;
  if (!is_leaving || waited < 1 || now - looked < 1) return false;
  looked = now;
  if (!w->seen || !tide__os_is_unanswered()) w->seen = now;
  bool is_due = now - w->reported >= (waited < 60 ? waited : 60) && prepare();
  if (is_due) w->reported = now, send_note(w);          /* does it arrive? */
  return now > w->seen && now - w->seen > w->limit - 3; /* for 3 s it was silent before */
}
