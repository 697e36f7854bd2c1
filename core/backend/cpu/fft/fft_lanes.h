/* fft_lanes.h: the arithmetic of Fourier transforms on the CPU, several lines at once: one in each lane of a vector.
 *
 * A lane buffer holds for each element the real parts of all lanes, then their imaginary parts. Positions in memory
 * count reals. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The most lanes of a table, stages of a line, and the largest radix. */
enum { TIDE_FFT_LANES = 16, TIDE_FFT_STAGES = 40, TIDE_FFT_LARGEST = 31 };

/* How the elements of one line follow each other: element k has its real part at k * step + re and its imaginary part
 * at k * step + im; im < 0: there is none, it is read as 0 and not written. */
typedef struct tide__fft_access {
  int64_t step, re, im;
} tide__fft_access;

/* A line of n > 1 elements as stages of small radices, one after the other. roots, of the table's reals: for each
 * stage, if its radix r is above 5 and not 8 the r roots exp(-2 pi i k / r), and, if it is not the last one, for p
 * below what the stages after it make, r - 1 factors exp(-2 pi i p j / (r * what they make)), j = 1 and on. */
typedef struct tide__fft_stages {
  int64_t n;
  int count;
  uint8_t radix[TIDE_FFT_STAGES];
  int64_t left[TIDE_FFT_STAGES]; /* what the stages after this one make */
  const void *roots;
} tide__fft_stages;

/* A line of columns * rows elements: element j of row i is i * rows + j. first transforms the columns, second the rows
 * of what comes out. factors, of the table's reals, for each `lanes` columns from j on, the last ones from rows - lanes
 * on: for each k a lane buffer's element exp(-2 pi i (j + lane) k / n). */
typedef struct tide__fft_fold {
  const tide__fft_stages *first, *second;
  const void *factors;
} tide__fft_fold;

/* Lines that lie in memory beside each other, as the parts of complex numbers do: the elements begin at `at`, step
 * apart. The result is multiplied by scale; reversed: element k is written to the place of element n - k. */
typedef struct tide__fft_side {
  void *at;
  int64_t step;
  bool reversed;
  double scale;
} tide__fft_side;

typedef struct tide__fft_lanes {
  int lanes, item; /* bytes of a real */
  /* A forward transform in each lane, of buffer a; b is room. Input or output may be lines in memory instead, if
   * `sides` says so of the plan. Returns the buffer that holds the result, a or b. */
  void *(*run)(const tide__fft_stages *plan, const tide__fft_side *to, const tide__fft_side *from, void *a, void *b);
  /* Lane l reads n elements from in + at[l], or writes n * scale to out + at[l], for l < used. */
  void (*load)(void *buffer, const void *in, const int64_t *at, tide__fft_access access, int64_t n);
  void (*store)(void *out, const void *buffer, const int64_t *at, tide__fft_access access, int64_t n, double scale,
                int used);
  /* x[k] becomes x[k] * w[k], or conj(x[k]) * w[k]; w has real and imaginary parts in turn. */
  void (*multiply)(void *buffer, const double *w, int64_t n, bool conj);
  void (*clear)(void *buffer, int64_t from, int64_t n);
  /* x[k] *= spread[k] * w[k]: spread is a lane buffer. */
  void (*twiddle)(void *buffer, const void *spread, const double *w, int64_t n);
  /* Lane l of element k becomes w[k * lanes + l]. */
  void (*spread)(void *buffer, const double *w, int64_t n);
  /* z, the transform of h pairs of reals, becomes h + 1 elements of the transform of the 2 h reals; w[k] =
   * exp(-pi i k / h), of the table's reals. */
  void (*unzip)(void *out, const void *z, const void *w, int64_t h);
  /* And back: h + 1 elements become what a forward transform of h turns into the reals, imaginary parts first. */
  void (*zip)(void *out, const void *x, const void *w, int64_t h);
  /* n / 2 + 1 elements become n whose forward transform is the real line (n odd). */
  void (*mirror)(void *buffer, int64_t n);
  /* The same for one line alone, arrays of complex numbers, of which elements [begin, end) of the result are made. */
  void (*unzip_line)(void *out, const void *z, const void *w, int64_t h, int64_t begin, int64_t end);
  void (*zip_line)(void *out, const void *x, const void *w, int64_t h, int64_t begin, int64_t end);
  /* One line: out[k] = in[k] * w[k], w NULL for 1; with conj, of conj(in[k]). */
  void (*product)(void *out, tide__fft_access to, const void *in, tide__fft_access from, const double *w, int64_t n,
                  bool conj, double scale);
  /* One dense line of complex numbers, forward or back, whose columns and rows are at least `lanes`, their plans of two
   * stages or more, all of them short. middle has room for the line with columns rounded up to lanes, a and b are lane
   * buffers of either length. */
  void (*fold)(const tide__fft_fold *plan, void *out, const void *in, bool back, double scale, void *middle, void *a,
               void *b);
  /* As unzip_line, but z has room for another element, and as zip_line, but real parts come first; h >= lanes. */
  void (*unzip_along)(void *out, void *z, const void *w, int64_t h, double scale);
  void (*zip_along)(void *out, const void *x, const void *w, int64_t h);
} tide__fft_lanes;

/* Of float32 and of float64. */
extern const tide__fft_lanes tide__fft_lanes_base[2];
#if defined(__x86_64__)
extern const tide__fft_lanes tide__fft_lanes_avx2[2], tide__fft_lanes_avx512[2];
#endif

/* A stage of this radix may read lines in memory as the first of several, or write them as the last. */
static inline bool tide__fft_is_short(int radix) { return radix <= 5 || radix == 8; }
