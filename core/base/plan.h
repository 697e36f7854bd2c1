/* plan.h: the plain structs in which core hands work to a backend. Clean for C and CUDA.
 *
 * Every kernel of kernel.def takes one struct. It is self-contained (no pointers to host structures), so a backend may
 * copy it and run it later; all device addresses stand in head.ptr, so that a backend may translate them. Dimensions
 * are collapsed and ordered from the outermost to the innermost by the strides of the output; dim ndim-1 is innermost.
 * Strides count elements and may be 0 (broadcast) or negative. An empty operation never reaches a backend. */
#pragma once

#include <stdint.h>
#include "tide/tide.h"

#define TIDE_MAX_OPERANDS 4 /* an output and up to three inputs */

typedef struct tide_head {
  void *ptr[6];
  int32_t nptr;
  int32_t device;
  uint32_t site; /* the script line that queued it (tide__site_text), for errors that surface later; 0: unknown */
} tide_head;

/* How many there are that kernels can be told apart by when one is to be stopped: see backend/compiler.h. */
enum { TIDE_LAUNCH_OWNERS = 1024 };

/* A value in a compute type: i for int32 and int64, re for floats, re and im for complex. */
typedef struct tide_value {
  int64_t i;
  double re, im;
} tide_value;

/* out = op(inputs). ptr[0] is the output, ptr[k] input k; input k with is_number[k] is number[k] instead. `compute` is
 * one of INT32 INT64 FLOAT32 FLOAT64 COMPLEX64 COMPLEX128; each operand is loaded from dtype[k] into it and the result
 * is stored to dtype[0], which is BOOL for tests and comparisons. flat: one dimension, and every tensor operand has
 * stride 1. */
typedef struct tide_elementwise_args {
  tide_head head;
  int32_t op, operands, compute, flat, ndim;
  uint8_t dtype[TIDE_MAX_OPERANDS], is_number[TIDE_MAX_OPERANDS];
  tide_value number[TIDE_MAX_OPERANDS], param[3];
  int64_t numel, size[TIDE_MAX_DIMS], stride[TIDE_MAX_OPERANDS][TIDE_MAX_DIMS];
} tide_elementwise_args;

/* ptr[0] = cast(ptr[1]), same device. Float to integer truncates toward zero and wraps; to bool is != 0; complex to
 * real drops the imaginary part. flat as above. Both may be strided; they may not overlap unless they are the same
 * elements. */
typedef struct tide_copy_args {
  tide_head head;
  int32_t flat, ndim;
  uint8_t dtype[2];
  int64_t numel, size[TIDE_MAX_DIMS], stride[2][TIDE_MAX_DIMS];
} tide_copy_args;

/* Every element of ptr[0] becomes `bits`, the value in dtype's own storage form, dtype_size bytes of it. */
typedef struct tide_fill_args {
  tide_head head;
  int32_t flat, ndim, dtype;
  int64_t numel, size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  uint64_t bits[2];
} tide_fill_args;

/* Element i (row-major, ptr[0] contiguous) becomes start + i * step; integers in int64, else in double with one
 * rounding. With symmetric (linspace), elements of the upper half are counted down from `last`. */
typedef struct tide_arange_args {
  tide_head head;
  int32_t dtype, symmetric;
  int64_t numel;
  tide_value start, step, last;
} tide_arange_args;

/* The reductions of tide_reduction, one result for each kept position. ptr[0] result (NULL if only the second is wanted
 * never happens), ptr[1] input, ptr[2] second result or NULL: the index for MAX, MIN (int64), or for MIN of integers
 * with param 1 the maximum (int64), the mean for VAR, STD (dtype[2]). ARGMAX, ARGMIN write int64 to ptr[0]: the
 * row-major index over the reduced dims in their order, plus index_base; these are collapsed only where neighbours. NaN
 * wins in MAX, MIN, ARGMAX, ARGMIN; the first of equals is taken. `acc` is the dtype accumulated in (FLOAT32 or
 * FLOAT64, INT64, complex, BOOL for ALL and ANY); SUM and MEAN of float32 are pairwise or blocked, never one long
 * chain. The result of SUM, NANSUM, MEAN, NORM is multiplied by `scale` before it is stored. VAR: Welford or two
 * passes, divided by max(0, inner - param). NORM: (sum |x|^p)^(1/p), max, min or count of nonzeros for inf, -inf and 0.
 * Kept dims are ordered by the strides of the output, reduced dims as said; inner = elements reduced into each result,
 * at least 1 (empty reductions are filled by core). */
