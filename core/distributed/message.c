/* message.c: messages between two ranks.
 *
 * A message is a head with its length and dtypes, and the bytes: inside of the head if they are few, else in pieces
 * behind it, with the same tag on the other communicator of the group. A receive takes a head of any length. It then
 * posts the pieces, and drops them if head and tensor differ: so the sender ends, and later messages meet their own
 * pieces. A wait for any operation takes heads, because the sender may wait for that.
 *
 * Invariant: pieces of one source and tag are posted in the order of their heads, that is of the receives. */
#include <stdlib.h>
#include <string.h>

#include "distributed/room.h"

struct tide__head {
  int64_t bytes;
  uint64_t parts;
};

enum { INSIDE = 4096 - (int)sizeof(tide__head) }; /* bytes inside of a head */

static tide_work *heads, **heads_end = &heads; /* receives whose heads are to come, as posted */
static tide_work *parted;                      /* reductions by parts, which go on while another one is awaited */
static tide_work *alone;                       /* messages to this rank itself, without MPI, that have no partner */
static _Atomic(tide__head *) spare[4];         /* the memory of some that were used last */

/* ---- parts ---- */

/* Each dtype plus 1 in 4 bits. Of more than 15 the first 7 and a hash of all (Fowler, Noll and Vo's FNV-1a). */
uint64_t tide__message_parts(const tide_distributed_call *c, tide_dtype dtype) {
  uint64_t parts = 0, more = 15;
  uint32_t hash = 0x811c9dc5;
  if (!c->dtypes) return (uint64_t)dtype + 1;
  for (int i = 0; i < c->dtype_count; i++) {
    uint32_t code = (uint32_t)c->dtypes[i] + 1;
    hash = (hash ^ code) * 0x01000193;
    if (i < 15) parts |= (uint64_t)code << 4 * i;
  }
  return c->dtype_count <= 15 ? parts : (parts & 0xfffffff) | (uint64_t)hash << 28 | more << 60;
}

static void append_parts(char *text, size_t size, uint64_t parts) {
  bool is_hashed = parts >> 60 == 15;
  for (int i = 0; i < (is_hashed ? 7 : 15) && parts & 15; i++, parts >>= 4)
    tide__append(text, size, "%s%s", i ? ", " : "", host.dtype_name((tide_dtype)((parts & 15) - 1)));
  if (is_hashed) tide__append(text, size, ", ...");
}

static bool is_fitting(const tide_work *w, const tide__head *head) {
  return head->bytes == tide__side_bytes(&w->out) && head->parts == w->parts;
}

/* `source` is a rank of all. */
static tide_status compare(const tide_work *w, const tide__head *head, int source) {
  int64_t bytes = tide__side_bytes(&w->out);
  char got[256] = "", expected[256] = "";
  if (is_fitting(w, head)) return TIDE_OK;
  append_parts(got, sizeof got, head->parts), append_parts(expected, sizeof expected, w->parts);
  return tide__dist_fail(
      head->bytes == bytes ? TIDE_DTYPE : TIDE_SHAPE,
      "%s: got a message of %lld bytes (%s) from rank %d, expected the %lld bytes (%s) of the tensor", w->note.name,
      (long long)head->bytes, got, source, (long long)bytes, expected);
}

/* ---- by MPI ---- */

static bool is_inside(int64_t bytes) { return bytes <= INSIDE && bytes <= tide__most_bytes; }

static tide_status new_head(tide_work *w) {
  for (int i = 0; i < 4 && !w->head; i++)
    if (spare[i]) w->head = atomic_exchange(&spare[i], NULL);
  if (!w->head) w->head = malloc(sizeof *w->head + INSIDE);
  if (!w->head) return tide__dist_fail(TIDE_MEMORY, "%s: no memory for a message", w->note.name);
  return TIDE_OK;
}

void tide__message_free(tide_work *w) {
  for (int i = 0; i < 4 && w->head; i++)
    if (!spare[i]) w->head = atomic_exchange(&spare[i], w->head);
  free(w->head), free(w->dropped);
  w->head = NULL, w->dropped = NULL;
}

static tide_status post_send(tide_work *w) {
  int64_t bytes = tide__side_bytes(&w->in);
  size_t inside = is_inside(bytes) ? (size_t)bytes : 0;
  TRY(new_head(w));
  *w->head = (tide__head){bytes, w->parts};
  if (inside) memcpy(w->head + 1, w->in.bytes, inside);
  POST(Isend, w->head, (int)(sizeof *w->head + inside), mpi_const.byte, w->root, w->tag, w->group->data);
  return is_inside(bytes) ? TIDE_OK : tide__post_send(w, w->in.bytes, bytes, w->root, w->tag, w->group->check);
}

