/* elementwise.c: out = op(inputs), in chunks that stay in the first cache.
 *
 * An operand that is joined in a chunk and already of the compute type is used where it lies; others are gathered and
 * converted into a buffer; a number, or a tensor that repeats one value, fills its buffer once. Chunks of long rows,
 * which operands that repeat a row or a column have, go row by row, so that nothing is gathered. The loop of isa.h runs
 * over whole blocks; what is left over goes through buffers of one block. The result is written in place, or converted
 * and scattered from a buffer; results beyond the caches are written around them.
 *
 * Invariant: every chunk is read before it is written, and no other chunk touches its elements, so that the output may
 * be one of the inputs. */
#include "byte_ops.h"
#include "layout.h"
#include "loops_rules.h"

enum { BLOCK_BYTES = TIDE_BLOCK * 16, STEP = 8 * TIDE_BLOCK, AHEAD = 4096, LONG_ROW = 4 * TIDE_BLOCK };

typedef struct work {
  const tide_elementwise_args *a;
  const tide__isa *isa;
  tide__loop loop, streamed; /* streamed is NULL where the isa has none */
  tide__grid grid;
  int compute, result, item, result_item; /* dtypes and their bytes: of inputs, and of what the loop writes */
  bool stream;
  bool by_rows; /* rows can be used where they lie */
  bool constant[TIDE_MAX_OPERANDS];
  _Alignas(16) char param[3 * 16];
} work;

typedef struct buffers {
  _Alignas(64) char operand[TIDE_MAX_OPERANDS][TIDE_PIECE_BYTES];
  _Alignas(64) char rest[TIDE_MAX_OPERANDS][BLOCK_BYTES];
  _Alignas(64) char raw[TIDE_PIECE * 16];
} buffers;

/* Packs a value into its compute type. */
static void pack(void *out, tide_value v, int compute) {
  switch (compute) {
  case TIDE_BOOL:
  case TIDE_UINT8:
  case TIDE_INT8: *(uint8_t *)out = (uint8_t)v.i; break;
  case TIDE_INT32: *(int32_t *)out = (int32_t)v.i; break;
  case TIDE_INT64: *(int64_t *)out = v.i; break;
  case TIDE_FLOAT32: *(float *)out = (float)v.re; break;
  case TIDE_FLOAT64: *(double *)out = v.re; break;
  case TIDE_COMPLEX64: memcpy(out, &(float[2]){(float)v.re, (float)v.im}, 8); break;
  default: memcpy(out, &(double[2]){v.re, v.im}, 16); break;
  }
}

/* n: whole blocks; items are those of compute types. */
static void repeat(const tide__isa *isa, char *out, const void *value, int item, int64_t n) {
  if (item == 4 || item == 8) {
    isa->repeat[item / 8](out, value, n / TIDE_BLOCK);
    return;
  }
  memcpy(out, value, (size_t)item);
  for (int64_t done = 1; done < n; done *= 2)
    memcpy(out + done * item, out, (size_t)((n - done < done ? n - done : done) * item));
}

static bool is_test(int op) {
  static const uint8_t tests[TIDE_OP_COUNT] = {
#define TIDE_EACH_OP(name, rule, loop, expr, doc) LOOP_PICK_TEST(LOOP_RULE_##rule),
#include "tide/op.def"
  };
  return tests[op];
}

/* Fills the buffers of numbers and of operands that are one value everywhere. */
static void fill_constants(const work *w, buffers *b, int64_t n) {
  for (int k = 1; k < w->a->operands; k++) {
    if (!w->constant[k]) continue;
    char value[16];
    if (w->a->is_number[k])
      pack(value, w->a->number[k], w->compute);
    else
      tide__cast(w->isa, value, w->compute, w->a->head.ptr[k], w->a->dtype[k], 1);
    repeat(w->isa, b->operand[k], value, w->item, n);
  }
}

