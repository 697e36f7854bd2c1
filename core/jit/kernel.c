/* kernel.c: raw kernels: CUDA C source, a signature, checked arguments, a launch.
 *
 * Everything that the signature says is checked before a launch: number, kind, dtype, device, contiguity and alignment
 * of what is passed, and that numbers fit their types. The arguments are packed on the stack as the kernel expects
 * them; nothing is allocated and no name is looked up. A bound launch is such a block that was packed before, with
 * views of its tensors, so that it needs no check at all.
 *
 * Invariant: a kernel is launched only with a function of its device, with sizes that the device and the function
 * allow; storages know the stream before the work is queued. */
#include "base/determinism.h"
#include "jit.h"

#include <stdio.h>

enum { PARAMS = TIDE_LAUNCH_PARAMS, OPTIONS = 24 };

typedef struct loaded {
  bool ready;
  tide__function function;
  const tide_compiler *compiler;
  int max_threads;
  int64_t max_shared;
} loaded;

struct tide_kernel {
  char *source, *name;
  char what[192];       /* "compile_kernel: scale of demo.lua:3" */
  uint32_t epoch, made; /* of the runtime; of the accelerators when the functions were loaded */
  int params, bytes, pointers;
  bool checked; /* the compiler says whether it takes them */
  tide__signature signature;
  char type[PARAMS][TIDE_JIT_TYPE]; /* with the template's argument in the place of its parameter */
  tide_kernel_param param[PARAMS];
  uint16_t offset[PARAMS], pointer[PARAMS];
  bool unordered; /* its atomics may depend on the order of threads */
  _Atomic bool warned;
  int options_count;
  char *options[OPTIONS];
  loaded on[TIDE_MAX_DEVICES + 1]; /* of the CPU, then of each device */
};

/* ---- making ---- */

/* Argument i of "scale<float, 4>", without blanks around it; of length 0 if there is none. */
static const char *template_argument(size_t *length, const char *name, int i) {
  const char *open = strchr(name, '<'), *begin = open ? open + 1 : "", *p = begin;
  for (int depth = 0; *p && !(depth == 0 && (*p == '>' || (*p == ',' && i == 0))); p++) {
    depth += *p == '<' || *p == '(';
    depth -= *p == '>' || *p == ')';
    if (depth == 0 && *p == ',') i--, begin = p + 1;
  }
  begin += strspn(begin, " ");
  *length = i || p < begin ? 0 : (size_t)(p - begin);
  while (*length && begin[*length - 1] == ' ') --*length;
  return begin;
}

/* What parameter i of the template is: its argument, else its default, which may be a parameter before it; of length 0
 * if there is neither. */
static const char *template_value(size_t *length, const tide_kernel *k, int i) {
  const char *text = template_argument(length, k->name, i);
  if (*length) return text;
  text = k->signature.template_default[i];
  *length = strlen(text);
  for (int before = 0; before < i; before++)
    if (*text && !strcmp(text, k->signature.template_name[before])) return template_value(length, k, before);
  return text;
}

/* Words of the type that are parameters of the template become its arguments. */
static bool substitute(char *out, const char *type, const tide_kernel *k) {
  size_t at = 0;
  for (const char *p = type; *p;) {
    size_t n = strcspn(p, " "), length = n;
    const char *word = p;
    for (int i = 0; i < k->signature.templates; i++)
      if (strlen(k->signature.template_name[i]) == n && !memcmp(p, k->signature.template_name[i], n)) {
        const char *is = template_value(&length, k, i);
        if (length)
          word = is;
        else
          length = n;
        break;
      }
    int wrote = snprintf(out + at, TIDE_JIT_TYPE - at, "%s%.*s", at ? " " : "", (int)length, word);
    if (wrote < 0 || (size_t)wrote >= TIDE_JIT_TYPE - at) return false;
    at += (size_t)wrote;
    p += n + (p[n] == ' ');
  }
  return true;
}

/* Parameter i, whose type stands in k->type[i]; `given`: how the source or the caller says it. */
static tide_status read_param(tide_kernel *k, int i, const char *given, const char *name) {
  tide_kernel_param *x = &k->param[i];
  if (!tide__param_read(x, k->type[i]))
    return tide__fail(TIDE_SUPPORT,
                      "%s: parameter %d is not understood, got %s%s%s, expected a pointer or a number; where the "
                      "source has another name for its type, params may say which one it is",
                      k->what, i + 1, given, *name ? " " : "", name);
  x->name = name;
  k->bytes = (k->bytes + x->bytes - 1) / x->bytes * x->bytes;
  k->offset[i] = (uint16_t)k->bytes;
  if (x->kind == TIDE_PARAM_POINTER) k->pointer[k->pointers++] = k->offset[i];
  k->bytes += x->bytes;
  return TIDE_OK;
}

