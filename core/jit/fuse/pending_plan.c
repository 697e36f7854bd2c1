/* pending_plan.c: which kernels compute a cone of nodes.
 *
 * Nodes are put into a group, in order, until something stands in the way: a limit of one kernel, a reduction over
 * other dims, a gather from what the group computes, an operation that is faster alone. Then those of the group's
 * values that are wanted, or that later nodes read, become results of kernels, one for each size; what only leads to
 * them is never stored.
 *
 * The result is kept under a key that describes the nodes: operations, dtypes, which sizes are equal. Numbers are not
 * part of it. Invariant: two cones of equal keys are computed by the same kernels. */
#include "jit/fuse/pending.h"

enum { GROUP = 48, NUMBERS = TIDE_FUSE_SCALARS - 6, RECIPES = 128 };

/* A node is no part of reductions; one value a row, whose dims stay, or are gone; or is computed with such values. */
enum { PLAIN, ROW, DROPPED, OF_ROWS, MIXED };

typedef struct planner {
  const tide__cone *c;
  tide__fuse_recipe *r;
  const char *name;
  int count; /* nodes in the group */
  int32_t event[GROUP], leaf[TIDE_FUSE_INPUTS];
  int leaves, numbers, gathered; /* gathered: inputs that are no leaves, as they are read by an index */
  int reduced, dims;             /* the node that reductions are over, or -1 */
  bool leading, failed;
  uint8_t *kind; /* of each node of the cone */
  bool *here;    /* is it in the group? */
  int *last;     /* the last node that reads it */
  int room;      /* steps */
} planner;

static const tide__node *node_at(const planner *p, int i) { return p->c->node[i]; }
static int operand(const tide__node *n, int k) { return n->in[k] ? n->in[k]->at : -1; }
static bool is_row(int kind) { return kind == ROW || kind == DROPPED; }

static bool same_size(const tide__node *a, const tide__node *b) { return tide__same_size(&a->x, &b->x); }

/* Does it broadcast to b's size? */
static bool is_below(const tide__node *a, const tide__node *b) {
  return tide__broadcasts_to(&a->x, b->x.size, b->x.ndim);
}

static bool is_written(const planner *p, int i) { return p->c->into && i == p->c->count - 1; }

/* ---- one kernel ---- */

static tide_fuse_kernel *add_step(planner *p) {
  tide__fuse_recipe *r = p->r;
  if (!tide__grow(&r->step, &p->room, r->steps, sizeof *r->step)) return NULL;
  tide_fuse_kernel *s = &r->step[r->steps++];
  memset(s, 0, sizeof *s);
  s->alone = -1;
  return s;
}

static void mark(const planner *p, int i, bool *needed) {
  if (!p->here[i] || needed[i]) return;
  needed[i] = true;
  for (int k = 0; k < 3; k++)
    if (node_at(p, i)->in[k]) mark(p, operand(node_at(p, i), k), needed);
}

static int add_node(tide_fuse_kernel *s, const tide_fuse_node *node, int of) {
  s->node[s->nodes] = *node, s->of[s->nodes] = of;
  return s->nodes++;
}

static int add_input(tide_fuse_kernel *s, const planner *p, int i, int behind) {
  const tide__node *n = node_at(p, i);
  s->input[s->inputs++] = i;
  const tide_fuse_node input = {
      .kind = TIDE_FUSE_INPUT, .dtype = (tide_dtype)n->x.dtype, .ndim = n->x.ndim, .dims = behind};
  return add_node(s, &input, i);
}

/* The kernel's node for one of the cone: computed in the kernel, or an input. */
static int node_of(const planner *p, tide_fuse_kernel *s, int16_t *node, int i) {
  if (node[i] < 0) node[i] = (int16_t)add_input(s, p, i, 0);
  return node[i];
}

static int add_number(tide_fuse_kernel *s, int i, int which) {
  s->from[s->numbers] = i << 3 | which;
  return s->numbers++;
}

