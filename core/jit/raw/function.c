/* function.c: elementwise functions from C++ text: what the text says they take, and what is compiled of them.
 *
 * The parameters of the function are tensors, numbers by name, or results by reference. A handle keeps what it has
 * compiled as a list of plans, one for each combination of dtypes, device and shape of the work: contiguous, or strided
 * in so many dims. What the first call will most likely want begins to be compiled when the handle is made.
 *
 * Invariant: a plan is in the list only when its kernel is there, and stays until the handle goes or the accelerators
 * are reset. */
#include "jit/raw/function.h"

#include <stdio.h>

/* ---- making ---- */

/* Is it the entry's type parameter, perhaps const or a reference to const? */
static bool is_template_type(const tide_jit *j, const char *type) {
  char word[TIDE_JIT_TYPE];
  if (!strncmp(type, "const ", 6)) type += 6;
  size_t n = strcspn(type, " ");
  snprintf(word, sizeof word, "%.*s", (int)n, type);
  return !strcmp(word, j->signature.template_type);
}

/* A type that is not known here, a name of the code's own or one that is deduced, gets a double as it is. */
static char scalar_kind(tide_jit *j, int k, const char *type) {
  char word[TIDE_JIT_TYPE];
  tide_raw_kernel_param x;
  if (is_template_type(j, type)) return 'T';
  snprintf(word, sizeof word, "%.*s", (int)strcspn(type, "&"), type);
  if (!tide__param_read(&x, word)) return 'F';
  tide__param_range(&j->range[k].low, &j->range[k].high, &x);
  return x.kind == TIDE_PARAM_INTEGER ? 'I' : x.kind == TIDE_PARAM_BOOL ? 'B' : 'F';
}

static int scalar_index(const char *const *names, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (!strcmp(names[i], name)) return i;
  return -1;
}

/* What parameter p is. Results are references that are not const. */
static tide_status assign_role(tide_jit *j, int p, const char *const *names, const tide_scalar *defaults, int scalars) {
  const tide__parameter *x = &j->signature.param[p];
  bool reference = strchr(x->type, '&') && strncmp(x->type, "const ", 6) != 0 && !strstr(x->type, " const");
  int at = scalar_index(names, scalars, x->name);
  if (strchr(x->type, '*'))
    return tide__fail(TIDE_VALUE, "%s: parameter %s is a pointer, expected numbers: inputs by value, results by %s",
                      j->what, x->name, "reference");
  if (at >= 0) {
    if (j->scalars == TIDE_JIT_SCALARS)
      return tide__fail(TIDE_VALUE, "%s: too many scalars, expected at most %d", j->what, TIDE_JIT_SCALARS);
    j->role[p] = TIDE_ROLE_SCALAR, j->number[p] = (uint8_t)j->scalars;
    j->scalar_name[j->scalars] = x->name, j->scalar[j->scalars] = defaults[at];
    j->scalar_kind[j->scalars] = scalar_kind(j, j->scalars, x->type);
    j->scalars++;
  } else if (reference && !j->by_value) {
    j->role[p] = TIDE_ROLE_OUTPUT, j->number[p] = (uint8_t)j->outputs++;
  } else {
    j->role[p] = TIDE_ROLE_INPUT, j->number[p] = (uint8_t)j->inputs++;
  }
  return TIDE_OK;
}

static tide_status check_roles(const tide_jit *j, const char *const *names, int scalars, int outputs) {
  for (int i = 0; i < scalars; i++) {
    bool found = false;
    for (int k = 0; k < j->scalars; k++) found |= !strcmp(j->scalar_name[k], names[i]);
    if (!found)
      return tide__fail(TIDE_ARGUMENT, "%s: unknown parameter, got a default for '%s', expected a parameter of %s",
                        j->what, names[i], j->signature.name);
  }
  if (!j->by_value && j->outputs != outputs)
    return tide__fail(TIDE_VALUE, "%s: wrong number of results, got %d references in the code, expected %d", j->what,
                      j->outputs, outputs);
  if (j->inputs < 1 || j->inputs > TIDE_JIT_TENSORS)
    return tide__fail(TIDE_VALUE, "%s: wrong number of inputs, got %d, expected 1 to %d", j->what, j->inputs,
                      TIDE_JIT_TENSORS);
  if (j->outputs > TIDE_JIT_TENSORS)
    return tide__fail(TIDE_VALUE, "%s: too many results, got %d, expected at most %d", j->what, j->outputs,
                      TIDE_JIT_TENSORS);
  if (j->by_value && !strcmp(j->signature.result, "void"))
    return tide__fail(TIDE_VALUE, "%s: %s returns nothing, expected its result", j->what, j->signature.name);
  return TIDE_OK;
}

