/* blocks_read.c: the text of a program of the block interpreter, read and checked.
 *
 * A line is a word and what it takes: first the numbers' width, the grid, the arrays (tensor, shared, table); then one
 * code for grids in general, which may be followed by one for grids of short rows. A code says how many registers of
 * each kind it has, the places it reads and writes (access), and three lists of instructions, launch, row and block,
 * each up to an `end`. Operands are a letter and a number; where to go on is the number of an instruction.
 *
 * Invariant: whatever the text, an instruction that was read has the operands that its row in blocks.h or blocks.def
 * asks for, all of them there, and the last one is an end. */
#include "base/own.h"
#include "blocks.h"

#include <stdio.h>
#include <errno.h>
#include <math.h>

enum { MOST_REGISTERS = 4096, MOST_PLACES = 1024, MOST_SLOTS = 1 << 16, MOST_SHARED = 1 << 24, WORD = 32 };

typedef struct reader {
  const char *at, *end;
  int line;
  tide__blocks *to;
  tide__code *code;
  int inst_room, access_room, place_room;
  size_t shared; /* bytes of the arrays of a block */
  tide_status status;
} reader;

static bool refuse(reader *r, const char *what) {
  if (!r->status) r->status = tide__fail(TIDE_VALUE, "kernel: line %d of its code: %s", r->line, what);
  return false;
}

static bool no_memory(reader *r) {
  if (!r->status) r->status = tide__fail(TIDE_MEMORY, "kernel: no host memory for its code");
  return false;
}

/* ---- words ---- */

static void skip_blanks(reader *r) {
  while (r->at < r->end && *r->at == ' ') r->at++;
}

static bool at_line_end(reader *r) {
  skip_blanks(r);
  return r->at == r->end || *r->at == '\n';
}

static bool next_line(reader *r) {
  if (!at_line_end(r)) return refuse(r, "too many words");
  if (r->at < r->end) r->at++, r->line++;
  return true;
}

static bool read_word(reader *r, char word[WORD]) {
  int n = 0;
  skip_blanks(r);
  while (r->at < r->end && *r->at != ' ' && *r->at != '\n' && n < WORD - 1) word[n++] = *r->at++;
  word[n] = 0;
  return n > 0 && n < WORD - 1 ? true : refuse(r, "a word is missing or too long");
}

static bool read_integer(reader *r, int64_t *out) {
  char word[WORD], *end;
  if (!read_word(r, word)) return false;
  errno = 0;
  *out = word[0] == '-' ? strtoll(word, &end, 10) : (int64_t)strtoull(word, &end, 10);
  return !*end && !errno ? true : refuse(r, "no integer");
}

static bool read_between(reader *r, int *out, int64_t low, int64_t high) {
  int64_t value;
  if (!read_integer(r, &value)) return false;
  if (value < low || value > high) return refuse(r, "a number is out of range");
  *out = (int)value;
  return true;
}

static bool read_dtype(reader *r, uint8_t *out) {
  static const char *const names[] = {
#define DTYPE(name, NAME, type, size, kind, alias) #name,
#include "tide/dtype.def"
#undef DTYPE
  };
  char word[WORD];
  if (!read_word(r, word)) return false;
  for (int k = 0; k < TIDE_COMPLEX64; k++)
    if (!strcmp(word, names[k])) return *out = (uint8_t)k, true;
  return refuse(r, "no dtype of a kernel");
}

/* ---- arrays ---- */

static tide__place *new_place(reader *r, char kind) {
  tide__blocks *b = r->to;
  if (b->places == MOST_PLACES) return refuse(r, "too many arrays"), NULL;
  if (!tide__grow(&b->place, &r->place_room, b->places, sizeof *b->place)) return no_memory(r), NULL;
  tide__place *p = &b->place[b->places++];
  *p = (tide__place){.kind = kind};
  return p;
}