/* The operands' elements after the last whole block, through buffers of one block. */
static void run_rest(const work *w, buffers *b, char *out, const char *const *in, int64_t whole, int64_t n) {
  const char *block[TIDE_MAX_OPERANDS] = {0};
  for (int k = 1; k < w->a->operands; k++) {
    memset(b->rest[k], 0, (size_t)(TIDE_BLOCK * w->item));
    memcpy(b->rest[k], in[k] + whole * w->item, (size_t)((n - whole) * w->item));
    block[k] = b->rest[k];
  }
  w->loop(b->rest[0], block[1], block[2], block[3], w->param, 1);
  memcpy(out + whole * w->result_item, b->rest[0], (size_t)((n - whole) * w->result_item));
}

/* Streams a chunk in short steps through a buffer: while a step drains, the next one computes, and what it reads is on
 * its way. */
static void run_steps(const work *w, buffers *b, char *out, const char *const *in, int64_t n) {
  const char *at[TIDE_MAX_OPERANDS] = {in[0], in[1], in[2], in[3]};
  for (int64_t i = 0; i < n; i += STEP) {
    int64_t part = n - i < STEP ? n - i : STEP, whole = part / TIDE_BLOCK * TIDE_BLOCK;
    for (int k = 1; k < w->a->operands; k++)
      for (int64_t j = 0; j < STEP * w->item && !w->constant[k]; j += 64) __builtin_prefetch(at[k] + j + AHEAD);
    w->loop(b->operand[0], at[1], at[2], at[3], w->param, whole / TIDE_BLOCK);
    if (whole < part) run_rest(w, b, b->operand[0], at, whole, part);
    w->isa->stream(out + i * w->result_item, b->operand[0], (size_t)(part * w->result_item));
    for (int k = 1; k < w->a->operands; k++)
      if (!w->constant[k]) at[k] += STEP * w->item;
  }
}

static void run_streamed(const work *w, buffers *b, char *out, const char *const *in, int64_t n) {
  int64_t whole = n / TIDE_BLOCK * TIDE_BLOCK;
  if (!w->streamed || (uintptr_t)out % 64) {
    run_steps(w, b, out, in, n);
    return;
  }
  w->streamed(out, in[1], in[2], in[3], w->param, whole / TIDE_BLOCK);
  if (whole < n) run_rest(w, b, out, in, whole, n);
}

/* n elements that follow each other in all operands. */
static void run_joined(const work *w, buffers *b, char *out, const char *const *in, int64_t n) {
  int64_t whole = n / TIDE_BLOCK * TIDE_BLOCK;
  if (w->stream) {
    run_streamed(w, b, out, in, n);
    return;
  }
  if (whole) w->loop(out, in[1], in[2], in[3], w->param, whole / TIDE_BLOCK);
  if (whole < n) run_rest(w, b, out, in, whole, n);
}

/* The rows of a chunk one by one; the value that an operand repeats in a row fills its buffer. */
static void run_rows(const work *w, buffers *b, const tide__chunk *c) {
  const tide_elementwise_args *a = w->a;
  int last = w->grid.ndim - 1;
  for (int64_t r = 0; r < c->rows; r++) {
    const char *in[TIDE_MAX_OPERANDS] = {0};
    for (int k = 1; k < a->operands; k++) {
      in[k] = b->operand[k];
      if (w->constant[k]) continue;
      const char *row = (const char *)a->head.ptr[k] + c->offset[k][r] * w->item;
      if (w->grid.stride[k][last])
        in[k] = row;
      else if (r == 0 || c->offset[k][r] != c->offset[k][r - 1])
        repeat(w->isa, b->operand[k], row, w->item, tide__whole_blocks(c->cols));
    }
    run_joined(w, b, (char *)a->head.ptr[0] + c->offset[0][r] * w->result_item, in, c->cols);
  }
}

static bool all_joined(const work *w, const tide__chunk *c) {
  bool all = c->joined[0];
  for (int k = 1; k < w->a->operands; k++) all = all && (c->joined[k] || w->constant[k]);
  return all;
}