/* Integers have to arrive as they are; everything else is converted, as the tensors are. */
tide_status tide__jit_scalars_check(const tide_jit *j, const tide_scalar *scalars, const char *what) {
  for (int k = 0; k < j->scalars; k++) {
    int64_t v, low = j->range[k].low, high = j->range[k].high;
    if (j->scalar_kind[k] != 'I' || scalars[k].kind == 'B') continue;
    if (!tide__scalar_whole(&v, &scalars[k]) || v < low || v > high)
      return tide__fail(TIDE_VALUE, "%s: %s: got %.17g, expected an integer from %lld to %lld", what, j->scalar_name[k],
                        scalars[k].re, (long long)low, (long long)high);
  }
  return TIDE_OK;
}

static tide_status fill(tide_jit *j, const char *const *names, const tide_scalar *defaults, int scalars, int outputs) {
  char line[120];
  tide__site_text(tide__site_now(), line, sizeof line);
  snprintf(j->what, sizeof j->what, "jiterator%s%s", line[0] ? ": code of " : "", line);
  TIDE_TRY(tide__parse_template(&j->signature, j->code, j->what));
  snprintf(j->what, sizeof j->what, "jiterator: %s%s%s", j->signature.name, line[0] ? " of " : "", line);
  j->by_value = outputs == 0;
  for (int p = 0; p < j->signature.params; p++) TIDE_TRY(assign_role(j, p, names, defaults, scalars));
  TIDE_TRY(check_roles(j, names, scalars, outputs));
  TIDE_TRY(tide__jit_scalars_check(j, j->scalar, j->what));
  if (j->by_value) j->outputs = 1;
  return TIDE_OK;
}

/* ---- before the first call ---- */

/* Of inputs that have the common dtype all. */
static tide__special special_of(const tide_jit *j, int ndim, tide_dtype common) {
  tide__special s = {
      .operands = j->inputs + j->outputs, .outputs = j->outputs, .scalars = j->scalars, .ndim = ndim, .common = common};
  memset(s.dtype, (int)common, (size_t)s.operands);
  return s;
}

static char *source_of(const tide_jit *j, const tide__special *s, const tide_compiler *c) {
  const tide__jit_text text = {j->code, &j->signature, j->by_value, j->role, j->number, j->scalar_kind};
  return tide__jit_source(&text, s, c);
}

/* `what` is room for what messages call it. */
static tide__jit_request request_of(char *what, size_t size, const tide_jit *j, const tide__special *s,
                                    const char *source) {
  snprintf(what, size, "%s for %s", j->what, tide_dtype_name(s->common));
  return (tide__jit_request){.what = what, .source = source, .name = "tide_kernel"};
}

/* What the first call of a function will most likely want: what the last new kernel was made for. */
static _Atomic int wanted = TIDE_FLOAT32;

static void note_wanted(const tide__special *s) {
  for (int k = 0; k < s->operands; k++)
    if (s->dtype[k] != s->common) return;
  atomic_store_explicit(&wanted, (int)s->common, memory_order_relaxed);
}

static void begin_ahead(const tide_jit *j) {
  int device = tide_current_device();
  const tide_backend *b = tide__backend_peek(device);
  const char *off = getenv("TIDE_KERNEL_AHEAD");
  if (!b || !b->compiler || !b->compiler->ahead || (off && !strcmp(off, "0"))) return;
  tide__special s = special_of(j, 0, (tide_dtype)atomic_load_explicit(&wanted, memory_order_relaxed));
  TIDE_FREED char *source = source_of(j, &s, b->compiler);
  char what[256];
  const tide__jit_request r = request_of(what, sizeof what, j, &s, source);
  if (source) tide__jit_ahead(&r, b->compiler, device, TIDE_WISH_GUESS);
}