static bool read_ndim(reader *r, tide__place *p, int least) {
  int ndim;
  if (!read_between(r, &ndim, least, TIDE_BLOCK_DIMS)) return false;
  p->ndim = (uint8_t)ndim;
  return true;
}

static bool read_tensor(reader *r) {
  tide__place *p = new_place(r, 't');
  if (!p || !read_between(r, &p->slot, 5, r->to->slots) || !read_ndim(r, p, 0) || !read_dtype(r, &p->dtype))
    return false;
  return p->slot + 1 + 2 * p->ndim <= r->to->slots ? true : refuse(r, "a tensor has no slots");
}

static bool read_sizes(reader *r, tide__place *p) {
  if (!read_dtype(r, &p->dtype) || !read_ndim(r, p, 1)) return false;
  p->numel = 1;
  for (int d = 0; d < p->ndim; d++) {
    int size;
    if (!read_between(r, &size, 1, MOST_SHARED)) return false;
    p->size[d] = size;
    p->numel *= size;
    if (p->numel > MOST_SHARED) return refuse(r, "an array is too large");
  }
  return true;
}

static size_t bytes_of(const tide__place *p) { return ((size_t)(p->numel * tide__itemsize(p->dtype)) + 63) / 64 * 64; }

static bool read_shared(reader *r) {
  tide__place *p = new_place(r, 's');
  if (!p || !read_sizes(r, p)) return false;
  p->at = r->shared;
  r->shared += bytes_of(p);
  return r->shared <= MOST_SHARED ? true : refuse(r, "a block's arrays are too large");
}

/* A float as a whole number, or a word, and a power of 2. */
static bool read_real(reader *r, double *out) {
  int64_t whole = 0;
  int power;
  char word[WORD];
  const char *before = r->at;
  if (!read_word(r, word)) return false;
  double named = !strcmp(word, "nan")    ? NAN
                 : !strcmp(word, "inf")  ? HUGE_VAL
                 : !strcmp(word, "-inf") ? -HUGE_VAL
                                         : -0.0;
  bool is_word = word[0] == 'n' || word[0] == 'i' || !strcmp(word, "-inf") || !strcmp(word, "-0");
  if (!is_word) r->at = before;
  if ((!is_word && !read_integer(r, &whole)) || !read_between(r, &power, -4096, 4096)) return false;
  *out = is_word ? named : ldexp((double)whole, power);
  return true;
}

static bool read_table(reader *r) {
  tide__place *p = new_place(r, 'c');
  if (!p || !read_sizes(r, p)) return false;
  if (p->dtype != TIDE_FLOAT64 && p->dtype != TIDE_INT64) return refuse(r, "a table is of another dtype");
  char *tables = realloc(r->to->tables, r->to->table_bytes + bytes_of(p));
  if (!tables) return no_memory(r);
  r->to->tables = tables;
  p->at = r->to->table_bytes;
  r->to->table_bytes += bytes_of(p);
  for (int64_t k = 0; k < p->numel; k++) {
    int64_t whole = 0;
    double real = 0;
    if (!(p->dtype == TIDE_INT64 ? read_integer(r, &whole) : read_real(r, &real))) return false;
    memcpy(tables + p->at + 8 * k, p->dtype == TIDE_INT64 ? (const void *)&whole : &real, 8);
  }
  return true;
}

/* ---- operands ---- */

enum { S_REGISTER, W_REGISTER, R_REGISTER, M_REGISTER };
static const char letters[] = "swrm";

