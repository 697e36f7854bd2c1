/* allocator_range.c: segments that grow.
 *
 * Sizes that change from one step of a program to the next leave holes that no later request fits, and a cache of
 * separate segments ends up twice as large as what is alive. Here a key has addresses for more than the device has
 * memory, and memory comes and goes beneath them in pieces: where the free block beside a gap is too small, the gap is
 * backed as far as needed and the two become one. A gap is a block without memory (UNMAPPED).
 *
 * Memory need not stay in a hole that nothing fits. When new memory would bring the reserved bytes above the peak of
 * the active ones by more than a tenth, the free pieces of the same key go back first: only its own stream can still
 * be at work there, so that is what is waited for; then those of other keys whose streams have nothing queued. A
 * program that has reached its peak never comes here.
 *
 * Invariants: pieces and gaps begin and end at granules; two gaps never touch; a piece is within one free block, or in
 * several blocks, at least one of them used. */
#include "allocator.h"

static const size_t least_piece = (size_t)32 << 20, most_piece = (size_t)256 << 20, most_step = (size_t)20 << 20,
                    middle_most = (size_t)10 << 20;

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
static size_t least(size_t x, size_t y) { return x < y ? x : y; }

/* ---- where ---- */

/* A gap, and how much of its begin or end must be backed so that, with the free block beside that, it holds the
 * request; or all of it, with both. */
typedef struct place {
  tide_block *gap;
  size_t need;
  bool at_end;
} place;

static size_t free_size(const tide_block *b) { return b && b->state == BLOCK_FREE ? b->size : 0; }

static void consider(place *best, tide_block *gap, size_t size, size_t granule) {
  size_t before = free_size(gap->prev), after = free_size(gap->next), beside = before >= after ? before : after;
  size_t need = round_up(size > beside ? size - beside : 1, granule);
  if (need > gap->size) need = gap->size;
  if (need == gap->size ? before + need + after < size : beside + need < size) return;
  if (!best->gap || need < best->need) *best = (place){gap, need, after > before};
}

static bool of_key(const tide__segment *s, const tide__request *r) {
  return s->kind == SEGMENT_RANGE && s->pool == r->pool && s->key.stream == r->key.stream &&
         s->key.mempool == r->key.mempool;
}

static place find_place(const tide__allocator *a, const tide__request *r) {
  place best = {0};
  for (tide__segment *s = a->segments; s; s = s->next)
    for (tide_block *b = of_key(s, r) ? s->head : NULL; b; b = b->next)
      if (b->state == BLOCK_UNMAPPED) consider(&best, b, r->size, a->granule);
  return best;
}

/* Middling requests ask for more than they need, or the driver would be called for each of them; a large cache can
 * afford more. */
static size_t step_for(const tide__allocator *a, const tide__request *r, const place *p) {
  if (r->pool == TIDE_POOL_SMALL || r->size >= middle_most) return p->need;
  size_t reserved = (size_t)a->stats.reserved_bytes[TIDE_POOL_ALL].current;
  size_t step = least(least(round_up(reserved / 16, a->granule), most_step), p->gap->size);
  return step > p->need ? step : p->need;
}

/* ---- backing ---- */

static tide__segment *reserve(tide__allocator *a, const tide_backend *backend, const tide__request *r) {
  size_t span = r->pool == TIDE_POOL_SMALL ? a->total / 8 : 2 * a->total;
  if (span < r->size) span = r->size;
  span = round_up(span, a->granule);
  uint32_t *piece = calloc(span / a->granule, sizeof *piece);
  void *ptr;
  if (!piece || backend->range_reserve(&ptr, a->device, span) != TIDE_OK) {
    free(piece);
    return NULL;
  }
  tide_block *b = tide__segment_new(a, ptr, span, r);
  if (!b) {
    backend->range_release(a->device, ptr, span);
    free(piece);
    return NULL;
  }
  b->state = BLOCK_UNMAPPED;
  b->segment->kind = SEGMENT_RANGE;
  b->segment->size = 0;
  b->segment->piece = piece;
  return b->segment;
}

static uint32_t *piece_at(const tide_block *b, const char *ptr, size_t granule) {
  return &b->segment->piece[(size_t)(ptr - b->segment->ptr) / granule];
}

