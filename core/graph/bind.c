/* bind.c: replacing the inputs of a graph.
 *
 * Where an input's address stands in the nodes that an operation has made is learnt once: the operation is recorded
 * again twice, by itself on a stream of the backend's own, as it was and with that input alone elsewhere, and the nodes
 * are compared word by word. Words that differ by exactly how far the input has moved are addresses in it, in any
 * kernel. From then on a bind writes them alone, into its copy of each node, and hands the changed nodes to the driver.
 * An operation is recorded again at each bind if anything else differs, or if the input's alignment is not the
 * capture's, so that another kernel might do it.
 *
 * Invariant: everything that can fail but the driver's taking of a node is done before the first node is changed; if
 * that fails the nodes are given what they had. */
#include <limits.h>

#include "graph.h"

enum { ALIGNMENT = 256, RELAXED = TIDE_CAPTURE_RELAXED, NODES = 256, NODES_AT_ONCE = 32 };

/* What the inputs are to become. */
typedef struct replacement {
  tide__binding *bound;
  uint64_t changed, unaligned; /* inputs as bits; `unaligned`: as in tide__binding, once they are replaced */
  tide_storage *storage[TIDE_GRAPH_INPUTS];
  char *at[TIDE_GRAPH_INPUTS];
} replacement;

static bool has(uint64_t set, int i) { return set >> i & 1; }
static uint64_t moved(const tide__input *in, const char *at) { return (uint64_t)(uintptr_t)at - (uintptr_t)in->from; }

/* ---- recording an operation again ---- */

typedef struct mover {
  const tide__binding *bound;
  char *const *at;
} mover;

static void move_address(void *arg, void *address) {
  const mover *m = arg;
  uintptr_t p;
  memcpy(&p, address, sizeof p);
  for (int i = 0; i < m->bound->n; i++) {
    const tide__input *in = m->bound->input[i];
    uintptr_t first = (uintptr_t)in->begin;
    if (p < first || p >= first + (uintptr_t)(in->last - in->first)) continue;
    p += moved(in, m->at[i]);
    memcpy(address, &p, sizeof p);
    return;
  }
}

static void drop_images(tide_node_image **image, int n) {
  for (int k = 0; image && k < n; k++) free(image[k]);
  free(image);
}

/* What the nodes of the operation are on the private stream; on failure nothing. */
static tide_status read_nodes(tide_node_image ***out, const tide_backend *b, const tide__bound *o, void *const *node,
                              int n) {
  tide_node_image **image = calloc((size_t)o->nodes + 1, sizeof(tide_node_image *));
  if (!image) return tide__fail(TIDE_MEMORY, "graph_bind: no host memory");
  tide_status status = TIDE_OK;
  if (n != o->nodes)
    status = tide__fail(TIDE_SUPPORT, "graph_bind: the operation is done in %d steps there, got a graph with %d", n,
                        o->nodes);
  for (int k = 0; k < n && status == TIDE_OK; k++) status = b->node_read(&image[k], node[k], o->device);
  if (status != TIDE_OK) drop_images(image, o->nodes);
  if (status == TIDE_OK) *out = image;
  return status;
}

/* Bytes between the fields of a kernel's arguments hold what the stack held: the same in each recording then. */
static __attribute__((noinline)) void clear_stack(void) {
  char room[1 << 14];
  memset(room, 0, sizeof room);
  __asm__ volatile("" : : "r"(room) : "memory");
}