/* A register of one of the kinds in `kinds`; its letter. */
static char read_register(reader *r, int32_t *out, const char *kinds) {
  char word[WORD], *end;
  if (!read_word(r, word)) return 0;
  const char *kind = strchr(letters, word[0]);
  if (!strchr(kinds, word[0]) || !kind) return refuse(r, "another kind of register is expected"), 0;
  const long k = strtol(word + 1, &end, 10);
  const int which = (int)(kind - letters);
  if (*end || end == word + 1 || k < 0 || k >= r->code->count[which]) return refuse(r, "no such register"), 0;
  const size_t each = which == S_REGISTER ? TIDE_BLOCK_SCALAR
                      : which == W_REGISTER || (which == R_REGISTER && r->to->wide)
                          ? (size_t)r->code->lanes * 8
                          : (size_t)r->code->lanes * (which == R_REGISTER ? 4 : 1);
  *out = (int32_t)(r->code->first[which] + (size_t)k * each);
  return word[0];
}

static bool read_lettered(reader *r, int32_t *out, char letter, int below, const char *what) {
  char word[WORD], *end;
  if (!read_word(r, word)) return false;
  const long k = strtol(word + 1, &end, 10);
  if (word[0] != letter || *end || end == word + 1 || k < 0 || k >= below) return refuse(r, what);
  *out = (int32_t)k;
  return true;
}

/* ---- instructions ---- */

/* Arrays and no pointers: a library loads them as they are. */
static const struct lane_row {
  char name[12], operands[5];
} lane_rows[TIDE_LANE_COUNT] = {
#define LANE1(name, D, A, expr)       [TIDE_LANE_##name] = {#name, #D #A},
#define LANE2(name, D, A, B, expr)    [TIDE_LANE_##name] = {#name, #D #A #B},
#define LANE3(name, D, A, B, C, expr) [TIDE_LANE_##name] = {#name, #D #A #B #C},
#define LANES_FLOAT
#include "blocks.def"
#undef LANES_FLOAT
#define LANES_WHOLE
#include "blocks.def"
#undef LANES_WHOLE
#undef LANE1
#undef LANE2
#undef LANE3
};

static const struct code_row {
  char name[12], operands[TIDE_BLOCK_OPERANDS + 1];
} code_rows[] = {
#define CODE(name, operands) {#name, operands},
    TIDE_BLOCK_CODES
#undef CODE
};

/* The functions of <math.h> that a kernel may call: those of op.def by its loops. */
static const struct function {
  char name[12];
  int16_t op, arguments;
  float (*f1)(float);
  double (*d1)(double);
  float (*f2)(float, float);
  double (*d2)(double, double);
} functions[] = {
#define ONE(name)      {#name, TIDE_OP_##name, 1, name##f, name, NULL, NULL},
#define ONE_OF_C(name) {#name, -1, 1, name##f, name, NULL, NULL},
#define TWO(name)      {#name, TIDE_OP_##name, 2, NULL, NULL, name##f, name},
#define TWO_OF_C(name) {#name, -1, 2, NULL, NULL, name##f, name},
    ONE(exp) ONE(exp2) ONE(expm1) ONE(log) ONE(log2) ONE(log10) ONE(log1p) ONE(sin) ONE(cos) ONE(tan) ONE(asin)
        ONE(acos) ONE(atan) ONE(sinh) ONE(cosh) ONE(tanh) ONE(asinh) ONE(acosh) ONE(atanh) ONE(erf) ONE(erfc)
            ONE(lgamma) ONE_OF_C(cbrt) ONE_OF_C(tgamma) ONE_OF_C(rint) ONE_OF_C(round) TWO(pow) TWO(atan2) TWO(hypot)
                TWO(fmod) TWO_OF_C(copysign) TWO_OF_C(fmax) TWO_OF_C(fmin) TWO_OF_C(remainder) TWO_OF_C(fdim)
                    TWO_OF_C(nextafter)};

