/* refusal_test.c: what core's functions of tensors refuse, each with its kind and its whole text: Lua's bindings check
 * most of it before, so that no spec of theirs sees these. */
#include <math.h>

#include "check.h"
#include "lists.h"
#include "tide/device.h"
#include "tide/fft.h"
#include "tide/field.h"
#include "tide/file.h"
#include "tide/linalg.h"
#include "tide/readback.h"
#include "tide/scan.h"
#include "tide/scatter.h"
#include "tide/sort.h"

static const tide_options u8 = {TIDE_UINT8, TIDE_CPU, false};
/* x [2, 3], v [3], v4 [4], s without dims, e [0, 3]; i and its like int64, b8 uint8, c complex64, d3 and sd float64, m
 * bool. */
static tide_tensor *x, *v, *v4, *s, *e, *i, *i4, *ix, *i4x, *b8, *c, *d3, *sd, *m3, *m4, *row, *image;
static tide_tensor *o, *p; /* results, which no row makes */
static const tide_operand one = {.number = {.kind = 'I', .i = 1}};
static const tide_pool pool = {.kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}};
static const tide_convolution conv = {.stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1};

static tide_tensor *of(tide_dtype dtype, const int64_t *size, int ndim) {
  tide_tensor *t = NULL;
  OK(tide_full(&t, size, ndim, tide_int(1), &(tide_options){dtype, TIDE_CPU, false}));
  return t;
}

static void start(void) {
  OK(tide_init(NULL));
  x = of(TIDE_FLOAT32, SIZE(2, 3), 2), v = of(TIDE_FLOAT32, SIZE(3), 1), v4 = of(TIDE_FLOAT32, SIZE(4), 1);
  s = of(TIDE_FLOAT32, NULL, 0), e = of(TIDE_FLOAT32, SIZE(0, 3), 2), c = of(TIDE_COMPLEX64, SIZE(2), 1);
  i = of(TIDE_INT64, SIZE(2), 1), i4 = of(TIDE_INT64, SIZE(4), 1), ix = of(TIDE_INT64, SIZE(1, 3), 2);
  i4x = of(TIDE_INT64, SIZE(1, 4), 2), b8 = of(TIDE_UINT8, SIZE(2), 1), d3 = of(TIDE_FLOAT64, SIZE(3), 1);
  sd = of(TIDE_FLOAT64, NULL, 0), m3 = of(TIDE_BOOL, SIZE(3), 1), m4 = of(TIDE_BOOL, SIZE(4), 1);
  row = of(TIDE_FLOAT32, SIZE(1, 3), 2), image = of(TIDE_FLOAT32, SIZE(1, 1, 4, 4), 4);
}

static void end(void) {
  CHECK(!o && !p);
  for (int k = 0; k < 17; k++)
    tide_tensor_release((tide_tensor *[]){x, v, v4, s, e, i, i4, ix, i4x, b8, c, d3, sd, m3, m4, row, image}[k]);
  tide_tensor *late = of(TIDE_FLOAT32, SIZE(2), 1);
  tide_shutdown();
  REFUSES("StateError: neg: the runtime has ended, got a call after tide_shutdown, expected one before",
          tide_unary(&o, TIDE_OP_neg, late, NULL));
  tide_tensor_release(late);
}