typedef struct tide_reduce_args {
  tide_head head;
  int32_t op, acc, nkeep, nred, index_base;
  uint8_t dtype[3]; /* result, input, second result */
  double param, scale;
  int64_t outer, inner;
  int64_t keep_size[TIDE_MAX_DIMS], keep_stride[3][TIDE_MAX_DIMS]; /* of ptr[0], ptr[1], ptr[2] */
  int64_t red_size[TIDE_MAX_DIMS], red_stride[TIDE_MAX_DIMS];      /* of the input */
} tide_reduce_args;

/* C = alpha * A B + beta * C for each of `batch`. ptr: C, A, B. Element (i, j) of A is at i * a_row + j * a_col (one of
 * them is 1, or both dims are trivial), B likewise; C is at i * c_row + j. beta 0: C is not read. dtype is that of all
 * three; float16 and bfloat16 accumulate in float32; tf32 allows it for FLOAT32. Batch strides may be 0 for A and B. */
typedef struct tide_gemm_args {
  tide_head head;
  int32_t dtype, tf32;
  int64_t m, n, k, batch;
  int64_t a_row, a_col, b_row, b_col, c_row;
  int64_t a_batch, b_batch, c_batch;
  tide_value alpha, beta;
} tide_gemm_args;

/* A routine of linear algebra for each of `batch` matrices. All are stored by columns without gaps, of FLOAT32,
 * FLOAT64, COMPLEX64 or COMPLEX128; those at ptr[0] are `step` elements apart, those at ptr[5], which are only read,
 * `other_step` (0: one for all), the rest follow one another. ptr[4]: int32, batch: 0, or why the results of that
 * matrix have no meaning. "real" is float32 or float64.
 *
 * CHOLESKY    ptr[0], n by n, becomes its factor in the lower triangle, which alone is read; what stands in the
 *             other one has no meaning. ptr[4]: the order of the first leading minor that is not positive definite.
 * LU          ptr[0], m by n, becomes U and, below the diagonal, L, whose own is 1. ptr[1]: the row that row i
 *             changed places with, both counted from 1 (int32, min(m, n)). ptr[4]: the first zero on U's diagonal.
 * SOLVE       ptr[0], n by k, becomes the solution X of A X = it or, whatever it holds, A's inverse (INVERSE). ptr[5]:
 *             A, n by n, or its transpose (TRANSPOSED). ptr[4]: the first zero on the diagonal of its LU's U.
 * DET         ptr[0]: the determinant of A, at ptr[5], n by n; or, unless ptr[1] is NULL, what it is divided by its
 *             absolute value, or 0, and ptr[1]: the logarithm of that (real).
 * QR          ptr[0], m by n, becomes R and, below the diagonal, reflectors; ptr[1] has their factors, min(m, n).
 * QR_Q        ptr[0], m by n, becomes the first n columns of Q, from k reflectors in its first columns and ptr[1].
 * SVD         ptr[0], m by n with m >= n, is lost. ptr[1]: singular values, falling (real, n). Unless they are NULL,
 *             ptr[2]: U, m by n or by m (FULL); ptr[3]: V^H, n by n.
 * EIGH        ptr[0], n by n, Hermitian, of which one triangle is read (UPPER), is lost, or becomes its eigenvectors
 *             (VECTORS). ptr[1]: eigenvalues, rising (real, n).
 * EIG         ptr[0], n by n, is lost. ptr[1]: eigenvalues, ptr[2], unless it is NULL: eigenvectors, both complex.
 * TRIANGULAR  ptr[0], m by n, becomes the solution X of op(A) X = it (LEFT), or X op(A) = it. ptr[5]: A, k by k, of
 *             which one triangle is read (UPPER), whose diagonal counts as 1 (UNIT); op transposes (TRANSPOSED). */
#define TIDE_LINALG_ROUTINES(X)                                                                                        \
  X(CHOLESKY, cholesky)                                                                                                \
  X(LU, lu)                                                                                                            \
  X(SOLVE, solve)                                                                                                      \
  X(DET, det)                                                                                                          \
  X(QR, qr)                                                                                                            \
  X(QR_Q, qr_q)                                                                                                        \
  X(SVD, svd)                                                                                                          \
  X(EIGH, eigh)                                                                                                        \
  X(EIG, eig)                                                                                                          \
  X(TRIANGULAR, triangular_solve)