/* How many dims of the source stand behind the one that the index is of. */
static int dims_behind(const tide__node *n) { return n->op == TIDE_FUSE_SLICES ? n->in[1]->x.ndim - 1 - n->dims : 0; }

static void add_gather(const planner *p, tide_fuse_kernel *s, int16_t *node, int i) {
  const tide__node *n = node_at(p, i);
  const tide_tensor *x = &n->in[1]->x;
  tide_fuse_node g = {
      .kind = TIDE_FUSE_GATHER, .op = n->op, .dtype = (tide_dtype)x->dtype, .ndim = x->ndim, .dims = n->dims};
  g.line = n->line, g.file = n->line > 0 ? n->file : NULL;
  const int behind = dims_behind(n);
  g.in[0] = behind ? add_input(s, p, operand(n, 0), behind) : node_of(p, s, node, operand(n, 0));
  s->input[s->inputs++] = operand(n, 1);
  node[i] = (int16_t)add_node(s, &g, i);
}

static void add_computed(const planner *p, tide_fuse_kernel *s, int16_t *node, int i) {
  const tide__node *n = node_at(p, i);
  if (n->kind == TIDE_FUSE_GATHER) {
    add_gather(p, s, node, i);
    return;
  }
  tide_fuse_node to = {.kind = (tide_fuse_kind)n->kind, .op = n->op, .param = -1, .dims = n->dims};
  to.leading = n->leading, to.keepdim = n->keepdim;
  if (n->kind == TIDE_FUSE_CAST) to.dtype = (tide_dtype)n->x.dtype;
  for (int k = 0; k < n->operands; k++)
    to.in[k] = n->in[k] ? node_of(p, s, node, operand(n, k)) : -1 - add_number(s, i, k);
  for (int k = 0; k < n->params; k++) {
    int at = add_number(s, i, 3 + k);
    if (!k) to.param = at;
  }
  node[i] = (int16_t)add_node(s, &to, i);
}

/* Do the kernel's results have the dtypes that the operations gave? */
static bool dtypes_hold(const planner *p, const tide_fuse_kernel *s) {
  for (int k = 0; k < s->outputs; k++)
    if (s->fused->value[s->fused->output[k]].dtype != node_at(p, s->output[k])->x.dtype) return false;
  return true;
}

static void make_kernel(planner *p, tide_fuse_kernel *s) {
  tide_scalar number[TIDE_FUSE_SCALARS];
  for (int k = 0; k < s->numbers; k++) number[k] = tide__cone_number(p->c, s->from[k]);
  if (tide_fused_new(&s->fused, p->name, s->node, s->nodes, s->written, s->outputs, number, s->numbers) != TIDE_OK)
    s->fused = NULL; /* its operations run one by one */
  if (s->fused && !dtypes_hold(p, s)) {
    tide_fused_free(s->fused);
    s->fused = NULL;
  }
}

/* Of these nodes, with these results among them. */
static void add_kernel(planner *p, const int32_t *event, int count, const int *results, int n) {
  TIDE_FREED bool *needed = calloc((size_t)p->c->count, sizeof *needed);
  TIDE_FREED int16_t *node = malloc((size_t)p->c->count * sizeof *node);
  tide_fuse_kernel *s = needed && node ? add_step(p) : NULL;
  int computed = 0;
  p->failed = p->failed || !s;
  if (!s) return;
  memset(node, -1, (size_t)p->c->count * sizeof *node);
  for (int k = 0; k < n; k++) mark(p, results[k], needed);
  for (int i = 0; i < count; i++)
    if (needed[event[i]]) add_computed(p, s, node, event[i]), computed++;
  s->outputs = n;
  for (int k = 0; k < n; k++) s->written[k] = node[results[k]], s->output[k] = results[k];
  for (int k = 0; k < s->inputs; k++) s->bytes += tide__itemsize(node_at(p, s->input[k])->x.dtype);
  for (int k = 0; k < n; k++) s->bytes += tide__itemsize(node_at(p, results[k])->x.dtype);
  if (computed == 1)
    s->alone = results[0]; /* one operation has a kernel already, which no other one is faster than */
  else
    make_kernel(p, s);
}