static bool read_function(reader *r, tide__inst *i, int arguments) {
  char word[WORD];
  if (!read_word(r, word)) return false;
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
    const struct function *f = &functions[k];
    if (strcmp(word, f->name) != 0 || f->arguments != arguments) continue;
    tide__loop loop = f->op < 0 ? NULL : tide__isa_get()->op[f->op][r->to->wide ? TIDE_C_F64 : TIDE_C_F32];
    if (loop)
      i->code = TIDE_BLOCK_loop, i->fn.loop = loop;
    else if (arguments == 1 && r->to->wide)
      i->fn.d1 = f->d1;
    else if (arguments == 1)
      i->fn.f1 = f->f1;
    else if (r->to->wide)
      i->fn.d2 = f->d2;
    else
      i->fn.f2 = f->f2;
    return true;
  }
  return refuse(r, "no function of so many arguments");
}

static bool read_lane(reader *r, tide__inst *i, tide__lane_id id) {
  i->code = TIDE_BLOCK_lane;
  const tide__lanes *lanes = tide__isa_get()->lanes;
  i->fn.lane = id < TIDE_LANE_FLOATS ? lanes->real[r->to->wide][id] : lanes->whole[id - TIDE_LANE_FLOATS];
  const char *operands = lane_rows[id].operands;
  for (int j = 0; operands[j]; j++) {
    char kinds[3] = {operands[j] == 'I' ? 'w' : operands[j] == 'R' ? 'r' : 'm', 's', 0};
    char kind = read_register(r, &i->x[j], i->scalar ? "s" : kinds);
    if (!kind) return false;
    if (kind != 's') i->vary |= (uint8_t)(1 << j);
    if (j == 0) i->scalar = kind == 's';
    const int bytes = kind == 'w' || (kind == 'r' && r->to->wide) ? 8 : kind == 'r' ? 4 : kind == 'm';
    i->x[4 + j] = bytes * TIDE_BLOCK_STRIP;
  }
  return true;
}

/* What an X operand may be: a register of lanes whose kind is that of the first one there, or one of all lanes. */
static bool read_any(reader *r, tide__inst *i, int j) {
  char kind = read_register(r, &i->x[j], "swrm");
  if (!kind) return false;
  if (kind == 's') return true;
  if (i->type && i->type != kind) return refuse(r, "registers of two kinds");
  i->type = (uint8_t)kind, i->vary |= (uint8_t)(1 << j);
  return true;
}

static bool read_operand(reader *r, tide__inst *i, int j, char letter) {
  const bool takes_wide =
      (i->code == TIDE_BLOCK_integer || i->code == TIDE_BLOCK_real || i->code == TIDE_BLOCK_special) && j == 1;
  char kinds[3] = {(char)(letter | 32), 's', 0};
  switch (letter) {
  case 'n':
    if (takes_wide) return read_integer(r, &i->wide);
    if ((i->code == TIDE_BLOCK_math1 || i->code == TIDE_BLOCK_math2) && j == 1)
      return read_function(r, i, i->code == TIDE_BLOCK_math1 ? 1 : 2);
    return read_between(r, &i->x[j], INT32_MIN, INT32_MAX);
  case 'i': return read_between(r, &i->x[j], 0, r->to->sites);
  case 'd': return read_between(r, &i->x[j], 0, r->to->ndim - 1);
  case 'k': return read_lettered(r, &i->x[j], 'k', r->code->masks, "no such mask");
  case 'a': return read_lettered(r, &i->x[j], 'a', r->code->accesses, "no such access");
  case 'L': return read_lettered(r, &i->x[j], 'L', INT32_MAX, "no label");
  case 'X': return read_any(r, i, j);
  case 'W':
  case 'R':
  case 'M': {
    char kind = read_register(r, &i->x[j], kinds);
    if (kind && kind != 's') i->vary |= (uint8_t)(1 << j);
    return kind != 0;
  }
  default: kinds[0] = letter, kinds[1] = 0; return read_register(r, &i->x[j], kinds) != 0;
  }
}

static bool between(reader *r, int32_t value, int low, int high) {
  return value >= low && value <= high ? true : refuse(r, "a number is out of range");
}

