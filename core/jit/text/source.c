/* source.c: the text of an elementwise kernel around a function of the user's.
 *
 * The dialect comes from the backend (compiler.h); what stands between is the same for all of them. It declares, for
 * the operands 0 .. n-1, results first, their storage types tide_s<k>, the compute type tide_t, the arguments
 * tide_args, the lists TIDE_EACH, TIDE_EACH_IN, TIDE_EACH_OUT, TIDE_ARGS of operands, TIDE_LANES of what one thread
 * does, TIDE_DIMS from the innermost dim on, and tide_apply, which does one element. The dtypes are part of the text,
 * so no kernel decides anything about them while it runs; strided kernels know their number of dims too. What takes the
 * compiler long (a loop, mathematics of many instructions) stands once in a kernel instead of once for each lane: as a
 * function that is called, or, where TIDE_ROLLED says so, in a loop over the lanes. TIDE_TAKES_ANY says that it ends
 * well with any value, as operations of core's own do, so that lanes past the end need no value of another one.
 *
 * Where core's own statements read by an index, TIDE_EACH_PLACE are the operands of a strided kernel of which a lane
 * has the address instead of the value (its type is tide_v<k>). TIDE_OPEN declares what a thread keeps of an index that
 * is outside, TIDE_WATCH hands it to tide_apply, and TIDE_CLOSE reports it.
 *
 * Packed arguments: 16 bytes for each scalar, the pointers, the count (int64), then for flat kernels how many threads
 * there are and how many of them have all their lanes (uint32), for strided ones the strides [ndim][operands] (int64)
 * and a divisor for each dim. tide__jit_layout and the struct in the text say the same, which
 * the text asserts.
 *
 * Invariant: lines of the user's code keep their numbers in messages, under the name "code". */
#include "jit/jit.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- a text that grows ---- */

void tide__text_add(tide__text *t, const char *format, ...) {
  for (int pass = 0; pass < 2 && !t->failed; pass++) {
    va_list list;
    va_start(list, format);
    int n = vsnprintf(t->at ? t->at + t->length : NULL, t->room - t->length, format, list);
    va_end(list);
    if (n < 0) t->failed = true;
    if (n < 0 || (size_t)n < t->room - t->length) {
      t->length += n < 0 ? 0 : (size_t)n;
      return;
    }
    size_t room = 2 * (t->length + (size_t)n + 1024);
    char *at = realloc(t->at, room);
    if (!at)
      t->failed = true;
    else
      t->at = at, t->room = room;
  }
}

char *tide__text_end(tide__text *t, const char *what) {
  if (!t->failed && t->at) return t->at;
  free(t->at);
  tide__fail(TIDE_MEMORY, "%s: no host memory for the text of a kernel", what);
  return NULL;
}

/* ---- types ---- */

const char *tide__jit_storage_type(int dtype) {
  static const char *const names[TIDE_DTYPE_COUNT] = {
      [TIDE_BOOL] = "tide_b8",     [TIDE_UINT8] = "unsigned char", [TIDE_INT8] = "signed char",
      [TIDE_INT16] = "short",      [TIDE_INT32] = "int",           [TIDE_INT64] = "long long",
      [TIDE_FLOAT16] = "tide_f16", [TIDE_BFLOAT16] = "tide_bf16",  [TIDE_FLOAT32] = "float",
      [TIDE_FLOAT64] = "double",   [TIDE_COMPLEX64] = "tide_c64",  [TIDE_COMPLEX128] = "tide_c128",
  };
  return names[dtype];
}

const char *tide__jit_compute_type(tide_dtype dtype) {
  if (dtype == TIDE_BOOL) return "bool";
  if (dtype == TIDE_FLOAT16 || dtype == TIDE_BFLOAT16) return "float";
  return tide__jit_storage_type(dtype);
}