static void views_and_factories(void) {
  REFUSES("IndexError: narrow: x has no dimensions, got a 0-d tensor, expected at least one dim",
          tide_narrow(&o, s, 0, 0, 1));
  REFUSES("IndexError: narrow: dim out of range, got 2, expected 0 to 1 or -2 to -1", tide_narrow(&o, x, 2, 0, 1));
  REFUSES("IndexError: narrow: range out of bounds of dim 1, got start 3 and length 1, expected a range inside size 3",
          tide_narrow(&o, x, 1, 3, 1));
  REFUSES("IndexError: narrow: range out of bounds of dim 1, got start -4 and length 1, expected a range inside size 3",
          tide_narrow(&o, x, 1, -4, 1));
  REFUSES("IndexError: narrow: range out of bounds of dim 1, got start 1 and length -1, expected a range inside size 3",
          tide_narrow(&o, x, 1, 1, -1));
  REFUSES("IndexError: select: x has no dimensions, got a 0-d tensor, expected at least one dim",
          tide_select(&o, s, 0, 0));
  REFUSES("IndexError: select: dim out of range, got -3, expected 0 to 1 or -2 to -1", tide_select(&o, x, -3, 0));
  REFUSES("IndexError: select: index out of range for dim 1 of size 3, got 3, expected 0 to 2 or -3 to -1",
          tide_select(&o, x, 1, 3));
  REFUSES("IndexError: select: index out of range for dim 1 of size 3, got -4, expected 0 to 2 or -3 to -1",
          tide_select(&o, x, 1, -4));
  REFUSES("IndexError: slice: x has no dimensions, got a 0-d tensor, expected at least one dim",
          tide_slice(&o, s, 0, 0, 0, 1));
  REFUSES("IndexError: slice: range out of bounds of dim 1, got 1 to 3, expected a range inside size 3",
          tide_slice(&o, x, 1, 1, 3, 1));
  REFUSES("ValueError: slice: wrong step, got 0, expected at least 1", tide_slice(&o, x, 1, 1, 2, 0));
  REFUSES("IndexError: slice: range out of bounds of dim 1, got -4 to 2, expected a range inside size 3",
          tide_slice(&o, x, 1, -4, 2, 1));
  REFUSES("IndexError: slice: range out of bounds of dim 1, got 2 to 0, expected a range inside size 3",
          tide_slice(&o, x, 1, 2, 0, 1));
  REFUSES("ShapeError: view: sizes do not fit, got [4] for a tensor of 6 elements ([2, 3]), expected as many",
          tide_view(&o, x, SIZE(4), 1));
  REFUSES("ShapeError: view: sizes do not fit, got [-1, -1] for a tensor of 6 elements ([2, 3]), expected as many",
          tide_view(&o, x, SIZE(-1, -1), 2));
  REFUSES("ShapeError: view: sizes do not fit, got [-2, 3] for a tensor of 6 elements ([2, 3]), expected as many",
          tide_view(&o, x, SIZE(-2, 3), 2));
  REFUSES("ShapeError: view: wrong number of dims, got 13, expected at most 12", tide_view(&o, x, SIZE(6), 13));
  REFUSES("ArgumentError: flatten: the first dim comes after the last, got 1 and 0, expected them in order",
          tide_flatten(&o, x, 1, 0));
  REFUSES("IndexError: flatten: dim out of range, got 2, expected 0 to 1 or -2 to -1", tide_flatten(&o, x, 0, 2));
  REFUSES("IndexError: unflatten: x has no dimensions, got a 0-d tensor, expected at least one dim",
          tide_unflatten(&o, s, 0, SIZE(1), 1));
  REFUSES("ShapeError: unflatten: wrong number of sizes, got 0, expected 1 to 11",
          tide_unflatten(&o, x, 1, SIZE(3), 0));
  REFUSES("ShapeError: unflatten: sizes do not fit, got [2] for a tensor of 3 elements ([3]), expected as many",
          tide_unflatten(&o, x, 1, SIZE(2), 1));
  REFUSES("IndexError: squeeze: dim out of range, got 2, expected 0 to 1 or -2 to -1", tide_squeeze_dim(&o, x, 2));
  REFUSES("IndexError: unsqueeze: dim out of range, got 3, expected 0 to 2 or -3 to -1", tide_unsqueeze(&o, x, 3));
  REFUSES("IndexError: transpose: dim out of range, got 2, expected 0 to 1 or -2 to -1", tide_transpose(&o, x, 0, 2));
  REFUSES("ArgumentError: permute: dim 0 is given twice, expected every dim once", tide_permute(&o, x, DIMS(0, 0), 2));
  REFUSES("ArgumentError: permute: wrong number of dims, got 1, expected 2", tide_permute(&o, x, DIMS(0), 1));
  REFUSES("IndexError: permute: dim out of range, got 2, expected 0 to 1 or -2 to -1",
          tide_permute(&o, x, DIMS(0, 2), 2));
  REFUSES("ArgumentError: movedim: dim 0 is given twice, expected every dim at most once",
          tide_movedim(&o, x, DIMS(0, 0), DIMS(0, 1), 2));
  REFUSES("ArgumentError: movedim: dim 1 is given twice, expected every dim at most once",
          tide_movedim(&o, x, DIMS(0, 1), DIMS(1, 1), 2));
  REFUSES("ArgumentError: movedim: dim 0 is given twice, expected every dim at most once",
          tide_movedim(&o, x, DIMS(0, 1, 0), DIMS(0, 1, 0), 3));
  REFUSES("ShapeError: expand: x does not expand, got [2, 3] to [3], expected equal sizes or 1 in x",
          tide_expand(&o, x, SIZE(3), 1));
  REFUSES("ShapeError: expand: x does not expand, got [2, 3] to [-2, 3], expected equal sizes or 1 in x",
          tide_expand(&o, x, SIZE(-2, 3), 2));
  REFUSES("ShapeError: expand: x does not expand, got [2, 3] to [-1, 2, 3], expected equal sizes or 1 in x",
          tide_expand(&o, x, SIZE(-1, 2, 3), 3));
  REFUSES("ShapeError: expand: x does not expand, got [2, 3] to [2, 4], expected equal sizes or 1 in x",
          tide_expand(&o, x, SIZE(2, 4), 2));
  REFUSES("IndexError: diagonal: dim out of range, got 1, expected 0 to 0 or -1 to -1", tide_diagonal(&o, v, 0, 0, 1));
  REFUSES("ArgumentError: diagonal: both dims are 0, expected two different ones", tide_diagonal(&o, x, 0, 0, 0));
  REFUSES("ValueError: unfold: wrong window, got size 4 and step 1, expected size 0 to 3 and step of at least 1",
          tide_unfold(&o, x, 1, 4, 1));
  REFUSES("ValueError: unfold: wrong window, got size 2 and step 0, expected size 0 to 3 and step of at least 1",
          tide_unfold(&o, x, 1, 2, 0));
  REFUSES("ValueError: as_strided: negative stride, got [-1], expected strides of at least 0",
          tide_as_strided(&o, x, SIZE(2), SIZE(-1), 1, 0));
  REFUSES("IndexError: as_strided: outside of the storage, got size [2], strides [6] and offset 0, expected to stay "
          "inside 6 elements",
          tide_as_strided(&o, x, SIZE(2), SIZE(6), 1, 0));
  REFUSES("IndexError: as_strided: outside of the storage, got size [2], strides [1] and offset 5, expected to stay "
          "inside 6 elements",
          tide_as_strided(&o, x, SIZE(2), SIZE(1), 1, 5));
  REFUSES("IndexError: as_strided: outside of the storage, got size [2], strides [1] and offset -1, expected to stay "
          "inside 6 elements",
          tide_as_strided(&o, x, SIZE(2), SIZE(1), 1, -1));
  REFUSES("ArgumentError: view_dtype: unknown dtype, got 77, expected 0 to 11", tide_view_dtype(&o, x, (tide_dtype)77));
  REFUSES("DtypeError: view_as_complex: dtype not accepted, got int64, expected float32 or float64",
          tide_view_as_complex(&o, i));
  REFUSES("DtypeError: view_as_real: dtype not accepted, got float32, expected a complex dtype",
          tide_view_as_real(&o, x));
  REFUSES("DtypeError: imag: dtype not accepted, got float32, expected a complex dtype", tide_imag(&o, x));
  REFUSES("ShapeError: cat: shapes do not fit along dim 0, got [3] for tensor 1 beside [2, 3], expected equal sizes in "
          "the other dims",
          tide_cat(&o, LIST(x, v), 2, 0, NULL));
  REFUSES("ArgumentError: cat: nothing to join, got an empty list, expected at least one tensor",
          tide_cat(&o, LIST(x, x), 0, 0, NULL));
  REFUSES("IndexError: cat: dim out of range, got 2, expected 0 to 1 or -2 to -1",
          tide_cat(&o, LIST(x, x), 2, 2, NULL));
  REFUSES("ShapeError: cat: 0-d tensors cannot be joined, got a 0-d tensor, expected at least one dim: use stack",
          tide_cat(&o, LIST(s, s), 2, 0, NULL));
  REFUSES("ShapeError: cat: wrong shape of the destination, got [3], expected [4, 3]",
          tide_cat(&o, LIST(x, x), 2, 0, v));
  REFUSES("ShapeError: stack: shapes do not fit along dim 0, got [3] for tensor 1 beside [2, 3], expected equal sizes "
          "in the other dims",
          tide_stack(&o, LIST(x, v), 2, 0, NULL));
  REFUSES("IndexError: stack: dim out of range, got 3, expected 0 to 2 or -3 to -1",
          tide_stack(&o, LIST(x, x), 2, 3, NULL));
  REFUSES("ValueError: tile: negative repeats, got [-1], expected at least 0", tide_tile(&o, x, SIZE(-1), 1));
  REFUSES("ValueError: repeat_interleave: negative repeats, got -1, expected at least 0",
          tide_repeat_interleave(&o, x, -1, 0));
  REFUSES("IndexError: repeat_interleave: dim out of range, got 2, expected 0 to 1 or -2 to -1",
          tide_repeat_interleave(&o, x, 2, 2));
  REFUSES("ArgumentError: flip: dim 0 is given twice, expected every dim at most once",
          tide_flip(&o, x, DIMS(0, 0), 2));
  REFUSES("IndexError: flip: dim out of range, got 2, expected 0 to 1 or -2 to -1", tide_flip(&o, x, DIMS(2), 1));
  REFUSES("IndexError: roll: dim out of range, got 2, expected 0 to 1 or -2 to -1",
          tide_roll(&o, x, SIZE(1), DIMS(2), 1));
  REFUSES("ShapeError: rot90: too few dims, got [3], expected at least 2 dims", tide_rot90(&o, v, 1, 0, 1));
  REFUSES("ArgumentError: rot90: both dims are 1, expected two different ones", tide_rot90(&o, x, 1, 1, 1));
  REFUSES("IndexError: rot90: dim out of range, got 2, expected 0 to 1 or -2 to -1", tide_rot90(&o, x, 1, 0, 2));
  REFUSES("ValueError: resize: negative size, got [-1], expected sizes of at least 0", tide_resize(x, SIZE(-1), 1));
  REFUSES("ShapeError: fit: wrong shape of the destination, got [2, 3], expected [2, 4]", tide_fit(x, SIZE(2, 4), 2));
  REFUSES("ShapeError: fit: wrong shape of the destination, got [2, 3], expected [6]", tide_fit(x, SIZE(6), 1));
  REFUSES("ValueError: empty: negative size, got [-1], expected sizes of at least 0",
          tide_empty(&o, SIZE(-1), 1, NULL));
  REFUSES("ShapeError: empty: wrong number of dims, got 13, expected at most 12", tide_empty(&o, SIZE(1), 13, NULL));
  REFUSES(
      "OutOfMemoryError: empty: too large, got size [9223372036854775807, 2] of float32, expected less than 2^63 bytes",
      tide_empty(&o, SIZE(INT64_MAX, 2), 2, NULL));
  REFUSES("ValueError: empty_strided: negative stride, got [-1], expected strides of at least 0",
          tide_empty_strided(&o, SIZE(2), SIZE(-1), 1, NULL));
  REFUSES("ValueError: empty_strided: strides too large, got [4611686018427387903, 1], expected less than 2^63 bytes",
          tide_empty_strided(&o, SIZE(2, 2), SIZE(INT64_MAX / 2, 1), 2, NULL));
  REFUSES("ValueError: full: value does not fit, got 300, expected one that uint8 can hold",
          tide_full(&o, SIZE(2), 1, tide_int(300), &u8));
  REFUSES("ValueError: arange: negative length, got -1, expected at least 0",
          tide_arange(&o, tide_int(0), tide_int(1), -1, NULL));
  REFUSES("ValueError: linspace: negative length, got -1, expected at least 0", tide_linspace(&o, 0, 1, -1, NULL));
  REFUSES("ValueError: eye: negative size, got [-1, 2], expected sizes of at least 0", tide_eye(&o, -1, 2, NULL));
  REFUSES("ValueError: eye: negative size, got [2, -1], expected sizes of at least 0", tide_eye(&o, 2, -1, NULL));
  REFUSES("ShapeError: tril: too few dims, got [3], expected at least 2 dims", tide_tril(&o, v, 0, false));
  REFUSES("ShapeError: triu: too few dims, got [3], expected at least 2 dims", tide_tril(&o, v, 0, true));
  REFUSES("ValueError: tril_indices: negative length, got -1, expected at least 0",
          tide_tril_indices(&o, -1, 2, 0, false, NULL));
  REFUSES("ValueError: triu_indices: negative length, got -1, expected at least 0",
          tide_tril_indices(&o, 2, -1, 0, true, NULL));
}