static void run_chunk(const work *w, buffers *b, const tide__chunk *c) {
  const tide_elementwise_args *a = w->a;
  const char *in[TIDE_MAX_OPERANDS] = {0};
  if (w->by_rows && c->cols >= LONG_ROW && !all_joined(w, c)) {
    run_rows(w, b, c);
    return;
  }
  for (int k = 1; k < a->operands; k++)
    in[k] = w->constant[k] ? b->operand[k]
                           : tide__chunk_load(w->isa, b->operand[k], b->raw, a->head.ptr[k], &w->grid, c, k, w->compute,
                                              a->dtype[k]);
  if (c->joined[0] && a->dtype[0] == w->result) {
    run_joined(w, b, (char *)a->head.ptr[0] + c->offset[0][0] * w->result_item, in, c->n);
    return;
  }
  int64_t whole = c->n / TIDE_BLOCK * TIDE_BLOCK;
  if (whole) w->loop(b->operand[0], in[1], in[2], in[3], w->param, whole / TIDE_BLOCK);
  if (whole < c->n) run_rest(w, b, b->operand[0], in, whole, c->n);
  tide__chunk_store(w->isa, a->head.ptr[0], b->raw, b->operand[0], &w->grid, c, 0, a->dtype[0], w->result, w->stream);
}

static void run_chunks(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  buffers b;
  tide__chunk c;
  int64_t most = w->grid.high * w->grid.wide, left = w->a->numel;
  fill_constants(w, &b, tide__whole_blocks(most < left ? most : left));
  for (int64_t i = begin; i < end; i++) {
    tide__grid_chunk(&c, &w->grid, i);
    run_chunk(w, &b, &c);
  }
  if (w->stream) w->isa->stream_end();
}

/* Elements of a chunk: what the buffers hold, or many if none are needed. */
static int64_t chunk_size(const work *w) {
  const tide_elementwise_args *a = w->a;
  bool direct = a->flat && a->dtype[0] == w->result && (!w->stream || w->streamed);
  for (int k = 1; k < a->operands; k++) direct = direct && !w->constant[k] && a->dtype[k] == w->compute;
  int item = w->item > w->result_item ? w->item : w->result_item;
  return direct ? 8 * TIDE_PIECE : item <= 4 ? TIDE_PIECE : TIDE_PIECE_BYTES / item;
}

static void find_constants(work *w) {
  const tide_elementwise_args *a = w->a;
  for (int k = 1; k < a->operands; k++) {
    w->constant[k] = a->is_number[k];
    if (a->flat || a->is_number[k]) continue;
    bool moves = false;
    for (int d = 0; d < a->ndim; d++) moves = moves || a->stride[k][d] != 0;
    w->constant[k] = !moves;
  }
}

/* Do the elements of a row follow each other in the result, and follow each other or repeat in the operands, none of
 * which is converted? */
static bool has_plain_rows(const work *w) {
  const tide_elementwise_args *a = w->a;
  int last = w->grid.ndim - 1;
  bool plain = a->dtype[0] == w->result && w->grid.stride[0][last] == 1;
  for (int k = 1; k < a->operands; k++)
    plain = plain && (w->constant[k] || (a->dtype[k] == w->compute && (w->grid.stride[k][last] | 1) == 1));
  return plain;
}

/* Results of large calls go around the caches, unless they replace an input, which has brought its lines already. */
static bool should_stream(const tide_elementwise_args *a) {
  if (!tide__beyond_cache(a->numel * tide__item(a->dtype[0]))) return false;
  for (int k = 1; k < a->operands; k++)
    if (!a->is_number[k] && a->head.ptr[k] == a->head.ptr[0]) return false;
  return true;
}

/* A power that is written as a number has a loop that is many times faster than that of powers in general; those of the
 * other ops stand in isa->op. */
static void choose_power(work *w, tide__ctype type) {
  const tide_elementwise_args *a = w->a;
  int wide = type == TIDE_C_F64, op = TIDE_OP_pow;
  double power = a->number[2].re;
  if (!a->is_number[2] || (type != TIDE_C_F32 && !wide)) return;
  if (power == 2) op = TIDE_OP_square;
  if (power == -1) op = TIDE_OP_reciprocal;
  if (op != TIDE_OP_pow) w->loop = w->isa->op[op][type], w->streamed = wide ? NULL : w->isa->streamed[op];
  if (power == 3 || power == 0.5) w->loop = (power == 3 ? w->isa->cube : w->isa->root)[wide], w->streamed = NULL;
}

