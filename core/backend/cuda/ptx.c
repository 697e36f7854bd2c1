/* ptx.c: fused operations as PTX, which the driver makes machine code of in a third of the time that NVRTC takes.
 *
 * What an operation computes is not said here again: each op of op.def and each conversion was compiled to a function
 * of PTX when tide was built (kernels/loops/op_ptx.cu), and its body is copied here, once a lane, with its parameters
 * as registers. Around them stand the loads and stores of the flat and the strided kernel that core/jit/text/source.c
 * describes.
 *
 * A value lives in a register v<value>_<lane> of the type that its dtype is computed in: .b32 for bool (0 or 1) and the
 * integers up to 32 bits, .b64 for int64, .f32 also for 16-bit floats, .f64. Numbers are c<slot>, addresses
 * a<operand>, what is moved between memory and registers o<operand>_<word>, 32 or 64 bits each. Every operation rounds
 * as it does alone, so that the numbers are those of running them one by one. What cannot be written so (calls of
 * functions, memory of a thread's own, long bodies) is left to NVRTC, which has one copy of such code for all lanes.
 *
 * Invariant: the text is a function of the program, its layout and the architecture alone: it is the key of what is
 * kept. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit.h"

/* The functions: a text. */
__asm__(".pushsection .rodata\n"
        ".type tide__cuda_op_ptx, %object\n"
        "tide__cuda_op_ptx:\n"
        ".incbin \"" TIDE_OP_PTX "\"\n"
        "tide__cuda_op_ptx_end:\n"
        ".popsection\n");
extern const char tide__cuda_op_ptx[] __attribute__((visibility("hidden")));
extern const char tide__cuda_op_ptx_end[] __attribute__((visibility("hidden")));

enum { IS_FLOAT, IS_FLOATC = 0, IS_MATHC = 0, IS_EXACT = 0, IS_REAL = 0, IS_DIVIDE = 0, IS_REALC = 0, IS_ARITHC = 0 };
enum { IS_BITS = 0, IS_TEST = 1, IS_COMPARE = 1, IS_EQUALC = 1, IS_CLOSE = 1, IS_LOGIC = 1 };
static const struct {
  const char *name;
  bool is_test; /* the result is 0 or 1 */
} ops[] = {
#define TIDE_EACH_OP(name, rule, loop, expr, doc) {#name, IS_##rule},
#include "tide/op.def"
};

enum { KIND_B = 'i', KIND_U = 'i', KIND_I = 'i', KIND_F = 'f', WIDE_B = 0, WIDE_U = 0, WIDE_I = 'l', WIDE_F = 'd' };
enum { KIND_C = 0, WIDE_C = 0 };
static const struct {
  const char *name;
  char kind; /* of the registers: i, l, f, d; 0: there is none */
  uint8_t bytes;
} dtypes[] = {
#define DTYPE(name, NAME, type, size, kind, alias) {#name, size > 4 ? WIDE_##kind : KIND_##kind, size},
#include "tide/dtype.def"
};

static const char *register_type(char kind) {
  return kind == 'i' ? "b32" : kind == 'l' ? "b64" : kind == 'f' ? "f32" : "f64";
}

/* ---- a text of at most so many bytes, beyond which NVRTC is quicker ---- */

enum { MOST = 96 << 10 };

typedef struct writer {
  char *text;
  size_t length;
  bool failed;
  int calls; /* bodies that were copied, which makes their labels differ */
  const tide_fused_program *p;
  const tide_layout *l;
  int arch;
} writer;

__attribute__((format(printf, 2, 3))) static void add(writer *w, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int n = w->failed ? -1 : vsnprintf(w->text + w->length, MOST - w->length, format, list);
  va_end(list);
  w->failed = n < 0 || (size_t)n >= MOST - w->length;
  if (!w->failed) w->length += (size_t)n;
}

/* ---- copies of functions ---- */

typedef struct body {
  const char *name, *at, *end; /* at: behind the bracket that opens */
  size_t length;               /* of the name, which ends with a bracket */
} body;

enum { BODIES = 1024 };
static body bodies[BODIES];
static int bodies_count;
static pthread_once_t bodies_once = PTHREAD_ONCE_INIT;

