/* pending.c: operations whose values are computed when somebody needs them.
 *
 * A pending value is a tensor whose storage has no memory. The storage's node says how the value is computed from other
 * nodes and from leaves, which are views of memory that is there. Every check of a tensor finds such a storage dead and
 * asks here (tide__pending): the nodes that the value needs are computed by as few kernels as possible
 * (pending_plan.c), and the storage gets its memory. A write to memory that pending values read computes these first.
 *
 * Invariants: a node lives as long as somebody can read its value or a node that needs it; a node whose value is there
 * is a leaf; fuse->lock is held while nodes change. Storages may be dropped by any thread at any time: they go to a
 * stack that whoever holds the lock empties. */
#include "jit/fuse/pending.h"

#include <stdio.h>

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static tide_fuse *registry;
static _Thread_local int computing; /* values are computed: what is written then was prepared */
/* ---- computing ---- */

static void add(tide__cone *c, tide__node *n, bool *failed) {
  if (TIDE_UNLIKELY(c->count == c->room)) {
    int room = 2 * c->room;
    tide__node **node = malloc((size_t)room * sizeof *node);
    *failed = !node;
    if (!node) return;
    memcpy(node, c->node, (size_t)c->count * sizeof *node);
    if (c->node != c->own) free(c->node);
    c->node = node, c->room = room;
  }
  n->users++;
  c->node[c->count++] = n;
}

static void visit(tide__cone *c, tide__node *n, uint32_t mark, bool *failed) {
  n->mark = mark;
  for (int k = 0; k < n->operands; k++)
    if (n->in[k] && n->in[k]->mark != mark && !*failed) visit(c, n->in[k], mark, failed);
  if (!*failed) add(c, n, failed);
}

static int by_serial(const void *a, const void *b) {
  const tide__node *x = *(tide__node *const *)a, *y = *(tide__node *const *)b;
  return (x->serial > y->serial) - (x->serial < y->serial);
}

/* In the order in which they were made. */
static void order(tide__cone *c) {
  if (c->count > 64) qsort(c->node, (size_t)c->count, sizeof *c->node, by_serial);
  for (int i = 1; i < c->count; i++) { /* most are in order */
    tide__node *n = c->node[i];
    int k = i;
    for (; k > 0 && c->node[k - 1]->serial > n->serial; k--) c->node[k] = c->node[k - 1];
    c->node[k] = n;
  }
}

/* Ends the walk, which has held all nodes. Nodes whose values are there are leaves now, unless another walk, in the
 * middle of which this one came, holds them as they were. */
static void settled(tide_fuse *f, tide__cone *c) {
  for (int i = 0; i < c->count; i++) { /* operands first: what one drops is not looked at again */
    tide__node *n = c->node[i];
    n->is_wanted = false;
    if (n->is_filled) {
      tide_storage *s = n->storage;
      n->storage = NULL, n->is_filled = false, n->users--;
      if (!c->outer) {
        tide__node_make_leaf(n, s, 0);
        tide__node_drop_operands(n);
      }
      tide_storage_release(s);
    }
    tide__node_unuse(n);
  }
  f->cone = c->outer;
  for (int i = 0; c->outer && i < c->outer->count; i++) c->outer->node[i]->at = i;
}

static tide_status fail_lost(const tide_fuse *f) {
  return tide__fail(TIDE_STATE,
                    "%s: a value that was pending is lost, since its inputs were overwritten when it could "
                    "not be computed",
                    f->name);
}

static _Thread_local int base_now;
static int base_of_now(void) { return base_now; }

static tide_status run_in(tide_fuse *f, tide__cone *c, tide__fuse_recipe *r, tide_stream *stream) {
  tide_dtype dtype = tide_get_default_dtype();
  tide_stream *now;
  TIDE_TRY(tide__stream_current(&now, stream->device));
  bool other = stream->device >= 0 && now != stream, based = false;
  for (int i = 0; i < c->count && !based; i++) based = c->node[i]->kind == TIDE_FUSE_GATHER;
  based = based && tide_get_index_base() != f->base;
  tide_index_base_fn fn = based ? tide__index_base_get() : NULL;
  if (dtype != f->dtype) TIDE_TRY(tide_set_default_dtype(f->dtype));
  base_now = f->base;
  if (based) tide_index_base_set(base_of_now);
  tide__selection selection;
  if (other) selection = tide__selection_begin(stream);
  computing++;
  tide_status status = tide__cone_run(f, c, r);
  computing--;
  if (other) tide__selection_end(selection);
  if (based) tide_index_base_set(fn);
  if (dtype != f->dtype) tide_set_default_dtype(dtype);
  bool apart = now->capture && !stream->capture; /* what a capture reads has been waited for by its author */
  if (other && status == TIDE_OK && !apart) status = tide_stream_wait_stream(now, stream);
  return status;
}