/* ---- groups ---- */

/* Is the value needed outside of the group, of which `next` is the first node behind? */
static bool is_result(const planner *p, int i, int next) {
  return node_at(p, i)->is_wanted || p->last[i] >= next || is_written(p, i);
}

static void close_group(planner *p, int next) {
  bool done[GROUP] = {false};
  for (int i = 0; i < p->count; i++) {
    int results[TIDE_FUSE_OUTPUTS], n = 0;
    for (int k = i; k < p->count && n < TIDE_FUSE_OUTPUTS; k++) {
      int at = p->event[k], like = n ? results[0] : at;
      if (done[k] || !is_result(p, at, next) || !same_size(node_at(p, at), node_at(p, like))) continue;
      if (is_row(p->kind[at]) != is_row(p->kind[like])) continue;
      done[k] = true;
      results[n++] = at;
    }
    if (n) add_kernel(p, p->event, p->count, results, n);
  }
  for (int i = 0; i < p->count; i++) p->here[p->event[i]] = false;
  p->count = p->leaves = p->numbers = p->gathered = 0, p->reduced = -1;
}

static bool is_leaf(const planner *p, int i) {
  for (int k = 0; k < p->leaves; k++)
    if (p->leaf[k] == i) return true;
  return false;
}

static bool fits(const planner *p, const tide__node *n) {
  int leaves = p->leaves + p->gathered;
  if (n->kind == TIDE_FUSE_GATHER) leaves += 1 + (dims_behind(n) > 0);
  for (int k = 0; k < (n->kind == TIDE_FUSE_GATHER ? 1 : n->operands); k++)
    if (n->in[k] && !p->here[operand(n, k)] && !is_leaf(p, operand(n, k))) leaves++;
  return p->count < GROUP - 1 && leaves <= TIDE_FUSE_INPUTS && p->numbers <= NUMBERS;
}

/* MIXED: with values that have lost dims and others, which broadcast in another way than rows do. */
static int kind_of(const planner *p, const tide__node *n) {
  int count[MIXED] = {0}, tensors = 0;
  if (n->kind == TIDE_FUSE_REDUCE) return n->keepdim ? ROW : DROPPED;
  for (int k = 0; k < (n->kind == TIDE_FUSE_GATHER ? 1 : n->operands); k++) {
    if (!n->in[k]) continue;
    int at = operand(n, k);
    count[p->here[at] ? p->kind[at] : PLAIN]++, tensors++;
  }
  if (count[DROPPED]) return count[DROPPED] == tensors ? DROPPED : MIXED;
  return count[PLAIN] == tensors ? PLAIN : count[ROW] == tensors ? ROW : OF_ROWS;
}

/* In a kernel of rows every value has the size of the rows, or less, but what is computed with one value a row. */
static bool breaks_rows(const planner *p, const tide__node *n, bool written) {
  int kind = kind_of(p, n);
  if (kind == MIXED) return true;
  if (n->kind == TIDE_FUSE_REDUCE) {
    const tide__node *x = n->in[0];
    if (p->reduced >= 0) return p->dims != n->dims || p->leading != n->leading || !same_size(x, node_at(p, p->reduced));
    for (int i = 0; i < p->count; i++)
      if (!is_below(node_at(p, p->event[i]), x)) return true;
    return false;
  }
  if (p->reduced < 0 || is_row(kind)) return p->reduced >= 0 && written;
  const tide__node *rows = node_at(p, p->reduced);
  return written || !is_below(n, rows) || (kind == OF_ROWS && !same_size(n, rows));
}

/* A result that is written to memory has a kernel with results of its size alone, and without gathers. */
static bool breaks_write(const planner *p, const tide__node *n) {
  if (p->gathered) return true;
  for (int i = 0; i < p->count; i++)
    if (!same_size(node_at(p, p->event[i]), n)) return true;
  return false;
}