static const char *scalar_type(char kind) {
  return kind == 'I' ? "long long" : kind == 'B' ? "bool" : kind == 'F' ? "double" : "tide_t";
}

/* ---- the packed arguments ---- */

void tide__jit_layout(tide_layout *out, const tide__special *s) {
  int64_t widest = 1;
  for (int k = 0; k < s->operands - s->uniform; k++)
    if (tide__itemsize(s->dtype[k]) > widest) widest = tide__itemsize(s->dtype[k]);
  out->ndim = s->ndim, out->uniform = s->uniform;
  out->vector = s->ndim ? 4 : (int)(16 / widest);
  out->pointers = (uint16_t)(16 * s->scalars);
  out->count = (uint16_t)(out->pointers + 8 * s->operands);
  out->strides = (uint16_t)(out->count + (s->ndim ? 8 : 16));
  out->divisors = (uint16_t)(out->strides + 8 * s->ndim * s->operands);
  int end = out->divisors + 12 * s->ndim, align = s->scalars ? 16 : 8;
  out->bytes = (uint16_t)((end + align - 1) / align * align);
}

static void add_args(tide__text *t, const char *const *scalar_types, const tide__special *s, const tide_layout *l) {
  tide__text_add(t, "struct tide_args {\n");
  for (int k = 0; k < s->scalars; k++) tide__text_add(t, "  alignas(16) %s c%d;\n", scalar_types[k], k);
  tide__text_add(t, "  alignas(%d) void *ptr[%d];\n  long long n;\n", s->scalars ? 16 : 8, s->operands);
  if (!s->ndim) tide__text_add(t, "  unsigned threads, full;\n");
  if (s->ndim) tide__text_add(t, "  long long stride[%d][%d];\n  tide_div size[%d];\n", s->ndim, s->operands, s->ndim);
  tide__text_add(t, "};\nstatic_assert(sizeof(tide_args) == %d, \"the packed arguments\");\n", l->bytes);
  tide__text_add(t, "#define TIDE_VECTOR %d\n#define TIDE_OPERANDS %d\n#define TIDE_NDIM %d\n", l->vector, s->operands,
                 s->ndim);
}

/* ---- lists ---- */

static void add_list(tide__text *t, const char *name, int from, int to, const char *between) {
  tide__text_add(t, "#define %s(X)", name);
  for (int k = from; k < to; k++) tide__text_add(t, "%s X(%d)", k > from ? between : "", k);
  tide__text_add(t, "\n");
}

/* Of what is read, the operands whose addresses are wanted, or the others. */
static void add_places(tide__text *t, const tide__special *s, const char *name, bool wanted) {
  tide__text_add(t, "#define %s(X)", name);
  for (int k = s->outputs; k < s->operands - s->uniform; k++)
    if ((s->places >> k & 1) == wanted) tide__text_add(t, " X(%d)", k);
  tide__text_add(t, "\n");
}

/* The lanes of a thread, and how lane 0 gets the value of the one after it. */
static void add_lanes(tide__text *t, int lanes, int ndim) {
  add_list(t, "TIDE_LANES", 0, lanes, "");
  tide__text_add(t, "#define TIDE_SHIFT(p)");
  for (int e = 1; e < lanes; e++) tide__text_add(t, " p[%d] = p[%d];", e - 1, e);
  tide__text_add(t, "\n#define TIDE_DIMS(X)");
  for (int d = ndim - 1; d >= 0; d--) tide__text_add(t, " X(%d)", d);
  tide__text_add(t, "\n");
}

/* ---- one element ---- */

/* The user's function, called by value and not inlined: so long code is compiled once for all lanes. */
static void add_call(tide__text *t, const tide__jit_text *j) {
  const tide__signature *f = j->signature;
  tide__text_add(t, "static TIDE_APART tide_t tide_call(");
  for (int p = 0; p < f->params; p++)
    tide__text_add(t, "%s%s v%d", p ? ", " : "",
                   j->role[p] == TIDE_ROLE_SCALAR ? scalar_type(j->scalar_kind[j->number[p]]) : "tide_t", p);
  tide__text_add(t, ") { return (tide_t)::%s<tide_t>(", f->name);
  for (int p = 0; p < f->params; p++) tide__text_add(t, "%sv%d", p ? ", " : "", p);
  tide__text_add(t, "); }\n");
}