/* Computes these nodes, which are alive, by as few kernels as possible. The last one may be written to `into`. */
static tide_status compute(tide_fuse *f, tide__node *const *wanted, int count, tide_tensor *into) {
  tide__cone c;
  c.node = c.own, c.count = 0, c.room = sizeof c.own / sizeof *c.own, c.into = into, c.outer = f->cone;
  bool failed = false, lost = false;
  tide_status dead = TIDE_OK;
  uint32_t mark = ++f->mark;
  for (int i = 0; i < count; i++)
    if (wanted[i]->mark != mark && !failed) visit(&c, wanted[i], mark, &failed);
  order(&c);
  f->cone = &c;
  for (int i = 0; i < count && !failed; i++) wanted[i]->is_wanted = true;
  for (int i = 0; i < c.count; i++) {
    tide__node *n = c.node[i];
    n->at = i, lost = lost || n->is_lost;
    if (tide__node_is_leaf(n) && !dead) dead = tide__check(&n->x, f->name, "an input of a pending value");
  }
  tide__fuse_recipe *r = lost || failed || dead ? NULL : tide__fuse_recipe_get(f, &c);
  tide_status status = failed ? tide__fail(TIDE_MEMORY, "fuse: no host memory")
                       : dead ? dead
                       : lost ? fail_lost(f)
                       : r    ? run_in(f, &c, r, wanted[0]->stream)
                              : TIDE_MEMORY;
  tide__fuse_recipe_drop(r);
  settled(f, &c);
  if (c.node != c.own) free(c.node);
  return status;
}

enum { AT_ONCE = 64 };

/* Those of one stream at once. */
tide_status tide__fuse_compute_all(tide_fuse *f, tide__node **list, int n, tide__node *last, tide_tensor *into) {
  tide_status status = TIDE_OK;
  while (n > 0 && status == TIDE_OK) {
    tide__node *now[AT_ONCE];
    tide_storage *held[AT_ONCE];
    int count = 0, rest = 0;
    tide_stream *stream = list[0]->stream;
    for (int i = 0; i < n; i++)
      if (list[i]->stream != stream || count == AT_ONCE - 1)
        list[rest++] = list[i];
      else if (!tide__node_is_leaf(list[i]) && list[i]->storage && tide__storage_retain_living(list[i]->storage))
        held[count] = list[i]->storage, now[count++] = list[i];
    n = rest;
    int storages = count;
    if (!n && last && last->stream == stream) now[count++] = last;
    if (count) status = compute(f, now, count, !n && last && last->stream == stream ? into : NULL);
    if (!n && last && last->stream == stream) last = NULL;
    for (int i = 0; i < storages; i++) tide_storage_release(held[i]);
  }
  return status == TIDE_OK && last ? compute(f, &last, 1, into) : status;
}

/* ---- who needs values ---- */

static tide_status settle(tide_storage *s) {
  tide__node *n = s->user;
  tide_fuse *f = n->fuse;
  atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
  tide__fuse_lock(f);
  tide_status status = s->pending ? tide__fuse_compute_all(f, &n, 1, NULL, NULL) : TIDE_OK;
  tide__fuse_unlock(f);
  tide__fuse_drop(f);
  return status;
}

/* The living nodes that read the storage, or without one a captured one, or all. *list is to be freed. */
static tide_status find(tide__node ***list, int *count, tide_fuse *f, const tide_storage *s, bool captured) {
  uint32_t mark = ++f->mark;
  *list = NULL, *count = 0;
  int room = 0;
  for (tide__node *n = f->oldest; n; n = n->newer) {
    bool is =
        tide__node_is_leaf(n) ? (s ? n->x.storage == s : !captured || atomic_load(&n->x.storage->capture)) : false;
    for (int k = 0; k < 3; k++) is = is || (n->in[k] && n->in[k]->mark == mark);
    if (!is) continue;
    n->mark = mark;
    if (tide__node_is_leaf(n) || !n->storage) continue;
    if (!tide__grow(list, &room, *count, sizeof **list)) return tide__fail(TIDE_MEMORY, "fuse: no host memory");
    (*list)[(*count)++] = n;
  }
  return TIDE_OK;
}

