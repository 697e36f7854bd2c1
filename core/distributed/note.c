/* note.c: what a rank is doing, as bytes that others can read, and texts made of it.
 *
 * Invariant: a note is the same number of bytes on every rank, and has no pointers. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "distributed/room.h"

static const char *const ops[] = {"sum", "prod", "min", "max", "avg"};

/* Is the root, or the op, part of what ranks agree on? */
static bool has_root(int kind) {
  return kind == TIDE_BROADCAST_RANKS || kind == TIDE_REDUCE_RANKS || kind == TIDE_GATHER_RANKS ||
         kind == TIDE_SCATTER_RANKS;
}
static bool has_op(int kind) {
  return kind == TIDE_ALL_REDUCE_RANKS || kind == TIDE_REDUCE_RANKS || kind == TIDE_REDUCE_SCATTER_RANKS;
}

uint64_t tide__note_hash(const tide__note *n) {
  uint64_t words[] = {n->group,           n->sequence,
                      (uint64_t)n->numel, (uint64_t)n->extra,
                      (uint64_t)n->kind,  has_op(n->kind) ? (uint64_t)n->op : 0,
                      (uint64_t)n->dtype, has_root(n->kind) ? (uint64_t)n->peer : 0};
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    hash = (hash ^ words[i]) * 0xff51afd7ed558ccd; /* the mixing step of MurmurHash3 */
    hash ^= hash >> 32;
  }
  return hash ? hash : 1;
}

void tide__append(char *text, size_t size, const char *format, ...) {
  size_t length = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + length, size - length, format, arguments);
  va_end(arguments);
}

void tide__note_text(char *text, size_t size, const tide__note *n, bool whole) {
  if (n->kind == TIDE_LEAVE_RANKS)
    tide__append(text, size, "%s", n->line ? "leaves" : "has ended");
  else
    tide__append(text, size, "%s", n->name);
  if (whole && has_op(n->kind)) tide__append(text, size, " (%s)", ops[n->op]);
  if (whole && n->dtype != TIDE_DTYPE_NONE)
    tide__append(text, size, " of %lld %s", (long long)n->numel, host.dtype_name((tide_dtype)n->dtype));
  if (whole && n->kind != TIDE_NEW_GROUP_RANKS && n->extra) tide__append(text, size, " by NCCL");
  if (whole && has_root(n->kind)) tide__append(text, size, ", root %d", n->peer);
  if (n->line) tide__append(text, size, " (%s:%d)", n->file, n->line);
}

void tide__append_ranks(char *text, size_t size, const int *ranks, const int *mark, int n, int value) {
  int count = 0, shown = 0;
  for (int i = 0; i < n; i++) count += mark[i] == value;
  tide__append(text, size, count == 1 ? "rank " : "ranks ");
  for (int i = 0; i < n; i++) {
    if (mark[i] != value) continue;
    int last = i;
    while (last + 1 < n && mark[last + 1] == value && ranks[last + 1] == ranks[last] + 1) last++;
    tide__append(text, size, "%s%d", shown++ ? ", " : "", ranks[i]);
    if (last > i) tide__append(text, size, last == i + 1 ? ", %d" : " to %d", ranks[last]);
    i = last;
  }
}

/* Two notes that read the same are one line. */
static bool is_like(const tide__note *a, const tide__note *b) {
  return tide__note_hash(a) == tide__note_hash(b) && a->line == b->line && !strncmp(a->file, b->file, sizeof a->file) &&
         !strncmp(a->name, b->name, sizeof a->name);
}

void tide__note_compare(char *text, size_t size, const tide_group *group, const tide__note *notes) {
  int n = group->size, *mark = calloc((size_t)n, sizeof *mark);
  snprintf(text, size, "ranks do not agree on operation %llu of the group: ", (unsigned long long)notes[0].sequence);
  if (!mark) return;
  for (int i = 0; i < n; i++) mark[i] = -1;
  for (int i = 0; i < n; i++) {
    if (mark[i] >= 0) continue;
    for (int k = i; k < n; k++)
      if (mark[k] < 0 && is_like(&notes[i], &notes[k])) mark[k] = i;
    tide__append_ranks(text, size, group->ranks, mark, n, i);
    tide__append(text, size, ": ");
    tide__note_text(text, size, &notes[i], true);
    tide__append(text, size, "; ");
  }
  tide__append(text, size, "expected the same operation, size, dtype and root on all");
  free(mark);
}