/* Before the group, if it reads nothing of that. */
static void add_alone(planner *p, int at) {
  for (int k = 0; k < 3; k++)
    if (node_at(p, at)->in[k] && p->here[operand(node_at(p, at), k)]) close_group(p, at);
  p->here[at] = true;
  add_kernel(p, &(int32_t){at}, 1, &at, 1);
  p->here[at] = false;
}

static void add_operation(planner *p, int at) {
  const tide__node *n = node_at(p, at);
  bool written = is_written(p, at), gathers = n->kind == TIDE_FUSE_GATHER;
  if (gathers) {
    bool made = p->here[operand(n, 1)] || (p->here[operand(n, 0)] && dims_behind(n));
    if (made || kind_of(p, n) != PLAIN) close_group(p, at); /* what lies in memory is read */
  }
  if (!fits(p, n) || breaks_rows(p, n, written) || (written && breaks_write(p, n))) close_group(p, at);
  for (int k = 0; k < (gathers ? 1 : n->operands); k++)
    if (n->in[k] && !p->here[operand(n, k)] && !is_leaf(p, operand(n, k)) && p->leaves < TIDE_FUSE_INPUTS)
      p->leaf[p->leaves++] = operand(n, k);
  for (int k = 0; k < n->operands; k++) p->numbers += !n->in[k];
  p->numbers += n->params;
  if (gathers) p->numbers += p->gathered ? 1 : 3, p->gathered += 1 + (dims_behind(n) > 0);
  p->kind[at] = (uint8_t)kind_of(p, n);
  if (n->kind == TIDE_FUSE_REDUCE) p->reduced = operand(n, 0), p->dims = n->dims, p->leading = n->leading;
  p->event[p->count++] = at, p->here[at] = true;
}

/* Does a reduction follow of what has its size? */
static bool is_reduced_later(const planner *p, int at) {
  for (int i = at + 1; i < p->c->count; i++)
    if (node_at(p, i)->kind == TIDE_FUSE_REDUCE && same_size(node_at(p, i)->in[0], node_at(p, at))) return true;
  return false;
}

/* On the CPU a gather is faster by itself, and the rest as a kernel of its own, than both piece by piece; but where a
 * reduction ends the chain nothing as large as the chain is written. */
static bool is_gather_part(const planner *p, int at) {
  const tide__node *n = node_at(p, at);
  if (n->device < 0 && !is_reduced_later(p, at)) return false;
  return p->last[at] > at || (!dims_behind(n) && p->here[operand(n, 0)]);
}

/* A reduction of what lies in memory is part of a kernel if what follows uses both. */
static bool is_row_part(const planner *p, int at) {
  const tide__node *n = node_at(p, at);
  return p->here[operand(n, 0)] || (n->keepdim && p->last[at] > at);
}

static void make_steps(planner *p) {
  p->reduced = -1;
  for (int i = 0; i < p->c->count && !p->failed; i++) {
    const tide__node *n = node_at(p, i);
    if (tide__node_is_leaf(n)) continue;
    if ((n->kind == TIDE_FUSE_REDUCE && !is_row_part(p, i)) || (n->kind == TIDE_FUSE_GATHER && !is_gather_part(p, i)))
      add_alone(p, i);
    else
      add_operation(p, i);
  }
  close_group(p, p->c->count);
}

/* ---- keys ---- */

enum { ONE = 255, OWN = 254, SIZES = 64 }; /* numbers of sizes; how many have one */

typedef struct key {
  uint64_t *word, own[256];
  size_t length, room;
  int sizes, failed;
  int64_t size[SIZES]; /* those that occur, in order */
} key;

static void grow(key *k) {
  uint64_t *more = k->failed ? NULL : malloc(2 * k->room * sizeof *more);
  if (!more) {
    k->failed = 1, k->length = 0;
    return;
  }
  memcpy(more, k->word, k->length * sizeof *more);
  if (k->word != k->own) free(k->word);
  k->word = more, k->room *= 2;
}

