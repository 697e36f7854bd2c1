/* kernel.c: kernels over a grid: what they are made of, and the functions that are compiled of it.
 *
 * The texts come from a compiler in front of us; what they find in memory are slots (tide/kernel.h). So a kernel
 * keeps one array of these, with all that is the same at every launch, the numbers of its lines above all, and where
 * the rest goes. Each device has a function of its own, compiled when it is first wanted.
 *
 * What a compiler refuses here is our own text: the message shows all that it said.
 *
 * Invariant: a kernel has no state but its functions, so any number of calls may be between its launches. */
#include "jit/grid/kernel.h"

#include <stdio.h>

/* ---- making ---- */

static tide_status check_text(const tide_kernel_text *t) {
  if (t) TIDE_TRY(tide__struct_check("kernel", t->struct_size, sizeof *t));
  bool good = t && t->name && (unsigned)t->layout <= TIDE_KERNEL_MANY_UNIT && (t->device || t->host) && t->ndim >= 1 &&
              t->ndim <= TIDE_KERNEL_DIMS && t->operands_count >= 0 && t->operands_count <= TIDE_KERNEL_OPERANDS &&
              (!t->operands_count || t->operands) && t->lines_count >= 0 &&
              (!t->lines_count || (t->source && t->lines));
  for (int d = 0; good && d < t->ndim; d++)
    good = (!t->device || t->block[d] > 0) && (!t->host || t->host_block[d] > 0);
  for (int i = 0; good && i < t->operands_count; i++)
    good =
        t->operands[i].kind != TIDE_KERNEL_TENSOR || (t->operands[i].ndim >= 0 && t->operands[i].ndim <= TIDE_MAX_DIMS);
  return good ? TIDE_OK
              : tide__fail(TIDE_ARGUMENT,
                           "kernel: wrong arguments, expected texts, sizes of blocks, at most %d operands",
                           TIDE_KERNEL_OPERANDS);
}

/* Where each operand lies. SUPPORT where a launch cannot carry so much. */
static tide_status lay_out(tide_kernel *p, const tide_kernel_text *t) {
  int64_t at = TIDE_KERNEL_LINES + t->lines_count;
  for (int i = 0; i < p->operands && at < TIDE_KERNEL_SLOTS; i++) {
    bool tensor = p->operand[i].kind == TIDE_KERNEL_TENSOR;
    p->first[i] = (uint16_t)at;
    if (tensor) p->pointer[p->pointers++] = (uint16_t)(8 * at);
    at += tensor ? 1 + 2 * p->operand[i].ndim : 1;
  }
  if (at > TIDE_KERNEL_SLOTS)
    return tide__fail(
        TIDE_SUPPORT,
        "%s: the kernel has too many tensors, numbers and places where it reads or writes, got %d places, "
        "expected two kernels, or check = false",
        p->what, t->lines_count);
  p->slots = (int)at;
  return TIDE_OK;
}

static bool copy_operands(tide_kernel *p, const tide_kernel_text *t) {
  size_t n = (size_t)t->operands_count + 1;
  p->operand = calloc(n, sizeof *p->operand);
  p->first = calloc(n, sizeof *p->first), p->pointer = calloc(n, sizeof *p->pointer);
  if (!p->operand || !p->first || !p->pointer) return false;
  for (; p->operands < t->operands_count; p->operands++) {
    const char *name = t->operands[p->operands].name;
    p->operand[p->operands] = t->operands[p->operands];
    if (!(p->operand[p->operands].name = strdup(name ? name : "?"))) return false;
  }
  return true;
}

static tide_status fill(tide_kernel *p, const tide_kernel_text *t) {
  p->name = p->what + sizeof "kernel: " - 1;
  snprintf(p->what, sizeof p->what, "kernel: %s", t->name);
  p->rounds = t->rounds > 1 ? t->rounds : 1;
  p->turns = t->turns, p->waits = t->waits, p->unordered = t->unordered, p->ndim = t->ndim;
  memcpy(p->block, t->block, sizeof p->block), memcpy(p->host_block, t->host_block, sizeof p->host_block);
  bool copied = (!t->device || (p->device = strdup(t->device))) && (!t->host || (p->host = strdup(t->host))) &&
                (!t->code || (p->code = strdup(t->code)));
  if (!copied || !copy_operands(p, t)) return tide__fail(TIDE_MEMORY, "%s: no host memory", p->what);
  TIDE_TRY(lay_out(p, t));
  p->template = calloc((size_t)p->slots, sizeof *p->template);
  if (!p->template) return tide__fail(TIDE_MEMORY, "%s: no host memory", p->what);
  for (int d = 0; d < TIDE_KERNEL_DIMS; d++) p->template[d] = 1;
  for (int i = 0; i < t->lines_count; i++) p->template[TIDE_KERNEL_LINES + i] = tide__site_of(t->source, t->lines[i]);
  return TIDE_OK;
}