/* So small that a piece of large memory can be given back alone, and so large that memory comes in a few calls. */
static size_t piece_size(size_t bytes, size_t granule) {
  size_t piece = bytes / 32 > least_piece ? bytes / 32 : least_piece;
  return round_up(least(piece, most_piece), granule);
}

/* Backs the first `bytes` of the gap, or nothing. */
static tide_status back(tide__allocator *a, const tide_backend *backend, tide_block *gap, size_t bytes) {
  size_t piece = piece_size(bytes, a->granule), done = 0;
  tide_status status = TIDE_OK;
  while (done < bytes && status == TIDE_OK) {
    size_t n = least(piece, bytes - done);
    status = backend->range_map(a->device, gap->ptr + done, n);
    if (status == TIDE_OK) *piece_at(gap, gap->ptr + done, a->granule) = (uint32_t)(n / a->granule), done += n;
  }
  if (status == TIDE_OK) return TIDE_OK;
  for (size_t at = 0; at < done;) {
    uint32_t *p = piece_at(gap, gap->ptr + at, a->granule);
    size_t n = *p * a->granule;
    backend->range_unmap(a->device, gap->ptr + at, n);
    *p = 0, at += n;
  }
  return status;
}

/* The gap is cut in two. */
static bool split_gap(tide__allocator *a, tide_block *gap, size_t bytes) {
  tide_block *rest = tide__block_new(a);
  if (!rest) return false;
  rest->segment = gap->segment, rest->key = gap->key;
  rest->state = BLOCK_UNMAPPED;
  rest->ptr = gap->ptr + bytes, rest->size = gap->size - bytes;
  rest->prev = gap, rest->next = gap->next;
  if (rest->next) rest->next->prev = rest;
  gap->next = rest, gap->size = bytes;
  return true;
}

/* Of two gaps the struct of the first one stays. */
static void join_gaps(tide__allocator *a, tide_block *b) {
  if (b->next && b->next->state == BLOCK_UNMAPPED) tide__block_join(a, b);
  if (b->prev && b->prev->state == BLOCK_UNMAPPED) tide__block_join(a, b->prev);
}

static tide_status back_place(tide_block **out, tide__allocator *a, const tide_backend *backend, const place *p,
                              size_t bytes, tide__request *r) {
  size_t merged, rest = p->gap->size - bytes;
  if (!tide__may_reserve(a, bytes)) return TIDE_MEMORY;
  TIDE_TRY(tide__mempool_count(r->mempool, (int64_t)bytes));
  bool fits = !rest || split_gap(a, p->gap, p->at_end ? rest : bytes);
  tide_block *b = fits && rest && p->at_end ? p->gap->next : p->gap;
  tide_status status = fits ? back(a, backend, b, bytes) : TIDE_MEMORY;
  if (status != TIDE_OK) {
    tide__mempool_count(r->mempool, -(int64_t)bytes);
    join_gaps(a, b);
    return status;
  }
  tide__segment *s = b->segment;
  b->state = BLOCK_USED;
  b->tenant = 0;
  tide__block_claim(b, r);
  tide__stat_reserve(a, s->pool, s->size == 0, (int64_t)bytes);
  s->size += bytes;
  tide__history_add(TIDE_MEMORY_SEGMENT_MAP, a->device, b->ptr, bytes, s->key.stream, NULL);
  tide__block_merge(a, b, &merged);
  *out = b;
  return TIDE_OK;
}

tide_status tide__range_grow(tide_block **out, tide__allocator *a, const tide_backend *backend, tide__request *r) {
  place p = find_place(a, r);
  if (!p.gap && tide__segment_adopt(a, r->pool, r->key)) p = find_place(a, r);
  if (!p.gap) {
    if (!reserve(a, backend, r)) return TIDE_SUPPORT;
    p = find_place(a, r);
  }
  size_t step = step_for(a, r, &p);
  if (step > p.need && back_place(out, a, backend, &p, step, r) == TIDE_OK) return TIDE_OK;
  return back_place(out, a, backend, &p, p.need, r);
}

/* ---- giving back ---- */

/* The pieces that lie wholly in the block: from *first to the result, as addresses; at most about `most` bytes. */
static char *whole_pieces(char **first, const tide_block *b, size_t granule, size_t most) {
  char *end = b->ptr + b->size;
  size_t skip = (size_t)(b->ptr - b->segment->ptr) % granule;
  char *at = b->ptr + (skip ? granule - skip : 0);
  while (at < end && !*piece_at(b, at, granule)) at += granule;
  *first = at;
  while (at < end && (size_t)(at - *first) < most) {
    size_t n = *piece_at(b, at, granule) * granule;
    if (n > (size_t)(end - at)) break;
    at += n;
  }
  return at;
}