/* What the letters do not say. */
static bool check_inst(reader *r, tide__inst *i) {
  const tide__blocks *b = r->to;
  const int32_t *x = i->x;
  switch (i->code) {
  case TIDE_BLOCK_number: return between(r, x[1], 0, b->slots - 1) && between(r, x[2], 0, 2);
  case TIDE_BLOCK_special: return i->wide >= -1 && i->wide <= 2 ? true : refuse(r, "no such number");
  case TIDE_BLOCK_real: return between(r, x[2], -4096, 4096);
  case TIDE_BLOCK_size: return between(r, x[1], 0, b->places - 1) && between(r, x[2], 0, b->place[x[1]].ndim - 1);
  case TIDE_BLOCK_compare: return between(r, x[5], 0, 5);
  case TIDE_BLOCK_load:
  case TIDE_BLOCK_store: {
    const tide__access *a = &r->code->access[x[i->code == TIDE_BLOCK_load]];
    if (i->type && i->type != a->value) return refuse(r, "an access is of another kind");
    if (i->code == TIDE_BLOCK_store && b->place[a->place].kind == 'c') return refuse(r, "a table is constant");
    for (int d = 0; d < a->ndim && i->code == TIDE_BLOCK_load && !i->type; d++)
      if (a->dim[d].lanes || a->dim[d].step) return refuse(r, "what differs between lanes is read into one number");
    return true;
  }
  case TIDE_BLOCK_atomic: {
    const tide__place *p = &b->place[r->code->access[x[1]].place];
    if (!(i->vary & 1) || i->type == 'm' || i->type != r->code->access[x[1]].value || p->kind == 'c' ||
        p->dtype < TIDE_INT32 || p->dtype == TIDE_FLOAT16 || p->dtype == TIDE_BFLOAT16)
      return refuse(r, "no atomic operation of this kind");
    return between(r, x[2], 0, i->type == 'w' ? 7 : 4);
  }
  case TIDE_BLOCK_math1:
  case TIDE_BLOCK_math2:
  case TIDE_BLOCK_loop: {
    const int all = i->vary & 1 ? (i->code == TIDE_BLOCK_math1 || !i->x[3] ? 5 : 13) : 0;
    return i->vary == all || i->vary == 13 ? true : refuse(r, "operands differ in kind");
  }
  case TIDE_BLOCK_barrier: return between(r, x[2], 0, r->code->masks - 1);
  case TIDE_BLOCK_sum:
    return (i->vary & 1) && i->type != 'm' && between(r, x[5], 0, r->code->masks - 1) ? true : refuse(r, "no sum");
  default: return true;
  }
}

static tide__inst *new_inst(reader *r) {
  tide__code *c = r->code;
  if (!tide__grow(&c->inst, &r->inst_room, c->insts, sizeof *c->inst)) return no_memory(r), NULL;
  tide__inst *i = &c->inst[c->insts++];
  memset(i, 0, sizeof *i);
  return i;
}

static bool read_inst(reader *r, const char *word) {
  tide__inst *i = new_inst(r);
  if (!i) return false;
  for (int k = 0; k < TIDE_LANE_COUNT; k++)
    if (*word && !strcmp(word, lane_rows[k].name)) return read_lane(r, i, (tide__lane_id)k);
  for (int k = TIDE_BLOCK_end; k < TIDE_BLOCK_CODE_COUNT; k++) {
    if (k == TIDE_BLOCK_loop || strcmp(word, code_rows[k].name) != 0) continue;
    i->code = (uint8_t)k;
    const char *operands = code_rows[k].operands;
    for (int j = 0; operands[j]; j++)
      if (!read_operand(r, i, j, operands[j])) return false;
    return check_inst(r, i);
  }
  return refuse(r, "no such instruction");
}