static void elements_reductions_and_products(void) {
  tide_scalar n;
  REFUSES("ShapeError: item: x has not one element, got [2, 3], expected a single element", tide_item(&n, x));
  REFUSES("ShapeError: copy: wrong shape of the source, got [1, 3], expected one that broadcasts to [3]",
          tide_copy(v, row, false));
  REFUSES("ShapeError: bernoulli: wrong shape of p, got [1, 3], expected one that broadcasts to [3]",
          tide_bernoulli(v, row, NULL));
  REFUSES("ShapeError: copy: wrong shape of the source, got [2, 3], expected one that broadcasts to [3]",
          tide_copy(v, x, false));
  REFUSES("ShapeError: copy: wrong shape of the source, got [3], expected one that broadcasts to []",
          tide_copy(s, v, false));
  REFUSES("ShapeError: mask: wrong shape of the mask, got [3], expected one that broadcasts to []",
          tide_mask_get(&o, s, m3));
  REFUSES("ShapeError: mask: wrong shape of the mask, got [3], expected one that broadcasts to []",
          tide_mask_set(s, m3, &one));
  REFUSES("ShapeError: bernoulli: wrong shape of p, got [2, 3], expected one that broadcasts to [3]",
          tide_bernoulli(v, x, NULL));
  REFUSES("ShapeError: copy: wrong shape of the source, got [4], expected one that broadcasts to [2, 3]",
          tide_copy(x, v4, false));
  REFUSES("ValueError: fill: value does not fit, got 256, expected one that uint8 can hold",
          tide_fill(b8, tide_int(256)));
  REFUSES("DtypeError: bitwise_not: dtype not accepted, got float32, expected integers or bool",
          tide_unary(&o, TIDE_OP_bitwise_not, x, NULL));
  REFUSES("ArgumentError: elementwise: unknown op, got -1, expected 0 to 114", tide_unary(&o, (tide_op)-1, x, NULL));
  REFUSES("ArgumentError: add: wrong number of operands, got 1, expected 2", tide_unary(&o, TIDE_OP_add, x, NULL));
  REFUSES("ArgumentError: neg: wrong number of operands, got 2, expected 1", tide_binary(&o, TIDE_OP_neg, x, x, NULL));
  REFUSES("ShapeError: add: shapes do not fit, got [2, 3] and [4] for y, expected equal sizes or 1",
          tide_binary(&o, TIDE_OP_add, x, v4, NULL));
  REFUSES("ShapeError: add: wrong shape of the destination, got [3], expected [2, 3]",
          tide_binary(NULL, TIDE_OP_add, x, x, v));
  REFUSES(
      "DtypeError: div: the result cannot be written to the destination, got int64, expected float32 or a wider one",
      tide_binary(NULL, TIDE_OP_div, i, i, i));
  REFUSES("ArgumentError: add: only numbers given, expected at least one tensor",
          tide_elementwise(&o, TIDE_OP_add, (tide_operand[]){{.number = tide_int(1)}, {.number = tide_int(1)}}, NULL,
                           NULL));
  REFUSES("ArgumentError: sum: dim 0 is given twice, expected every dim at most once",
          tide_reduce(&o, TIDE_SUM, x, &(tide_reduce_options){.dims = DIMS(0, 0), .ndims = 2, .dtype = TIDE_DTYPE_NONE},
                      NULL));
  REFUSES("IndexError: sum: dim out of range, got 2, expected 0 to 1 or -2 to -1",
          tide_reduce(&o, TIDE_SUM, x, &(tide_reduce_options){.dims = DIMS(2), .ndims = 1, .dtype = TIDE_DTYPE_NONE},
                      NULL));
  REFUSES("DtypeError: mean: dtype not accepted, got int64, expected a floating or complex dtype: give one as dtype",
          tide_reduce(&o, TIDE_MEAN, i, NULL, NULL));
  REFUSES("ValueError: max: nothing to choose from, got size 0 in dim 0 of [0, 3], expected at least one element",
          tide_reduce(&o, TIDE_MAX, e, NULL, NULL));
  REFUSES("ShapeError: sum: wrong shape of the destination, got [2, 3], expected []",
          tide_reduce(NULL, TIDE_SUM, x, NULL, x));
  REFUSES("ArgumentError: reduce_index: wrong reduction, got 0, expected TIDE_MAX or TIDE_MIN",
          tide_reduce_index(&o, &p, TIDE_SUM, x, 0, false));
  REFUSES("IndexError: max: dim out of range, got 2, expected 0 to 1 or -2 to -1",
          tide_reduce_index(&o, &p, TIDE_MAX, x, 2, false));
  REFUSES("ArgumentError: max: a place for a result is missing, got NULL, expected two",
          tide_reduce_index(&o, NULL, TIDE_MAX, x, 0, false));
  REFUSES("ValueError: max: nothing to choose from, got size 0 in dim 0 of [0, 3], expected at least one element",
          tide_reduce_index(&o, &p, TIDE_MAX, e, 0, false));
  REFUSES("DtypeError: var: dtype not accepted, got int64, expected a floating dtype", tide_var_mean(&o, &p, i, NULL));
  REFUSES("IndexError: index: dim out of range, got 2, expected 0 to 1 or -2 to -1", tide_index_get(&o, x, 2, i));
  REFUSES("DtypeError: index: wrong dtype of the index, got float32, expected integers", tide_index_get(&o, x, 0, v));
  REFUSES("IndexError: index: value out of range in an index tensor, got 1, expected 0 to 0 or -1 to -1",
          tide_index_get(&o, s, 0, i));
  REFUSES("IndexError: index: the indexed dim has size 0, got 2 index values, expected none",
          tide_index_get(&o, e, 0, i));
  REFUSES("ShapeError: index: wrong shape of the value, got [4], expected one that broadcasts to [2, 3]",
          tide_index_set(x, 0, i, &(tide_operand){.tensor = v4}));
  REFUSES("IndexError: index: too many indexes, got entries for 3 dims, expected at most 2 as the tensor has",
          tide_index_get_many(&o, x, LIST(i, i, i), 3));
  REFUSES("DtypeError: index: wrong dtype of an index, got float32, expected integers or bool",
          tide_index_get_many(&o, x, LIST(v), 1));
  REFUSES("IndexError: index: the indexed dim has size 0, got 2 index values, expected none",
          tide_index_get_many(&o, e, LIST(i), 1));
  REFUSES("ShapeError: index_put: the indexes' shapes do not fit, got [2] and [4], expected equal sizes or 1",
          tide_index_put(x, LIST(i, i4), 2, &one, false));
  REFUSES("ShapeError: index_put: wrong shape of a mask, got [4], expected the sizes from dim 0 on of [2, 3]",
          tide_index_put(x, LIST(m4), 1, &one, false));
  REFUSES("DtypeError: mask: wrong dtype of the mask, got float32, expected bool", tide_mask_get(&o, x, v));
  REFUSES("ShapeError: mask: wrong shape of the mask, got [4], expected one that broadcasts to [2, 3]",
          tide_mask_get(&o, x, m4));
  REFUSES("DtypeError: mask: wrong dtype of the mask, got float32, expected bool", tide_mask_set(x, v, &one));
  REFUSES("ShapeError: mask: wrong number of values, got 4, expected 6, as many as the mask holds",
          tide_mask_set(x, m3, &(tide_operand){.tensor = v4}));
  REFUSES("ShapeError: matmul: shapes do not fit, got [2, 3] and [2, 3], expected the last size of the first equal to "
          "the last but one of the second",
          tide_matmul(&o, x, x, NULL));
  REFUSES("ShapeError: matmul: shapes do not fit, got [] and [2, 3], expected at least one dim each",
          tide_matmul(&o, s, x, NULL));
  REFUSES("DtypeError: matmul: different dtypes, got float32 and float64, expected one dtype",
          tide_matmul(&o, x, d3, NULL));
  REFUSES("ShapeError: mm: wrong number of dims, got [2, 3] and [3], expected 2 and 2 dims", tide_mm(&o, x, v, NULL));
  REFUSES("ShapeError: bmm: wrong number of dims, got [2, 3] and [2, 3], expected 3 and 3 dims",
          tide_bmm(&o, x, x, NULL));
  REFUSES("ShapeError: mv: shapes do not fit, got [2, 3] and [4], expected the last size of the first equal to the "
          "last but one of the second",
          tide_mv(&o, x, v4, NULL));
  REFUSES("ShapeError: dot: shapes do not fit, got [3] and [4], expected the last size of the first equal to the last "
          "but one of the second",
          tide_dot(&o, v, v4, NULL));
  REFUSES("ShapeError: addmm: wrong shape of c, got [4], expected one that broadcasts to [2]",
          tide_addmm(&o, v4, x, v, 1, 1, NULL));
  REFUSES("ShapeError: addmm: shapes do not fit, got [3] and [3], expected two matrices, two batches of matrices, or a "
          "matrix and a vector",
          tide_addmm(&o, s, v, v, 1, 1, NULL));
  REFUSES("ShapeError: cross: got sizes [4] and [4], expected [..., 3] for both", tide_cross(&o, v4, v4));
}

