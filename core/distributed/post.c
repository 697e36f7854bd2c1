/* post.c: an operation as calls of MPI.
 *
 * A call moves at most INT_MAX elements, so long ones are cut into pieces. Reductions and broadcasts are cut where they
 * lie; what puts parts of ranks side by side cannot be, and becomes messages between the ranks.
 *
 * Invariant: every rank of a group makes the same calls in the same order, which follow from sizes that all share. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "distributed/room.h"

void *tide__post_add(tide_work *w) {
  if (!w->requests) w->requests = w->few, w->room = (int)(sizeof w->few / sizeof *w->few);
  if (w->count == w->room) {
    bool is_few = w->requests == w->few;
    uint64_t *requests = realloc(is_few ? NULL : w->requests, (size_t)w->room * 2 * sizeof *requests);
    if (!requests) return NULL;
    if (is_few) memcpy(requests, w->few, sizeof w->few);
    w->requests = requests, w->room *= 2;
  }
  w->requests[w->count] = 0;
  return &w->requests[w->count++];
}

/* ---- types and operations ---- */

static uint64_t type_of(tide_dtype dtype) {
  switch (dtype) {
  case TIDE_BOOL:
  case TIDE_UINT8: return mpi_const.uint8;
  case TIDE_INT8: return mpi_const.int8;
  case TIDE_INT16: return mpi_const.int16;
  case TIDE_INT32: return mpi_const.int32;
  case TIDE_INT64: return mpi_const.int64;
  case TIDE_FLOAT32: return mpi_const.float32;
  case TIDE_FLOAT64: return mpi_const.float64;
  case TIDE_COMPLEX64: return mpi_const.complex64;
  default: return mpi_const.complex128;
  }
}

/* Sums of bool are or, products are and. */
static uint64_t op_of(tide_rank_op op, tide_dtype dtype) {
  bool is_bool = dtype == TIDE_BOOL;
  switch (op) {
  case TIDE_RANK_PROD: return is_bool ? mpi_const.min : mpi_const.prod;
  case TIDE_RANK_MIN: return mpi_const.min;
  case TIDE_RANK_MAX: return mpi_const.max;
  default: return is_bool ? mpi_const.max : mpi_const.sum;
  }
}

/* How many of `left` elements of that size one call takes. */
static int piece(int64_t left, size_t size) {
  int64_t most = tide__most_bytes / (int64_t)size;
  if (most < 1) most = 1;
  return (int)(left < most ? left : most);
}

/* ---- bytes ---- */

tide_status tide__post_send(tide_work *w, const char *from, int64_t bytes, int to, int tag, uint64_t comm) {
  for (int64_t done = 0; done < bytes;) {
    int n = piece(bytes - done, 1);
    POST(Isend, from + done, n, mpi_const.byte, to, tag, comm);
    done += n;
  }
  return TIDE_OK;
}

tide_status tide__post_recv(tide_work *w, char *to, int64_t bytes, int from, int tag, uint64_t comm) {
  for (int64_t done = 0; done < bytes;) {
    int n = piece(bytes - done, 1);
    POST(Irecv, to + done, n, mpi_const.byte, from, tag, comm);
    done += n;
  }
  return TIDE_OK;
}

static tide_status send_part(tide_work *w, const char *from, int64_t bytes, int to) {
  return tide__post_send(w, from, bytes, to, TIDE__LONG_TAG, w->group->data);
}
static tide_status recv_part(tide_work *w, char *to, int64_t bytes, int from) {
  return tide__post_recv(w, to, bytes, from, TIDE__LONG_TAG, w->group->data);
}

/* Every rank's part to and from every other: `here[i]` elements from `in` go to rank i, `there[i]` come from it. */
static tide_status exchange(tide_work *w, const int64_t *here, const int64_t *there) {
  int64_t size = (int64_t)host.dtype_size(w->note.dtype), from = 0, to = 0;
  for (int i = 0; i < w->group->size; i++) {
    int64_t sent = here[i] * size, got = there[i] * size;
    if (i == w->group->rank) {
      if (sent) memcpy(w->out.bytes + to, w->in.bytes + from, (size_t)sent);
    } else {
      TRY(recv_part(w, w->out.bytes + to, got, i));
      TRY(send_part(w, w->in.bytes + from, sent, i));
    }
    from += sent, to += got;
  }
  return TIDE_OK;
}

/* ---- collectives ---- */

static tide_status post_broadcast(tide_work *w) {
  int64_t bytes = w->out.numel * (int64_t)host.dtype_size(w->out.dtype);
  if (w->group->size == 2)
    return w->root == w->group->rank ? send_part(w, w->out.bytes, bytes, 1 - w->root)
                                     : recv_part(w, w->out.bytes, bytes, w->root);
  for (int64_t done = 0; done < bytes;) {
    int n = piece(bytes - done, 1);
    POST(Ibcast, w->out.bytes + done, n, mpi_const.byte, w->root, w->group->data);
    done += n;
  }
  return TIDE_OK;
}