static tide_status call_again(tide_node_image ***out, const tide_backend *b, tide__bound *o, void *impl,
                              void *subject) {
  const tide_capture_place start = {0};
  tide_stream stream = {.impl = impl, .device = o->device};
  void *node[NODES], *graph = NULL;
  int n = NODES;
  TIDE_TRY(b->capture_begin(impl, RELAXED));
  o->scratch.at = 0;
  tide__scratch_listens = &o->scratch;
  clear_stack();
  tide_status status = tide__subject_run(b, &stream, o->what, subject);
  tide__scratch_listens = NULL;
  if (status == TIDE_OK) status = b->capture_nodes(node, &n, impl, &start);
  if (status == TIDE_OK) status = read_nodes(out, b, o, node, n);
  tide_status ended = b->capture_end(&graph, impl);
  if (graph) b->graph_free(graph);
  if (status == TIDE_OK && ended != TIDE_OK) drop_images(*out, o->nodes);
  return status == TIDE_OK ? ended : status;
}

/* The images of the operation's nodes with the inputs at these places. */
static tide_status record_again(tide_node_image ***out, tide__binding *bound, tide__bound *o, char *const *at) {
  const tide_backend *b;
  TIDE_TRY(tide__backend(&b, o->device));
  void **impl = &bound->stream[o->device], *subject = tide__subject_copy(o->what, o->subject);
  if (!subject) return tide__fail(TIDE_MEMORY, "graph_bind: no host memory");
  mover m = {bound, at};
  tide__subject_addresses(o->what, subject, move_address, &m);
  tide_status status = *impl ? TIDE_OK : b->stream_new(impl, o->device, 0);
  if (status == TIDE_OK) status = call_again(out, b, o, *impl, subject);
  free(subject);
  return status;
}

/* ---- learning where addresses stand ---- */

static tide_status make_ready(tide__bound *o) {
  size_t n = (size_t)o->nodes + 1;
  const tide_backend *b;
  if (o->base) return TIDE_OK;
  TIDE_TRY(tide__backend(&b, o->device));
  tide_node_image **base = NULL;
  o->now = o->now ? o->now : calloc(n, sizeof *o->now);
  o->then = o->then ? o->then : calloc(n, sizeof *o->then);
  if (!o->now || !o->then) return tide__fail(TIDE_MEMORY, "graph_bind: no host memory");
  TIDE_TRY(read_nodes(&base, b, o, o->node, o->nodes));
  o->base = base;
  return TIDE_OK;
}

static bool add_place(tide__bound *o, int node, size_t word, int input, int64_t shift) {
  if ((o->places & (o->places - 1)) == 0) {
    size_t room = o->places ? 2 * (size_t)o->places : 4;
    tide__place *place = realloc(o->place, room * sizeof *place);
    if (!place) return false;
    o->place = place;
  }
  int at = o->places++; /* by nodes, as differs() reads them */
  for (; at && o->place[at - 1].node > node; at--) o->place[at] = o->place[at - 1];
  o->place[at] = (tide__place){(uint16_t)node, (uint16_t)word, input, shift};
  return true;
}

/* What a node does with the inputs where they are, and with input i alone elsewhere. false: something has changed that
 * is no address, or the kernel is another one than in the capture. */
static bool compare(tide__bound *o, int node, const tide_node_image *still, const tide_node_image *other, int i,
                    const tide__input *in, uint64_t shift) {
  const tide_node_image *base = o->base[node];
  if (base->words != other->words || base->words != still->words || base->words > UINT16_MAX) return false;
  if (memcmp(base->word, still->word, base->head * sizeof *base->word) != 0) return false;
  for (size_t w = 0; w < base->words; w++) {
    uint64_t from = base->word[w] - (uintptr_t)in->from;
    if (still->word[w] == other->word[w]) continue;
    if (w < base->head || other->word[w] - still->word[w] != shift) return false;
    if (still->word[w] - (uintptr_t)in->at != from || !add_place(o, node, w, i, (int64_t)from)) return false;
  }
  return true;
}

/* Two recordings are compared with each other: bytes between the fields of arguments are undefined, in the
 * capture others than in the two. */