static void add_apply(tide__text *t, const tide__jit_text *j, const tide__special *s, bool apart) {
  const tide__signature *f = j->signature;
  if (apart) add_call(t, j);
  tide__text_add(t, "static TIDE_INLINE void tide_apply(const tide_args &a");
  for (int k = 0; k < s->operands; k++) tide__text_add(t, ", %stide_s%d &x%d", k < s->outputs ? "" : "const ", k, k);
  tide__text_add(t, ") {\n");
  if (!j->by_value)
    for (int k = 0; k < s->outputs; k++) tide__text_add(t, "  tide_t r%d = tide_t();\n", k);
  if (apart)
    tide__text_add(t, "  tide_t r0 = tide_call(");
  else
    tide__text_add(t, j->by_value ? "  tide_t r0 = (tide_t)::%s<tide_t>(" : "  ::%s<tide_t>(", f->name);
  for (int p = 0; p < f->params; p++) {
    const char *comma = p ? ", " : "";
    if (j->role[p] == TIDE_ROLE_SCALAR)
      tide__text_add(t, "%sa.c%d", comma, j->number[p]);
    else if (j->role[p] == TIDE_ROLE_OUTPUT)
      tide__text_add(t, "%sr%d", comma, j->number[p]);
    else
      tide__text_add(
          t, tide__jit_is_small(s->dtype[s->outputs + j->number[p]]) ? "%s(tide_t)tide_get(x%d)" : "%s(tide_t)x%d",
          comma, s->outputs + j->number[p]);
  }
  tide__text_add(t, ");\n");
  for (int k = 0; k < s->outputs; k++)
    tide__text_add(t, tide__jit_is_small(s->dtype[k]) ? "  tide_put(x%d, r%d);\n" : "  x%d = r%d;\n", k, k);
  tide__text_add(t, "}\n");
}

/* ---- the whole ---- */

static bool has_word(const char *text, const char *word, size_t n) {
  const char *end = text + strlen(text);
  for (const char *p = text; (p = memmem(p, (size_t)(end - p), word, n)); p += n)
    if ((p == text || !tide__text_word(p[-1])) && !tide__text_word(p[n])) return true;
  return false;
}

bool tide__text_names(const char *text, const char *word) { return has_word(text, word, strlen(word)); }

bool tide__text_names_any(const char *text, const char *words) {
  for (size_t n; *words; words += n + (words[n] == ' '))
    if (has_word(text, words, n = strcspn(words, " "))) return true;
  return false;
}

/* Reading text of core's own as C++ takes longer than all else that is done for it. */
static bool uses(const char *code, const char *words, bool ours) {
  return ours ? tide__text_names_any(code, words) : tide__parse_finds(NULL, code, words);
}

static bool is_long(const char *code, const tide__special *s, bool ours) {
  bool is_wide = s->common == TIDE_FLOAT64 || s->common == TIDE_COMPLEX64 || s->common == TIDE_COMPLEX128;
  return strlen(code) > 2000 ||
         uses(code,
              "for while sin cos tan sincos pow fmod remainder remquo tgamma lgamma j0 j1 jn y0 y1 yn cyl_bessel_i0 "
              "cyl_bessel_i1 sinf cosf tanf sincosf powf fmodf remainderf tgammaf lgammaf erfinv erfcinv normcdfinv "
              "acosh asinh",
              ours) ||
         (is_wide &&
          uses(code,
               "exp exp2 exp10 expm1 log log2 log10 log1p sinh cosh tanh asin acos atan atan2 atanh erf erfc "
               "erfcx cbrt rcbrt hypot sinpi cospi normcdf sqrt rsqrt",
               ours));
}