static void draws_scans_sorts_and_fields(void) {
  int64_t a, z;
  int64_t size[TIDE_MAX_DIMS];
  int ndim = 0;
  bool same;
  tide_generator *g = NULL;
  OK(tide_generator_new(&g, TIDE_CPU));
  REFUSES("ValueError: uniform: wrong range, got 2 to 1, expected finite bounds in order",
          tide_random(x, TIDE_UNIFORM, 2, 1, NULL));
  REFUSES("ValueError: uniform: wrong range, got 0 to inf, expected finite bounds in order",
          tide_random(x, TIDE_UNIFORM, 0, INFINITY, NULL));
  REFUSES("ValueError: normal: wrong standard deviation, got -1, expected at least 0",
          tide_random(x, TIDE_NORMAL, 0, -1, NULL));
  REFUSES("DtypeError: normal: dtype not accepted, got int64, expected a floating dtype",
          tide_random(i, TIDE_NORMAL, 0, 1, NULL));
  REFUSES("ValueError: log_normal: wrong standard deviation, got 0, expected above 0",
          tide_random(x, TIDE_LOG_NORMAL, 0, 0, NULL));
  REFUSES("ValueError: cauchy: wrong sigma, got 0, expected above 0", tide_random(x, TIDE_CAUCHY, 0, 0, NULL));
  REFUSES("ValueError: exponential: wrong rate, got 0, expected above 0", tide_random(x, TIDE_EXPONENTIAL, 0, 0, NULL));
  REFUSES("ValueError: bernoulli: wrong probability, got 2, expected 0 to 1",
          tide_random(x, TIDE_BERNOULLI, 2, 0, NULL));
  REFUSES("ValueError: geometric: wrong probability, got 1, expected between 0 and 1",
          tide_random(x, TIDE_GEOMETRIC, 1, 0, NULL));
  REFUSES("ValueError: geometric: wrong probability, got 0, expected between 0 and 1",
          tide_random(x, TIDE_GEOMETRIC, 0, 0, NULL));
  REFUSES("ArgumentError: random: unknown kind, got 99, expected 0 to 7",
          tide_random(x, (tide_random_kind)99, 0, 0, NULL));
  REFUSES("ValueError: random: empty range, got 5 to 5, expected the upper bound above the lower",
          tide_random_int(x, 5, 5, NULL));
  REFUSES("ValueError: random: value does not fit, got 299, expected one that uint8 can hold",
          tide_random_int(b8, 0, 300, NULL));
  REFUSES("ValueError: random: bound does not fit, got -5, expected one that uint8 can hold",
          tide_random_int(b8, -5, 5, NULL));
  REFUSES("DtypeError: random: dtype not accepted, got complex64, expected a real dtype",
          tide_random_int(c, 0, 5, NULL));
  REFUSES("DtypeError: random: dtype not accepted, got complex64, expected a real dtype", tide_random_bits(c, NULL));
  REFUSES("ShapeError: bernoulli: wrong shape of p, got [4], expected one that broadcasts to [2, 3]",
          tide_bernoulli(x, v4, NULL));
  REFUSES("DtypeError: bernoulli: dtype not accepted, got int64, expected a floating dtype",
          tide_bernoulli(x, i, NULL));
  REFUSES("ShapeError: poisson: wrong shape of the rates, got [4], expected one that broadcasts to [2, 3]",
          tide_poisson(x, v4, NULL));
  REFUSES("DtypeError: multinomial: wrong dtype of the sums, got float32, expected float64", tide_pick(&o, v, 1, NULL));
  REFUSES("ShapeError: multinomial: nothing to pick from, got sums of [] and 1 picks, expected lines of sums",
          tide_pick(&o, sd, 1, NULL));
  REFUSES("ValueError: randperm: negative length, got -1, expected at least 0", tide_randperm(&o, -1, NULL, NULL));
  REFUSES("ValueError: randperm: uint8 does not hold every number, got up to 299, expected at most 255",
          tide_randperm(&o, 300, &u8, NULL));
  REFUSES("IndexError: cumsum: dim out of range, got 2, expected 0 to 1 or -2 to -1",
          tide_scan(&o, TIDE_SCAN_CUMSUM, x, 2, TIDE_DTYPE_NONE, NULL));
  REFUSES("DtypeError: cumsum: dtype not accepted, got bool, expected a dtype of numbers",
          tide_scan(&o, TIDE_SCAN_CUMSUM, x, 0, TIDE_BOOL, NULL));
  REFUSES("DtypeError: cummax: dtype not accepted, got complex64, expected a real dtype",
          tide_scan(&o, TIDE_SCAN_CUMMAX, c, 0, TIDE_DTYPE_NONE, NULL));
  REFUSES("ArgumentError: scan_index: wrong scan, got 0, expected CUMMAX or CUMMIN",
          tide_scan_index(&o, &p, TIDE_SCAN_CUMSUM, x, 0));
  REFUSES("ArgumentError: cummax: a place for a result is missing, got NULL, expected two",
          tide_scan_index(&o, NULL, TIDE_SCAN_CUMMAX, x, 0));
  REFUSES("IndexError: cummax: dim out of range, got 2, expected 0 to 1 or -2 to -1",
          tide_scan_index(&o, &p, TIDE_SCAN_CUMMAX, x, 2));
  REFUSES("DtypeError: log_softmax: dtype not accepted, got bool, expected a dtype of numbers",
          tide_softmax(&o, i, 0, TIDE_DTYPE_NONE, false, NULL));
  REFUSES("ShapeError: diff: x has no dims, got a tensor of one element, expected at least one dim",
          tide_diff(&o, s, 1, 0));
  REFUSES("ValueError: diff: n is negative, got -1, expected at least 0", tide_diff(&o, x, -1, 0));
  REFUSES("IndexError: diff: dim out of range, got 2, expected 0 to 1 or -2 to -1", tide_diff(&o, x, 1, 2));
  REFUSES("IndexError: sort: dim out of range, got 2, expected 0 to 1 or -2 to -1", tide_sort(&o, &p, x, 2, false));
  REFUSES("DtypeError: sort: dtype not accepted, got complex64, expected a real dtype", tide_sort(&o, &p, c, 0, false));
  REFUSES("ArgumentError: sort: a place for a result is missing, got NULL, expected one",
          tide_sort(NULL, NULL, x, 0, false));
  REFUSES("ValueError: topk: k does not fit, got 4, expected 0 to 3", tide_topk(&o, &p, x, 4, 1, true));
  REFUSES("ValueError: topk: k does not fit, got -1, expected 0 to 3", tide_topk(&o, &p, x, -1, 1, true));
  REFUSES("ValueError: topk: k does not fit, got 0 of a tensor without dims, expected 1",
          tide_topk(&o, &p, s, 0, 0, true));
  REFUSES("ValueError: kthvalue: k does not fit, got 0, expected 1 to 3", tide_kthvalue(&o, &p, x, 0, 1, false));
  REFUSES("ValueError: kthvalue: k does not fit, got 4, expected 1 to 3", tide_kthvalue(&o, &p, x, 4, 1, false));
  REFUSES("DtypeError: median: dtype not accepted, got complex64, expected a real dtype",
          tide_median(&o, &p, c, 0, false));
  REFUSES("DtypeError: extremes: dtype not accepted, got float32, expected integers", tide_extremes(&a, &z, x));
  REFUSES("ShapeError: gather: wrong number of dims of the index, got [2], expected 2 as x has",
          tide_gather(&o, x, 0, i, NULL));
  REFUSES("ShapeError: gather: the index is larger than x, got [1, 4], expected at most [2, 3], but along dim",
          tide_gather(&o, x, 0, i4x, NULL));
  REFUSES("IndexError: gather: dim out of range, got 2, expected 0 to 1 or -2 to -1", tide_gather(&o, x, 2, ix, NULL));
  REFUSES("DtypeError: gather: wrong dtype of the index, got float32, expected integers",
          tide_gather(&o, x, 0, x, NULL));
  REFUSES("DtypeError: take: wrong dtype of the index, got float32, expected integers", tide_take(&o, x, v, NULL));
  REFUSES("IndexError: index: the indexed dim has size 0, got 2 index values, expected none",
          tide_take(&o, e, i, NULL));
  REFUSES("ShapeError: take_along_dim: the shapes do not fit, got [2, 3] and [1, 4], expected equal sizes or 1, but "
          "along dim",
          tide_take_along_dim(&o, x, i4x, 0, NULL));
  REFUSES("DtypeError: scatter: wrong dtype of the source, got int64, expected float32 as x has",
          tide_scatter(&o, x, 0, ix, &(tide_operand){.tensor = i4x}, TIDE_SCATTER_WRITE, true, NULL));
  REFUSES("ArgumentError: scatter: unknown operation, got 99, expected one of tide_scatter_op",
          tide_scatter(&o, x, 0, ix, &one, (tide_scatter_op)99, true, NULL));
  REFUSES("DtypeError: scatter: complex numbers have no order, got complex64, expected a real dtype",
          tide_scatter(&o, c, 0, i, &(tide_operand){.tensor = c}, TIDE_SCATTER_MAX, true, NULL));
  REFUSES("ShapeError: scatter: wrong number of dims of the index, got [2], expected 2 as x has",
          tide_scatter(&o, x, 0, i, &one, TIDE_SCATTER_WRITE, true, NULL));
  REFUSES("ShapeError: index_copy: wrong shape of the source, got [3], expected that of x, [2, 3], with 2 along dim 0",
          tide_index_copy(&o, x, 0, i, v, NULL));
  REFUSES("ShapeError: index_copy: wrong shape of the index, got [1, 3], expected one dim",
          tide_index_copy(&o, x, 0, ix, x, NULL));
  REFUSES("ShapeError: index_fill: wrong shape of the value, got [3], expected a number or a tensor without dims",
          tide_index_fill(&o, x, 0, i, &(tide_operand){.tensor = v}, NULL));
  REFUSES("ShapeError: put: wrong number of elements of the source, got [4], expected 2 as the index has",
          tide_put(&o, x, i, v4, false, NULL));
  REFUSES("DtypeError: put: wrong dtype of the source, got int64, expected float32 as x has",
          tide_put(&o, x, i, i, false, NULL));
  REFUSES("DtypeError: mask: wrong dtype of the mask, got float32, expected bool",
          tide_masked_scatter(&o, x, v, x, NULL));
  REFUSES("DtypeError: masked_scatter: wrong dtype of the source, got int64, expected float32 as x has",
          tide_masked_scatter(&o, x, m3, i, NULL));
  REFUSES("DtypeError: one_hot: wrong dtype of the index, got float32, expected integers", tide_one_hot(&o, v, -1));
  REFUSES("ValueError: one_hot: wrong number of classes, got 0, expected at least 1", tide_one_hot(&o, i, 0));
  REFUSES("DtypeError: bincount: wrong dtype of x, got float32, expected integers", tide_bincount(&o, v, NULL, 0));
  REFUSES("ShapeError: bincount: wrong shape of x, got [2, 3], expected one dim", tide_bincount(&o, x, NULL, 0));
  REFUSES("ShapeError: bincount: wrong shape of the weights, got [4], expected [2]", tide_bincount(&o, i, v4, 0));
  REFUSES("ValueError: bincount: wrong minlength, got -1, expected at least 0", tide_bincount(&o, i, NULL, -1));
  REFUSES("ValueError: histc: wrong number of bins, got 0, expected at least 1", tide_histc(&o, x, 0, 0, 1, NULL));
  REFUSES("ValueError: histc: wrong bounds, got 1 and 0, expected the smaller one first",
          tide_histc(&o, x, 2, 1, 0, NULL));
  REFUSES("ValueError: histc: the bounds are not finite, got 0 and inf, expected finite ones",
          tide_histc(&o, x, 2, 0, INFINITY, NULL));
  REFUSES("ShapeError: cholesky: x is not square, got [2, 3], expected [..., n, n]",
          tide_linalg_cholesky(&o, x, false, NULL));
  REFUSES("ShapeError: cholesky: x is not square, got [3], expected [..., n, n]",
          tide_linalg_cholesky(&o, v, false, NULL));
  REFUSES("ShapeError: solve: a is not square, got [2, 3], expected [..., n, n]", tide_linalg_solve(&o, x, x));
  REFUSES("ShapeError: eig: x is not square, got [2, 3], expected [..., n, n]", tide_linalg_eig(&o, &p, x));
  REFUSES("ArgumentError: fft: wrong dims, got 1 and no list, expected a list of them",
          tide_fft(&o, TIDE_FFT_FFT, x, NULL, SIZE(1), 1, TIDE_FFT_BACKWARD, NULL, NULL));
  REFUSES("ValueError: fft: no such kind or norm, got 99 and 0, expected a tide_fft_kind and a tide_fft_norm",
          tide_fft(&o, (tide_fft_kind)99, x, NULL, NULL, 0, TIDE_FFT_BACKWARD, NULL, NULL));
  REFUSES("ValueError: fft: no such kind or norm, got 0 and 99, expected a tide_fft_kind and a tide_fft_norm",
          tide_fft(&o, TIDE_FFT_FFT, x, NULL, NULL, 0, (tide_fft_norm)99, NULL, NULL));
  REFUSES("ValueError: fftfreq: wrong number of points, got 0, expected at least 1",
          tide_fft_freq(&o, 0, 1, false, NULL));
  REFUSES("ValueError: rfftfreq: wrong number of points, got 0, expected at least 1",
          tide_fft_freq(&o, 0, 1, true, NULL));
  REFUSES("ArgumentError: fftshift: wrong dims, got 3 and no list, expected a list of at most 12",
          tide_fft_shift(&o, x, NULL, 3, false));
  REFUSES("IndexError: ifftshift: dim out of range, got 2, expected 0 to 1 or -2 to -1",
          tide_fft_shift(&o, x, DIMS(2), 1, true));
  REFUSES("ArgumentError: pad: too many pads, got 3 pairs for a tensor of 2 dims",
          tide_pad(&o, x, SIZE(0, 0, 0, 0, 0, 0), 3, TIDE_PAD_CONSTANT, tide_int(0)));
  REFUSES("ValueError: pad: more is cropped than there is, got -2 and -2 for dim 1 of size 3",
          tide_pad(&o, x, SIZE(-2, -2), 1, TIDE_PAD_CONSTANT, tide_int(0)));
  REFUSES("ValueError: pad: too much to reflect, got 3 for dim 1, expected less than its size, 3",
          tide_pad(&o, x, SIZE(3, 0), 1, TIDE_PAD_REFLECT, tide_int(0)));
  REFUSES("ValueError: pad: goes round more than once, got 4 for dim 1, expected at most its size, 3",
          tide_pad(&o, x, SIZE(0, 4), 1, TIDE_PAD_CIRCULAR, tide_int(0)));
  REFUSES("ArgumentError: interpolate: unknown mode, got 99, expected 0 to 4",
          tide_interpolate(&o, image, SIZE(2, 2), NULL, (tide_interpolate_mode)99, false));
  REFUSES("ArgumentError: interpolate: unknown mode, got -1, expected 0 to 4",
          tide_interpolate(&o, image, SIZE(2, 2), NULL, (tide_interpolate_mode)-1, false));
  REFUSES("ArgumentError: max_pool: number of spatial dims, got 4, expected 1 to 3",
          tide_max_pool(&o, NULL, x, 4, &pool));
  REFUSES("ArgumentError: avg_pool: number of spatial dims, got 0, expected 1 to 3", tide_avg_pool(&o, x, 0, &pool));
  REFUSES("ArgumentError: conv: number of spatial dims, got 4, expected 1 to 3", tide_conv(&o, x, x, NULL, 4, &conv));
  REFUSES("ShapeError: conv1d: w has the wrong number of dims, got 2, expected 3", tide_conv(&o, x, x, NULL, 1, &conv));
  REFUSES("ShapeError: conv_transpose1d: x has the wrong number of dims, got 1, expected 3 or, without a batch, 2",
          tide_conv_transpose(&o, v, v, NULL, 1, &conv));
  REFUSES("DtypeError: set_default_dtype: wrong dtype, got int32, expected a floating dtype",
          tide_set_default_dtype(TIDE_INT32));
  REFUSES("ArgumentError: set_deterministic: wrong mode, got 9, expected OFF, WARN or ON",
          tide_set_deterministic((tide_determinism)9));
  REFUSES("ShapeError: broadcast: shapes do not fit, got [2, 3] and [4], expected equal sizes or 1",
          tide_broadcast_size(size, &ndim, LIST(x, v4), 2));
  REFUSES("StateError: equal: y is missing, got none, expected a tensor", tide_equal(&same, x, NULL));
  REFUSES("ValueError: set_offset: wrong offset, got 3, expected a multiple of 4", tide_generator_set_offset(g, 3));
  tide_generator_release(g);
}