#define TIDE_LINALG_ENUM(NAME, name) TIDE_LINALG_##NAME,
typedef enum tide_linalg_routine { TIDE_LINALG_ROUTINES(TIDE_LINALG_ENUM) } tide_linalg_routine;
enum {
  TIDE_LINALG_UPPER = 1,
  TIDE_LINALG_LEFT = 2,
  TIDE_LINALG_TRANSPOSED = 4,
  TIDE_LINALG_UNIT = 8,
  TIDE_LINALG_VECTORS = 16,
  TIDE_LINALG_FULL = 32,
  TIDE_LINALG_INVERSE = 64
};
typedef struct tide_linalg_args {
  tide_head head;
  int32_t routine, dtype, flags;
  int64_t m, n, k, batch, step, other_step;
} tide_linalg_args;

/* Reads and writes at indexed places. Both sides and the index are walked together over dims of `size`: stride[0] is of
 * the dense side, which has an element for every step, stride[1] of the indexed side, stride[2] of the index. A value v
 * of the index, after index_base is taken off and negative ones are counted from the end (-1 is the last), moves the
 * indexed side by v * pitch; 0 <= v < length. gather: ptr[0], dense, = ptr[1], indexed. scatter: ptr[0], indexed, is
 * written from ptr[1], dense, or, by `reduce`, each value joins what is there; elements are of `dtype`, and gather
 * moves item_size bytes (1, 2, 4, 8, 16). Where stride[1] is 0 several steps may meet in one element. These dims keep
 * their order: of values that meet, the last is written if `ordered` (always on the CPU), and with `ordered` and on the
 * CPU they are reduced one after the other. Other dims stand in any order. Sums and products that meet in 16-bit floats
 * are kept in float32 until the end, by the CPU and with `ordered`. narrow: 0, or the dtype of the dense side, whose
 * values become `dtype` before they join.
 *
 * ptr[2], the index: int32 or int64. A bad value skips its access and is reported; gather then writes zero bytes.
 * located: it comes from tide_locate_args, which has reported its INT64_MIN. bins: the index is of any floating dtype
 * or an integer one, and v is the bin of its value among `length` ones from low to high, which are both included: of
 * equal width, or between the length + 1 ascending edges at ptr[3], which has the index's dtype. With `nearby` the
 * edges have the last word about what the width says. Values in no bin and NaN are skipped without a report. */
typedef enum tide_index_reduce {
  TIDE_INDEX_WRITE,
  TIDE_INDEX_SUM, /* bools become true */
  TIDE_INDEX_PROD,
  TIDE_INDEX_MAX, /* NaN wins in both */
  TIDE_INDEX_MIN
} tide_index_reduce;
enum { TIDE_BINS_NONE, TIDE_BINS_EVEN, TIDE_BINS_NEARBY, TIDE_BINS_EDGES };
typedef struct tide_index_args {
  tide_head head;
  int32_t item_size, dtype, index_dtype, index_base, ndim, located, reduce, ordered, bins, narrow;
  int64_t numel, length, pitch;
  int64_t size[TIDE_MAX_DIMS], stride[3][TIDE_MAX_DIMS];
  double low, high;
} tide_index_args;

/* One of several indexes that together name an element: its value times `pitch` becomes ptr[0] (int64, contiguous, row
 * major over the dims), or is added to it unless `first`. ptr[1]: the index, int64 or int32, strided, counted from
 * index_base, of a dim of `length`. A bad index is reported, and INT64_MIN stands in its place for good. */
typedef struct tide_locate_args {
  tide_head head;
  int32_t index_dtype, index_base, first, ndim;
  int64_t numel, length, pitch, size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
} tide_locate_args;

/* Looks whether every element of ptr[1] may stand where it does: NONZERO (integers), PROBABILITY (floats: 0 to 1), RATE
 * (floats: finite, at least 0). The
 * dtype's compute type is `compute`. A bad element is reported as a bad index is, with the kind of check for a length:
 * the bits of a float64 are the value. ptr[0] is NULL. */
enum { TIDE_VERIFY_NONZERO = -1, TIDE_VERIFY_PROBABILITY = -2, TIDE_VERIFY_RATE = -3 };
typedef struct tide_verify_args {
  tide_head head;
  int32_t kind, dtype, compute, ndim;
  int64_t numel, size[TIDE_MAX_DIMS], stride[1][TIDE_MAX_DIMS];
} tide_verify_args;