static int compare(const void *a, const void *b) {
  const body *x = a, *y = b;
  int order = memcmp(x->name, y->name, x->length < y->length ? x->length : y->length);
  return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* ".func (.param .b32 func_retval0) tide_add_f(" and the parameters stand before each; brackets alone on their lines
 * are around it. By memchr, as the first fused function of a process waits for it. */
static void find_bodies(void) {
  const char *at = tide__cuda_op_ptx, *last = tide__cuda_op_ptx_end;
  for (const char *open; bodies_count < BODIES && (open = memchr(at, '{', (size_t)(last - at)));) {
    const char *name = memrchr(at, '(', (size_t)(open - at)), *end = open;
    if (open[-1] != '\n') { /* of a table */
      at = open + 1;
      continue;
    }
    while (name && name > at && name[-1] != ' ') name--;
    do end = memchr(end + 1, '}', (size_t)(last - end - 1));
    while (end && end[-1] != '\n');
    if (!end) break;
    at = end;
    if (name && !strncmp(name, "tide_", 5)) bodies[bodies_count++] = (body){name, open + 1, end, strcspn(name, "(")};
  }
  qsort(bodies, (size_t)bodies_count, sizeof *bodies, compare);
}

/* The one that is called so; NULL: it is not there, or cannot be copied. */
static const body *find_body(const char *name) {
  static const char *const not_here[] = {"call", ".local", "__internal", "__cudart", "trap;"};
  const body wanted = {.name = name, .length = strlen(name)};
  pthread_once(&bodies_once, find_bodies);
  const body *b = bsearch(&wanted, bodies, (size_t)bodies_count, sizeof *bodies, compare);
  for (size_t i = 0; b && i < sizeof not_here / sizeof *not_here; i++)
    if (memmem(b->at, (size_t)(b->end - b->at), not_here[i], strlen(not_here[i]))) return NULL;
  return b;
}

/* The part of a line up to one of the ends, without blanks before it; *line goes behind that. */
static void take(char *to, size_t size, const char **line, const char *ends) {
  *line += strspn(*line, " \t");
  size_t n = strcspn(*line, ends);
  snprintf(to, size, "%.*s", (int)n, *line);
  *line += n + 1;
}

/* "ld.param.f32 %f1, [tide_add_f_param_0];" as a move from the argument. Of an integer it may read the lowest bytes
 * alone, as "ld.param.s8 %r1" does. */
static void add_argument(writer *w, const char *line, const char *const *argument, char kind) {
  char type[8], to[24], place[64];
  line += strlen("ld.param.");
  take(type, sizeof type, &line, " \t"), take(to, sizeof to, &line, ","), take(place, sizeof place, &line, ";");
  const char *number = strstr(place, "_param_");
  int bits = atoi(type + 1), has = kind == 'l' || kind == 'd' ? 64 : 32;
  int wide = !strncmp(to, "%rd", 3) || !strncmp(to, "%fd", 3) ? 64 : !strncmp(to, "%rs", 3) ? 16 : 32;
  bool is_int = kind == 'i' || kind == 'l';
  if (!number || !number[7] || number[8] != ']' || !bits || (!is_int && (bits != has || has != wide))) {
    w->failed = true;
    return;
  }
  const char *from = argument[number[7] - '0'];
  if (bits == has && has == wide)
    add(w, "mov.b%d %s, %s;\n", bits, to, from);
  else if (has == 64 && bits == wide)
    add(w, "cvt.u%d.u64 %s, %s;\n", wide, to, from);
  else
    add(w, "cvt.%c%d.%s %s, %s;\n", *type, wide, type, to, from);
}

/* "st.param.f32 [func_retval0+0], %f3;" as a move to the result. */
static void add_result(writer *w, const char *line, const char *result) {
  char type[8], place[32], from[24];
  line += strlen("st.param.");
  take(type, sizeof type, &line, " \t"), take(place, sizeof place, &line, ","), take(from, sizeof from, &line, ";");
  if (strcmp(place, "[func_retval0+0]") != 0) w->failed = true;
  add(w, "mov.%s %s, %s;\n", type, result, from);
}

/* "add.f32": the assembler may join it with a product of the operation before. */
static bool may_be_joined(const char *line) {
  return !strncmp(line, "add.f", 5) || !strncmp(line, "sub.f", 5) || !strncmp(line, "mul.f", 5);
}

/* Labels get the copy's number. Each operation rounds, as it does alone. */
static void add_line(writer *w, const char *line, int length) {
  if (may_be_joined(line)) {
    add(w, "%.3s.rn", line);
    line += 3, length -= 3;
  }
  for (const char *p = line, *end = line + length; p < end;) {
    const char *label = memchr(p, '$', (size_t)(end - p));
    if (!label) label = end;
    add(w, "%.*s", (int)(label - p), p);
    p = label;
    if (label == end) break;
    int n = 1;
    while (p + n < end && (p[n] == '_' || (p[n] >= '0' && p[n] <= '9') || (p[n] >= 'A' && p[n] <= 'Z'))) n++;
    add(w, "%.*s_%d", n, p, w->calls);
    p += n;
  }
  add(w, "\n");
}

/* result = name(arguments), which are all of one kind: the function's own text. */
static void add_call(writer *w, const char *name, const char *const *argument, char kind, const char *result) {
  const body *b = find_body(name);
  if (!b) {
    w->failed = true;
    return;
  }
  const char *at = b->at, *end = b->end;
  w->calls++;
  add(w, "{\n");
  for (const char *next; at < end && !w->failed; at = next) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    next = stop ? stop + 1 : end;
    const char *line = at + strspn(at, "\t ");
    int length = (int)((stop ? stop : end) - line);
    if (length <= 0 || !strncmp(line, "//", 2)) continue;
    if (!strncmp(line, "ld.param.", 9))
      add_argument(w, line, argument, kind);
    else if (!strncmp(line, "st.param.", 9))
      add_result(w, line, result);
    else if (!strncmp(line, "ret;", 4))
      add(w, "bra.uni end_%d;\n", w->calls);
    else
      add_line(w, line, length);
  }
  add(w, "end_%d:\n}\n", w->calls);
}