static tide_status learn(const replacement *r, tide__bound *o, int i) {
  char *at[TIDE_GRAPH_INPUTS];
  tide_node_image **still, **image;
  const tide__input *in = r->bound->input[i];
  for (int k = 0; k < r->bound->n; k++) at[k] = r->bound->input[k]->at;
  TIDE_TRY(record_again(&still, r->bound, o, at));
  at[i] = r->at[i];
  tide_status status = record_again(&image, r->bound, o, at);
  bool same = status == TIDE_OK;
  for (int k = 0; k < o->nodes && same; k++)
    same = compare(o, k, still[k], image[k], i, in, (uint64_t)(uintptr_t)at[i] - (uintptr_t)in->at);
  drop_images(still, o->nodes);
  if (status != TIDE_OK) return status;
  drop_images(image, o->nodes);
  if (same)
    o->learnt |= (uint64_t)1 << i;
  else
    o->again = true; /* for good: nobody looks at the places any more */
  return TIDE_OK;
}

/* ---- what the nodes are to be ---- */

/* Nodes that have been written so before are as captured but for the places, which are all written again. */
static tide_status write_places(const replacement *r, tide__bound *o) {
  for (int k = 0; k < o->nodes && !o->then_placed; k++) {
    size_t bytes = sizeof **o->base + o->base[k]->words * sizeof *o->base[k]->word;
    if (o->then[k] && o->then[k]->words != o->base[k]->words) free(o->then[k]), o->then[k] = NULL;
    if (!o->then[k] && !(o->then[k] = malloc(bytes))) return tide__fail(TIDE_MEMORY, "graph_bind: no host memory");
    memcpy(o->then[k], o->base[k], bytes);
  }
  o->then_placed = true;
  for (const tide__place *at = o->place, *end = at + o->places; at < end; at++)
    o->then[at->node]->word[at->word] = (uintptr_t)r->at[at->input] + (uint64_t)at->shift;
  return TIDE_OK;
}

static tide_status prepare(const replacement *r, tide__bound *o) {
  TIDE_TRY(make_ready(o));
  /* Its kernels would be those of the capture where all of its inputs are aligned as then. */
  bool known = !(o->inputs & r->unaligned), learns = known && !(o->inputs & r->bound->unaligned);
  for (uint64_t left = o->inputs & ~o->learnt; left && known; left &= left - 1) {
    int i = __builtin_ctzll(left);
    const tide__input *in = r->bound->input[i];
    if (learns && !o->again && r->at[i] != in->at) TIDE_TRY(learn(r, o, i));
    known = has(o->learnt, i) || r->at[i] == in->from;
  }
  if (known && !o->again) return write_places(r, o);
  tide_node_image **image;
  TIDE_TRY(record_again(&image, r->bound, o, r->at));
  drop_images(o->then, o->nodes);
  o->then = image, o->then_placed = false;
  for (int k = 0; k < o->nodes; k++)
    if (memcmp(image[k]->word, o->base[k]->word, o->base[k]->fixed * sizeof *image[k]->word) != 0)
      return tide__fail(TIDE_SUPPORT,
                        "graph_bind: %s is done by another kind of kernel there, expected memory that is "
                        "aligned as in the capture",
                        tide__launch_name(o->what, 0));
  return TIDE_OK;
}

/* ---- changing the nodes ---- */

static const tide_node_image *current(const tide__bound *o, int k) { return o->now[k] ? o->now[k] : o->base[k]; }

/* Is node k to do something else? To be asked of the nodes in their order; *at: the first place not looked at yet. */
static bool differs(const tide__bound *o, int k, const tide__place **at) {
  const tide_node_image *a = current(o, k), *b = o->then[k];
  if (!o->now_placed || !o->then_placed)
    return a->words != b->words || memcmp(a->word, b->word, a->words * sizeof *a->word) != 0;
  bool other = false;
  const tide__place *p = *at, *end = o->place + o->places;
  for (; p < end && p->node == k; p++) other |= a->word[p->word] != b->word[p->word];
  *at = p;
  return other;
}