/* Wherever it stands, in a directive too; an include may lead to anything. */
static const char *names_std(const char *code) {
  return strstr(code, "std") || strstr(code, "include") ? "#define TIDE_NAMES_STD 1\n" : "";
}

/* The code as it is compiled, malloc'ed. */
static char *compiled_code(const char *code, const tide__signature *kernel, const tide_compiler *c, const char *what) {
  if (c->host) return tide__jit_rewrite(code, kernel, what);
  char *copy = strdup(code);
  if (!copy) tide__fail(TIDE_MEMORY, "%s: no host memory for the text of a kernel", what);
  return copy;
}

/* What stands before the code: the dialect, as far as these dtypes need it. */
static void add_prelude(tide__text *t, const tide__special *s, bool small, const tide_compiler *c) {
  bool complex = false;
  for (int k = 0; k < s->operands; k++)
    complex |= tide__category(s->dtype[k]) == 3, small |= tide__jit_is_small(s->dtype[k]);
  tide__text_add(t, "%s%s%s%s", c->text->prelude, small ? c->text->with_small : "",
                 complex ? c->text->with_complex : "", s->ndim ? c->text->with_dims : "");
}

/* Behind it: types, lists and arguments. */
static void add_declarations(tide__text *t, const tide__special *s, const char *const *scalar_types, bool rolled,
                             const tide_compiler *c) {
  tide_layout l;
  int lanes = s->operands - s->uniform;
  for (int k = 0; k < s->operands; k++)
    tide__text_add(t, "typedef %s tide_s%d;\n", tide__jit_storage_type(s->dtype[k]), k);
  for (int k = 0; k < lanes && s->ndim && !c->host; k++) /* what a thread has of each */
    tide__text_add(t, s->places >> k & 1 ? "typedef const tide_s%d *tide_v%d;\n" : "typedef tide_s%d tide_v%d;\n", k,
                   k);
  add_list(t, "TIDE_EACH", 0, lanes, "");
  add_list(t, "TIDE_EACH_OUT", 0, s->outputs, "");
  add_places(t, s, "TIDE_EACH_IN", false);
  add_places(t, s, "TIDE_EACH_PLACE", true);
  add_list(t, "TIDE_ARGS", 0, lanes, ",");
  if (s->mail)
    tide__text_add(t,
                   "#define TIDE_WATCH , tide_w\n#define TIDE_OPEN tide_wrong tide_w = {0};\n"
                   "#define TIDE_CLOSE if (tide_w.length) tide_report(tide_w, a.c%d, a.c%d);\n",
                   s->mail - 1, s->mail);
  else
    tide__text_add(t, "#define TIDE_WATCH\n#define TIDE_OPEN\n#define TIDE_CLOSE\n");
  tide__text_add(t, "#define TIDE_THREADS %d\n#define TIDE_ROLLED %d\n", c->text->threads, rolled);
  tide__jit_layout(&l, s);
  add_lanes(t, l.vector, s->ndim);
  add_args(t, scalar_types, s, &l);
}

char *tide__jit_source(const tide__jit_text *j, const tide__special *s, const tide_compiler *c) {
  tide__text t = {0};
  const char *scalar_types[TIDE_JIT_SCALARS];
  TIDE_FREED char *code = compiled_code(j->code, NULL, c, "jiterator");
  if (!code) return NULL;
  for (int k = 0; k < s->scalars; k++) scalar_types[k] = scalar_type(j->scalar_kind[k]);
  tide__text_add(&t, "%s", names_std(j->code));
  add_prelude(&t, s, false, c);
  tide__text_add(&t, "#line 1 \"code\"\n%s\n#line 1 \"tide\"\n", code);
  tide__text_add(&t, "typedef %s tide_t;\n", tide__jit_compute_type(s->common));
  bool is_costly = is_long(j->code, s, false), apart = is_costly && j->by_value && !c->host;
  add_declarations(&t, s, scalar_types, is_costly && !apart, c);
  add_apply(&t, j, s, apart);
  tide__text_add(&t, "%s", s->ndim ? c->text->strided : c->text->flat);
  return tide__text_end(&t, "jiterator");
}