static void add_conversion(writer *w, int dtype, char from, const char *value, const char *result) {
  char name[48];
  snprintf(name, sizeof name, "tide_to_%s_%c", dtypes[dtype].name, from);
  add_call(w, name, &value, from, result);
}

/* ---- elements ---- */

/* The word that a load gives of an element, as a value. */
static void add_read(writer *w, int dtype, const char *word, const char *value) {
  switch (dtype) {
  case TIDE_BOOL: add(w, "min.u32 %s, %s, 1;\n", value, word); break;
  case TIDE_INT8: add(w, "cvt.s32.s8 %s, %s;\n", value, word); break;
  case TIDE_INT16: add(w, "cvt.s32.s16 %s, %s;\n", value, word); break;
  case TIDE_FLOAT16: add(w, "{ .reg .b16 h; cvt.u16.u32 h, %s; cvt.f32.f16 %s, h; }\n", word, value); break;
  case TIDE_BFLOAT16: add(w, "{ .reg .b32 h; shl.b32 h, %s, 16; mov.b32 %s, h; }\n", word, value); break;
  default: add(w, "mov.b%d %s, %s;\n", 8 * (dtypes[dtype].bytes > 4 ? 8 : 4), value, word);
  }
}

/* A value as the word that is stored, of which the lowest bytes count. */
static void add_write(writer *w, int dtype, const char *value, const char *word) {
  if (dtype == TIDE_FLOAT16)
    add(w, "{ .reg .b16 h; cvt.rn.f16.f32 h, %s; cvt.u32.u16 %s, h; }\n", value, word);
  else if (dtype == TIDE_BFLOAT16 && w->arch >= 90)
    add(w, "{ .reg .b16 h; cvt.rn.bf16.f32 h, %s; cvt.u32.u16 %s, h; }\n", value, word);
  else if (dtype == TIDE_BFLOAT16)
    add_call(w, "tide_bits_bfloat16", &value, 'f', word);
  else
    add(w, "mov.b%d %s, %s;\n", 8 * (dtypes[dtype].bytes > 4 ? 8 : 4), word, value);
}

typedef char label[24];

static const char *name_value(label to, int node, int lane) {
  snprintf(to, sizeof(label), "v%d_%d", node, lane);
  return to;
}

static const char *name_word(label to, int operand, int word) {
  snprintf(to, sizeof(label), "o%d_%d", operand, word);
  return to;
}

/* Of operand k. */
static int dtype_of(const writer *w, int k) { return w->p->node[w->p->operand[k]].dtype; }
static int bytes_of(const writer *w, int k) { return dtypes[dtype_of(w, k)].bytes; }
static int word_bits(const writer *w, int k) { return bytes_of(w, k) == 8 ? 64 : 32; }
static bool is_uniform(const writer *w, int k) { return k >= w->p->operands - w->l->uniform; }

/* One element between memory and a word. */
static const char *element_type(label to, int bytes) {
  snprintf(to, sizeof(label), "%c%d", bytes < 4 ? 'u' : 'b', 8 * bytes);
  return to;
}