tide_status tide_kernel_new(tide_kernel **out, const tide_kernel_text *t) {
  if (!tide__running()) return tide__fail(TIDE_STATE, "kernel: tide is not started, expected tide_init first");
  if (!out) return tide__fail(TIDE_ARGUMENT, "kernel: wrong arguments, expected room for a result");
  TIDE_TRY(check_text(t));
  tide_kernel *p = calloc(1, sizeof *p);
  if (!p) return tide__fail(TIDE_MEMORY, "kernel: no host memory");
  atomic_init(&p->refs, 1);
  p->epoch = atomic_load(&tide__epochs[0]), p->made = tide__epoch_now();
  tide_status status = fill(p, t);
  if (status != TIDE_OK)
    tide_kernel_free(p);
  else
    *out = p;
  return status;
}

void tide_kernel_free(tide_kernel *p) {
  if (!p || atomic_fetch_sub(&p->refs, 1) > 1) return;
  for (int i = 0; i < p->operands; i++) free((char *)(uintptr_t)p->operand[i].name);
  free(p->operand), free(p->first), free(p->pointer), free(p->template);
  if (p->interpreted) p->code_free(p->interpreted);
  free(p->device), free(p->host), free(p->code);
  free(p);
}

/* ---- functions ---- */

static char *source_of(const tide_kernel *p, const tide_compiler *c) {
  tide__text t = {0};
  if (c->host)
    tide__text_add(&t, "%s%s%s%s", p->turns ? "#define TIDE_FIBERS 1\n" : "", c->text->prelude, c->text->with_small,
                   c->text->raw);
  tide__text_add(&t, "%s", c->host ? p->host : p->device);
  return tide__text_end(&t, p->what);
}

/* Sums of the texts that may wrap around are those of unsigned numbers; a compiler that knows that no other does makes
 * more loops of vector instructions. */
static const char *const host_options[] = {"-fno-wrapv"};

/* *out is NULL where it is being compiled elsewhere. */
static tide_status compile(tide__function *out, const tide_kernel *p, const tide_compiler *c, int device) {
  if (!(c->host ? p->host : p->device))
    return tide__fail(TIDE_ARGUMENT, "%s: got no text for %s", p->what, tide__device_text(device));
  TIDE_FREED char *source = source_of(p, c);
  if (!source) return TIDE_MEMORY;
  const tide__jit_request r = {.what = p->what,
                               .source = source,
                               .name = "tide_kernel",
                               .raw = c->host,
                               .ours = true,
                               .options = host_options,
                               .options_count = c->host};
  return tide__jit_function(out, &r, c, device);
}

static tide_status prepare(tide__kernel_loaded *l, const tide_kernel *p, int device) {
  const tide_compiler *c;
  tide__function f = {0};
  TIDE_TRY(tide__jit_compiler(&c, p->what, device));
  TIDE_TRY(compile(&f, p, c, device));
  if (!f.handle) return TIDE_OK;
  l->function = f.handle, l->max_threads = f.info.max_threads, l->compiler = c;
  l->ready = true;
  return TIDE_OK;
}

/* In the background; what has been asked for is not asked for again before a compiler has ended something. */
static tide_status prepare_elsewhere(tide__kernel_loaded *l, const tide_kernel *p, int device) {
  uint32_t ended = atomic_load(&tide__jit_ended);
  if (l->asked && l->ended == ended) return TIDE_OK;
  TIDE_ELSEWHERE(true);
  tide_status status = prepare(l, p, device);
  l->asked = status == TIDE_OK, l->ended = ended;
  return status;
}

tide_status tide__kernel_prepare(tide__kernel_loaded **out, tide_kernel *p, int device) {
  tide__kernel_loaded *l = &p->on[device + 1];
  *out = l;
  if (TIDE_LIKELY(l->ready)) return TIDE_OK;
  TIDE_TRY(prepare(l, p, device));
  return l->ready ? TIDE_OK : tide__jit_pending(p->what);
}