/* The kernel is the one of this signature. */
static tide_status choose(tide_kernel *k, const tide__signature *signature) {
  k->signature = *signature;
  if (!k->signature.templates || strchr(k->name, '<')) return TIDE_OK;
  return tide__fail(TIDE_VALUE, "%s: the kernel is a template, got %s, expected an instance such as %s<float>", k->what,
                    k->name, k->name);
}

static tide_status read_params(tide_kernel *k) {
  k->params = k->signature.params, k->bytes = k->pointers = 0;
  for (int i = 0; i < k->params; i++) {
    const tide__parameter *p = &k->signature.param[i];
    if (!substitute(k->type[i], p->type, k)) snprintf(k->type[i], TIDE_JIT_TYPE, "?");
    TIDE_TRY(read_param(k, i, p->type, p->name));
  }
  return TIDE_OK;
}

/* What the caller says they are; their names are still the source's, if it has as many. */
static tide_status take_params(tide_kernel *k, const char *const *types, int n) {
  if (n < 0 || n > PARAMS)
    return tide__fail(TIDE_VALUE, "%s: too many params, got %d, expected at most %d", k->what, n, PARAMS);
  bool named = n == k->signature.params;
  k->params = n, k->checked = true;
  for (int i = 0; i < n; i++) {
    if (strlen(types[i]) >= TIDE_JIT_TYPE || strcspn(types[i], "(){};,#\n\"\\") < strlen(types[i]))
      return tide__fail(TIDE_VALUE, "%s: params: got %.40s, expected a type such as const float *", k->what, types[i]);
    snprintf(k->type[i], TIDE_JIT_TYPE, "%s", types[i]);
    TIDE_TRY(read_param(k, i, types[i], named ? k->signature.param[i].name : ""));
  }
  return TIDE_OK;
}

static tide_status copy_options(tide_kernel *k, const char *const *options, int n) {
  if (n < 0 || n > OPTIONS)
    return tide__fail(TIDE_VALUE, "%s: too many options, got %d, expected at most %d", k->what, n, OPTIONS);
  for (int i = 0; i < n; i++) {
    k->options[i] = strdup(options[i]);
    if (!k->options[i]) return tide__fail(TIDE_MEMORY, "compile_kernel: no host memory");
    k->options_count++;
  }
  return TIDE_OK;
}

/* There are blocks of threads, but no warps. */
static tide_status check_host(const tide_kernel *k, int device) {
  static const char *const words[] = {"__syncwarp",
                                      "__shfl_sync",
                                      "__shfl_up_sync",
                                      "__shfl_down_sync",
                                      "__shfl_xor_sync",
                                      "__ballot_sync",
                                      "__any_sync",
                                      "__all_sync",
                                      "__match_any_sync",
                                      "__reduce_add_sync",
                                      "__activemask",
                                      "cooperative_groups",
                                      "asm",
                                      "__cvta_generic_to_shared",
                                      NULL};
  const char *found = tide__parse_finds(k->source, words);
  if (!found) return TIDE_OK;
  return tide__fail(TIDE_SUPPORT,
                    "%s: %s cannot be run on %s, where the threads of a block run by turns and know no warps, "
                    "expected __shared__ and __syncthreads() instead, or a GPU",
                    k->what, found, device < 0 ? "the CPU" : "a simulated device");
}

static int host_options(const char **out, const tide_kernel *k) {
  int n = 0;
  for (int i = 0; i < k->options_count; i++)
    if (k->options[i][0] == '-' && strchr("DUI", k->options[i][1])) out[n++] = k->options[i];
  return n;
}

static tide_status limits(loaded *l, int device) {
  const tide_device_props *props;
  l->max_threads = 1024, l->max_shared = INT32_MAX;
  if (device < 0) return TIDE_OK;
  TIDE_TRY(tide_device_get_props(&props, device));
  l->max_threads = props->max_threads_per_block;
  if (l->function.info.max_threads && l->function.info.max_threads < l->max_threads)
    l->max_threads = l->function.info.max_threads;
  l->max_shared = (int64_t)props->shared_memory_per_block_optin - l->function.info.shared;
  return TIDE_OK;
}