static inline void put(key *k, uint64_t word) {
  if (TIDE_UNLIKELY(k->length == k->room)) grow(k);
  k->word[k->length++] = word;
}

/* Equal sizes have equal numbers. Those beyond the first ones have none of their own. */
static uint8_t number_of_size(key *k, int64_t size) {
  if (size == 1) return ONE;
  for (int i = 0; i < k->sizes; i++)
    if (k->size[i] == size) return (uint8_t)i;
  if (k->sizes < SIZES) {
    k->size[k->sizes] = size;
    return (uint8_t)k->sizes++;
  }
  return OWN;
}

/* The sizes of what is computed follow from those of leaves. */
static void put_sizes(key *k, const tide_tensor *x) {
  uint64_t word = 0;
  bool own = false;
  for (int d = 0; d < x->ndim; d++) {
    uint8_t number = number_of_size(k, x->size[d]);
    word = word << 8 | number, own = own || number == OWN;
    if (d % 8 == 7 || d == x->ndim - 1) put(k, word), word = 0;
  }
  for (int d = 0; own && d < x->ndim; d++)
    if (number_of_size(k, x->size[d]) == OWN) put(k, (uint64_t)x->size[d]);
}

/* The first word says how many others there are, but those of sizes. */
static void put_node(key *k, const tide__node *n) {
  uint64_t first = (uint64_t)n->kind | (uint64_t)n->op << 3 | (uint64_t)n->x.dtype << 11 | (uint64_t)n->x.ndim << 17 |
                   (uint64_t)n->is_wanted << 23;
  if (tide__node_is_leaf(n)) {
    put(k, first);
    put_sizes(k, &n->x);
    return;
  }
  put(k, first | (uint64_t)n->dims << 24 | (uint64_t)n->leading << 30 | (uint64_t)n->keepdim << 31 |
             (uint64_t)n->kinds << 32);
  put(k, (uint32_t)operand(n, 0) | (uint64_t)(uint32_t)operand(n, 1) << 32);
  if (n->operands > 2) put(k, (uint32_t)operand(n, 2));
  if (n->kind == TIDE_FUSE_GATHER) put(k, (uint32_t)n->line), put(k, (uintptr_t)n->file);
  if (n->kind == TIDE_FUSE_REDUCE && n->op == TIDE_NORM) {
    uint64_t order;
    memcpy(&order, &n->param[0].re, sizeof order);
    put(k, order);
  }
}

static void write_key(key *k, const tide_fuse *f, const tide__cone *c) {
  put(k, (uint32_t)c->count | (uint64_t)(uint32_t)c->node[c->count - 1]->device << 32);
  put(k, (uint64_t)f->dtype << 1 | (c->into != NULL));
  for (int i = 0; i < c->count; i++) put_node(k, c->node[i]);
}