static tide_status post_recv(tide_work *w) {
  int from = w->root < 0 ? mpi_const.any_source : w->root;
  TRY(new_head(w));
  POST(Irecv, w->head, (int)sizeof *w->head + INSIDE, mpi_const.byte, from, w->tag, w->group->data);
  *heads_end = w, heads_end = &w->behind, w->awaits_head = true;
  return TIDE_OK;
}

/* No earlier receive that may be from the same rank waits for its head. */
static bool is_first(const tide_work *w) {
  const tide_work *v = heads;
  while (v != w && (v->group != w->group || v->tag != w->tag || (v->root >= 0 && v->root != w->from))) v = v->behind;
  return v == w;
}

static void leave_heads(tide_work *w) {
  tide_work **at = &heads;
  while (*at != w) at = &(*at)->behind;
  *at = w->behind;
  if (!*at) heads_end = at;
  w->behind = NULL, w->awaits_head = false;
}

static tide_status take_head(bool *done, tide_work *w) {
  int64_t bytes = w->head->bytes;
  bool fits = is_fitting(w, w->head);
  *done = is_inside(bytes);
  if (!*done && !is_first(w)) return TIDE_OK;
  leave_heads(w);
  if (*done && fits && bytes) memcpy(w->out.bytes, w->head + 1, (size_t)bytes);
  if (*done) return TIDE_OK;
  if (!fits && !(w->dropped = malloc((size_t)bytes)))
    return tide__dist_fail(TIDE_MEMORY, "%s: no memory for a message that does not fit", w->note.name);
  return tide__post_recv(w, fits ? w->out.bytes : w->dropped, bytes, w->from, w->tag, w->group->check);
}

tide_status tide__message_next(bool *done, tide_work *w) {
  tide_status status = TIDE_OK;
  bool is_recv = w->note.kind == TIDE_RECV_RANKS;
  if (w->awaits_head) TRY(take_head(done, w));
  if (!*done) return TIDE_OK;
  if (is_recv) status = compare(w, w->head, w->source = w->group->ranks[w->from]);
  tide__message_free(w); /* a script may hold the work for long */
  return status;
}

void tide__parts_add(tide_work *w) {
  tide_work **at = &parted;
  while (*at) at = &(*at)->behind;
  *at = w;
}

void tide__parts_remove(tide_work *w) {
  tide_work **at = &parted;
  while (*at && *at != w) at = &(*at)->behind;
  if (*at) *at = w->behind, w->behind = NULL;
  w->pieces = 0;
}

void tide__message_progress(void (*advance)(tide_work *)) {
  for (tide_work *w = parted, *next; w; w = next) {
    advance(w);
    next = w->behind;
    if (w->state != WORK_RUNNING) tide__parts_remove(w);
  }
  for (tide_work **at = &heads; *at;) {
    tide_work *w = *at;
    advance(w);
    if (*at == w) at = &w->behind;
  }
}

/* ---- without MPI, of a rank that is alone ---- */

static tide_status meet(tide_work *send, tide_work *recv) {
  tide__head head = {tide__side_bytes(&send->in), send->parts};
  send->state = WORK_COMPLETE;
  TRY(compare(recv, &head, 0));
  if (head.bytes) memcpy(recv->out.bytes, send->in.bytes, (size_t)head.bytes);
  recv->state = WORK_COMPLETE, recv->source = 0;
  return TIDE_OK;
}

static tide_status begin_alone(tide_work *w) {
  w->state = WORK_RUNNING;
  tide_work **at = &alone;
  for (; *at; at = &(*at)->behind) {
    if ((*at)->note.kind == w->note.kind || (*at)->tag != w->tag) continue;
    tide_work *other = *at;
    *at = other->behind, other->behind = NULL;
    bool is_recv = w->note.kind == TIDE_RECV_RANKS;
    tide_status status = is_recv ? meet(other, w) : meet(w, other);
    if (status != TIDE_OK && !is_recv) tide__work_fail(other, status); /* a sender does not know */
    return is_recv ? status : TIDE_OK;
  }
  *at = w, w->behind = NULL;
  return TIDE_OK;
}

void tide__message_forget(tide_work *w) {
  for (tide_work **at = &alone; *at; at = &(*at)->behind) {
    if (*at != w) continue;
    *at = w->behind;
    return;
  }
}

/* ---- all ---- */

tide_status tide__message_post(tide_work *w) {
  if (!w->group->data) return begin_alone(w);
  TRY(w->note.kind == TIDE_SEND_RANKS ? post_send(w) : post_recv(w));
  w->state = WORK_RUNNING;
  return TIDE_OK;
}

static void drop_all(tide_work **list) {
  while (*list) {
    tide_work *w = *list;
    *list = w->behind, w->behind = NULL, w->awaits_head = false;
  }
}

void tide__message_end(void) {
  drop_all(&alone), drop_all(&heads), drop_all(&parted);
  heads_end = &heads;
  for (int i = 0; i < 4; i++) free(atomic_exchange(&spare[i], NULL));
}