static tide_status compile(loaded *l, const tide_kernel *k, const tide_compiler *c, int device, bool plain) {
  const tide__raw_text text = {.source = k->source,
                               .call = k->name,
                               .signature = &k->signature,
                               .params = k->params,
                               .checked = k->checked,
                               .types = (const char(*)[TIDE_JIT_TYPE])k->type,
                               .offset = k->offset,
                               .plain = plain};
  const char *few[OPTIONS];
  char *source = tide__raw_source(&text, c);
  if (!source) return TIDE_MEMORY;
  const tide__jit_request r = {.what = k->what,
                               .source = source,
                               .name = c->host ? "tide_kernel" : k->name,
                               .options = c->host ? few : (const char *const *)k->options,
                               .options_count = c->host ? host_options(few, k) : k->options_count,
                               .raw = true};
  tide_status status = tide__jit_function(&l->function, &r, c, device);
  free(source);
  return status;
}

static tide_status prepare(const loaded **out, tide_kernel *k, int device) {
  loaded *l = &k->on[device + 1];
  *out = l;
  if (TIDE_LIKELY(l->ready)) return TIDE_OK;
  const tide_backend *b;
  TIDE_TRY(tide__backend(&b, device));
  const tide_compiler *c = b->compiler;
  if (!c) return tide__fail(TIDE_SUPPORT, "%s: %s cannot make kernels at run time", k->what, tide__device_text(device));
  if (c->host) TIDE_TRY(check_host(k, device));
  tide_status status = compile(l, k, c, device, false);
  /* Not every body can be made a function inside of the kernel. Compiled as it is, it runs, or the error is its own. */
  if (status == TIDE_VALUE && c->host && k->signature.bodies) status = compile(l, k, c, device, true);
  if (status == TIDE_OK) status = limits(l, device);
  l->compiler = c;
  l->ready = status == TIDE_OK;
  return status;
}

/* After a reset of the accelerators everything is loaded again. */
static tide_status renew(tide_kernel *k) {
  if (k->epoch != atomic_load(&tide__epochs[0]))
    return tide__fail(TIDE_STATE, "%s: the kernel belongs to a runtime that has ended or was reset", k->name);
  for (int i = 0; i <= TIDE_MAX_DEVICES; i++) k->on[i].ready = false;
  k->made = tide__epoch_now();
  return TIDE_OK;
}

/* Sums of floats, and what comes last; minima, maxima, bits and counters come out the same in any order. */
static const char *const unordered[] = {
    "atomicAdd",  "atomicAdd_block",  "atomicAdd_system",  "atomicSub", "atomicSub_block", "atomicSub_system",
    "atomicExch", "atomicExch_block", "atomicExch_system", "atomicCAS", "atomicCAS_block", "atomicCAS_system",
    NULL};

static tide_status load(tide_kernel *k) {
  const loaded *first;
  return prepare(&first, k, tide_is_available() ? tide_current_device() : TIDE_CPU);
}

/* Conditions of the preprocessor may choose between several: the compiler tells which one it is. */
static tide_status load_one_of(tide_kernel *k, const tide__signature *list, int count) {
  tide_status status = TIDE_OK;
  k->checked = count > 1;
  for (int i = 0; i < count; i++) {
    status = choose(k, &list[i]);
    if (status == TIDE_OK) status = read_params(k);
    if (status == TIDE_OK) status = load(k);
    if (count == 1 || (status != TIDE_VALUE && status != TIDE_SUPPORT)) return status;
  }
  char why[600];
  snprintf(why, sizeof why, "%s", tide_error_get()->message);
  return tide__fail(TIDE_VALUE,
                    "%s: line %d: the source has several kernels of this name with different parameters, and the "
                    "compiler takes none of them alone, expected one; give each its own name, or say by params which "
                    "one it is (%s)",
                    k->what, list[1].line, why);
}

static tide_status load_declared(tide_kernel *k, const tide__signature *list, int count, const tide_kernel_text *t) {
  if (count) TIDE_TRY(choose(k, &list[0])); /* for the bodies, which all of them have, and for names */
  TIDE_TRY(take_params(k, t->params, t->params_count));
  return load(k);
}

