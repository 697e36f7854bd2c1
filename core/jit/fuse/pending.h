/* pending.h: what the files of pending values share. Private to them.
 *
 * A node is one operation whose value nobody has needed yet, or a leaf: a view of memory that is there. */
#pragma once

#include "base/biased_mutex.h"
#include "jit/fuse/fuse.h"

typedef struct tide__node {
  struct tide__node *older, *newer, *dead; /* the fuse's list, in order of creation; the stack of dropped ones */
  tide_fuse *fuse;
  tide_storage *storage; /* what the value goes to; NULL: only other nodes read it */
  int users;             /* nodes that read it, and one for `storage` */
  uint8_t kind, op, operands, params, dims;
  bool leading, keepdim, is_lost, holds_stream, is_wanted;
  bool is_filled; /* `storage` has its memory, and a reference of the walk's */
  uint16_t depth; /* nodes one behind the other on the way to it */
  int device, line;
  uint32_t kinds;      /* of its numbers, 3 bits each: operands, then parameters */
  uint64_t form;       /* the number of its form */
  const char *file;    /* of `line`, for errors of a gather */
  tide_stream *stream; /* the current one when it was made; with holds_stream it is retained */
  tide_quota *quota;   /* that it counts in, or NULL */
  struct tide__node *in[3];
  uint64_t serial;
  uint32_t mark;                   /* the walk that has met it; then */
  int at;                          /* its place in the cone */
  tide_tensor x;                   /* size, strides and dtype; a leaf holds its storage. From here on not cleared */
  tide_scalar number[3], param[3]; /* number: operands that are no nodes */
} tide__node;

struct tide__fuse_recipe;

/* A kernel of a recipe. */
struct tide_fuse_kernel {
  struct tide__fuse_recipe *recipe;
  tide_fused *fused; /* NULL: operation by operation */
  int nodes, inputs, outputs, numbers;
  int alone; /* the one operation that it is; or -1 */
  tide_fuse_node node[TIDE_FUSE_NODES];
  int32_t input[TIDE_FUSE_INPUTS], output[TIDE_FUSE_OUTPUTS], of[TIDE_FUSE_NODES]; /* places in the cone */
  int32_t from[TIDE_FUSE_SCALARS]; /* where a number comes from: place << 3 | operand, or 3 + parameter */
  int written[TIDE_FUSE_OUTPUTS];  /* the nodes of `output` */
  int64_t bytes, elements;         /* that one element moves; of a result, when it ran last */
};

/* Kernels in a row, for one structure of nodes. */
typedef struct tide__fuse_recipe {
  struct tide__fuse_recipe *next;
  _Atomic int refs;
  uint64_t hash;
  size_t length; /* of the key, in words */
  uint64_t *key;
  int steps;
  tide_fuse_kernel *step;
} tide__fuse_recipe;

/* The nodes that some values are computed from, operands first. */
typedef struct tide__cone {
  tide__node **node, *own[64];
  int count, room;
  tide_tensor *into;        /* what the last one is written to; or NULL */
  struct tide__cone *outer; /* that is being computed meanwhile, by whatever has called us */
} tide__cone;

/* Where a value lies and what it looks like. Equal ones of a fuse have one number while they are in its table, and a
 * number is never used again. */
typedef struct tide__fuse_form {
  uint64_t number;
  int device;
  int64_t numel;
  int32_t ndim;
  uint8_t dtype;
  bool contiguous;
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
} tide__fuse_form;

/* What an operation gives: a number, of a form of the table. key: the operation, kinds of numbers, operands' forms. */
typedef struct tide__fuse_result {
  uint64_t key[4], form;
  int place;
} tide__fuse_result;
enum { TIDE__FUSE_FORMS = 64 }; /* a power of 2 */

