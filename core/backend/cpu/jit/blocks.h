/* blocks.h: the block interpreter's instructions and what its files share.
 *
 * A program works on blocks of places, one in each lane. A register holds a value of every lane (`w` int64, `r` the
 * program's float, `m` bool), or, `s`, one that all lanes have in common: as many copies of it as a strip has lanes, so
 * that the loops over lanes read and compute these too. Lanes that take part in a statement are those of a mask, `k`;
 * masks nest as the statements do.
 *
 * The text of a program is written by lua_bindings/kernel/code.lua and read by blocks_read.c, which checks every
 * operand: whatever text a program was read from, it touches nothing but its registers and the tensors of a launch. */
#pragma once

#include "cxx.h"
#include "backend/cpu/isa.h"

enum {
  TIDE_BLOCK_STRIP = 32,   /* lanes of a loop without a remainder */
  TIDE_BLOCK_LANES = 256,  /* of a block of places at least */
  TIDE_BLOCK_MOST = 1024,  /* at most, of a block of threads too */
  TIDE_BLOCK_RUN = 4096,   /* places of a run at most: a launch counts runs */
  TIDE_BLOCK_DIMS = 8,     /* of an index */
  TIDE_BLOCK_GRID = 3,     /* of a grid */
  TIDE_BLOCK_SCALAR = 256, /* bytes of an s register */
  TIDE_BLOCK_OPERANDS = 9, /* of an instruction */
};

/* ---- lane operations ---- */

typedef enum tide__lane_id {
#define LANE1(name, D, A, expr)       TIDE_LANE_##name,
#define LANE2(name, D, A, B, expr)    TIDE_LANE_##name,
#define LANE3(name, D, A, B, C, expr) TIDE_LANE_##name,
#define LANES_FLOAT
#include "blocks.def"
#undef LANES_FLOAT
  TIDE_LANE_FLOATS,
  TIDE_LANE_BEFORE = TIDE_LANE_FLOATS - 1, /* the others count on from there */
#define LANES_WHOLE
#include "blocks.def"
#undef LANES_WHOLE
#undef LANE1
#undef LANE2
#undef LANE3
  TIDE_LANE_COUNT
} tide__lane_id;

/* Of `strips` times TIDE_BLOCK_STRIP lanes. d may be an operand. vary: bit 0 to 2 where a, b, c are lanes and no number
 * that all have in common. */
typedef void (*tide__lane_op)(void *d, const void *a, const void *b, const void *c, unsigned vary, int64_t strips);

typedef struct tide__lanes {
  tide__lane_op real[2][TIDE_LANE_FLOATS], whole[TIDE_LANE_COUNT - TIDE_LANE_FLOATS]; /* real: of float32, float64 */
  void (*fill[4])(void *d, const void *value, int64_t n);                             /* of 1, 2, 4, 8 bytes */
  void (*gather[4])(void *d, const void *from, const int64_t *at, int64_t n);         /* elements of that size */
  void (*pick[4])(void *d, const void *from, const int64_t *at, const uint8_t *on, int64_t n); /* 0 where off */
  void (*scatter[4])(void *to, const void *a, const int64_t *at, const uint8_t *on, int64_t n);
  /* To neighbours: to[i] = a[i] where on, and nothing else is written. */
  void (*keep[4])(void *to, const void *a, const uint8_t *on, int64_t n);
  void (*stride[4])(void *d, const void *from, int64_t step, int64_t n);
  /* d = on ? a : d; a is one number where `same`. */
  void (*put[4])(void *d, const uint8_t *on, const void *a, int64_t same, int64_t n);
  void (*count)(int64_t *d, const uint8_t *on, int64_t by, int64_t n); /* d += by where on */
  void (*line)(int64_t *d, int64_t first, int64_t step, int64_t n);
  /* Does every number follow the one before? */
  bool (*steady)(const int64_t *a, int64_t n);
  /* at += (index - 1) * step, bad |= index is outside of 1 .. size; at = 0 and bad = 0 before where `begin`. */
  void (*index)(int64_t *at, uint8_t *bad, const int64_t *index, int64_t more, int64_t size, int64_t step, bool begin,
                int64_t n);
  /* d = a & b, or a & ~b; how many lanes of it are on. */
  int64_t (*mask_and)(uint8_t *d, const uint8_t *a, const uint8_t *b, int64_t blocks);
  int64_t (*mask_less)(uint8_t *d, const uint8_t *a, const uint8_t *b, int64_t blocks);
  /* Floor of quotient and remainder, where all numbers are below 2^30 in size and no divisor is 0. */
  bool (*small)(const int64_t *a, int64_t n);
  void (*divide_small)(int64_t *d, const int64_t *a, const int64_t *b, int64_t b_apart, bool remainder, int64_t n);
  /* words[0 .. 3][lane] of Philox, from counters that lie there and keys. */
  void (*philox)(uint32_t *words, const int64_t *key, int64_t key_apart, const int64_t *more, int64_t more_apart,
                 int64_t apart, int64_t n);
} tide__lanes;