static tide_status fill(tide_kernel *k, const tide_kernel_text *t) {
  char line[120];
  tide__signature *list;
  int count;
  tide__site_text(tide__site_now(), line, sizeof line);
  snprintf(k->what, sizeof k->what, "compile_kernel: %s%s%s", k->name, line[0] ? " of " : "", line);
  TIDE_TRY(copy_options(k, t->options, t->options_count));
  k->unordered = tide__parse_finds(k->source, unordered) != NULL;
  TIDE_TRY(tide__parse_global(&list, &count, k->source, k->name, k->what));
  tide_status status = t->params ? load_declared(k, list, count, t)
                       : count   ? load_one_of(k, list, count)
                                 : tide__fail(TIDE_VALUE,
                                              "%s: the source has no such kernel, got %s, expected the name of a "
                                                "__global__ function; where a macro makes it, params say what it takes",
                                              k->what, k->name);
  free(list);
  return status;
}

tide_status tide_kernel_new(tide_kernel **out, const tide_kernel_text *t) {
  if (!tide__running()) return tide__fail(TIDE_STATE, "compile_kernel: tide is not started, expected tide_init first");
  if (!out || !t || t->struct_size < sizeof *t || !t->source || !t->name || !*t->name ||
      (t->options_count && !t->options) || strlen(t->name) >= 512)
    return tide__fail(TIDE_ARGUMENT, "compile_kernel: wrong arguments, expected source and the name of a kernel in it");
  tide_kernel *k = calloc(1, sizeof *k);
  if (!k) return tide__fail(TIDE_MEMORY, "compile_kernel: no host memory");
  k->epoch = atomic_load(&tide__epochs[0]), k->made = tide__epoch_now();
  k->source = strdup(t->source), k->name = strdup(t->name);
  tide_status status = k->source && k->name ? fill(k, t) : tide__fail(TIDE_MEMORY, "compile_kernel: no host memory");
  if (status != TIDE_OK)
    tide_kernel_free(k);
  else
    *out = k;
  return status;
}

void tide_kernel_free(tide_kernel *k) {
  if (!k) return;
  for (int i = 0; i < k->options_count; i++) free(k->options[i]);
  free(k->source), free(k->name);
  free(k);
}

const char *tide_kernel_name(const tide_kernel *k) { return k->name; }
int tide_kernel_params(const tide_kernel *k) { return k->params; }
const tide_kernel_param *tide_kernel_param_get(const tide_kernel *k, int i) {
  return i >= 0 && i < k->params ? &k->param[i] : NULL;
}

/* ---- arguments ---- */

/* "scale: argument 2 (float *y)" */
static const char *place(char *text, size_t size, const tide_kernel *k, int i) {
  snprintf(text, size, "%s: argument %d (%s%s%s)", k->name, i + 1, k->type[i], k->param[i].name[0] ? " " : "",
           k->param[i].name);
  return text;
}

static void accepted_text(char *text, size_t size, uint32_t accepted) {
  size_t at = 0;
  text[0] = 0;
  for (int d = 0; d < TIDE_DTYPE_COUNT; d++) {
    if (!(accepted >> d & 1)) continue;
    int wrote = snprintf(text + at, size - at, "%s%s", at ? " or " : "", tide_dtype_name((tide_dtype)d));
    if (wrote < 0 || (size_t)wrote >= size - at) return;
    at += (size_t)wrote;
  }
}

static tide_status fail_tensor(const tide_kernel *k, int i, const tide_tensor *x, int device) {
  char where[200], names[200];
  const tide_kernel_param *p = &k->param[i];
  TIDE_TRY(tide__tensor_check(x, k->name, "an argument"));
  place(where, sizeof where, k, i);
  if (p->kind != TIDE_PARAM_POINTER) return tide__fail(TIDE_ARGUMENT, "%s: got a tensor, expected a number", where);
  if (x->storage->device != device)
    return tide__fail(TIDE_DEVICE, "%s: got a tensor on %s, expected %s, where the kernel runs", where,
                      tide__device_text(x->storage->device), tide__device_text(device));
  accepted_text(names, sizeof names, p->accepted);
  if (!(p->accepted >> x->dtype & 1))
    return tide__fail(TIDE_DTYPE, "%s: got %s, expected %s", where, tide_dtype_name((tide_dtype)x->dtype), names);
  if (!x->contiguous)
    return tide__fail(TIDE_VALUE,
                      "%s: got a tensor that is not contiguous, expected x:contiguous(), or x:data_ptr() if the kernel "
                      "knows the strides",
                      where);
  return tide__fail(TIDE_VALUE, "%s: the tensor's address is not aligned, expected a multiple of %d bytes", where,
                    p->align);
}

