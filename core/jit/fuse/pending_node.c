/* pending_node.c: the nodes of pending values: their lives, the lock, and leaves.
 *
 * Invariant: a node lives as long as somebody can read its value, or a node that needs it. Storages may be dropped by
 * any thread at any time: they go to a stack that whoever holds the lock empties. */
#include "jit/fuse/pending.h"

#include <stddef.h>

#include "base/quota.h"

enum { SPARES = 4096 };

/* ---- nodes ---- */

void tide__fuse_drop(tide_fuse *f, int n) {
  if (!n || atomic_fetch_sub(&f->refs, n) != n) return;
  while (f->recipes) {
    tide__fuse_recipe *r = f->recipes;
    f->recipes = r->next;
    tide__fuse_recipe_drop(r);
  }
  tide_fuse_trace_begin(f);
  while (f->spare) {
    tide__node *spare = f->spare;
    f->spare = spare->newer;
    free(spare);
  }
  pthread_mutex_destroy(&f->lock);
  free(f->trace);
  free(f->name);
  free(f);
}

/* Becomes the newest. */
void tide__node_link(tide__node *n) {
  tide_fuse *f = n->fuse;
  n->serial = ++f->serial, n->older = f->newest, n->newer = NULL;
  if (n->older)
    n->older->newer = n;
  else
    f->oldest = n;
  f->newest = n;
}

void tide__node_unlink(tide__node *n) {
  tide_fuse *f = n->fuse;
  if (n->older)
    n->older->newer = n->newer;
  else
    f->oldest = n->newer;
  if (n->newer)
    n->newer->older = n->older;
  else
    f->newest = n->older;
}

/* Nodes are made and dropped at every operation: the last ones are kept. */
tide__node *tide__node_new(tide_fuse *f, tide_fuse_kind kind, int device) {
  tide_quota *quota = NULL;
  if (tide__quota_bound() && tide__quota_take(&quota, sizeof(tide__node), TIDE_CPU) != TIDE_OK) return NULL;
  tide__node *n = f->spare;
  if (n)
    f->spare = n->newer, f->spares--;
  else if (!(n = malloc(sizeof *n))) {
    if (quota) tide__quota_give(quota, sizeof *n, TIDE_CPU);
    tide__fail(TIDE_MEMORY, "fuse: no host memory");
    return NULL;
  }
  memset(n, 0, offsetof(tide__node, x));
  n->x.storage = NULL, n->x.offset = 0, n->x.replay = 0;
  n->fuse = f, n->kind = (uint8_t)kind, n->device = device, n->quota = quota;
  atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
  tide__node_link(n);
  return n;
}

void tide__node_drop_operands(tide__node *n) {
  for (int k = 0; k < 3; k++) {
    tide__node *in = n->in[k];
    n->in[k] = NULL;
    if (in) tide__node_unuse(in);
  }
}

static void free_node(tide__node *n) {
  tide_fuse *f = n->fuse;
  tide__node_unlink(n);
  for (int i = 0; i < 8; i++)
    if (f->leaf[i] == n) f->leaf[i] = NULL;
  tide__node_drop_operands(n);
  if (tide__node_is_leaf(n)) {
    atomic_fetch_sub(&n->x.storage->pending_reads, 1);
    tide_storage_release(n->x.storage);
  }
  if (n->holds_stream) tide_stream_release(n->stream);
  if (n->quota) tide__quota_give(n->quota, sizeof *n, TIDE_CPU);
  f->freed++;
  if (f->spares < SPARES)
    n->newer = f->spare, f->spare = n, f->spares++;
  else
    free(n);
}

void tide__node_unuse(tide__node *n) {
  if (!--n->users) free_node(n);
}

void tide__fuse_lock(tide_fuse *f) {
  pthread_mutex_lock(&f->lock);
  f->depth++;
}

static void end_dead(tide_fuse *f) {
  tide__node *n = atomic_exchange(&f->dead, NULL);
  while (n) {
    tide__node *next = n->dead;
    tide__storage_end(n->storage);
    n->storage = NULL;
    tide__node_unuse(n);
    n = next;
  }
}