/* Cuts [first, last) out of a free block. Without host memory for that the block stays as it is: NULL. */
static tide_block *cut_out(tide__allocator *a, tide_block *b, char *first, char *last) {
  tide__pool_remove(a, b);
  if (first > b->ptr) {
    size_t whole = b->size;
    tide__block_split(a, b, (size_t)(first - b->ptr));
    tide__pool_insert(a, b);
    if (b->size == whole) return NULL;
    b = b->next;
    tide__pool_remove(a, b);
  }
  size_t size = (size_t)(last - first);
  if (b->size > size) tide__block_split(a, b, size);
  if (b->size == size) return b;
  tide__pool_insert(a, b);
  return NULL;
}

static void leave(tide__leaving *out, tide__allocator *a, tide_block *b, size_t most) {
  char *first, *last = whole_pieces(&first, b, a->granule, most);
  if (last <= first) return;
  tide_block *piece = cut_out(a, b, first, last);
  if (!piece) return;
  piece->state = BLOCK_LEAVING;
  piece->left = out->blocks, out->blocks = piece;
  out->bytes += piece->size;
}

void tide__range_leave(tide__leaving *out, tide__allocator *a, tide__segment *s, size_t most) {
  size_t before = out->bytes;
  for (tide_block *b = s->head; b && out->bytes - before < most; b = b->next)
    if (b->state == BLOCK_FREE) leave(out, a, b, most - (out->bytes - before));
}

/* The free blocks beside the gap that will be backed stay: they are part of the answer. */
void tide__range_trim(tide__leaving *out, tide__leaving *others, tide__allocator *a, const tide__request *r) {
  place p = find_place(a, r);
  if (!p.gap || tide__pool_key_kept(r->key, r->mempool)) return;
  const tide_memory_stats *st = &a->stats;
  size_t active = (size_t)st->active_bytes[TIDE_POOL_ALL].current + r->size;
  size_t peak = (size_t)st->active_bytes[TIDE_POOL_ALL].peak;
  if (peak < active) peak = active;
  size_t reserved = (size_t)st->reserved_bytes[TIDE_POOL_ALL].current + step_for(a, r, &p);
  size_t allowed = peak + peak / 10 + a->granule;
  if (reserved <= allowed) return;
  size_t most = reserved - allowed;
  tide_block *keep[2] = {p.gap->prev, p.gap->next};
  for (tide__segment *s = a->segments; s; s = s->next)
    for (tide_block *b = of_key(s, r) ? s->head : NULL; b && out->bytes < most; b = b->next)
      if (b->state == BLOCK_FREE && b != keep[0] && b != keep[1]) leave(out, a, b, most - out->bytes);
  for (tide__segment *s = a->segments; s && out->bytes + others->bytes < most; s = s->next)
    if (s->kind == SEGMENT_RANGE && !of_key(s, r) && !tide__pool_key_kept(s->key, s->mempool))
      tide__range_leave(others, a, s, most - out->bytes - others->bytes);
}

void tide__range_unmap(const tide_block *b, const tide_backend *backend, int device) {
  size_t granule = b->owner->granule;
  for (char *at = b->ptr; at < b->ptr + b->size;) {
    uint32_t *p = piece_at(b, at, granule);
    size_t n = *p * granule;
    backend->range_unmap(device, at, n);
    *p = 0, at += n;
  }
}

void tide__range_left(tide__allocator *a, tide_block *b) {
  tide__segment *s = b->segment;
  s->size -= b->size;
  tide__mempool_count(s->mempool, -(int64_t)b->size);
  tide__stat_reserve(a, s->pool, -(s->size == 0), -(int64_t)b->size);
  tide__history_add(TIDE_MEMORY_SEGMENT_UNMAP, a->device, b->ptr, b->size, s->key.stream, NULL);
  b->state = BLOCK_UNMAPPED;
  join_gaps(a, b);
}

void tide__range_return(tide__allocator *a, tide_block *b) {
  size_t merged;
  tide__block_merge(a, b, &merged);
  tide__pool_insert(a, b);
}