static inline bool fits_pointer(const tide_kernel_param *p, const tide_tensor *x, int device) {
  return p->kind == TIDE_PARAM_POINTER && atomic_load_explicit(&x->refs, memory_order_relaxed) > 0 && x->storage &&
         tide__storage_live(x->storage) && x->storage->device == device && (p->accepted >> x->dtype & 1) &&
         x->contiguous && ((uintptr_t)tide__tensor_ptr(x) & (uintptr_t)(p->align - 1)) == 0;
}

static tide_status pack_integer(char *to, const tide_kernel *k, int i, const tide_scalar *s) {
  const tide_kernel_param *p = &k->param[i];
  char where[200];
  int64_t v, low, high;
  if (!tide__scalar_whole(&v, s))
    return tide__fail(s->kind == 'F' ? TIDE_VALUE : TIDE_ARGUMENT, "%s: got %s, expected an integer",
                      place(where, sizeof where, k, i), s->kind == 'F' ? "a number with a fraction" : "no number");
  tide__param_range(&low, &high, p);
  if (v < low || v > high)
    return tide__fail(TIDE_VALUE, "%s: got %lld, expected %lld to %lld", place(where, sizeof where, k, i), (long long)v,
                      (long long)low, (long long)high);
  memcpy(to, &v, (size_t)p->bytes); /* little-endian: the low bytes */
  return TIDE_OK;
}

/* A fraction is rounded, as every float is; a whole number has to survive, and nothing finite may become infinite. */
static tide_status pack_float(char *to, const tide_kernel *k, int i, const tide_scalar *s) {
  char where[200];
  double v = s->kind == 'I' ? (double)s->i : s->re;
  bool narrow = k->param[i].bytes == 4;
  float f = (float)v;
  if (s->kind != 'I' && s->kind != 'F')
    return tide__fail(TIDE_ARGUMENT, "%s: got no number, expected one", place(where, sizeof where, k, i));
  double kept = narrow ? (double)f : v;
  bool lost = s->kind == 'I' ? kept >= 9223372036854775808.0 || (int64_t)kept != s->i : isinf(kept) && !isinf(v);
  char got[40];
  if (lost && s->kind == 'I') snprintf(got, sizeof got, "%lld", (long long)s->i);
  if (lost && s->kind != 'I') snprintf(got, sizeof got, "%.17g", v);
  if (lost)
    return tide__fail(TIDE_VALUE, "%s: got %s, which a %s cannot hold", place(where, sizeof where, k, i), got,
                      narrow ? "float" : "double");
  if (narrow)
    memcpy(to, &f, sizeof f);
  else
    memcpy(to, &v, sizeof v);
  return TIDE_OK;
}

static tide_status pack_number(char *to, const tide_kernel *k, int i, const tide_scalar *s) {
  char where[200];
  switch (k->param[i].kind) {
  case TIDE_PARAM_INTEGER: return pack_integer(to, k, i, s);
  case TIDE_PARAM_FLOAT: return pack_float(to, k, i, s);
  case TIDE_PARAM_BOOL:
    if (s->kind != 'B')
      return tide__fail(TIDE_ARGUMENT, "%s: got a number, expected a boolean", place(where, sizeof where, k, i));
    *to = s->i != 0;
    return TIDE_OK;
  case TIDE_PARAM_POINTER: break;
  }
  if (s->kind != 'I')
    return tide__fail(TIDE_ARGUMENT, "%s: got no tensor, expected one, or an address",
                      place(where, sizeof where, k, i));
  memcpy(to, &s->i, sizeof s->i);
  return TIDE_OK;
}

/* ---- sizes ---- */