static tide_status post_reduce(tide_work *w, const char *in, char *out, int64_t numel, int root) {
  size_t size = host.dtype_size(w->out.dtype);
  uint64_t type = type_of(w->out.dtype), op = op_of(w->op, w->out.dtype);
  for (int64_t done = 0; done < numel;) {
    int n = piece(numel - done, size);
    int64_t at = done * (int64_t)size;
    const void *from = in ? in + at : tide__in_place();
    if (root < 0)
      POST(Iallreduce, from, out + at, n, type, op, w->group->data);
    else
      POST(Ireduce, from, out ? out + at : NULL, n, type, op, root, w->group->data);
    done += n;
  }
  return TIDE_OK;
}

/* ---- a few ranks ----
 *
 * Up to four ranks reduce by messages between them, as MPI's own nonblocking collectives wait between their rounds for
 * a test. Each rank gets the others' values of its part, piece by piece, and sends the reduced piece to them. Of few
 * values each rank gets and reduces all. The first piece comes with the comparison: one message carries both. Every
 * receiver has room for it, and every library sends messages of that length at once. */

static bool is_all_reduce(const tide_work *w) { return w->note.kind == TIDE_ALL_REDUCE_RANKS; }

/* Where the part of a rank begins, in bytes. */
static int64_t part_at(const tide_work *w, int rank) {
  int64_t numel = w->out.numel, size = (int64_t)host.dtype_size(w->out.dtype);
  if (!is_all_reduce(w)) return rank * numel * size;
  return w->is_cut ? numel * rank / w->group->size * size : 0;
}

static int64_t piece_at(const tide_work *w, int k) { return k ? w->first + (k - 1) * w->piece : 0; }

/* Bytes of piece k of the rank's part. */
static int piece_of(const tide_work *w, int rank, int k) {
  int64_t bytes = w->is_cut ? part_at(w, rank + 1) - part_at(w, rank) : tide__side_bytes(&w->out);
  int64_t left = bytes - piece_at(w, k), most = k ? w->piece : w->first;
  return (int)(left < 0 ? 0 : left < most ? left : most);
}

enum { LETTER_ROOM = TIDE__HEAD_BYTES + TIDE__LETTER_BYTES };
static char *letter(const tide_work *w, int i) { return w->letters + (size_t)i * LETTER_ROOM; }

/* Piece k of this rank's part, as the other rank has sent it. */
static char *arrived(const tide_work *w, int rank, int k) {
  int64_t index = rank < w->group->rank ? rank : rank - 1;
  if (!k) return letter(w, rank) + TIDE__HEAD_BYTES;
  return (char *)host.tensor_data(w->landing) + (index * TIDE__WINDOW + k % TIDE__WINDOW) * w->piece;
}

tide_status tide__parts_make(tide_work *w) {
  int64_t size = (int64_t)host.dtype_size(w->out.dtype), bytes = w->out.numel * size, n = w->group->size;
  if (n < 2 || !tide__has_letters(w->group) || !bytes) return TIDE_OK;
  if (!is_all_reduce(w) && w->note.kind != TIDE_REDUCE_SCATTER_RANKS) return TIDE_OK;
  w->is_cut = is_all_reduce(w) && bytes > (n == 2 ? TIDE__PAIR_BYTES : TIDE__FEW_BYTES);
  int64_t most = w->is_cut ? (w->out.numel + n - 1) / n * size : bytes;
  bool is_long = most > TIDE__SHORT_BYTES;
  w->first = is_long && w->is_cut ? 0 : mpi_const.at_once;
  w->piece = size * piece((is_long ? TIDE__PIECE_BYTES : mpi_const.at_once) / size, (size_t)size);
  w->pieces = most > w->first ? (int)((most - w->first + w->piece - 1) / w->piece) + 1 : 1;
  int64_t room = w->pieces > 1 ? (n - 1) * TIDE__WINDOW * w->piece : 0;
  tide_options options = {TIDE_UINT8, TIDE_CPU, false, sizeof options};
  return room ? host.empty(&w->landing, &room, 1, &options) : TIDE_OK;
}

