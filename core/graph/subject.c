/* subject.c: what an operation was called with, kept so that it can be called again with other addresses.
 *
 * A subject is the struct of a kernel's arguments, a copy between memories, or the launch of a kernel that was made at
 * run time. In each, addresses stand in fields that are known; nothing is found by its value.
 *
 * Invariant: a copied subject holds nothing but memory of the host. What it names lives as long as the graph: plans of
 * transforms that were captured, and modules, stay until the runtime ends. */

#include "graph.h"

static const uint16_t kernel_bytes[] = {
#define KERNEL(name, args, writes, cost, library) [TIDE__LAUNCH_##name] = sizeof(args),
#include "backend/kernel.def"
};
enum { KERNELS = sizeof kernel_bytes / sizeof *kernel_bytes };

static bool is_kernel(tide__launch what) { return (size_t)what < KERNELS; }
static bool is_transfer(tide__launch what) {
  return what == TIDE__LAUNCH_COPY_IN || what == TIDE__LAUNCH_COPY_OUT || what == TIDE__LAUNCH_COPY_PEER;
}

/* A launch and its arguments in one piece of memory. */
typedef struct made_copy {
  tide__made made;
  tide_launch launch;
  uint16_t offset[TIDE_LAUNCH_PARAMS], pointer[TIDE_LAUNCH_POINTERS];
  _Alignas(16) char packed[];
} made_copy;

static void *copy_made(const tide__made *m) {
  const tide_launch *a = m->launch;
  made_copy *c = malloc(sizeof *c + a->bytes);
  if (!c) return NULL;
  c->launch = *a;
  memcpy(c->offset, a->offset, a->params * sizeof *a->offset);
  memcpy(c->pointer, a->pointer, a->pointers * sizeof *a->pointer);
  memcpy(c->packed, a->packed, a->bytes);
  c->launch.offset = c->offset, c->launch.pointer = c->pointer, c->launch.packed = c->packed, c->launch.name = NULL;
  c->made = (tide__made){m->compiler, m->function, &c->launch};
  return c;
}

void *tide__subject_copy(tide__launch what, const void *subject) {
  if (!is_kernel(what) && !is_transfer(what)) return copy_made(subject);
  size_t bytes = is_kernel(what) ? kernel_bytes[what] : sizeof(tide__transfer);
  void *copy = malloc(bytes);
  return copy ? memcpy(copy, subject, bytes) : NULL;
}

void tide__subject_addresses(tide__launch what, void *subject, void (*f)(void *arg, void *address), void *arg) {
  if (is_kernel(what)) {
    tide_head *head = subject;
    for (int k = 0; k < head->nptr; k++) f(arg, &head->ptr[k]);
  } else if (is_transfer(what)) {
    tide__transfer *t = subject;
    f(arg, &t->dst), f(arg, &t->src);
  } else {
    made_copy *c = subject;
    for (int k = 0; k < c->launch.pointers; k++) f(arg, c->packed + c->pointer[k]);
  }
}

static tide_status run_transfer(const tide_backend *b, tide_stream *stream, const tide__transfer *t) {
  if (t->src_device < 0) return b->copy_to_device(stream->impl, t->dst, t->src, t->bytes, true);
  if (t->dst_device < 0) return b->copy_to_host(stream->impl, t->dst, t->src, t->bytes, true);
  return b->copy_peer(stream->impl, t->dst, t->dst_device, t->src, t->src_device, t->bytes);
}

/* A plan serves one call at a time. */
static tide_status run_fft(const tide_backend *b, tide_stream *stream, const tide_fft_args *a) {
  pthread_mutex_t *busy = a->plan ? tide__fft_lock(stream->device, a->plan) : NULL;
  if (busy) pthread_mutex_lock(busy);
  tide_status status = b->fft(stream, a);
  if (busy) pthread_mutex_unlock(busy);
  return status;
}

tide_status tide__subject_run(const tide_backend *b, tide_stream *stream, tide__launch what, void *subject) {
  if (is_transfer(what)) return run_transfer(b, stream, subject);
  if (what == TIDE__LAUNCH_fft) return run_fft(b, stream, subject);
  switch ((int)what) {
#define CASE(name, args)                                                                                               \
  case TIDE__LAUNCH_##name:                                                                                            \
    return b->name(stream, (const args *)subject);
#define KERNEL(name, args, writes, cost, library) CASE(name, args)
#include "backend/kernel.def"
  default: break;
  }
  const made_copy *c = subject;
  return c->made.compiler->loader->launch(stream, c->made.function, &c->launch);
}