static tide_status fail_sizes(const tide_kernel *k, const loaded *l, const tide_grid *g) {
  static const char axis[] = "xyz";
  static const int64_t most_grid[3] = {INT32_MAX, 65535, 65535}, most_block[3] = {1024, 1024, 64};
  for (int d = 0; d < 3; d++) {
    if (g->grid[d] < 0 || g->grid[d] > most_grid[d])
      return tide__fail(TIDE_VALUE, "%s: grid.%c: got %lld, expected 1 to %lld", k->name, axis[d],
                        (long long)g->grid[d], (long long)most_grid[d]);
    if (g->block[d] < 0 || g->block[d] > most_block[d])
      return tide__fail(TIDE_VALUE, "%s: block.%c: got %lld, expected 1 to %lld", k->name, axis[d],
                        (long long)g->block[d], (long long)most_block[d]);
  }
  int64_t threads = (g->block[0] ? g->block[0] : 1) * (g->block[1] ? g->block[1] : 1) * (g->block[2] ? g->block[2] : 1);
  if (threads > l->max_threads)
    return tide__fail(TIDE_VALUE, "%s: block: got %lld threads, expected at most %d%s", k->name, (long long)threads,
                      l->max_threads, l->max_threads < 1024 ? ", which is what its registers allow" : "");
  if (g->shared < 0 || g->shared > l->max_shared)
    return tide__fail(TIDE_VALUE, "%s: shared_mem: got %lld bytes, expected 0 to %lld", k->name, (long long)g->shared,
                      (long long)l->max_shared);
  return TIDE_OK;
}

/* ---- launching ---- */

typedef struct packed {
  _Alignas(16) char bytes[TIDE_LAUNCH_BYTES];
} packed;

/* The device of the work: the stream's, else the first tensor's, else the current one. */
static int device_of(const tide_grid *g, const tide_operand *args, int n) {
  if (g->stream) return g->stream->device;
  for (int i = 0; i < n; i++)
    if (args[i].tensor && args[i].tensor->storage) return args[i].tensor->storage->device;
  return tide_is_available() ? tide_current_device() : TIDE_CPU;
}

/* Checks everything and packs it. */
static tide_status pack(packed *to, tide_launch *a, const loaded **l, tide_kernel *k, const tide_grid *g,
                        const tide_operand *args, int n) {
  if (TIDE_UNLIKELY(k->made != tide__epoch_now())) TIDE_TRY(renew(k));
  if (TIDE_UNLIKELY(n != k->params))
    return tide__fail(TIDE_ARGUMENT, "%s: wrong number of arguments, got %d, expected %d", k->name, n, k->params);
  if (g->stream) TIDE_TRY(tide__stream_check(g->stream, k->name));
  int device = device_of(g, args, n);
  TIDE_TRY(prepare(l, k, device));
  for (int i = 0; i < n; i++) {
    const tide_tensor *x = args[i].tensor;
    char *at = to->bytes + k->offset[i];
    if (!x) {
      TIDE_TRY(pack_number(at, k, i, &args[i].number));
      continue;
    }
    if (TIDE_UNLIKELY(!fits_pointer(&k->param[i], x, device))) return fail_tensor(k, i, x, device);
    void *ptr = tide__tensor_ptr(x);
    memcpy(at, &ptr, sizeof ptr);
  }
  TIDE_TRY(fail_sizes(k, *l, g));
  for (int d = 0; d < 3; d++) {
    a->grid[d] = g->grid[d] ? (uint32_t)g->grid[d] : 1;
    a->block[d] = g->block[d] ? (uint32_t)g->block[d] : 1;
  }
  a->shared = (uint32_t)g->shared;
  a->device = device, a->moved = 0, a->elementwise = false;
  a->params = (uint16_t)k->params, a->pointers = (uint16_t)k->pointers, a->bytes = (uint16_t)k->bytes;
  a->packed = to->bytes, a->offset = k->offset, a->pointer = k->pointer;
  return TIDE_OK;
}

/* On the CPU blocks run in order then. */
static tide_status check_order(bool is_unordered, _Atomic bool *warned, const char *name, int device) {
  if (TIDE_LIKELY(!is_unordered || device < 0 || !tide__deterministic())) return TIDE_OK;
  if (tide_get_deterministic() == TIDE_DETERMINISM_WARN && atomic_exchange(warned, true)) return TIDE_OK;
  return tide__determinism_refuse(name, "it uses atomic operations");
}

tide_status tide_kernel_launch(tide_kernel *k, const tide_grid *g, const tide_operand *args, int n) {
  packed bytes;
  tide_launch a;
  tide__queue q;
  const loaded *l;
  if (TIDE_UNLIKELY(!k || !g || (n && !args)))
    return tide__fail(TIDE_ARGUMENT, "kernel_launch: wrong arguments, expected a kernel, sizes and arguments");
  TIDE_TRY(pack(&bytes, &a, &l, k, g, args, n));
  TIDE_TRY(check_order(k->unordered, &k->warned, k->name, a.device));
  if (g->empty) return TIDE_OK;
  TIDE_TRY(tide__queue_begin(&q, a.device));
  if (g->stream) q.stream = g->stream;
  tide__jit_launch_begin();
  for (int i = 0; i < n; i++)
    if (args[i].tensor) tide__jit_operand(args[i].tensor, !k->param[i].read_only, q.stream);
  a.site = a.device < 0 ? 0 : tide__site_now();
  return tide__jit_launch(l->compiler, l->function.handle, &q, TIDE__LAUNCH_RAW, &a);
}