tide_status tide__letters_post(tide_work *w, uint64_t hash) {
  const tide_group *g = w->group;
  const char *from = is_all_reduce(w) ? w->out.bytes : w->in.bytes;
  if (!(w->letters = malloc((size_t)2 * (size_t)g->size * LETTER_ROOM)))
    return tide__dist_fail(TIDE_MEMORY, "%s: no memory for what ranks send", w->note.name);
  memcpy(letter(w, g->rank), &hash, sizeof hash);
  for (int step = 0; step < 2; step++) {
    for (int i = 0; i < g->size; i++) {
      uint64_t *request = &w->check_requests[w->check_count];
      char *own = letter(w, g->size + i);
      int n = w->pieces ? piece_of(w, i, 0) : 0;
      if (i == g->rank) continue;
      *request = 0;
      if (step) {
        TRY_MPI(Irecv, (letter(w, i), LETTER_ROOM, mpi_const.byte, i, TIDE__HASH_TAG, g->check, request));
      } else {
        memset(own, 0, TIDE__HEAD_BYTES), memcpy(own, &hash, sizeof hash);
        if (n) memcpy(own + TIDE__HEAD_BYTES, from + part_at(w, i), (size_t)n);
        TRY_MPI(Isend, (own, TIDE__HEAD_BYTES + n, mpi_const.byte, i, TIDE__HASH_TAG, g->check, request));
      }
      w->check_count++;
    }
  }
  return TIDE_OK;
}

bool tide__letters_agree(const tide_work *w) {
  for (int i = 0; i < w->group->size; i++)
    if (memcmp(letter(w, i), w->check, sizeof w->check[0]) != 0) return false;
  return true;
}

/* Ranks post pieces of operations that run beside each other in different orders: each operation has a tag. */
static int *place_of(const tide_work *w) { return &w->group->parted[w->note.sequence % TIDE__NOTES_TAGS]; }

static tide_status trade(tide_work *w, char *in, int got, int source, const char *out, int sent, int to) {
  int tag = TIDE__NOTES_TAG + (int)(place_of(w) - w->group->parted);
  TRY(tide__post_recv(w, in, got, source, tag, w->group->data));
  return tide__post_send(w, out, sent, to, tag, w->group->data);
}

/* A rank sends to those behind it first, so that not all send to the same one. */
static tide_status post_piece(tide_work *w, int k) {
  const tide_group *g = w->group;
  const char *from = is_all_reduce(w) ? w->out.bytes : w->in.bytes;
  for (int step = 1; step < g->size; step++) {
    int to = (g->rank + step) % g->size, source = (g->rank + g->size - step) % g->size;
    const char *out = from + part_at(w, to) + piece_at(w, k);
    TRY(trade(w, arrived(w, source, k), piece_of(w, g->rank, k), source, out, piece_of(w, to, k), to));
  }
  w->ends[k % TIDE__WINDOW] = w->count;
  return TIDE_OK;
}

static tide_status post_pieces(tide_work *w) {
  if ((*place_of(w))++)
    return tide__dist_fail(TIDE_STATE,
                           "%s: %d reductions were begun since one that is not done, expected a wait before",
                           w->note.name, TIDE__NOTES_TAGS);
  if (!is_all_reduce(w))
    memcpy(w->out.bytes, w->in.bytes + part_at(w, w->group->rank), (size_t)tide__side_bytes(&w->out));
  for (int k = 1; k < w->pieces && k <= TIDE__WINDOW; k++) TRY(post_piece(w, k));
  return TIDE_OK;
}

/* Where all ranks reduce the same values they do it in the same order, for the same bits. */
static tide_status join(tide_work *w, int k) {
  const tide_group *g = w->group;
  int last = g->size - 1, bytes = piece_of(w, g->rank, k), n = bytes / (int)host.dtype_size(w->out.dtype);
  char *own = w->out.bytes + (is_all_reduce(w) ? part_at(w, g->rank) : 0) + piece_at(w, k);
  char *sum = is_all_reduce(w) && !w->is_cut && g->rank < last ? arrived(w, last, k) : own;
  for (int i = last; i >= 0 && n; i--) {
    const char *from = i == g->rank ? own : arrived(w, i, k);
    if (from != sum) TRY_MPI(Reduce_local, (from, sum, n, type_of(w->out.dtype), op_of(w->op, w->out.dtype)));
  }
  if (sum != own) memcpy(own, sum, (size_t)bytes);
  for (int step = 1; step < g->size && w->is_cut; step++) {
    int to = (g->rank + step) % g->size, source = (g->rank + g->size - step) % g->size;
    char *in = w->out.bytes + part_at(w, source) + piece_at(w, k);
    TRY(trade(w, in, piece_of(w, source, k), source, own, bytes, to));
  }
  return k && k + TIDE__WINDOW < w->pieces ? post_piece(w, k + TIDE__WINDOW) : TIDE_OK;
}

void tide__parts_end(const tide_work *w) {
  if (w->pieces) *place_of(w) = 0;
}

tide_status tide__parts_join(tide_work *w) {
  while (w->joined < w->pieces && (!w->joined || w->tested >= w->ends[w->joined % TIDE__WINDOW]))
    TRY(join(w, w->joined++));
  return TIDE_OK;
}