tide_status tide_jit_new(tide_jit **out, const char *code, const char *const *names, const tide_scalar *defaults,
                         int scalars, int outputs) {
  if (!tide__running()) return tide__fail(TIDE_STATE, "jiterator: tide is not started, expected tide_init first");
  if (!out || !code || scalars < 0 || outputs < 0 || outputs > TIDE_JIT_TENSORS || (scalars && (!names || !defaults)))
    return tide__fail(TIDE_ARGUMENT, "jiterator: wrong arguments, expected code, names with defaults, 0 to %d outputs",
                      TIDE_JIT_TENSORS);
  tide_jit *j = calloc(1, sizeof *j + strlen(code) + 1);
  if (!j) return tide__fail(TIDE_MEMORY, "jiterator: no host memory");
  memcpy(j->code, code, strlen(code));
  j->epoch = atomic_load(&tide__epochs[0]), j->made = tide__epoch_now();
  tide_status status = fill(j, names, defaults, scalars, outputs);
  if (status == TIDE_OK)
    begin_ahead(*out = j);
  else
    tide_jit_free(j);
  return status;
}

void tide__jit_plans_drop(tide_jit *j) {
  while (j->plans) {
    tide__jit_plan *p = j->plans;
    j->plans = p->next;
    free(p);
  }
}

void tide_jit_free(tide_jit *j) {
  if (!j) return;
  tide__jit_plans_drop(j);
  free(j);
}

const char *tide_jit_name(const tide_jit *j) { return j ? j->signature.name : NULL; }
int tide_jit_inputs(const tide_jit *j) { return j ? j->inputs : 0; }
int tide_jit_outputs(const tide_jit *j) { return j ? j->outputs : 0; }
int tide_jit_scalars(const tide_jit *j) { return j ? j->scalars : 0; }
const char *tide_jit_scalar_name(const tide_jit *j, int k) {
  if (!j) return NULL;
  return k >= 0 && k < j->scalars ? j->scalar_name[k] : NULL;
}
tide_scalar tide_jit_scalar_default(const tide_jit *j, int k) {
  if (!j) return tide_int(0);
  return k >= 0 && k < j->scalars ? j->scalar[k] : tide_int(0);
}

/* ---- plans ---- */

void tide__jit_scalars_pack(char *to, const tide_jit *j, const tide_scalar *scalars, tide_dtype common) {
  for (int k = 0; k < j->scalars; k++) {
    uint64_t bits[2];
    char kind = j->scalar_kind[k];
    tide_dtype dtype = kind == 'I' ? TIDE_INT64 : kind == 'B' ? TIDE_BOOL : kind == 'F' ? TIDE_FLOAT64 : common;
    if (dtype == TIDE_FLOAT16 || dtype == TIDE_BFLOAT16) dtype = TIDE_FLOAT32;
    tide__scalar_pack(bits, scalars[k], dtype);
    memcpy(to + 16 * k, bits, sizeof bits);
  }
}

static tide_status plan_compile(tide__jit_plan *p, const tide_jit *j, const tide_compiler *c, int device) {
  TIDE_FREED char *source = source_of(j, &p->special, c);
  char what[256];
  if (!source) return TIDE_MEMORY;
  const tide__jit_request r = request_of(what, sizeof what, j, &p->special, source);
  tide__function f = {0}; /* also where not even the architecture is known */
  TIDE_TRY(tide__jit_function(&f, &r, c, device));
  p->function = f.handle;
  return TIDE_OK;
}

tide_status tide__jit_plan_make(const tide__jit_plan **out, tide_jit *j, uint64_t key, const tide_tensor *const *in,
                                tide_dtype common, int device, int ndim) {
  const tide_compiler *c;
  TIDE_TRY(tide__jit_compiler(&c, j->what, device));
  TIDE_FREED tide__jit_plan *p = calloc(1, sizeof *p);
  if (!p) return tide__fail(TIDE_MEMORY, "jiterator: no host memory");
  *out = NULL, p->key = key, p->common = common;
  p->special = special_of(j, ndim, common);
  for (int k = 0; k < j->inputs; k++) p->special.dtype[j->outputs + k] = in[k]->dtype;
  note_wanted(&p->special);
  tide__jit_plan_begin(p, c);
  tide__jit_scalars_pack(p->scalars, j, j->scalar, common);
  TIDE_TRY(plan_compile(p, j, c, device));
  if (!p->function) return TIDE_OK;
  p->next = j->plans, *out = j->plans = p, p = NULL;
  return TIDE_OK;
}