static bool read_access(reader *r) {
  tide__code *c = r->code;
  if (!tide__grow(&c->access, &r->access_room, c->accesses, sizeof *c->access)) return no_memory(r);
  tide__access *a = &c->access[c->accesses++];
  memset(a, 0, sizeof *a);
  int place, tests, site;
  char word[WORD];
  if (!read_between(r, &place, 0, r->to->places - 1) || !read_between(r, &tests, 0, 1) || !read_word(r, word) ||
      !read_between(r, &site, 0, r->to->sites))
    return false;
  if (word[1] || !strchr("wrm", word[0])) return refuse(r, "no kind of value");
  a->place = (uint16_t)place, a->tests = tests, a->value = (uint8_t)word[0], a->site = site;
  a->ndim = r->to->place[place].ndim;
  for (int d = 0; d < a->ndim; d++) {
    skip_blanks(r);
    a->dim[d].reg = -1;
    if (r->at < r->end && *r->at == '-') {
      r->at++;
    } else {
      char kind = read_register(r, &a->dim[d].reg, "sw");
      if (!kind) return false;
      a->dim[d].lanes = kind == 'w';
    }
    if (!read_integer(r, &a->dim[d].more) || !read_integer(r, &a->dim[d].step)) return false;
  }
  return true;
}

/* ---- codes ---- */

enum { KEPT_CLOSE = 40 << 10 }; /* bytes that stay in the first cache */

/* An instruction's own cost is shared by as many lanes as keep the registers close. */
static int lanes_of(const tide__blocks *b, const tide__code *c) {
  const int each = 8 * c->count[1] + (b->wide ? 8 : 4) * c->count[2] + c->count[3] + c->masks;
  int lanes = TIDE_BLOCK_LANES;
  while (lanes < TIDE_BLOCK_MOST && 2 * lanes * each <= KEPT_CLOSE) lanes *= 2;
  return lanes;
}

static bool read_registers(reader *r, int *out) {
  char what[120];
  int64_t n;
  if (!read_integer(r, &n)) return false;
  snprintf(what, sizeof what, "it keeps %lld values at a time, expected at most %d where it is not compiled",
           (long long)n, (int)MOST_REGISTERS);
  if (n < 0 || n > MOST_REGISTERS) return refuse(r, what);
  return *out = (int)n, true;
}

static bool begin_code(reader *r) {
  tide__blocks *b = r->to;
  char word[WORD];
  if (b->codes == 2) return refuse(r, "a third code");
  tide__code *c = r->code = &b->code[b->codes++];
  r->inst_room = r->access_room = 0;
  if (!read_word(r, word)) return false;
  c->mode = !strcmp(word, "flat") ? TIDE_BLOCK_FLAT : !strcmp(word, "threads") ? TIDE_BLOCK_THREADS : TIDE_BLOCK_ROWS;
  if ((c->mode == TIDE_BLOCK_THREADS) != b->threads || (c->mode == TIDE_BLOCK_FLAT) != (b->codes == 2))
    return refuse(r, "no such code here");
  for (int k = 0; k < 4; k++)
    if (!read_registers(r, &c->count[k])) return false;
  if (!read_registers(r, &c->masks)) return false;
  if (c->masks < 1) return refuse(r, "a number is out of range");
  c->lanes = lanes_of(b, c);
  if (b->threads) {
    int threads = 1;
    for (int d = 0; d < b->ndim; d++) threads *= b->block[d];
    c->lanes = (threads + 63) / 64 * 64;
  }
  const size_t lanes = (size_t)c->lanes, each[] = {TIDE_BLOCK_SCALAR, lanes * 8, lanes * (b->wide ? 8 : 4), lanes};
  for (int k = 0; k < 4; k++) c->first[k] = c->bytes, c->bytes += each[k] * (size_t)c->count[k];
  c->shared = c->bytes;
  c->bytes += r->shared + 64;
  return true;
}