static tide_status post_reduce_scatter(tide_work *w) {
  int64_t part = w->out.numel;
  size_t size = host.dtype_size(w->out.dtype);
  if (!part) return TIDE_OK;
  if (piece(part, size) == part) {
    POST(Ireduce_scatter_block, w->in.bytes, w->out.bytes, (int)part, type_of(w->out.dtype), op_of(w->op, w->out.dtype),
         w->group->data);
    return TIDE_OK;
  }
  for (int i = 0; i < w->group->size; i++) {
    const char *from = w->in.bytes + (int64_t)i * part * (int64_t)size;
    TRY(post_reduce(w, from, i == w->group->rank ? w->out.bytes : NULL, part, i));
  }
  return TIDE_OK;
}

/* Equal parts of every rank, by one call where it can be: `part` elements each. */
static tide_status post_parts(tide_work *w, int64_t part) {
  int64_t size = (int64_t)host.dtype_size(w->note.dtype), bytes = part * size;
  int n = w->group->size, me = w->group->rank;
  uint64_t byte = mpi_const.byte, comm = w->group->data;
  bool is_root = w->root == me;
  if (!bytes) return TIDE_OK;
  if (piece(bytes, 1) == bytes && n > 2) {
    int m = (int)bytes;
    switch (w->note.kind) {
    case TIDE_ALL_GATHER_RANKS: POST(Iallgather, w->in.bytes, m, byte, w->out.bytes, m, byte, comm); break;
    case TIDE_GATHER_RANKS: POST(Igather, w->in.bytes, m, byte, w->out.bytes, m, byte, w->root, comm); break;
    case TIDE_SCATTER_RANKS: POST(Iscatter, w->in.bytes, m, byte, w->out.bytes, m, byte, w->root, comm); break;
    default: POST(Ialltoall, w->in.bytes, m, byte, w->out.bytes, m, byte, comm);
    }
    return TIDE_OK;
  }
  if (w->note.kind == TIDE_GATHER_RANKS || w->note.kind == TIDE_SCATTER_RANKS) {
    bool gathers = w->note.kind == TIDE_GATHER_RANKS;
    if (!is_root)
      return gathers ? send_part(w, w->in.bytes, bytes, w->root) : recv_part(w, w->out.bytes, bytes, w->root);
    for (int i = 0; i < n; i++) {
      char *at = (gathers ? w->out.bytes : w->in.bytes) + i * bytes;
      if (i == me)
        memcpy(gathers ? at : w->out.bytes, gathers ? w->in.bytes : at, (size_t)bytes);
      else
        TRY(gathers ? recv_part(w, at, bytes, i) : send_part(w, at, bytes, i));
    }
    return TIDE_OK;
  }
  for (int i = 0; i < n; i++) {
    const char *from = w->note.kind == TIDE_ALL_GATHER_RANKS ? w->in.bytes : w->in.bytes + i * bytes;
    if (i == me) {
      memcpy(w->out.bytes + i * bytes, from, (size_t)bytes);
      continue;
    }
    TRY(recv_part(w, w->out.bytes + i * bytes, bytes, i));
    TRY(send_part(w, from, bytes, i));
  }
  return TIDE_OK;
}

/* What a rank alone does. */
static tide_status post_alone(tide_work *w) {
  bool moves = w->in.bytes && w->out.bytes;
  if (moves) memcpy(w->out.bytes, w->in.bytes, (size_t)w->out.numel * host.dtype_size(w->out.dtype));
  return TIDE_OK;
}

tide_status tide__post(tide_work *w) {
  const tide_group *g = w->group;
  if (g->size == 1) return post_alone(w);
  if (w->is_nccl) return TIDE_OK; /* it is queued */
  if (w->pieces) return post_pieces(w);
  switch (w->note.kind) {
  case TIDE_BROADCAST_RANKS: return post_broadcast(w);
  case TIDE_ALL_REDUCE_RANKS: return post_reduce(w, NULL, w->out.bytes, w->out.numel, -1);
  case TIDE_REDUCE_RANKS:
    return w->root == g->rank ? post_reduce(w, NULL, w->out.bytes, w->out.numel, w->root)
                              : post_reduce(w, w->out.bytes, NULL, w->out.numel, w->root);
  case TIDE_REDUCE_SCATTER_RANKS: return post_reduce_scatter(w);
  case TIDE_ALL_GATHER_RANKS:
  case TIDE_GATHER_RANKS: return post_parts(w, w->in.numel);
  case TIDE_SCATTER_RANKS: return post_parts(w, w->out.numel);
  case TIDE_ALL_TO_ALL_RANKS:
    return w->in_split ? exchange(w, w->in_split, w->out_split) : post_parts(w, w->in.numel / g->size);
  default: POST(Ibarrier, g->data);
  }
  return TIDE_OK;
}