/* Nodes of one device that the driver gets at once. */
typedef struct batch {
  void *exec;
  int device, n, written; /* written: nodes that the driver has taken */
  void *node[NODES_AT_ONCE];
  const tide_node_image *image[NODES_AT_ONCE];
} batch;

static tide_status hand_over(batch *to) {
  const tide_backend *b;
  int n = to->n;
  to->n = 0;
  if (!n) return TIDE_OK;
  TIDE_TRY(tide__backend(&b, to->device));
  tide_status status = b->nodes_write(to->exec, to->node, to->image, &n, to->device);
  to->written += n;
  return status;
}

static tide_status hand(batch *to, const tide__bound *o, int k, const tide_node_image *image) {
  if (to->n == NODES_AT_ONCE || to->device != o->device) TIDE_TRY(hand_over(to));
  to->device = o->device, to->node[to->n] = o->node[k], to->image[to->n++] = image;
  return TIDE_OK;
}

/* The first `most` changed nodes get their new work, or, with `back`, their old one. */
static tide_status write_nodes(const replacement *r, batch *to, int most, bool back) {
  to->n = to->written = 0;
  for (const tide__bound *o = r->bound->first; o; o = o->following) {
    const tide__place *at = o->place;
    for (int k = 0; (o->inputs & r->changed) && k < o->nodes && most; k++) {
      if (!differs(o, k, &at)) continue;
      TIDE_TRY(hand(to, o, k, back ? current(o, k) : o->then[k]));
      most--;
    }
  }
  return hand_over(to);
}

static tide_status change(const replacement *r, void *exec) {
  batch to;
  to.exec = exec, to.device = 0;
  tide_status status = write_nodes(r, &to, INT_MAX, false);
  if (status != TIDE_OK && write_nodes(r, &to, to.written, true) != TIDE_OK) r->bound->unusable = true;
  return status;
}

static void commit(tide__recording *rec, const replacement *r) {
  for (tide__bound *o = r->bound->first; o; o = o->following) {
    if (!(o->inputs & r->changed)) continue;
    tide_node_image **before = o->now;
    bool placed = o->now_placed;
    o->now = o->then, o->then = before;
    o->now_placed = o->then_placed, o->then_placed = placed;
  }
  r->bound->unaligned = r->unaligned;
  for (int i = 0; i < r->bound->n; i++) {
    tide__input *in = r->bound->input[i];
    tide_storage *old = in->storage, *s = r->storage[i];
    char *from = in->at;
    in->at = r->at[i];
    if (tide__sync_watched() && (s != old || in->at != from)) /* another part of one storage, too */
      TIDE_OBSERVE(rebound, rec->capture, i + 1, old, s, (in->at - (char *)s->ptr) - (from - (char *)old->ptr));
    if (s == old) continue;
    tide__storage_bind(s);
    in->storage = s;
    rec->external |= s->external;
    tide__storage_unbind(old);
  }
}

tide_status tide__bind_again(tide__recording *r) {
  batch to;
  to.exec = r->exec, to.device = to.n = to.written = 0;
  for (tide__bound *o = r->binding->first; o; o = o->following)
    for (int k = 0; o->now && k < o->nodes; k++)
      if (o->now[k]) TIDE_TRY(hand(&to, o, k, o->now[k]));
  return hand_over(&to);
}

/* ---- what may be bound ---- */

/* Begins at `likely`: who names inputs mostly names them in one order. */
static int find(const tide__binding *bound, const char *name, int likely) {
  for (int left = bound->n, i = likely; left; left--, i++) {
    if (i >= bound->n) i = 0;
    if (!strcmp(bound->input[i]->name, name)) return i;
  }
  return bound->n;
}

static bool same_layout(const tide__input *in, const tide_tensor *x) {
  for (int d = 0; d < in->ndim && x->numel; d++)
    if (in->size[d] > 1 && in->stride[d] != x->stride[d]) return false;
  return true;
}

