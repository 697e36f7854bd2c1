/* raw.c: raw kernels: CUDA C source, what it takes, and the functions that are compiled of it.
 *
 * A signature is read from the source (parse.c) or declared by the caller; where it is not certain, the compiler checks
 * it. From it follows where each argument lies in the block that a launch gives to the kernel (kernel_launch.c). Each
 * device has a function of its own, compiled at its first launch, the current one's at once.
 *
 * Invariant: a kernel that was made has a function on one device at least, or one that is being compiled. */
#include "jit/raw/raw.h"

#include <stdio.h>

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
static const char *template_value(size_t *length, const tide_raw_kernel *k, int i) {
  const char *text = template_argument(length, k->name, i);
  if (*length) return text;
  text = k->signature.template_default[i];
  *length = strlen(text);
  for (int before = 0; before < i; before++)
    if (*text && !strcmp(text, k->signature.template_name[before])) return template_value(length, k, before);
  return text;
}

/* Words of the type that are parameters of the template become its arguments. */
static bool substitute(char *out, const char *type, const tide_raw_kernel *k) {
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
static tide_status read_param(tide_raw_kernel *k, int i, const char *given, const char *name) {
  tide_raw_kernel_param *x = &k->param[i];
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
static tide_status choose(tide_raw_kernel *k, const tide__signature *signature) {
  k->signature = *signature;
  if (!k->signature.templates || strchr(k->name, '<')) return TIDE_OK;
  return tide__fail(TIDE_VALUE, "%s: the kernel is a template, got %s, expected an instance such as %s<float>", k->what,
                    k->name, k->name);
}

static tide_status read_params(tide_raw_kernel *k) {
  k->params = k->signature.params, k->bytes = k->pointers = 0;
  for (int i = 0; i < k->params; i++) {
    const tide__parameter *p = &k->signature.param[i];
    if (!substitute(k->type[i], p->type, k)) snprintf(k->type[i], TIDE_JIT_TYPE, "?");
    TIDE_TRY(read_param(k, i, p->type, p->name));
  }
  return TIDE_OK;
}

/* What the caller says they are; their names are still the source's, if it has as many. */
static tide_status take_params(tide_raw_kernel *k, const char *const *types, int n) {
  if (n < 0 || n > TIDE_RAW_KERNEL_PARAMS)
    return tide__fail(TIDE_VALUE, "%s: too many params, got %d, expected at most %d", k->what, n,
                      TIDE_RAW_KERNEL_PARAMS);
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

static tide_status copy_options(tide_raw_kernel *k, const char *const *options, int n) {
  if (n < 0 || n > TIDE_RAW_KERNEL_OPTIONS)
    return tide__fail(TIDE_VALUE, "%s: too many options, got %d, expected at most %d", k->what, n,
                      TIDE_RAW_KERNEL_OPTIONS);
  for (int i = 0; i < n; i++) {
    k->options[i] = strdup(options[i]);
    if (!k->options[i]) return tide__fail(TIDE_MEMORY, "compile_kernel: no host memory");
    k->options_count++;
  }
  return TIDE_OK;
}

/* There are blocks of threads, but no warps. */
static tide_status check_host(const tide_raw_kernel *k, int device) {
  static const char words[] =
      "__syncwarp __shfl_sync __shfl_up_sync __shfl_down_sync __shfl_xor_sync __ballot_sync __any_sync __all_sync "
      "__match_any_sync __reduce_add_sync __activemask cooperative_groups asm __cvta_generic_to_shared";
  tide__token found;
  if (!tide__parse_finds(&found, k->source, words)) return TIDE_OK;
  return tide__fail(TIDE_SUPPORT,
                    "%s: %.*s cannot be run on %s, where the threads of a block run by turns and know no warps, "
                    "expected __shared__ and __syncthreads() instead, or a GPU",
                    k->what, found.length, found.at, device < 0 ? "the CPU" : "a simulated device");
}

static int host_options(const char **out, const tide_raw_kernel *k) {
  int n = 0;
  for (int i = 0; i < k->options_count; i++)
    if (k->options[i][0] == '-' && strchr("DUI", k->options[i][1])) out[n++] = k->options[i];
  return n;
}

static tide_status limits(tide__raw_kernel_loaded *l, int device) {
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

static tide_status compile(tide__raw_kernel_loaded *l, const tide_raw_kernel *k, const tide_compiler *c, int device,
                           bool plain) {
  const tide__raw_text text = {.source = k->source,
                               .call = k->name,
                               .signature = &k->signature,
                               .params = k->params,
                               .checked = k->checked,
                               .types = (const char(*)[TIDE_JIT_TYPE])k->type,
                               .offset = k->offset,
                               .plain = plain};
  const char *few[TIDE_RAW_KERNEL_OPTIONS];
  TIDE_FREED char *source = tide__raw_source(&text, c);
  if (!source) return TIDE_MEMORY;
  const tide__jit_request r = {.what = k->what,
                               .source = source,
                               .name = c->host ? "tide_kernel" : k->name,
                               .options = c->host ? few : (const char *const *)k->options,
                               .options_count = c->host ? host_options(few, k) : k->options_count,
                               .raw = true};
  return tide__jit_function(&l->function, &r, c, device);
}

/* l->ready stays false where it is being compiled on another thread. */
static tide_status prepare(tide__raw_kernel_loaded *l, tide_raw_kernel *k, int device) {
  if (l->ready) return TIDE_OK;
  const tide_compiler *c;
  TIDE_TRY(tide__jit_compiler(&c, k->what, device));
  if (c->host) TIDE_TRY(check_host(k, device));
  tide_status status = compile(l, k, c, device, l->plain);
  /* Not every body can be made a function inside of the kernel. Compiled as it is, it runs, or the error is its own. */
  if (status == TIDE_VALUE && c->host && k->signature.bodies && !l->plain) {
    l->plain = true;
    status = compile(l, k, c, device, true);
  }
  if (status == TIDE_VALUE) l->plain = false; /* the next one may be of another signature */
  if (status != TIDE_OK || !l->function.handle) return status;
  TIDE_TRY(limits(l, device));
  l->compiler = c;
  l->ready = true;
  return TIDE_OK;
}

tide_status tide__raw_kernel_prepare(const tide__raw_kernel_loaded **out, tide_raw_kernel *k, int device) {
  tide__raw_kernel_loaded *l = &k->on[device + 1];
  *out = l;
  if (TIDE_LIKELY(l->ready)) return TIDE_OK;
  TIDE_TRY(prepare(l, k, device));
  return l->ready ? TIDE_OK : tide__jit_pending(k->what);
}

static int first_device(void) { return tide_is_available() ? tide_current_device() : TIDE_CPU; }

tide_status tide_raw_kernel_ready(bool *out, tide_raw_kernel *k, int device) {
  if (!out || !k) return tide__fail(TIDE_ARGUMENT, "compile_kernel: wrong arguments, expected a kernel and a result");
  if (device == TIDE_CURRENT) device = first_device();
  if (device != TIDE_CPU) TIDE_TRY(tide__device_resolve(&device, device, "ready"));
  if (k->made != tide__epoch_now()) TIDE_TRY(tide__raw_kernel_renew(k));
  TIDE_ELSEWHERE(true);
  TIDE_TRY(prepare(&k->on[device + 1], k, device));
  *out = k->on[device + 1].ready;
  return TIDE_OK;
}

tide_status tide__raw_kernel_renew(tide_raw_kernel *k) {
  if (k->epoch != atomic_load(&tide__epochs[0]))
    return tide__fail(TIDE_STATE, "%s: the kernel belongs to a runtime that has ended or was reset", k->name);
  for (int i = 0; i <= TIDE_MAX_DEVICES; i++) k->on[i].ready = false;
  k->made = tide__epoch_now();
  return TIDE_OK;
}

/* Sums of floats, and what comes last; minima, maxima, bits and counters come out the same in any order. */
static const char unordered[] =
    "atomicAdd atomicAdd_block atomicAdd_system atomicSub atomicSub_block atomicSub_system atomicExch atomicExch_block "
    "atomicExch_system atomicCAS atomicCAS_block atomicCAS_system";

/* `certain`: there is one that it can be, so what a compiler says of it may come later. */
static tide_status load(tide_raw_kernel *k, bool certain) {
  int device = first_device();
  tide__raw_kernel_loaded *first = &k->on[device + 1];
  TIDE_TRY(prepare(first, k, device));
  return first->ready || certain ? TIDE_OK : tide__jit_pending(k->what);
}

/* Conditions of the preprocessor may choose between several: the compiler tells which one it is. */
static tide_status load_one_of(tide_raw_kernel *k, const tide__signature *list, int count) {
  tide_status status = TIDE_OK;
  k->checked = count > 1;
  for (int i = 0; i < count; i++) {
    status = choose(k, &list[i]);
    if (status == TIDE_OK) status = read_params(k);
    if (status == TIDE_OK) status = load(k, count == 1);
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

static tide_status load_declared(tide_raw_kernel *k, const tide__signature *list, int count,
                                 const tide_raw_kernel_text *t) {
  if (count) TIDE_TRY(choose(k, &list[0])); /* for the bodies, which all of them have, and for names */
  TIDE_TRY(take_params(k, t->params, t->params_count));
  return load(k, true);
}

static tide_status fill(tide_raw_kernel *k, const tide_raw_kernel_text *t) {
  char line[120];
  TIDE_FREED tide__signature *list = NULL;
  int count;
  tide__site_text(tide__site_now(), line, sizeof line);
  snprintf(k->what, sizeof k->what, "compile_kernel: %s%s%s", k->name, line[0] ? " of " : "", line);
  TIDE_TRY(copy_options(k, t->options, t->options_count));
  k->unordered = tide__parse_finds(NULL, k->source, unordered);
  TIDE_TRY(tide__parse_global(&list, &count, k->source, k->name, k->what));
  if (t->params) return load_declared(k, list, count, t);
  if (count) return load_one_of(k, list, count);
  return tide__fail(TIDE_VALUE,
                    "%s: the source has no such kernel, got %s, expected the name of a __global__ function; where a "
                    "macro makes it, params say what it takes",
                    k->what, k->name);
}

tide_status tide_raw_kernel_new(tide_raw_kernel **out, const tide_raw_kernel_text *t) {
  if (!tide__running()) return tide__fail(TIDE_STATE, "compile_kernel: tide is not started, expected tide_init first");
  if (!out || !t || !t->source || !t->name || !*t->name || t->params_count < 0 || strlen(t->name) >= 512)
    return tide__fail(TIDE_ARGUMENT, "compile_kernel: wrong arguments, expected source and the name of a kernel in it");
  TIDE_TRY(tide__struct_check("compile_kernel", t->struct_size, sizeof *t));
  TIDE_LIST("compile_kernel", t->options, t->options_count);
  tide_raw_kernel *k = calloc(1, sizeof *k);
  if (!k) return tide__fail(TIDE_MEMORY, "compile_kernel: no host memory");
  k->epoch = atomic_load(&tide__epochs[0]), k->made = tide__epoch_now();
  k->source = strdup(t->source), k->name = strdup(t->name);
  tide_status status = k->source && k->name ? fill(k, t) : tide__fail(TIDE_MEMORY, "compile_kernel: no host memory");
  if (status != TIDE_OK)
    tide_raw_kernel_free(k);
  else
    *out = k;
  return status;
}

void tide_raw_kernel_free(tide_raw_kernel *k) {
  if (!k) return;
  for (int i = 0; i < k->options_count; i++) free(k->options[i]);
  free(k->source), free(k->name);
  free(k);
}

const char *tide_raw_kernel_name(const tide_raw_kernel *k) { return k ? k->name : NULL; }
int tide_raw_kernel_params(const tide_raw_kernel *k) { return k ? k->params : 0; }
const tide_raw_kernel_param *tide_raw_kernel_param_get(const tide_raw_kernel *k, int i) {
  if (!k) return NULL;
  return i >= 0 && i < k->params ? &k->param[i] : NULL;
}