/* ---- flat: a thread moves its lanes at once ---- */

static int word_count(const writer *w, int k) {
  int bytes = w->l->vector * bytes_of(w, k), size = word_bits(w, k) / 8;
  return bytes <= size ? 1 : bytes / size;
}

static void add_move(writer *w, int k, bool store) {
  int n = word_count(w, k), bytes = w->l->vector * bytes_of(w, k);
  label word, type;
  char list[80] = "";
  for (int i = 0; i < n; i++)
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", name_word(word, k, i));
  if (bytes < 4)
    element_type(type, bytes);
  else
    snprintf(type, sizeof type, "%sb%d", n == 4 ? "v4." : n == 2 ? "v2." : "", word_bits(w, k));
  const char *open = n > 1 ? "{" : "", *close = n > 1 ? "}" : "";
  if (store)
    add(w, "st.global.%s [a%d], %s%s%s;\n", type, k, open, list, close);
  else
    add(w, "ld.global.%s %s%s%s, [a%d];\n", type, open, list, close, k);
}

/* The element of one lane, out of the words. */
static void add_unpack(writer *w, int k, int lane) {
  int bytes = bytes_of(w, k), of = bytes < 4 ? 4 / bytes : 1;
  label word, value;
  name_word(word, k, lane / of);
  if (of > 1) add(w, "{ .reg .b32 e; bfe.u32 e, %s, %d, %d;\n", word, 8 * bytes * (lane % of), 8 * bytes);
  add_read(w, dtype_of(w, k), of > 1 ? "e" : word, name_value(value, w->p->operand[k], lane));
  if (of > 1) add(w, "}\n");
}

static void add_pack(writer *w, int k, int lane) {
  int dtype = dtype_of(w, k), bytes = bytes_of(w, k), of = bytes < 4 ? 4 / bytes : 1;
  label word, value;
  name_word(word, k, lane / of), name_value(value, w->p->operand[k], lane);
  if (lane % of == 0)
    add_write(w, dtype, value, word);
  else {
    add(w, "{ .reg .b32 e;\n");
    add_write(w, dtype, value, "e");
    add(w, "bfi.b32 %s, e, %s, %d, %d;\n}\n", word, word, 8 * bytes * (lane % of), 8 * bytes);
  }
}

/* A single value is the same for all lanes, each of which has it under its own name: that costs nothing. */
static void add_single(writer *w, int k) {
  label value, type;
  add(w, "{ .reg .b%d e;\nld.global.%s e, [a%d];\n", word_bits(w, k), element_type(type, bytes_of(w, k)), k);
  for (int lane = 0; lane < w->l->vector; lane++)
    add_read(w, dtype_of(w, k), "e", name_value(value, w->p->operand[k], lane));
  add(w, "}\n");
}

static void begin_flat(writer *w) {
  add(w,
      ".reg .pred past;\n.reg .b32 i, n;\nmov.u32 i, %%ctaid.x;\nmov.u32 n, %%tid.x;\nmad.lo.u32 i, i, %d, n;\n"
      "ld.param.u32 n, [args+%d];\nsetp.ge.u32 past, i, n;\n@past ret;\n",
      TIDE_CUDA_THREADS, w->l->count + 8);
  for (int k = 0; k < w->p->operands; k++) {
    add(w, ".reg .b64 a%d;\nld.param.u64 a%d, [args+%d];\n", k, k, w->l->pointers + 8 * k);
    if (is_uniform(w, k)) continue;
    add(w, "mad.wide.u32 a%d, i, %d, a%d;\n.reg .b%d o%d_<%d>;\n", k, w->l->vector * bytes_of(w, k), k, word_bits(w, k),
        k, word_count(w, k));
  }
}

/* ---- strided: a thread does elements that are a block apart, each of which has addresses of its own ---- */