/* Filled by isa.c's choice. */
extern tide__lanes tide__lanes_base;
void tide__lanes_fill_base(void);
#if defined(__x86_64__)
extern tide__lanes tide__lanes_avx2, tide__lanes_avx512;
void tide__lanes_fill_avx2(void);
void tide__lanes_fill_avx512(void);
#endif

/* ---- programs ---- */

/* What else an instruction may be. Operands, by letters: w r m registers of lanes, s of all lanes, W R M X either (X:
 * of any type), k a mask, L where it goes on, n a number, i a site, d a dim of the grid, a an access. */
#define TIDE_BLOCK_CODES                                                                                               \
  CODE(lane, "")                                                                                                       \
  CODE(end, "")                                                                                                        \
  CODE(number, "snn") /* of the launch: slot, 0 integer, 1 float, 2 boolean */                                         \
  CODE(size, "snn")   /* of a tensor: place, dim */                                                                    \
  CODE(integer, "sn")                                                                                                  \
  CODE(real, "snn")   /* n * 2^n */                                                                                    \
  CODE(special, "sn") /* 0 NaN, 1 and -1 infinite, 2 minus zero */                                                     \
  CODE(boolean, "sn")                                                                                                  \
  CODE(first, "sd") /* the place of lane 0 in a dim; of a block of threads the place before it */                      \
  CODE(block, "sd") /* which block, in a dim */                                                                        \
  CODE(place, "wd") /* of each lane, in a dim */                                                                       \
  CODE(thread, "wd")                                                                                                   \
  CODE(fill_w, "ws")                                                                                                   \
  CODE(fill_r, "rs")                                                                                                   \
  CODE(fill_m, "ms")                                                                                                   \
  CODE(line, "wsnn")      /* s + n + n * lane */                                                                       \
  CODE(compare, "msnnsn") /* s + n + n * lane with s: 0 lt, 1 le, 2 gt, 3 ge, 4 eq, 5 ne */                            \
  CODE(put_w, "wkW")                                                                                                   \
  CODE(put_r, "rkR")                                                                                                   \
  CODE(put_m, "mkM")                                                                                                   \
  CODE(count, "wks") /* + s where on */                                                                                \
  CODE(jump, "L")                                                                                                      \
  CODE(jump_zero, "sL")                                                                                                \
  CODE(jump_none, "kL")                                                                                                \
  CODE(mask_copy, "kk")                                                                                                \
  CODE(mask_and, "kkmL") /* and on to L where no lane is left */                                                       \
  CODE(mask_less, "kkmL")                                                                                              \
  CODE(mask_drop, "kk")         /* the second one's lanes leave the first */                                           \
  CODE(widen, "k")              /* what is behind the end of a mask works on as many strips as before it */            \
  CODE(for_begin, "sssssiL")    /* at, left, from, to, step, site; on to L where there is nothing to do */             \
  CODE(for_next, "sssL")        /* at, left, step; back to L */                                                        \
  CODE(each_begin, "kkWwWWWiL") /* mask, of mask, at, left, from, to, step, site */                                    \
  CODE(each_next, "kWwWL")      /* mask, at, left, step; to L where no lane is left */                                 \
  CODE(idiv, "WWWik")                                                                                                  \
  CODE(imod, "WWWik")                                                                                                  \
  CODE(load, "Xak")                                                                                                    \
  CODE(store, "aXk")                                                                                                   \
  CODE(atomic, "XanXXk") /* old, access, kind, value, expected */                                                      \
  CODE(loop, "RnRR")     /* of op.def: which function */                                                               \
  CODE(math1, "RnR")                                                                                                   \
  CODE(math2, "RnRR")                                                                                                  \
  CODE(draw, "WWW") /* seed and two counters, into the words */                                                        \
  CODE(more, "WW")  /* seed and a counter, from the words into them */                                                 \
  CODE(uniform, "R")                                                                                                   \
  CODE(normal, "R")                                                                                                    \
  CODE(between, "WWW")                                                                                                 \
  CODE(barrier, "kin") /* the mask, the site, which mask it has to be */                                               \
  CODE(sum, "XXkinn")  /* of the block: sum, value, mask, site, 1 where of a warp, which mask it has to be */

typedef enum tide__block_code {
#define CODE(name, operands) TIDE_BLOCK_##name,
  TIDE_BLOCK_CODES
#undef CODE
      TIDE_BLOCK_CODE_COUNT
} tide__block_code;