/* The caller holds a reference, or a node that does: nothing of f is touched once those of freed nodes are dropped. */
void tide__fuse_unlock(tide_fuse *f) {
  bool again;
  int freed = 0;
  do {
    if (f->depth == 1 && atomic_load_explicit(&f->dead, memory_order_acquire)) end_dead(f);
    if (f->depth == 1) freed += f->freed, f->freed = 0;
    bool last = !--f->depth;
    pthread_mutex_unlock(&f->lock);
    again = last && atomic_load(&f->dead) && !pthread_mutex_trylock(&f->lock);
    if (again) f->depth++;
  } while (again);
  tide__fuse_drop(f, freed);
}

/* ---- leaves and operands ---- */

static bool is_view_of(const tide__node *n, const tide_tensor *x) {
  return n && n->x.storage == x->storage && n->x.offset == x->offset && n->x.dtype == x->dtype &&
         tide__same_size(&n->x, x) && !memcmp(n->x.stride, x->stride, (size_t)x->ndim * sizeof *x->stride);
}

void tide__node_describe(tide__node *n, const int64_t *size, const int64_t *stride, int ndim, int dtype) {
  atomic_init(&n->x.refs, 1);
  n->x.ndim = ndim, n->x.dtype = (uint8_t)dtype;
  memcpy(n->x.size, size, (size_t)ndim * sizeof *size);
  memcpy(n->x.stride, stride, (size_t)ndim * sizeof *stride);
  tide__tensor_layout(&n->x);
}

/* The node becomes, or is, a view of the storage. */
void tide__node_make_leaf(tide__node *n, tide_storage *s, int64_t offset) {
  n->kind = TIDE_FUSE_INPUT, n->depth = 0;
  n->x.storage = s, n->x.offset = offset;
  tide__storage_ref(s);
  atomic_fetch_add(&s->pending_reads, 1);
}

bool tide__node_usable(const tide_tensor *x) {
  return x && atomic_load_explicit(&x->refs, memory_order_relaxed) > 0 && x->storage && !x->replay &&
         (x->storage->pending || tide__storage_live(x->storage));
}

tide_status tide__node_tensor(tide_tensor **out, const tide__node *n, tide_storage *s) {
  tide_tensor *x = tide__tensor_header();
  if (!x) return TIDE_MEMORY;
  x->storage = s, x->offset = 0, x->numel = n->x.numel, x->ndim = n->x.ndim, x->dtype = n->x.dtype;
  x->contiguous = n->x.contiguous;
  memcpy(x->size, n->x.size, (size_t)x->ndim * sizeof *x->size);
  memcpy(x->stride, n->x.stride, (size_t)x->ndim * sizeof *x->stride);
  *out = x;
  return TIDE_OK;
}

bool tide__storage_retain_living(tide_storage *s) {
  int64_t refs = atomic_load(&s->refs);
  while (refs > 0)
    if (atomic_compare_exchange_weak(&s->refs, &refs, refs + 1)) return true;
  return false;
}

tide__node *tide__node_of(const tide_tensor *x) { return x->storage->pending ? x->storage->user : NULL; }

/* The node of an operand, with a use of it; NULL: it has none. */
tide__node *tide__node_use(tide_fuse *f, const tide_tensor *x) {
  tide__node *n = tide__node_of(x);
  if (n && (n->fuse != f || x->offset || !tide__same_size(&n->x, x) ||
            memcmp(n->x.stride, x->stride, (size_t)x->ndim * sizeof *x->stride) != 0 || n->x.dtype != x->dtype)) {
    if (tide__storage_settle(x->storage) != TIDE_OK) return NULL;
    n = NULL;
  }
  for (int i = 0; i < 8 && !n; i++)
    if (is_view_of(f->leaf[i], x)) n = f->leaf[i];
  if (!n) {
    n = tide__node_new(f, TIDE_FUSE_INPUT, x->storage->device);
    if (!n) return NULL;
    tide__node_describe(n, x->size, x->stride, x->ndim, x->dtype);
    tide__node_make_leaf(n, x->storage, x->offset);
    f->leaf[f->leaf_at++ & 7] = n;
  }
  n->users++;
  return n;
}