static tide_status check_tensor(const tide__input *in, const tide_tensor *x, uint64_t capture) {
  TIDE_TRY(tide__tensor_check(x, "graph_bind", in->name));
  if (x->dtype != in->dtype)
    return tide__fail(TIDE_DTYPE, "graph_bind: '%s' has another dtype, got %s, expected %s", in->name,
                      tide_dtype_name((tide_dtype)x->dtype), tide_dtype_name((tide_dtype)in->dtype));
  if (x->storage->device != in->device || x->storage->pinned != in->pinned)
    return tide__fail(TIDE_DEVICE, "graph_bind: '%s' lies elsewhere, got %s, expected %s%s", in->name,
                      tide__device_text(x->storage->device), in->pinned ? "page-locked memory of " : "",
                      tide__device_text(in->device));
  TIDE_TRY(tide__size_expect(x, in->size, in->ndim, "graph_bind", in->name));
  if (!same_layout(in, x))
    return tide__fail(TIDE_SHAPE, "graph_bind: '%s' has other strides, got %s, expected %s", in->name,
                      tide__shape_text(x->stride, x->ndim), tide__shape_text(in->stride, in->ndim));
  if (atomic_load_explicit(&x->storage->capture, memory_order_relaxed) == capture)
    return tide__fail(TIDE_VALUE, "graph_bind: '%s' is memory of the graph's own, expected a tensor from elsewhere",
                      in->name);
  if (in->stuck[0]) return tide__fail(TIDE_SUPPORT, "graph_bind: '%s' cannot be replaced: %s", in->name, in->stuck);
  return TIDE_OK;
}

/* Does the graph write what the input would share with the rest of what it uses? No capture holds what has no number of
 * one. */
static tide_status check_held(const tide__recording *rec, const tide__input *in, const tide_tensor *x) {
  const tide__binding *bound = rec->binding;
  const tide_storage *s = x->storage;
  const char *at = tide__tensor_ptr(x);
  bool used = false, written = bound->unknown;
  if (at == in->at || at == in->from) return TIDE_OK; /* where it is, or has been in the capture */
  if (!atomic_load_explicit(&s->capture, memory_order_relaxed)) return TIDE_OK;
  for (int i = 0; i < rec->count && !used; i++) used = rec->held[i] == s;
  for (int i = 0; i < bound->written.n && !written; i++) written = bound->written.item[i] == s;
  if (!used || !(written || in->written)) return TIDE_OK;
  return tide__fail(TIDE_VALUE,
                    "graph_bind: '%s' shares memory with what the graph uses otherwise, and one of the two is written, "
                    "expected memory of its own",
                    in->name);
}

static tide_status check_inputs(const replacement *r, int i) {
  const tide__input *in = r->bound->input[i];
  int64_t length = in->last - in->first;
  const char *first = r->at[i] - (in->from - in->begin);
  uint64_t before = ((uint64_t)1 << i) - 1; /* where all of them are replaced, they have been compared with it */
  for (int k = (r->changed & before) == before ? i + 1 : 0; k < r->bound->n; k++) {
    if (r->storage[k] != r->storage[i] || k == i) continue;
    const tide__input *o = r->bound->input[k];
    const char *other = r->at[k] - (o->from - o->begin);
    if (!(in->written || o->written)) continue;
    if (first < other + (o->last - o->first) && other < first + length)
      return tide__fail(TIDE_VALUE,
                        "graph_bind: '%s' shares memory with '%s', and one of the two is written, expected memory of "
                        "its own",
                        in->name, o->name);
  }
  return TIDE_OK;
}