/* What stands where the bytes of ptr[1] (bool, contiguous, numel) are true. mask_count: ptr[0] (int64) becomes how many
 * are true before each piece of so many bytes, and at its end how many are. compact: ptr[2] is that, and ptr[0] gets in
 * order the elements of ptr[3] (contiguous, numel of item_size bytes: 1, 2, 4, 8, 16), or where ptr[3] is NULL their
 * positions (int64), and then item_size is the number that these count from. */
enum { TIDE_COMPACT_PIECE = 16384 };
typedef struct tide_compact_args {
  tide_head head;
  int32_t item_size;
  int64_t numel;
} tide_compact_args;

/* Fills ptr[0] (random.h defines the values). ptr[1]: for BERNOULLI the probabilities (dtype2, strides [1]) or NULL: a;
 * for POISSON the rates, likewise; for PICK running sums (float64, contiguous), a line of `range` for every `a`
 * elements of ptr[0], which is int64 and contiguous and counts from lo. Element i counts in row-major order of the
 * tensor as the user sees it, so the dims keep their order here (collapsed only where neighbours). RANDINT gives lo to
 * lo + range - 1; range 0 means all 2^64. tide__random_limits sets what is set last: of UNIFORM a becomes the least
 * value, b the length, and from `most` on a takes the value's place; others stay within least and most where
 * `limited`. */
typedef struct tide_random_args {
  tide_head head;
  int32_t kind, ndim, flat, limited;
  uint8_t dtype, dtype2;
  double a, b, least, most;
  int64_t lo;
  uint64_t range, seed, offset;
  const uint64_t
      *state; /* NULL, or {seed, offset} in the device's memory: its seed replaces ours, its offset is added */
  int64_t numel, size[TIDE_MAX_DIMS], stride[2][TIDE_MAX_DIMS];
} tide_random_args;

/* ptr[0] (int64, n) becomes a permutation of index_base .. index_base + n - 1: the stable order of the keys
 * tide_random_key(seed, offset, i), see random.h. */
typedef struct tide_randperm_args {
  tide_head head;
  int64_t n;
  int32_t index_base;
  uint64_t seed, offset;
  const uint64_t *state; /* as above */
} tide_randperm_args;

/* The scan `op` of scan.def along the middle one of the dims outer x n x inner: ptr[0] result, ptr[1] input, both
 * contiguous, of dtype[0] and dtype[1]; ptr[2]: NULL, or for scans of kind PLACE where each value stands in its line,
 * counted from index_base (int64, contiguous). work, FLOAT32 FLOAT64 INT64 COMPLEX64 COMPLEX128, is what is computed in
 * at least. ptr[0] may be ptr[1] where the dtypes are one. Lines are cut into tiles of a fixed length, so that the
 * order of additions is always the same. */
typedef struct tide_scan_args {
  tide_head head;
  int32_t op, work, index_base;
  uint8_t dtype[2];
  int64_t outer, n, inner;
} tide_scan_args;

/* softmax takes them too: exp(x) / sum(exp(x)) along that dim, `op` says whether its logarithm. Both dtypes are one
 * floating dtype, and ptr[2] is NULL. */
enum { TIDE_SOFTMAX_PLAIN, TIDE_SOFTMAX_LOG };
/* Of each of the `lines` lines of n elements at ptr[1] (contiguous, one after the other) those from `first` on, `keep`
 * of them, in the order of order.h, equal ones as they stood: ptr[0], their values, or NULL; ptr[2], where they stood
 * in the line, counted from index_base (int64), or NULL; both contiguous, lines x keep. Of first and keep one is at its
 * least, 0 or 1. median: of a line with NaN it is the first NaN that is meant. ptr[0] may not be ptr[1]. */
typedef struct tide_sort_args {
  tide_head head;
  int32_t dtype, descending, index_base, median;
  int64_t lines, n, first, keep;
} tide_sort_args;

/* Where each of the lines x m values at ptr[2] belongs in its line at ptr[1], of n elements in order: ptr[0] (int64,
 * from index_base). one_line: there is but one line, for all of them. right: behind equal ones. ptr[3]: NULL, or
 * (int64, from index_base) for each line where its elements stand in order. All contiguous; values and lines are of
 * `dtype`, which is no complex one. NaN among the values goes to the end; in a line it is in order behind all others. A
 * bad place in ptr[3] counts as the nearest good one. */