static void released(void *user) { ++*(int *)user; }

/* What a script cannot give: the bindings check it before, or have no such argument. */
static void of_hosts_alone(void) {
  static const tide_operand half = {.number = {.kind = 'F', .re = 0.5}}, of_x = {.number = {.kind = 'C', .im = 1}};
  const tide_options pinned = {TIDE_FLOAT32, TIDE_CPU, true}, odd = {TIDE_DTYPE_NONE, TIDE_CPU, false};
  const tide_options f64 = {TIDE_FLOAT64, TIDE_CPU, false}, c64 = {TIDE_COMPLEX64, TIDE_CPU, false};
  const tide_options c128 = {TIDE_COMPLEX128, TIDE_CPU, false}, wrong = {(tide_dtype)77, TIDE_CPU, false};
  _Alignas(16) char room[64] = {0};
  char text[200];
  int ended = 0;
  tide_generator *g = NULL;
  tide_event *ready = NULL;
  int64_t a;
  tide_dtype dtype;
  REFUSES("ArgumentError: read: no memory to read to, got a null pointer, expected a buffer", tide_read(NULL, x));
  REFUSES("ArgumentError: write: no memory to write from, got a null pointer, expected values", tide_write(x, NULL));
  OK(tide_read(NULL, e));
  OK(tide_write(e, NULL));
  REFUSES("ArgumentError: clamp: parameters are missing, got none, expected 2", tide_unary(&o, TIDE_OP_clamp, x, NULL));
  REFUSES("ArgumentError: to: unknown dtype, got 77, expected 0 to 11", tide_to(&o, x, &wrong, false, false));
  REFUSES("DtypeError: arange: wrong number, got a complex one, expected real ones",
          tide_arange(&o, of_x.number, tide_int(1), 3, NULL));
  REFUSES("DtypeError: arange: wrong number, got a complex one, expected real ones",
          tide_arange(&o, tide_int(1), of_x.number, 3, NULL));
  REFUSES("ArgumentError: from_ptr: foreign memory cannot be pinned, got pin_memory",
          tide_from_ptr(&o, room, SIZE(2), NULL, 1, &pinned, released, &ended));
  REFUSES("ArgumentError: from_ptr: no memory, got a null pointer, expected 8 bytes",
          tide_from_ptr(&o, NULL, SIZE(2), NULL, 1, &odd, released, &ended));
  REFUSES("ArgumentError: from_ptr: no memory, got a null pointer, expected 20 bytes",
          tide_from_ptr(&o, NULL, SIZE(2, 1), SIZE(4, 9), 2, &odd, released, &ended));
  for (int shift = 1; shift < 16; shift++) { /* complex numbers are aligned as their parts are */
    const tide_options *all[] = {&u8, NULL, &f64, &c64, &c128};
    const int need[] = {1, 4, 8, 4, 8};
    for (int k = 0; k < 5; k++) {
      const char *name = tide_dtype_name(all[k] ? all[k]->dtype : TIDE_FLOAT32);
      snprintf(text, sizeof text,
               "ValueError: from_ptr: the pointer is not aligned, got %p, expected the alignment of %s, or uint8",
               (void *)(room + shift), name);
      tide_status status = tide_from_ptr(&o, room + shift, SIZE(2), NULL, 1, all[k], NULL, NULL);
      if (shift % need[k])
        REFUSES(text, status);
      else
        OK(status);
      tide_tensor_release(o), o = NULL;
    }
  }
  CHECK(ended == 0); /* memory that was refused is the caller's still */
  OK(tide_from_ptr(&o, NULL, SIZE(0, 3), NULL, 2, &odd, released, &ended));
  tide_tensor_release(o), o = NULL;
  CHECK(ended == 1);
  for (int device = -2; device <= TIDE_MAX_DEVICES; device++) {
    snprintf(text, sizeof text, "DeviceError: default_generator: no such device, got %d, expected -1 to %d", device,
             TIDE_MAX_DEVICES - 1);
    if (device < TIDE_CPU || device >= TIDE_MAX_DEVICES)
      REFUSES(text, tide_generator_early(&g, device));
    else
      OK(tide_generator_early(&g, device));
  }
  REFUSES("DtypeError: bincount: wrong dtype of the weights, got complex64, expected real numbers",
          tide_bincount(&o, i, c, 0));
  REFUSES("ShapeError: mask: wrong shape of the value, got [1, 3], expected one that broadcasts to [3], or one dim",
          tide_mask_set(v, m3, &(tide_operand){.tensor = row}));
  REFUSES("IndexError: index: dim 0 has size 0, got 4 index values, expected none",
          tide_index_get_many(&o, e, LIST(i4, i4), 2));
  REFUSES("ArgumentError: index: no index among 2 entries, expected at least one tensor",
          tide_index_get_many(&o, x, LIST(NULL, NULL), 2));
  REFUSES("ArgumentError: index_put: no index among 0 entries, expected at least one tensor",
          tide_index_put(x, LIST(i), 0, &one, false));
  tide_tensor *whole = NULL, *square = NULL;
  whole = of(TIDE_INT64, SIZE(2), 1), square = of(TIDE_INT64, SIZE(2, 2), 2);
  REFUSES("ValueError: addmm: wrong factors for int64, got beta 0.5 and alpha 1, expected integers",
          tide_addmm(&o, whole, square, whole, 0.5, 1, NULL));
  REFUSES("ValueError: addmm: wrong factors for int64, got beta 1 and alpha 1.5, expected integers",
          tide_addmm(&o, whole, square, whole, 1, 1.5, NULL));
  tide_tensor_release(whole), tide_tensor_release(square);
  REFUSES("ArgumentError: pad: unknown mode, got 4, expected 0 to 3",
          tide_pad(&o, x, SIZE(0, 0), 1, (tide_pad_mode)(TIDE_PAD_CIRCULAR + 1), tide_int(0)));
  REFUSES("ArgumentError: pad: unknown mode, got -1, expected 0 to 3",
          tide_pad(&o, x, SIZE(0, 0), 1, (tide_pad_mode)-1, tide_int(0)));
  REFUSES("ValueError: pad: goes round more than once, got dim 1 of size 1 after cropping",
          tide_pad(&o, x, SIZE(-2, 2), 1, TIDE_PAD_CIRCULAR, tide_int(0)));
  REFUSES("ValueError: pad: goes round more than once, got dim 1 of size 1 after cropping",
          tide_pad(&o, x, SIZE(2, -2), 1, TIDE_PAD_CIRCULAR, tide_int(0)));
  OK(tide_pad(&o, x, SIZE(-2, 1), 1, TIDE_PAD_CIRCULAR, tide_int(0)));
  tide_tensor_release(o), o = NULL;
  REFUSES("ValueError: pad: nothing to replicate, got dim 0 of size 0",
          tide_pad(&o, e, SIZE(0, 0, 1, 0), 2, TIDE_PAD_REPLICATE, tide_int(0)));
  REFUSES("ValueError: pad: nothing to replicate, got dim 0 of size 0",
          tide_pad(&o, e, SIZE(0, 0, 0, 1), 2, TIDE_PAD_REPLICATE, tide_int(0)));
  REFUSES("DtypeError: cross: got float32 and float64, expected float32 or float64 for both", tide_cross(&o, v, d3));
  REFUSES("DtypeError: cross: got int64 and int64, expected float32 or float64 for both", tide_cross(&o, i, i));
  REFUSES("ArgumentError: cdist: unknown kind, got 3, expected 0 to 2", tide_cdist(&o, x, x, (tide_distance)3));
  REFUSES("DtypeError: fill: wrong value, got a complex number, expected a real one for float32",
          tide_fill(x, of_x.number));
  const tide_operand pair[3] = {{.tensor = i}, {.tensor = i}, {.tensor = i}};
  REFUSES("DtypeError: add_scaled: wrong factor for int64 tensors, got a float, expected an integer",
          tide_elementwise(&o, TIDE_OP_add_scaled, pair, &half.number, NULL));
  REFUSES("DtypeError: addcmul: wrong factor for int64 tensors, got a float, expected an integer",
          tide_elementwise(&o, TIDE_OP_addcmul, pair, &half.number, NULL));
  REFUSES("ArgumentError: result_dtype: unknown op, got -1, expected 0 to 114",
          tide_result_dtype(&dtype, (tide_op)-1, pair));
  REFUSES("ArgumentError: result_dtype: unknown op, got 115, expected 0 to 114",
          tide_result_dtype(&dtype, TIDE_OP_COUNT, pair));
  REFUSES("DtypeError: normal: the mean is complex, expected a real number",
          tide_normal(&o, &of_x, &(tide_operand){.tensor = v}, NULL));
  REFUSES("DtypeError: normal: the deviation is complex, expected a real number",
          tide_normal(&o, &(tide_operand){.tensor = v}, &of_x, NULL));
  REFUSES("ArgumentError: normal: got two numbers, expected a tensor among them", tide_normal(&o, &one, &half, NULL));
  REFUSES("ArgumentError: readback: host: NULL", tide_readback(NULL, &ready, x));
  REFUSES("ArgumentError: readback: ready: NULL", tide_readback(&o, NULL, x));
  REFUSES("ArgumentError: argmax: too many dims, got 2, expected one or none",
          tide_reduce(&o, TIDE_ARGMAX, x,
                      &(tide_reduce_options){.dims = DIMS(0, 1), .ndims = 2, .dtype = TIDE_DTYPE_NONE}, NULL));
  snprintf(text, sizeof text, "ArgumentError: reduce: unknown reduction, got %d, expected 0 to %d",
           TIDE_REDUCTION_COUNT, TIDE_REDUCTION_COUNT - 1);
  REFUSES(text, tide_reduce(&o, TIDE_REDUCTION_COUNT, x, NULL, NULL));
  REFUSES("ArgumentError: sum: unknown dtype, got 12, expected 0 to 11",
          tide_reduce(&o, TIDE_SUM, x, &(tide_reduce_options){.dtype = TIDE_DTYPE_COUNT}, NULL));
  REFUSES("ArgumentError: extremes: a place for a result is missing, got NULL, expected two",
          tide_extremes(NULL, &a, i));
  REFUSES("ArgumentError: extremes: a place for a result is missing, got NULL, expected two",
          tide_extremes(&a, NULL, i));
  REFUSES("ArgumentError: grid_sample: unknown mode, got 3 and 0, expected 0 to 2",
          tide_grid_sample(&o, image, image, (tide_sample_mode)3, (tide_sample_beyond)0, false));
  REFUSES("ArgumentError: grid_sample: unknown mode, got 0 and 3, expected 0 to 2",
          tide_grid_sample(&o, image, image, (tide_sample_mode)0, (tide_sample_beyond)3, false));
  snprintf(text, sizeof text, "ArgumentError: scan: unknown scan, got %d, expected 0 to %d", TIDE_SCAN_COUNT,
           TIDE_SCAN_COUNT - 1);
  REFUSES(text, tide_scan(&o, TIDE_SCAN_COUNT, x, 0, TIDE_DTYPE_NONE, NULL));
  tide_tensor *pair2 = of(TIDE_FLOAT32, SIZE(2), 1);
  REFUSES("DtypeError: index_add: wrong alpha, got a number of another kind, expected one that int64 can hold",
          tide_index_add(&o, i, 0, i, i, tide_float(0.5), NULL));
  REFUSES("DtypeError: index_add: wrong alpha, got a number of another kind, expected one that float32 can hold",
          tide_index_add(&o, v, 0, i, pair2, of_x.number, NULL));
  tide_tensor_release(pair2);
  REFUSES("ArgumentError: roll: no dims for 2 shifts, expected as many dims as shifts",
          tide_roll(&o, x, SIZE(1, 1), NULL, 2));
  REFUSES("ArgumentError: roll: no dims for 0 shifts, expected as many dims as shifts",
          tide_roll(&o, x, SIZE(1), DIMS(0), 0));
  REFUSES("DtypeError: set: wrong dtype of the source, got float64, expected float32", tide_set(v, d3));
  REFUSES("ArgumentError: neg: no place for the result, got neither out nor into, expected one of them",
          tide_unary(NULL, TIDE_OP_neg, x, NULL));
  tide_file *file = NULL;
  REFUSES("ArgumentError: file: wrong arguments, got a null pointer, expected a path",
          tide_file_new(NULL, "save", "no/such"));
  REFUSES("ArgumentError: file: wrong arguments, got a null pointer, expected a path",
          tide_file_new(&file, NULL, "no/such"));
  REFUSES("ArgumentError: file: wrong arguments, got a null pointer, expected a path",
          tide_file_new(&file, "save", NULL));
  REFUSES("ArgumentError: file: wrong arguments, got a null pointer, expected a file", tide_file_finish(NULL));
  tide_tensor *cell = of(TIDE_FLOAT32, SIZE(1, 1), 2), *wide = NULL;
  OK(tide_expand(&wide, cell, SIZE(INT64_C(1) << 31, 1), 2));
  REFUSES("ShapeError: qr: x is too large, got [2147483648, 1], expected at most 2147483647 rows and columns",
          tide_linalg_qr(&o, &p, wide, false));
  tide_tensor_release(wide), wide = NULL;
  OK(tide_expand(&wide, cell, SIZE(1, INT64_C(1) << 31), 2));
  REFUSES("ShapeError: qr: x is too large, got [1, 2147483648], expected at most 2147483647 rows and columns",
          tide_linalg_qr(&o, &p, wide, false));
  tide_tensor_release(wide), tide_tensor_release(cell);
  tide_tensor *none = of(TIDE_INT64, SIZE(0), 1), *tail = NULL;
  REFUSES("ValueError: one_hot: the index has no elements, expected the number of classes to be given",
          tide_one_hot(&o, none, -1));
  OK(tide_one_hot(&o, none, 0));
  tide_tensor_release(o), o = NULL;
  REFUSES("ShapeError: median: nothing along dim 0, got a tensor of size [0, 3], expected at least one element there",
          tide_median(&o, &p, e, 0, false));
  OK(tide_median(&o, &p, e, 1, false));
  tide_tensor_release(o), tide_tensor_release(p), o = p = NULL;
  OK(tide_narrow(&tail, v4, 0, 1, 3));
  REFUSES("ValueError: resize: too large, got [2305843009213693951] after offset 1, expected less than 2^63 bytes",
          tide_resize(tail, SIZE(INT64_MAX / 4), 1));
  CHECK(tide_tensor_numel(tail) == 3 && tide_tensor_size(tail)[0] == 3); /* as it was */
  tide_tensor_release(none), tide_tensor_release(tail);
}

int main(void) {
  start();
  views_and_factories();
  elements_reductions_and_products();
  draws_scans_sorts_and_fields();
  of_hosts_alone();
  end();
  return failures != 0;
}