/* Is this number one of the dtype's own, bool, uint8 or int8? */
static bool fits_byte(int64_t i, int dtype) {
  return dtype == TIDE_INT8 ? i == (int8_t)i : i == (int64_t)(uint8_t)i && (dtype != TIDE_BOOL || i <= 1);
}

/* Where all operands are of one dtype of a byte, and the result too or a test, some ops need no conversion. */
static void choose_bytes(work *w) {
  const tide_elementwise_args *a = w->a;
  int dtype = TIDE_DTYPE_NONE;
  for (int k = 1; k < a->operands; k++) {
    if (a->is_number[k]) continue;
    if (tide__item(a->dtype[k]) != 1 || (dtype != TIDE_DTYPE_NONE && a->dtype[k] != dtype)) return;
    dtype = a->dtype[k];
  }
  if (dtype == TIDE_DTYPE_NONE || a->dtype[0] != (is_test(a->op) ? TIDE_BOOL : dtype)) return;
  for (int k = 1; k < a->operands; k++)
    if (a->is_number[k] && !fits_byte(a->number[k].i, dtype)) return;
  tide__loop loop = tide__byte_loop(a->op, dtype);
  if (!loop) return;
  w->loop = loop, w->compute = dtype, w->result = a->dtype[0], w->item = w->result_item = 1;
}

/* Less than a block that lies flat and needs no conversion: neither chunks nor threads are worth a thought. */
static bool is_tiny(const work *w) {
  const tide_elementwise_args *a = w->a;
  bool tiny = a->flat && a->numel > 0 && a->numel < TIDE_BLOCK && a->dtype[0] == w->result;
  for (int k = 1; k < a->operands; k++) tiny = tiny && (a->is_number[k] || a->dtype[k] == w->compute);
  return tiny;
}

static void run_tiny(const work *w) {
  buffers b;
  const char *in[TIDE_MAX_OPERANDS] = {0};
  fill_constants(w, &b, TIDE_BLOCK);
  for (int k = 1; k < w->a->operands; k++) in[k] = w->constant[k] ? b.operand[k] : w->a->head.ptr[k];
  run_rest(w, &b, w->a->head.ptr[0], in, 0, w->a->numel);
}

tide_status tide__cpu_elementwise(tide_stream *stream, const tide_elementwise_args *a) {
  work w;
  w.a = a;
  w.isa = tide__isa_get();
  tide__ctype type = tide__ctype_of(a->compute);
  w.loop = w.isa->op[a->op][type];
  if (!w.loop) w.loop = tide__isa_base.op[a->op][type]; /* functions of complex numbers */
  if (!w.loop)
    return tide__fail(TIDE_DTYPE, "%s: not computed in this dtype, got %s", tide_op_get((tide_op)a->op)->name,
                      tide_dtype_name((tide_dtype)a->compute));
  w.compute = w.result = a->compute;
  if (is_test(a->op)) w.result = type == TIDE_C_I64 || type == TIDE_C_F64 ? TIDE_INT64 : TIDE_INT32;
  w.item = tide__item(w.compute), w.result_item = tide__item(w.result);
  if (a->compute == TIDE_INT32) choose_bytes(&w);
  for (int k = 0; k < 3; k++) pack(w.param + k * w.item, a->param[k], w.compute);
  find_constants(&w);
  w.streamed = type == TIDE_C_F32 ? w.isa->streamed[a->op] : NULL;
  if (a->op == TIDE_OP_pow) choose_power(&w, type);
  if (is_tiny(&w)) {
    run_tiny(&w);
    return TIDE_OK;
  }
  w.stream = should_stream(a);
  if (a->op == TIDE_OP_mul && tide__multiply_rows(w.isa, a, w.stream)) return TIDE_OK;
  if (a->flat)
    tide__grid_init_flat(&w.grid, a->numel, a->operands, chunk_size(&w));
  else
    tide__grid_init(&w.grid, a->ndim, a->size, a->stride, a->operands, chunk_size(&w), true);
  w.by_rows = !a->flat && has_plain_rows(&w);
  tide__spread(w.grid.chunks, w.grid.high * w.grid.wide, run_chunks, &w);
  return TIDE_OK;
}