static tide_status settle_readers(tide_fuse *f, const tide_storage *s, bool captured, tide__node *last,
                                  tide_tensor *into) {
  TIDE_FREED tide__node **list = NULL;
  int n;
  tide__fuse_lock(f);
  tide_status status = find(&list, &n, f, s, captured);
  if (status == TIDE_OK) status = tide__fuse_compute_all(f, list, n, last, into);
  tide__fuse_unlock(f);
  return status;
}

tide_status tide__fuse_settle(tide_fuse *f, const tide_storage *s, bool captured) {
  return settle_readers(f, s, captured, NULL, NULL);
}

tide_status tide__fuse_overwrite(tide_fuse *f, tide__node *n, tide_tensor *into) {
  return settle_readers(f, into->storage, false, n, into);
}

static void lose(tide_fuse *f, const tide_storage *s) {
  TIDE_FREED tide__node **list = NULL;
  int n;
  tide__fuse_lock(f);
  if (find(&list, &n, f, s, false) == TIDE_OK)
    for (int i = 0; i < n; i++) list[i]->is_lost = true;
  tide__fuse_unlock(f);
}

/* Where f has left the registry, again from the first. */
tide_fuse *tide__fuse_next(tide_fuse *f) {
  pthread_mutex_lock(&registry_lock);
  tide_fuse *next = registry;
  while (f && next && next != f) next = next->next;
  next = f && next ? next->next : registry;
  if (next) atomic_fetch_add(&next->refs, 1);
  pthread_mutex_unlock(&registry_lock);
  if (f) tide__fuse_drop(f);
  return next;
}

static tide_status before_write(tide_storage *s, bool must) {
  tide_status status = TIDE_OK;
  if (computing) return TIDE_OK;
  for (tide_fuse *f = tide__fuse_next(NULL); f; f = tide__fuse_next(f)) {
    tide_status one = tide__fuse_settle(f, s, false);
    if (one != TIDE_OK && must) lose(f, s);
    if (status == TIDE_OK) status = one;
  }
  return status;
}

static tide_status graph(bool replay) {
  tide_status status = TIDE_OK;
  for (tide_fuse *f = tide__fuse_next(NULL); f; f = tide__fuse_next(f))
    if (status == TIDE_OK) status = tide__fuse_settle(f, NULL, replay);
  return status;
}

/* Where this thread is in the middle of something, or another one is, the node waits for its unlock. */
static void gone(tide_storage *s) {
  tide__node *n = s->user;
  tide_fuse *f = n->fuse;
  atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
  bool held = tide__fuse_holds(f);
  if (!held && tide__fuse_trylock(f)) {
    tide__node_end(n);
    tide__fuse_unlock(f);
  } else {
    n->dead = atomic_load(&f->dead);
    while (!atomic_compare_exchange_weak(&f->dead, &n->dead, n)) {}
    if (!held && tide__fuse_trylock(f)) tide__fuse_unlock(f);
  }
  tide__fuse_drop(f);
}

/* ---- making, and what has run ---- */

void tide__pending_start(void) { tide__pending = (tide__pending_ops){settle, before_write, gone, graph}; }

tide_status tide_fuse_new(tide_fuse **out, const char *name) {
  TIDE_GIVEN("fuse_new", out);
  TIDE_GIVEN("fuse_new", name);
  if (!tide__running()) return tide__fail(TIDE_STATE, "fuse_new: tide is not started, expected tide_init first");
  tide_fuse *f = calloc(1, sizeof *f + strlen(name) + 1);
  if (!f) return tide__fail(TIDE_MEMORY, "fuse: no host memory");
  memcpy(f->name, name, strlen(name));
  atomic_init(&f->refs, 1);
  TIDE_LOCKED(&registry_lock);
  f->next = registry, registry = f;
  *out = f;
  return TIDE_OK;
}

void tide_fuse_free(tide_fuse *f) {
  if (!f) return;
  pthread_mutex_lock(&registry_lock);
  tide_fuse **at = &registry;
  while (*at != f) at = &(*at)->next;
  *at = f->next;
  pthread_mutex_unlock(&registry_lock);
  tide__fuse_drop(f);
}

void tide_fuse_trace_begin(tide_fuse *f) {
  for (int i = 0; f && i < f->trace_count; i++) tide_fuse_kernel_release(f->trace[i]);
  if (f) f->trace_count = 0;
}

int tide_fuse_trace(tide_fuse_kernel **out, int n, const tide_fuse *f) {
  if (!f) return 0;
  for (int i = 0; out && i < n && i < f->trace_count; i++) out[i] = f->trace[i];
  return f->trace_count;
}