typedef struct tide__inst {
  uint8_t code;
  bool scalar;  /* a lane operation on s registers */
  uint8_t type; /* of the X operands: 'w', 'r' or 'm' */
  uint8_t vary; /* bit j: operand j is a register of lanes */
  /* Registers: bytes from the arena's start; masks, accesses, places: which. A lane operation has bytes of a strip of
   * operand j in 4 + j. */
  int32_t x[TIDE_BLOCK_OPERANDS];
  int64_t wide; /* the number of integer and real */
  union {
    tide__lane_op lane;
    tide__loop loop;
    float (*f1)(float);
    double (*d1)(double);
    float (*f2)(float, float);
    double (*d2)(double, double);
  } fn;
} tide__inst;

/* A place of an array that is read or written: for each dim an index s + more + step * lane, or one for each lane. */
typedef struct tide__access {
  uint16_t place;
  uint8_t ndim;
  bool tests;
  uint8_t value; /* of a load and a store: 'w', 'r' or 'm' */
  int32_t site;
  struct {
    bool lanes;
    int32_t reg; /* -1: none */
    int64_t more, step;
  } dim[TIDE_BLOCK_DIMS];
} tide__access;

/* An array: a tensor of the launch, an array of a block, a table of numbers. */
typedef struct tide__place {
  char kind; /* 't', 's', 'c' */
  uint8_t dtype, ndim;
  int32_t slot; /* of a tensor */
  int64_t size[TIDE_BLOCK_DIMS];
  size_t at; /* of an array of a block in the arena, of a table in `tables` */
  int64_t numel;
} tide__place;

typedef enum tide__block_mode { TIDE_BLOCK_ROWS, TIDE_BLOCK_FLAT, TIDE_BLOCK_THREADS } tide__block_mode;

typedef struct tide__code {
  tide__block_mode mode;
  int insts, accesses;
  int launch, row, block; /* where its parts begin */
  tide__inst *inst;
  tide__access *access;
  int count[4], masks; /* registers: s, w, r, m */
  int lanes;
  size_t first[4], shared, bytes; /* in the arena: registers, the arrays of a block; all of it */
} tide__code;

typedef struct tide__blocks {
  _Atomic int refs;
  bool wide; /* float64 */
  bool threads;
  int ndim, slots, sites, places, block[TIDE_BLOCK_GRID];
  int mail_index, mail_zero, run;
  tide__place *place;
  char *tables;
  size_t table_bytes;
  int codes;
  tide__code code[2];
} tide__blocks;

enum { TIDE_BLOCKS_MEMORY = 2 }; /* as a compiled kernel says it: why a run has not ended, beside 0 */
/* Runs begin .. end - 1 of a launch: of b->run places of the last dim, or blocks of threads. */
int tide__blocks_run(const tide__blocks *b, const void *packed, int64_t begin, int64_t end);

/* ---- a run ---- */

/* The strips that are worked on, from the first to the last one that has a lane of the mask of a loop or block that
 * lanes leave one by one. */
typedef struct tide__window {
  int low, strips;
} tide__window;

/* An array as the launch has it. */
typedef struct tide__view {
  char *at;
  int64_t size[TIDE_BLOCK_DIMS], stride[TIDE_BLOCK_DIMS];
  int item; /* log2 of the bytes of an element */
  uint8_t dtype, ndim;
} tide__view;

typedef struct tide__block_run {
  const tide__blocks *of;
  const tide__code *code;
  const int64_t *slots;
  const tide__isa *isa;
  const tide__lanes *lanes;
  char *arena;
  int n;                          /* lanes of the block that are places */
  int64_t blocks;                 /* n in sixteens, up to the end of a strip */
  tide__window now, *kept;        /* kept: as it was when a mask began */
  int64_t place[TIDE_BLOCK_GRID]; /* of lane 0, from 1; of a block of threads the places before it */
  int64_t group[TIDE_BLOCK_GRID]; /* which block of threads, from 1 */
  int64_t flat;                   /* places before the block, in flat code */
  tide__view *view;
  uint8_t *mask;   /* `stride` bytes each */
  int stride, *on; /* how many lanes of each are on */
  /* Room for offsets and whether they are good, elements as they are stored, and words of random numbers. */
  int64_t *offset;
  uint8_t *bad;
  char *stored, *middle;
  uint32_t *words;
  int steps; /* backward jumps since somebody was asked whether to stop */
  bool stop;
} tide__block_run;

static inline void *tide__reg(const tide__block_run *r, int32_t at) { return r->arena + at; }
/* The first lane that is worked on, and how many may be. */
static inline int tide__from(const tide__block_run *r) { return r->now.low * TIDE_BLOCK_STRIP; }
static inline int tide__wide(const tide__block_run *r) { return r->now.strips * TIDE_BLOCK_STRIP; }

/* blocks_memory.c */
void tide__blocks_load(tide__block_run *r, const tide__inst *i);
void tide__blocks_store(tide__block_run *r, const tide__inst *i);
void tide__blocks_atomic(tide__block_run *r, const tide__inst *i);
void tide__blocks_report(const tide__block_run *r, int32_t site, int64_t value, int64_t length, int base);