struct tide_fuse {
  tide__biased lock;
  _Atomic(const void *) holder; /* of the lock: the address of its thread's number */
  int depth;                    /* how often that thread holds it */
  int nodes;                    /* living ones */
  bool has_nodes;               /* they have their reference */
  _Atomic int refs;             /* the owner's, one for all nodes, and those of drops that are going on */
  _Atomic(tide__node *) dead;
  struct tide_fuse *next;                        /* of the registry */
  tide__node *oldest, *newest, *leaf[8], *spare; /* spare: freed ones, by `newer` */
  int leaf_at, spares;
  uint64_t serial;
  uint32_t mark;
  tide_dtype dtype; /* the default when its nodes were made */
  int base;         /* of indexes when its gathers were made */
  uint64_t forms;   /* the last number */
  tide__fuse_form form[TIDE__FUSE_FORMS];
  tide__fuse_result result[TIDE__FUSE_FORMS];
  tide__cone *cone; /* that is being computed */
  tide__fuse_recipe *recipes;
  int recipe_count;
  tide_fuse_kernel **trace; /* what has run since tide_fuse_trace_begin, with references */
  int trace_count, trace_room;
  char name[];
};

/* ---- pending_node.c ---- */

void tide__fuse_drop(tide_fuse *f); /* a reference */
void tide__fuse_lock(tide_fuse *f);
bool tide__fuse_trylock(tide_fuse *f); /* this thread does not hold it; false: another one does */
static inline bool tide__fuse_holds(const tide_fuse *f) {
  return atomic_load_explicit(&f->holder, memory_order_relaxed) == &tide__thread_number;
}
void tide__fuse_unlock(tide_fuse *f);
tide__node *tide__node_new(tide_fuse *f, tide_fuse_kind kind); /* NULL: error set */
void tide__node_link(tide__node *n);                           /* becomes the newest */
void tide__node_unuse(tide__node *n);                          /* one use less */
void tide__node_end(tide__node *n);                            /* nobody refers to its storage, which ends */
void tide__node_drop_operands(tide__node *n);
void tide__node_describe(tide__node *n, const int64_t *size, const int64_t *stride, int ndim, int dtype);
void tide__node_take_form(tide__node *n, const tide__fuse_form *form);
void tide__node_make_leaf(tide__node *n, tide_storage *s, int64_t offset); /* a view of the storage */
static inline bool tide__node_usable(const tide_tensor *x) {
  return x && atomic_load_explicit(&x->refs, memory_order_relaxed) > 0 && x->storage && !x->replay &&
         (x->storage->pending || tide__storage_live(x->storage));
}
/* NULL: its values are there. */
static inline tide__node *tide__node_of(const tide_tensor *x) { return x->storage->pending ? x->storage->user : NULL; }
/* A tensor with the node's size and strides, which takes over the storage. */
tide_status tide__node_tensor(tide_tensor **out, const tide__node *n, tide_storage *s);
/* Takes a reference to a storage that somebody may be dropping; false: it is gone. */
bool tide__storage_retain_living(tide_storage *s);
/* The node of an operand, with a use of it; NULL: it has none, as it is complex, or nothing that can be read. */
tide__node *tide__node_use(tide_fuse *f, const tide_tensor *x);

/* ---- pending.c ---- */

/* Computes these nodes; those that live are held meanwhile. `last`: a node without storage, written to `into`. */
tide_status tide__fuse_compute_all(tide_fuse *f, tide__node **list, int n, tide__node *last, tide_tensor *into);
/* Computes the living nodes that read the storage, or without one a captured one, or all. */
tide_status tide__fuse_settle(tide_fuse *f, const tide_storage *s, bool captured);
/* Computes those that read what is written, and n, a node without storage, to `into`. */
tide_status tide__fuse_overwrite(tide_fuse *f, tide__node *n, tide_tensor *into);
/* A reference to the first fuse there is, or to the one behind f, which is dropped. */
tide_fuse *tide__fuse_next(tide_fuse *f);

/* pending_plan.c: the recipe of the cone; NULL: no host memory, error set. A reference. */
tide__fuse_recipe *tide__fuse_recipe_get(tide_fuse *f, const tide__cone *c);
void tide__fuse_recipe_drop(tide__fuse_recipe *r);
/* pending_run.c: computes the cone's nodes that are wanted and have storages. */
tide_status tide__cone_run(tide_fuse *f, tide__cone *c, tide__fuse_recipe *r);

/* A number of the cone: of `from` as in tide_fuse_kernel. */
static inline tide_scalar tide__cone_number(const tide__cone *c, int from) {
  const tide__node *n = c->node[from >> 3];
  return (from & 7) < 3 ? n->number[from & 7] : n->param[(from & 7) - 3];
}
static inline bool tide__node_is_leaf(const tide__node *n) { return n->kind == TIDE_FUSE_INPUT; }