static uint64_t hash_of(const key *k) {
  uint64_t h = 1469598103934665603u;
  for (size_t i = 0; i < k->length; i++) {
    h = (h ^ k->word[i]) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  return h;
}

/* ---- recipes ---- */

void tide__fuse_recipe_drop(tide__fuse_recipe *r) {
  if (!r || atomic_fetch_sub(&r->refs, 1) != 1) return;
  for (int i = 0; i < r->steps; i++) tide_fused_free(r->step[i].fused);
  free(r->step);
  free(r->key);
  free(r);
}

static tide__fuse_recipe *make(tide_fuse *f, const tide__cone *c) {
  size_t n = (size_t)c->count;
  TIDE_FREED uint8_t *kind = calloc(n, 1);
  TIDE_FREED bool *here = calloc(n, sizeof *here);
  TIDE_FREED int *last = calloc(n, sizeof *last);
  tide__fuse_recipe *r = kind && here && last ? calloc(1, sizeof *r) : NULL;
  planner p = {.c = c, .r = r, .name = f->name, .kind = kind, .here = here, .last = last};
  if (!r) return NULL;
  atomic_init(&r->refs, 1);
  for (int i = 0; i < c->count; i++)
    for (int k = 0; k < 3; k++)
      if (c->node[i]->in[k]) last[c->node[i]->in[k]->at] = i;
  make_steps(&p);
  for (int i = 0; i < r->steps; i++) r->step[i].recipe = r;
  if (!p.failed) return r;
  tide__fuse_recipe_drop(r);
  return NULL;
}

/* Of many the one that was used longest ago is forgotten. */
static void keep(tide_fuse *f, tide__fuse_recipe *r) {
  tide__fuse_recipe **at = &f->recipes;
  r->next = f->recipes, f->recipes = r;
  if (++f->recipe_count <= RECIPES) return;
  while ((*at)->next) at = &(*at)->next;
  tide__fuse_recipe *last = *at;
  *at = NULL, f->recipe_count--;
  tide__fuse_recipe_drop(last);
}

static tide__fuse_recipe *find(tide_fuse *f, const key *k, uint64_t hash) {
  for (tide__fuse_recipe **at = &f->recipes, *r; (r = *at); at = &r->next) {
    if (r->hash != hash || r->length != k->length || memcmp(r->key, k->word, k->length * sizeof *k->word) != 0)
      continue;
    *at = r->next, r->next = f->recipes;
    return f->recipes = r;
  }
  return NULL;
}

static tide__fuse_recipe *make_kept(tide_fuse *f, const tide__cone *c, const key *k, uint64_t hash) {
  tide__fuse_recipe *r = make(f, c);
  uint64_t *words = r ? malloc(k->length * sizeof *words) : NULL;
  if (!words) {
    tide__fuse_recipe_drop(r);
    return NULL;
  }
  memcpy(words, k->word, k->length * sizeof *words);
  r->hash = hash, r->key = words, r->length = k->length;
  keep(f, r);
  return r;
}

tide__fuse_recipe *tide__fuse_recipe_get(tide_fuse *f, const tide__cone *c) {
  key k;
  k.word = k.own, k.length = 0, k.room = sizeof k.own / sizeof *k.own, k.sizes = k.failed = 0;
  write_key(&k, f, c);
  uint64_t hash = hash_of(&k);
  tide__fuse_recipe *r = k.failed ? NULL : find(f, &k, hash);
  if (!r && !k.failed) r = make_kept(f, c, &k, hash);
  if (k.word != k.own) free(k.word);
  if (r)
    atomic_fetch_add(&r->refs, 1);
  else
    tide__fail(TIDE_MEMORY, "fuse: no host memory");
  return r;
}

/* ---- what one is made of ---- */

void tide_fuse_kernel_retain(tide_fuse_kernel *k) {
  if (k) atomic_fetch_add(&k->recipe->refs, 1);
}
void tide_fuse_kernel_release(tide_fuse_kernel *k) {
  if (k) tide__fuse_recipe_drop(k->recipe);
}

static const char *operation_name(const tide_fuse_node *n) {
  if (n->kind == TIDE_FUSE_REDUCE) return tide_reduction_get((tide_reduction)n->op)->name;
  if (n->kind == TIDE_FUSE_GATHER) return "gather";
  return n->kind == TIDE_FUSE_CAST ? tide_dtype_name(n->dtype) : tide_op_get((tide_op)n->op)->name;
}

void tide_fuse_kernel_get(tide_fuse_kernel_info *out, const tide_fuse_kernel *k) {
  if (!out) return;
  *out = (tide_fuse_kernel_info){.operations = 0};
  if (!k) return;
  out->reads = k->inputs, out->writes = k->outputs, out->bytes = k->bytes, out->elements = k->elements;
  out->fused = k->fused;
  for (int i = 0; i < k->nodes; i++)
    if (k->node[i].kind != TIDE_FUSE_INPUT) out->operation[out->operations++] = operation_name(&k->node[i]);
}