static tide_status check_all(replacement *r, const tide__recording *rec, const char *const *names,
                             const tide_tensor *const *x, int n) {
  for (int k = 0, likely = 0; k < n; k++) {
    if (names && !names[k]) return tide__fail(TIDE_ARGUMENT, "graph_bind: no name, got NULL, expected one of an input");
    int i = names ? find(r->bound, names[k], likely) : k;
    if (i >= r->bound->n && names)
      return tide__fail(TIDE_VALUE,
                        "graph_bind: the graph has no input '%s', expected a name that tide_graph_input or "
                        "the option inputs gave",
                        names[k]);
    if (i >= r->bound->n)
      return tide__fail(TIDE_VALUE, "graph_bind: too many tensors, got %d, expected at most %d", n, r->bound->n);
    TIDE_TRY(check_tensor(r->bound->input[i], x[k], rec->capture));
    TIDE_TRY(check_held(rec, r->bound->input[i], x[k]));
    uint64_t bit = (uint64_t)1 << i;
    r->storage[i] = x[k]->storage, r->at[i] = tide__tensor_ptr(x[k]);
    r->changed |= bit, r->unaligned &= ~bit;
    if (moved(r->bound->input[i], r->at[i]) % ALIGNMENT) r->unaligned |= bit;
    likely = i + 1;
  }
  for (int i = 0; i < r->bound->n; i++)
    if (has(r->changed, i)) TIDE_TRY(check_inputs(r, i));
  return TIDE_OK;
}

/* ---- binding ---- */

static tide_status check_usable(const tide__recording *r, const char *what) {
  if (!r->binding->unusable) return TIDE_OK;
  return tide__fail(TIDE_STATE, "%s: a bind has failed half way, expected the graph to be captured anew", what);
}

static tide_status bind(tide__recording *rec, const char *const *names, const tide_tensor *const *x, int n) {
  replacement r;
  TIDE_TRY(check_usable(rec, "graph_bind"));
  r.bound = rec->binding, r.changed = 0, r.unaligned = rec->binding->unaligned;
  for (int i = 0; i < r.bound->n; i++) r.storage[i] = r.bound->input[i]->storage, r.at[i] = r.bound->input[i]->at;
  TIDE_TRY(check_all(&r, rec, names, x, n));
  for (tide__bound *o = r.bound->first; o; o = o->following)
    if (o->inputs & r.changed) TIDE_TRY(prepare(&r, o));
  TIDE_TRY(change(&r, rec->exec));
  commit(rec, &r);
  return TIDE_OK;
}

tide_status tide_graph_bind(tide_graph *g, const char *const *names, const tide_tensor *const *x, int n) {
  TIDE_TRY(tide__graph_check_captured(g, "graph_bind"));
  if (n < 0 || (n && !x))
    return tide__fail(TIDE_ARGUMENT, "graph_bind: no tensors, got NULL or %d of them, expected 0 or more", n);
  if (!g->recording->binding)
    return tide__fail(TIDE_STATE,
                      "graph_bind: the graph has no inputs, expected tide_graph_input, or the option inputs "
                      "in Lua, in its capture");
  TIDE_TRY(tide__capture_check("graph_bind"));
  if (!g->recording->exec) TIDE_TRY(tide_graph_instantiate(g));
  return bind(g->recording, names, x, n);
}

tide_status tide__bind_use(const tide__recording *r, tide_stream *stream) {
  TIDE_TRY(check_usable(r, "graph_replay"));
  for (int i = 0; i < r->binding->n; i++) {
    const tide__input *in = r->binding->input[i];
    tide_storage *s = in->storage;
    if (atomic_load_explicit(&s->let_go, memory_order_relaxed) && !tide__storage_unbound(s))
      return tide__fail(TIDE_STATE, "graph_replay: its input '%s' was freed, expected another tensor to be bound",
                        in->name);
    if (s->external && !tide__storage_live(s))
      return tide__fail(TIDE_STATE,
                        "graph_replay: its input '%s' is memory of another API that is not acquired, "
                        "expected tide_external_acquire, or acquire in Lua, before",
                        in->name);
    tide__storage_use(s, stream);
  }
  return TIDE_OK;
}