/* Divisors are a size, a factor and a shift: jit/module/launch.c. */
static void begin_strided(writer *w) {
  add(w,
      ".reg .b32 i, n;\nmov.u32 i, %%ctaid.x;\nmov.u32 n, %%tid.x;\nmad.lo.u32 i, i, %d, n;\n"
      "ld.param.u32 n, [args+%d];\nsub.u32 n, n, 1;\n",
      TIDE_CUDA_THREADS * w->l->vector, w->l->count);
  for (int d = 1; d < w->l->ndim; d++) {
    int at = w->l->divisors + 12 * d;
    add(w,
        ".reg .b32 size%d, factor%d, shift%d;\nld.param.u32 size%d, [args+%d];\nld.param.u32 factor%d, [args+%d];\n"
        "ld.param.u32 shift%d, [args+%d];\n",
        d, d, d, d, at, d, at + 4, d, at + 8);
  }
  for (int k = 0; k < w->p->operands; k++) {
    add(w, ".reg .b64 a%d, a%d_<%d>;\nld.param.u64 a%d, [args+%d];\n.reg .b%d o%d_<%d>;\n", k, k, w->l->vector, k,
        w->l->pointers + 8 * k, word_bits(w, k), k, w->l->vector);
    for (int d = 0; d < w->l->ndim; d++)
      add(w, ".reg .b64 s%d_%d;\nld.param.u64 s%d_%d, [args+%d];\nmul.lo.s64 s%d_%d, s%d_%d, %d;\n", k, d, k, d,
          w->l->strides + 8 * (d * w->p->operands + k), k, d, k, d, bytes_of(w, k));
  }
}

/* Threads past the end do the last element again. */
static void add_addresses(writer *w, int lane) {
  add(w, "{ .reg .b32 rest, q, r;\n.reg .b64 at;\nadd.u32 rest, i, %d;\nmin.u32 rest, rest, n;\n",
      lane * TIDE_CUDA_THREADS);
  for (int k = 0; k < w->p->operands; k++) add(w, "mov.b64 a%d_%d, a%d;\n", k, lane, k);
  for (int d = w->l->ndim - 1; d >= 0; d--) {
    if (d)
      add(w,
          "mul.hi.u32 q, rest, factor%d;\nadd.u32 q, q, rest;\nshr.u32 q, q, shift%d;\nmul.lo.u32 r, q, size%d;\n"
          "sub.u32 r, rest, r;\nmov.u32 rest, q;\n",
          d, d, d);
    add(w, "cvt.u64.u32 at, %s;\n", d ? "r" : "rest");
    for (int k = 0; k < w->p->operands; k++) add(w, "mad.lo.s64 a%d_%d, at, s%d_%d, a%d_%d;\n", k, lane, k, d, k, lane);
  }
  add(w, "}\n");
}

static void add_element(writer *w, int k, int lane, bool store) {
  label word, type;
  name_word(word, k, lane), element_type(type, bytes_of(w, k));
  if (store)
    add(w, "st.global.%s [a%d_%d], %s;\n", type, k, lane, word);
  else
    add(w, "ld.global.%s %s, [a%d_%d];\n", type, word, k, lane);
}

/* ---- steps ---- */

static char kind_of(const tide_fused_node *n) { return dtypes[n->compute].kind; }

/* An operand as what the operation computes in: a register. */
static void add_operand(writer *w, const tide_fused_node *n, int k, int lane, label name, char kind) {
  label from;
  if (n->in[k] < 0) {
    snprintf(name, sizeof(label), "c%d", -1 - n->in[k]);
    return;
  }
  char is = dtypes[w->p->node[n->in[k]].dtype].kind;
  name_value(from, n->in[k], lane);
  if (is == kind) {
    memcpy(name, from, sizeof(label));
    return;
  }
  snprintf(name, sizeof(label), "x%d", k);
  add(w, ".reg .%s x%d;\n", register_type(kind), k);
  add_conversion(w, n->compute, is, from, name);
}

static void add_op(writer *w, int node, int lane) {
  const tide_fused_node *n = &w->p->node[node];
  label operand[3], param[3], result;
  const char *argument[6] = {operand[0], operand[1], operand[2], param[0], param[1], param[2]};
  char name[48], kind = kind_of(n);
  bool is_test = ops[n->op].is_test, rounds = n->dtype <= TIDE_INT16 && !is_test;
  if (dtypes[n->dtype].kind != (is_test ? 'i' : kind)) w->failed = true;
  add(w, "{\n");
  for (int k = 0; k < n->operands; k++) add_operand(w, n, k, lane, operand[k], kind);
  for (int k = 0; k < n->params; k++) snprintf(param[k], sizeof(label), "c%d", n->param + k);
  name_value(result, node, lane);
  snprintf(name, sizeof name, "tide_%s_%c", ops[n->op].name, kind);
  if (rounds) add(w, ".reg .b32 r;\n"); /* of integers below 32 bits, which wrap around, and of bool */
  add_call(w, name, argument, kind, rounds ? "r" : result);
  if (rounds) add_conversion(w, n->dtype, 'i', "r", result);
  add(w, "}\n");
}