static bool end_code(reader *r) {
  tide__code *c = r->code;
  if (!c || !c->insts || c->inst[c->insts - 1].code != TIDE_BLOCK_end) return refuse(r, "no end");
  for (int k = 0; k < c->insts; k++) {
    const char *operands = code_rows[c->inst[k].code].operands, *label = strchr(operands, 'L');
    if (label && c->inst[k].x[label - operands] >= c->insts) return refuse(r, "a label leads nowhere");
  }
  if (c->launch >= c->insts || c->row >= c->insts || c->block >= c->insts) return refuse(r, "a part is missing");
  return true;
}

static bool read_threads(reader *r) {
  int64_t threads = 1;
  r->to->threads = true;
  for (int d = 0; d < r->to->ndim; d++) {
    if (!read_between(r, &r->to->block[d], 1, TIDE_BLOCK_MOST)) return false;
    threads *= r->to->block[d];
  }
  return threads <= TIDE_BLOCK_MOST ? true : refuse(r, "too many threads in a block");
}

static bool is(const char *word, const char *name) { return !strcmp(word, name); }

/* Lines before the first code, and those that a code begins with. */
static bool read_head(reader *r, const char *word, bool *taken) {
  tide__blocks *b = r->to;
  *taken = true;
  if (!r->code) {
    if (is(word, "float32")) return true;
    if (is(word, "float64")) return b->wide = true;
    if (is(word, "ndim")) return read_between(r, &b->ndim, 1, TIDE_BLOCK_GRID);
    if (is(word, "slots")) return read_between(r, &b->slots, 5, MOST_SLOTS);
    if (is(word, "sites")) return read_between(r, &b->sites, 0, b->slots - 7);
    if (is(word, "run")) return read_between(r, &b->run, TIDE_BLOCK_LANES, TIDE_BLOCK_RUN);
    if (is(word, "mail"))
      return read_between(r, &b->mail_index, INT32_MIN, INT32_MAX) &&
             read_between(r, &b->mail_zero, INT32_MIN, INT32_MAX);
    if (is(word, "threads")) return read_threads(r);
    if (is(word, "tensor")) return read_tensor(r);
    if (is(word, "shared")) return read_shared(r);
    if (is(word, "table")) return read_table(r);
    if (!is(word, "code")) return refuse(r, "no such line");
  }
  if (is(word, "code")) return (!r->code || end_code(r)) && b->ndim ? begin_code(r) : refuse(r, "no grid");
  if (is(word, "access")) return read_access(r);
  if (is(word, "launch")) return r->code->launch = r->code->insts, true;
  if (is(word, "row")) return r->code->row = r->code->insts, true;
  if (is(word, "block_part")) return r->code->block = r->code->insts, true;
  *taken = false;
  return true;
}

static bool read_all(reader *r) {
  char word[WORD];
  bool taken;
  while (r->at < r->end) {
    if (at_line_end(r)) {
      next_line(r);
      continue;
    }
    if (!read_word(r, word) || !read_head(r, word, &taken) || (!taken && !read_inst(r, word)) || !next_line(r))
      return false;
  }
  return end_code(r);
}

tide_status tide__blocks_new(void **out, const char *text, size_t size) {
  tide__blocks *b = calloc(1, sizeof *b);
  if (!b) return tide__fail(TIDE_MEMORY, "kernel: no host memory for its code");
  atomic_init(&b->refs, 1);
  b->run = TIDE_BLOCK_RUN;
  reader r = {.at = text, .end = text + size, .line = 1, .to = b};
  if (!read_all(&r)) {
    tide__blocks_free(b);
    return r.status;
  }
  *out = b;
  return TIDE_OK;
}

void tide__blocks_hold(void *blocks) { atomic_fetch_add(&((tide__blocks *)blocks)->refs, 1); }

void tide__blocks_free(void *blocks) {
  tide__blocks *b = blocks;
  if (!b || atomic_fetch_sub(&b->refs, 1) > 1) return;
  for (int k = 0; k < 2; k++) free(b->code[k].inst), free(b->code[k].access);
  free(b->place), free(b->tables);
  free(b);
}
