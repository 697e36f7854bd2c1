/* pending_node.c: the nodes of pending values: their lives, the lock, and leaves.
 *
 * Invariant: a node lives as long as somebody can read its value, or a node that needs it. Storages may be dropped by
 * any thread at any time: they go to a stack that whoever holds the lock empties. */
#include "jit/fuse/pending.h"

#include <stddef.h>

enum { SPARES = 4096 };

/* ---- nodes ---- */

void tide__fuse_drop(tide_fuse *f) {
  if (atomic_fetch_sub(&f->refs, 1) != 1) return;
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
  pthread_mutex_destroy(&f->lock.mutex);
  free(f->trace);
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

static void unlink_node(tide__node *n) {
  tide_fuse *f = n->fuse;
  if (!n->serial) return;
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
tide__node *tide__node_new(tide_fuse *f, tide_fuse_kind kind) {
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
  tide__clear(n, offsetof(tide__node, x));
  n->x.storage = NULL, n->x.offset = 0, n->x.replay = 0;
  n->fuse = f, n->kind = (uint8_t)kind, n->quota = quota;
  f->nodes++;
  if (!f->has_nodes) f->has_nodes = true, atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
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
  unlink_node(n);
  tide__node_drop_operands(n);
  if (tide__node_is_leaf(n)) {
    for (int i = 0; i < 8; i++)
      if (f->leaf[i] == n) f->leaf[i] = NULL;
    atomic_fetch_sub(&n->x.storage->pending_reads, 1);
    tide_storage_release(n->x.storage);
  }
  if (n->holds_stream) tide_stream_release(n->stream);
  if (n->quota) tide__quota_give(n->quota, sizeof *n, TIDE_CPU);
  f->nodes--;
  if (f->spares < SPARES)
    n->newer = f->spare, f->spare = n, f->spares++;
  else
    free(n);
}

void tide__node_unuse(tide__node *n) {
  if (!--n->users) free_node(n);
}

void tide__node_end(tide__node *n) {
  tide__storage_end(n->storage);
  n->storage = NULL;
  tide__node_unuse(n);
}

/* ---- the lock ---- */

static void begin(tide_fuse *f) {
  atomic_store_explicit(&f->holder, &tide__thread_number, memory_order_relaxed);
  f->depth = 1;
}

void tide__fuse_lock(tide_fuse *f) {
  if (tide__fuse_holds(f)) {
    f->depth++;
    return;
  }
  tide__biased_lock(&f->lock);
  begin(f);
}

bool tide__fuse_trylock(tide_fuse *f) {
  bool taken = tide__biased_trylock(&f->lock);
  if (taken) begin(f);
  return taken;
}

static void end_dead(tide_fuse *f) {
  tide__node *n = atomic_exchange(&f->dead, NULL);
  while (n) {
    tide__node *next = n->dead;
    tide__node_end(n);
    n = next;
  }
}

/* The caller holds a reference of its own. */
void tide__fuse_unlock(tide_fuse *f) {
  bool is_empty = false;
  if (f->depth > 1) {
    f->depth--;
    return;
  }
  do {
    if (atomic_load_explicit(&f->dead, memory_order_acquire)) end_dead(f);
    if (!f->nodes && f->has_nodes) is_empty = true, f->has_nodes = false;
    f->depth = 0;
    atomic_store_explicit(&f->holder, NULL, memory_order_relaxed);
    tide__biased_unlock(&f->lock);
    atomic_signal_fence(memory_order_seq_cst); /* as tide__biased_trylock has it */
  } while (atomic_load(&f->dead) && tide__fuse_trylock(f));
  if (is_empty) tide__fuse_drop(f);
}

/* ---- leaves and operands ---- */

static bool looks_like(const tide__node *n, const tide_tensor *x) {
  bool same = n->x.dtype == x->dtype && tide__same_size(&n->x, x);
  for (int d = 0; same && d < x->ndim; d++) same = n->x.stride[d] == x->stride[d];
  return same;
}

static bool is_view_of(const tide__node *n, const tide_tensor *x) {
  return n && n->x.storage == x->storage && n->x.offset == x->offset && looks_like(n, x);
}

void tide__node_take_form(tide__node *n, const tide__fuse_form *form) {
  atomic_init(&n->x.refs, 1);
  n->form = form->number;
  n->x.numel = form->numel, n->x.ndim = form->ndim, n->x.dtype = form->dtype, n->x.contiguous = form->contiguous;
  for (int d = 0; d < form->ndim; d++) n->x.size[d] = form->size[d], n->x.stride[d] = form->stride[d];
}

static uint64_t hash_of_form(const tide__node *n) {
  const tide_tensor *x = &n->x;
  uint64_t h = (uint64_t)(uint32_t)n->device << 32 | (uint64_t)x->ndim << 8 | x->dtype;
  for (int d = 0; d < x->ndim; d++) h = (h * 31 + (uint64_t)x->size[d]) * 31 + (uint64_t)x->stride[d];
  return h * 0x9E3779B97F4A7C15u >> 32;
}

void tide__node_describe(tide__node *n, const int64_t *size, const int64_t *stride, int ndim, int dtype) {
  tide_tensor *x = &n->x;
  tide_fuse *f = n->fuse;
  atomic_init(&x->refs, 1);
  x->ndim = ndim, x->dtype = (uint8_t)dtype;
  for (int d = 0; d < ndim; d++) x->size[d] = size[d], x->stride[d] = stride[d];
  tide__fuse_form *form = &f->form[hash_of_form(n) % TIDE__FUSE_FORMS];
  bool known = form->number && form->device == n->device && form->dtype == x->dtype && form->ndim == ndim;
  for (int d = 0; d < ndim && known; d++) known = form->size[d] == size[d] && form->stride[d] == stride[d];
  if (!known) {
    tide__tensor_layout(x);
    *form = (tide__fuse_form){++f->forms, n->device, x->numel, ndim, x->dtype, x->contiguous};
    for (int d = 0; d < ndim; d++) form->size[d] = size[d], form->stride[d] = stride[d];
  }
  n->form = form->number, x->numel = form->numel, x->contiguous = form->contiguous;
}

/* The node becomes, or is, a view of the storage. */
void tide__node_make_leaf(tide__node *n, tide_storage *s, int64_t offset) {
  n->kind = TIDE_FUSE_INPUT, n->depth = 0;
  n->x.storage = s, n->x.offset = offset;
  tide__storage_ref(s);
  atomic_fetch_add(&s->pending_reads, 1);
}

tide_status tide__node_tensor(tide_tensor **out, const tide__node *n, tide_storage *s) {
  tide_tensor *x = tide__tensor_header();
  if (!x) return TIDE_MEMORY;
  x->storage = s, x->offset = 0, x->numel = n->x.numel, x->ndim = n->x.ndim, x->dtype = n->x.dtype;
  x->contiguous = n->x.contiguous;
  for (int d = 0; d < x->ndim; d++) x->size[d] = n->x.size[d], x->stride[d] = n->x.stride[d];
  *out = x;
  return TIDE_OK;
}

bool tide__storage_retain_living(tide_storage *s) {
  int64_t refs = atomic_load(&s->refs);
  while (refs > 0)
    if (atomic_compare_exchange_weak(&s->refs, &refs, refs + 1)) return true;
  return false;
}

static tide__node *use_leaf(tide_fuse *f, const tide_tensor *x) {
  for (int i = 0; i < 8; i++)
    if (is_view_of(f->leaf[i], x)) return f->leaf[i];
  tide__node *n = tide__node_new(f, TIDE_FUSE_INPUT);
  if (!n) return NULL;
  n->device = x->storage->device;
  tide__node_describe(n, x->size, x->stride, x->ndim, x->dtype);
  tide__node_make_leaf(n, x->storage, x->offset);
  tide__node_link(n);
  return f->leaf[f->leaf_at++ & 7] = n;
}

tide__node *tide__node_use(tide_fuse *f, const tide_tensor *x) {
  if (!tide__node_usable(x) || tide__category(x->dtype) > 2) return NULL;
  tide__node *n = tide__node_of(x);
  if (n && (n->fuse != f || x->offset || !looks_like(n, x))) {
    if (tide__storage_settle(x->storage) != TIDE_OK) return NULL;
    n = NULL;
  }
  if (!n) n = use_leaf(f, x);
  if (n) n->users++;
  return n;
}