static void add_node(writer *w, int node, int lane) {
  const tide_fused_node *n = &w->p->node[node];
  label from, result;
  if (n->kind == TIDE_FUSE_OP)
    add_op(w, node, lane);
  else if (n->kind == TIDE_FUSE_CAST)
    add_conversion(w, n->dtype, dtypes[w->p->node[n->in[0]].dtype].kind, name_value(from, n->in[0], lane),
                   name_value(result, node, lane));
}

/* ---- the whole ---- */

/* The assembler of every driver for CUDA 12 knows these. */
static int target_of(int arch) {
  static const int known[] = {90, 89, 87, 86, 80, 75};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i] <= arch) return known[i];
  return 0;
}

static void add_number(writer *w, int slot, char kind) {
  const char *type = register_type(kind);
  add(w, ".reg .%s c%d;\nld.param.%s c%d, [args+%d];\n", type, slot, type, slot, 16 * slot);
}

/* Each number belongs to one operation. */
static void add_numbers(writer *w) {
  for (int i = 0; i < w->p->nodes; i++) {
    const tide_fused_node *n = &w->p->node[i];
    for (int k = 0; k < n->operands; k++)
      if (n->in[k] < 0) add_number(w, -1 - n->in[k], kind_of(n));
    for (int k = 0; k < n->params; k++) add_number(w, n->param + k, kind_of(n));
  }
}

static void begin(writer *w, int target) {
  add(w,
      ".version 7.8\n.target sm_%d\n.address_size 64\n.visible .entry tide_kernel(.param .align 16 .b8 args[%d])\n"
      ".maxntid %d\n{\n",
      target, w->l->bytes, TIDE_CUDA_THREADS);
  if (target >= 90) add(w, "griddepcontrol.launch_dependents;\ngriddepcontrol.wait;\n"); /* kernels/launch.cuh */
  if (w->l->ndim)
    begin_strided(w);
  else
    begin_flat(w);
  add_numbers(w);
  for (int i = 0; i < w->p->nodes; i++)
    for (int lane = 0; lane < w->l->vector; lane++)
      add(w, ".reg .%s v%d_%d;\n", register_type(dtypes[w->p->node[i].dtype].kind), i, lane);
}

/* All loads are in flight together. */
static void add_loads(writer *w) {
  for (int lane = 0; w->l->ndim && lane < w->l->vector; lane++) {
    add_addresses(w, lane);
    for (int k = w->p->results; k < w->p->operands; k++) add_element(w, k, lane, false);
  }
  for (int k = w->p->results; !w->l->ndim && k < w->p->operands; k++)
    if (is_uniform(w, k))
      add_single(w, k);
    else
      add_move(w, k, false);
}

static void add_lane(writer *w, int lane) {
  label word, value;
  for (int k = w->p->results; k < w->p->operands; k++)
    if (w->l->ndim)
      add_read(w, dtype_of(w, k), name_word(word, k, lane), name_value(value, w->p->operand[k], lane));
    else if (!is_uniform(w, k))
      add_unpack(w, k, lane);
  for (int i = 0; i < w->p->nodes; i++) add_node(w, i, lane);
  for (int k = 0; k < w->p->results; k++)
    if (w->l->ndim)
      add_write(w, dtype_of(w, k), name_value(value, w->p->operand[k], lane), name_word(word, k, lane));
    else
      add_pack(w, k, lane);
}

static void add_stores(writer *w) {
  for (int k = 0; k < w->p->results; k++)
    for (int lane = 0; lane < (w->l->ndim ? w->l->vector : 1); lane++)
      if (w->l->ndim)
        add_element(w, k, lane, true);
      else
        add_move(w, k, true);
}

/* Is each value of a dtype that is known here? */
static bool can_write(const tide_fused_program *p) {
  for (int i = 0; i < p->nodes; i++)
    if (!dtypes[p->node[i].dtype].kind || !dtypes[p->node[i].compute].kind) return false;
  return true;
}

char *tide__cuda_fused_text(const tide_fused_program *p, const tide_layout *l, const char *arch) {
  writer w = {.p = p, .l = l, .arch = atoi(arch + 3)};
  int target = target_of(w.arch);
  if (!target || !can_write(p) || !(w.text = malloc(MOST))) return NULL;
  begin(&w, target);
  add_loads(&w);
  for (int lane = 0; lane < l->vector; lane++) add_lane(&w, lane);
  add_stores(&w);
  add(&w, "ret;\n}\n");
  if (!w.failed) return w.text;
  free(w.text);
  return NULL;
}