char *tide__jit_around(const char *before, const char *apply, const char *const *scalar_types, const tide__special *s,
                       const tide_compiler *c) {
  tide__text t = {0};
  add_prelude(&t, s, strstr(apply, "tide_put") != NULL, c);
  tide__text_add(&t, "#define TIDE_TAKES_ANY %d\n%s", !s->mail, before); /* what lies past the end is no index */
  add_declarations(&t, s, scalar_types, is_long(apply, s, true), c);
  tide__text_add(&t, "static TIDE_INLINE void tide_apply(const tide_args &tide_a");
  for (int k = 0; k < s->operands - s->uniform; k++)
    tide__text_add(&t, ", %stide_s%d %cx%d", k < s->outputs ? "" : "const ", k, s->places >> k & 1 ? '*' : '&', k);
  tide__text_add(&t, "%s) {\n%s}\n%s", s->mail ? ", tide_wrong &tide_w" : "", apply,
                 s->ndim ? c->text->strided : c->text->flat);
  return tide__text_end(&t, "fuse");
}

/* ---- raw kernels ---- */

/* Headers that do not know of threads, and those of CUDA that the text stands for. */
static const char known_headers[] =
    "cuda_fp16.h cuda_bf16.h cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h vector_types.h math.h cmath "
    "stdint.h cstdint stddef.h cstddef stdio.h cstdio stdlib.h cstdlib string.h cstring limits.h climits limits "
    "float.h "
    "cfloat algorithm utility type_traits complex array tuple functional numeric stdbool.h";

/* Does it include something that may use threadIdx, or wait? Yes where that cannot be told. */
static bool includes_unknown(const char *code) {
  TIDE_FREED tide__tokens w = {0};
  const char *name;
  size_t n;
  bool unknown = tide__tokenize(&w, code, NULL, TIDE_TOKENS_DIRECTIVES, "compile_kernel") != TIDE_OK;
  for (int i = 0; !unknown && i < w.count; i++)
    unknown = tide__parse_include(&w.list[i], &name, &n) &&
              (!n || !tide__token_is_any(&(tide__token){name + 1, (int)n - 1, 0}, known_headers));
  return unknown;
}

static bool has_text(const char *p, const char *end, const char *text) {
  const char *found = strstr(p, text);
  return found && found < end;
}

/* Do functions other than the kernel itself, or an assertion, ask which thread runs? */
static bool asks_elsewhere(const char *code, const tide__signature *f) {
  const char *end = code + strlen(code), *from = code;
  bool asks = has_text(code, end, "assert");
  for (int i = 0; i < f->bodies && !asks; i++) {
    asks = has_text(from, code + f->body[i].begin, "threadIdx");
    from = code + f->body[i].end;
  }
  return asks || has_text(from, end, "threadIdx");
}

/* An address whose type is deduced exists only where one function has the name; it converts to a pointer to a function
 * of these types only where that takes them. */
static void add_check(tide__text *t, const tide__raw_text *r) {
  tide__text_add(t, "template <typename F> __device__ F tide_only(F f);\n"
                    "typedef decltype(static_cast<void (*)(");
  for (int i = 0; i < r->params; i++) tide__text_add(t, "%s%s", i ? ", " : "", r->types[i]);
  tide__text_add(t, ")>(tide_only(&::%s))) tide_checked;\n", r->call);
}