/* ---- without a compiler ---- */

/* Has the device a host's compiler, so that code can be interpreted? */
static bool interprets(const tide_compiler **out, const tide_kernel *p, int device) {
  return p->code && tide__jit_compiler(out, p->what, device) == TIDE_OK && (*out)->interpreter;
}

/* It keeps more values than the interpreter has registers for, so a compiler has to make it. */
static tide_status compile_too_long(tide__kernel_loaded **out, tide_kernel *p, int device) {
  tide_status status = tide__kernel_prepare(out, p, device);
  if (status != TIDE_LIBRARY) return status;
  const char *word = strstr(p->code, "\nlong ");
  return tide__fail(TIDE_VALUE,
                    "%s: too long at line %d, got a kernel that keeps more values at a time than the interpreter has "
                    "registers for, expected a C++ compiler to be installed, or several shorter kernels",
                    p->what, word ? atoi(word + 6) : 0);
}

tide_status tide__kernel_choose(tide__kernel_loaded **out, tide_kernel *p, int device) {
  tide__kernel_loaded *l = *out = &p->on[device + 1];
  const tide_compiler *c;
  if (TIDE_LIKELY(l->ready)) return TIDE_OK;
  if (!interprets(&c, p, device)) return tide__kernel_prepare(out, p, device);
  if (!p->interpreted && !p->uninterpreted) {
    tide_status status = c->interpreter->code_new(&p->interpreted, p->code, strlen(p->code));
    p->uninterpreted = status == TIDE_VALUE;
    if (status != TIDE_OK && !p->uninterpreted) return status;
  }
  if (p->uninterpreted) return compile_too_long(out, p, device);
  p->code_free = c->interpreter->code_free;
  if (l->without) return TIDE_OK;
  /* whatever the compiler has to say is told to who asks whether it is ready */
  tide_status status = prepare_elsewhere(l, p, device);
  if (status == TIDE_QUOTA) return status;
  l->asked |= status != TIDE_OK, l->without = status == TIDE_LIBRARY;
  if (!l->ready) l->compiler = c;
  return TIDE_OK;
}

/* The status of asking for a compiler, or OK where none is there and none is needed. */
static tide_status do_without(tide__kernel_loaded *l, tide_status status, const tide_kernel *p, int device) {
  const tide_compiler *c;
  if (status != TIDE_LIBRARY || !interprets(&c, p, device)) return status;
  l->without = true, l->compiler = c;
  return TIDE_OK;
}

tide_status tide_kernel_ready(bool *out, tide_kernel *p, int device) {
  if (!out || !p) return tide__fail(TIDE_ARGUMENT, "kernel: wrong arguments, expected a kernel and a result");
  if (device != TIDE_CPU) TIDE_TRY(tide__device_resolve(&device, device, "ready"));
  if (p->made != tide__epoch_now()) TIDE_TRY(tide__kernel_renew(p));
  tide__kernel_loaded *l = &p->on[device + 1];
  if (!l->ready && !l->without) TIDE_TRY(do_without(l, prepare_elsewhere(l, p, device), p, device));
  *out = l->ready || l->without;
  return TIDE_OK;
}

tide_status tide_kernel_wait(tide_kernel *p, int device) {
  tide__kernel_loaded *l;
  if (!p) return tide__fail(TIDE_ARGUMENT, "kernel: wrong arguments, expected a kernel");
  if (device != TIDE_CPU) TIDE_TRY(tide__device_resolve(&device, device, "wait"));
  if (p->made != tide__epoch_now()) TIDE_TRY(tide__kernel_renew(p));
  l = &p->on[device + 1];
  return l->without ? TIDE_OK : do_without(l, tide__kernel_prepare(&l, p, device), p, device);
}

tide_status tide__kernel_renew(tide_kernel *p) {
  if (p->epoch != atomic_load(&tide__epochs[0]))
    return tide__fail(TIDE_STATE, "%s: the kernel belongs to a runtime that has ended or was reset", p->what);
  for (int i = 0; i <= TIDE_MAX_DEVICES; i++) p->on[i].ready = p->on[i].asked = p->on[i].without = false;
  p->made = tide__epoch_now();
  return TIDE_OK;
}