/* ---- bound ---- */

struct tide_bound {
  uint32_t epoch;
  bool unordered, empty;
  _Atomic bool warned;
  const tide_compiler *compiler;
  void *function;
  tide_stream *stream; /* retained; NULL: the current one */
  tide_launch launch;
  uint16_t offset[PARAMS], pointer[PARAMS];
  int tensors;
  tide_tensor *tensor[PARAMS]; /* views of our own */
  bool writes[PARAMS];         /* to tensor i */
  uint16_t place[PARAMS];      /* of its address in the bytes */
  packed bytes;
};

static tide_status keep_tensors(tide_bound *b, const tide_kernel *k, const tide_operand *args, int n) {
  for (int i = 0; i < n; i++) {
    const tide_tensor *x = args[i].tensor;
    if (!x) continue;
    TIDE_TRY(tide__tensor_view(&b->tensor[b->tensors], x, x->size, x->stride, x->ndim, x->offset));
    b->place[b->tensors] = k->offset[i];
    b->writes[b->tensors++] = !k->param[i].read_only;
  }
  return TIDE_OK;
}

tide_status tide_kernel_bind(tide_bound **out, tide_kernel *k, const tide_grid *g, const tide_operand *args, int n) {
  const loaded *l;
  if (!out || !k || !g || (n && !args))
    return tide__fail(TIDE_ARGUMENT, "bind: wrong arguments, expected a kernel, sizes and arguments");
  tide_bound *b = calloc(1, sizeof *b);
  if (!b) return tide__fail(TIDE_MEMORY, "bind: no host memory");
  tide_status status = pack(&b->bytes, &b->launch, &l, k, g, args, n);
  if (status == TIDE_OK) status = keep_tensors(b, k, args, n);
  if (status != TIDE_OK) {
    tide_bound_free(b);
    return status;
  }
  b->unordered = k->unordered, b->empty = g->empty;
  b->epoch = k->made, b->compiler = l->compiler, b->function = l->function.handle;
  memcpy(b->offset, k->offset, sizeof b->offset), memcpy(b->pointer, k->pointer, sizeof b->pointer);
  b->launch.offset = b->offset, b->launch.pointer = b->pointer;
  b->stream = g->stream;
  if (b->stream) tide_stream_retain(b->stream);
  *out = b;
  return TIDE_OK;
}

tide_status tide_bound_launch(tide_bound *b) {
  if (TIDE_UNLIKELY(!b)) return tide__fail(TIDE_ARGUMENT, "launch: nothing is bound, expected a bound kernel");
  tide__queue q = {.stream = b->stream};
  if (TIDE_UNLIKELY(b->epoch != tide__epoch_now()))
    return tide__fail(TIDE_STATE, "launch: what was bound belongs to a runtime that has ended or was reset");
  TIDE_TRY(check_order(b->unordered, &b->warned, "launch", b->launch.device));
  if (b->empty) return TIDE_OK;
  TIDE_TRY(tide__queue_begin(&q, b->launch.device));
  if (b->stream) q.stream = b->stream;
  tide__jit_launch_begin();
  for (int i = 0; i < b->tensors; i++) {
    void *ptr = tide__tensor_ptr(b->tensor[i]); /* another one since the memory was shared (ipc.c) */
    memcpy(b->bytes.bytes + b->place[i], &ptr, sizeof ptr);
    tide__jit_operand(b->tensor[i], b->writes[i], q.stream);
  }
  b->launch.site = b->launch.device < 0 ? 0 : tide__site_now();
  return tide__jit_launch(b->compiler, b->function, &q, TIDE__LAUNCH_RAW, &b->launch);
}

void tide_bound_free(tide_bound *b) {
  if (!b) return;
  for (int i = 0; i < b->tensors; i++) tide_tensor_release_deferred(b->tensor[i]);
  if (b->stream) tide_stream_release(b->stream);
  free(b);
}