static void add_call_of(tide__text *t, const tide__raw_text *r) {
  tide__text_add(t, "::%s(", r->call);
  for (int i = 0; i < r->params; i++)
    tide__text_add(t, "%stide_at<%s>(a + %d)", i ? ", " : "", r->types[i], r->offset[i]);
  tide__text_add(t, ");\n");
}

/* On a host the blocks of a launch are a loop around a call of the kernel, which runs all threads of a block. A body
 * that was not found runs one thread, and is called for the others too. */
static void add_loop(tide__text *t, const tide__raw_text *r) {
  tide__text_add(t, "static __attribute__((noinline)) int tide_loop(const void *packed, const unsigned *dims,\n"
                    "    long long begin, long long end) {\n  const char *a = (const char *)packed;\n"
                    "  TIDE_GRID(dims)\n  for (long long b = begin; b < end; b++) {\n    TIDE_BLOCK(b, dims)\n"
                    "    tide_ran = false, threadIdx = {0, 0, 0};\n    ");
  add_call_of(t, r);
  tide__text_add(t, "    if (!tide_ran) TIDE_FOR_OTHERS(dims) ");
  add_call_of(t, r);
  tide__text_add(t, "  }\n  return 0;\n}\nTIDE_KERNEL(tide_loop)\n");
}

/* Threads that wait for each other are called one by one. */
static void add_turns(tide__text *t, const tide__raw_text *r) {
  tide__text_add(t, "static void tide_thread(const void *packed, unsigned i) {\n"
                    "  const char *a = (const char *)packed;\n  TIDE_SET_THREAD(i)\n  ");
  add_call_of(t, r);
  tide__text_add(
      t, "}\nstatic int tide_loop(const void *packed, const unsigned *dims, long long begin, long long end) {\n"
         "  TIDE_GRID(dims)\n  for (long long b = begin; b < end; b++) {\n    TIDE_BLOCK(b, dims)\n"
         "    if (int rc = tide_hook->block(tide_hook->self, dims[3] * dims[4] * dims[5], tide_thread, packed)) "
         "return rc;\n  }\n  return 0;\n}\nTIDE_KERNEL(tide_loop)\n");
}

/* On a GPU the code is compiled as it is. */
static void add_raw(tide__text *t, const tide__raw_text *r, const tide_compiler *c, const char *code) {
  static const char waits[] = "__syncthreads __syncthreads_count __syncthreads_and __syncthreads_or";
  const char *names = names_std(r->source);
  if (!c->host) {
    tide__text_add(t, "%s%s#line 1 \"code\"\n%s\n#line 1 \"tide\"\n", names, c->text->raw, code);
    if (r->checked) add_check(t, r);
    return;
  }
  bool unknown = includes_unknown(r->source), turns = unknown || tide__parse_finds(NULL, r->source, waits);
  tide__text_add(t, "%s%s%s%s", names, strstr(r->source, "include") ? "#define TIDE_NAMES_CUDA 1\n" : "",
                 turns ? "#define TIDE_FIBERS 1\n" : "",
                 asks_elsewhere(r->source, r->signature) ? "#define TIDE_EACH_ID 1\n" : "");
  tide__text_add(t, "%s%s%s", c->text->prelude, c->text->with_small, c->text->raw);
  if (turns) tide__text_add(t, "#undef TIDE_BODY\n#undef TIDE_BODY_END\n#define TIDE_BODY\n#define TIDE_BODY_END\n");
  tide__text_add(t, "#line 1 \"code\"\n%s\n#line 1 \"tide\"\n", code);
  if (r->checked) add_check(t, r);
  if (turns)
    add_turns(t, r);
  else
    add_loop(t, r);
}

char *tide__raw_source(const tide__raw_text *r, const tide_compiler *c) {
  tide__text t = {0};
  TIDE_FREED char *code = compiled_code(r->source, r->plain ? NULL : r->signature, c, "compile_kernel");
  if (!code) return NULL;
  add_raw(&t, r, c, code);
  return tide__text_end(&t, "compile_kernel");
}