typedef struct tide_search_args {
  tide_head head;
  int32_t dtype, index_base, right, one_line;
  int64_t lines, n, m;
} tide_search_args;
/* ptr[0] (contiguous, of `size`) takes its elements from ptr[1] (in_size, stride), each dim by its rule of field.h;
 * where one has no place, `bits` stand, the value in the dtype's own storage form. Elements are of item_size bytes: 1,
 * 2, 4, 8, 16. An empty input has CONSTANT rules only. */
typedef struct tide_pad_args {
  tide_head head;
  int32_t item_size, ndim;
  uint8_t rule[TIDE_MAX_DIMS];
  float scale[TIDE_MAX_DIMS];
  int64_t numel, size[TIDE_MAX_DIMS], in_size[TIDE_MAX_DIMS], before[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  uint64_t bits[2];
} tide_pad_args;

/* How a spatial dim of a result, of `out` elements, reads one of `in`: windows of `kernel` elements, `dilation` apart,
 * that begin `stride` apart, the first one `before` the first element; or, to another size, at distances of `scale`. */
typedef struct tide_taps {
  int64_t in, out, kernel, stride, before, dilation;
  double scale;
} tide_taps;

/* Each of `planes` of up to three dims (dim[2] is the innermost; missing ones have one element) becomes one of another
 * size: ptr[0] from ptr[1], both contiguous, of a real floating dtype; MAX of int64, too. MAX, MEAN: of each window;
 * what is beyond the borders counts for MEAN with with_border, and `divisor`, unless it is 0, stands for the number of
 * elements. MAX: where ptr[2] is not NULL, also the row-major place in its plane of each maximum, the first of equals,
 * from index_base (int64). AREA: the mean of what lies below an element of the result. LINEAR, CUBIC: between the
 * nearest elements; `align` puts the first and last ones over each other. */
enum { TIDE_WINDOW_MAX, TIDE_WINDOW_MEAN, TIDE_WINDOW_AREA, TIDE_WINDOW_LINEAR, TIDE_WINDOW_CUBIC };
typedef struct tide_window_args {
  tide_head head;
  int32_t op, dtype, index_base, align, with_border;
  int64_t planes, divisor;
  tide_taps dim[3];
} tide_window_args;

/* ptr[0] [batch, results, dim.out...] = ptr[1] [batch, channels, dim.in...] correlated with ptr[2] [results,
 * channels / groups, dim.kernel...], plus ptr[3] [results] unless it is NULL; contiguous, of one real floating dtype.
 * The element of the input for element i and k of the kernel is i * stride - before + k * dilation, divided by `up`;
 * where that leaves a rest, or is none of the input's, it is 0. Missing dims lead. tf32 allows it for FLOAT32. */
typedef struct tide_conv_args {
  tide_head head;
  int32_t dtype, tf32;
  int64_t batch, groups, channels, results, up[3];
  tide_taps dim[3];
} tide_conv_args;

/* ptr[0] [batch, channels, out...] = the values of ptr[1] [batch, channels, in...] at the places ptr[2] [batch, out...,
 * rank], whose last dim counts the innermost one first and goes from -1 to 1 over the input: from its first to its last
 * element with `align`, else from border to border. Contiguous, of one real floating dtype. mode: NEAREST, LINEAR,
 * CUBIC of rank 2. beyond: what stands beyond the borders: zeros, the elements there, or the input mirrored. */
enum { TIDE_SAMPLE_LINEAR, TIDE_SAMPLE_NEAREST, TIDE_SAMPLE_CUBIC };
enum { TIDE_BEYOND_ZEROS, TIDE_BEYOND_BORDER, TIDE_BEYOND_REFLECTION };
typedef struct tide_sample_args {
  tide_head head;
  int32_t dtype, mode, beyond, align, rank;
  int64_t batch, channels, points, size[3]; /* points: of an image; size: of the input, missing dims lead */
} tide_sample_args;

/* What vectors of k numbers give in pairs, contiguous, of FLOAT32 or FLOAT64, for each of `batch`. ptr[0]: the result,
 * ptr[1]: n vectors, ptr[2]: m. CROSS: the cross product, of k, for n and m 1 and k 3. Else the distances, n by m: the
 * sum of the absolute differences (SUM), or the root of the sum of their squares; PRODUCT lets it be computed by a
 * matrix product, which cancels where points are much nearer to each other than to 0. */
enum { TIDE_PAIRS_CROSS, TIDE_PAIRS_SUM, TIDE_PAIRS_ROOT, TIDE_PAIRS_PRODUCT };
typedef struct tide_pairs_args {
  tide_head head;
  int32_t op, dtype;
  int64_t batch, n, m, k;
} tide_pairs_args;
