/* field_template.h: places of fields in one type; field.h includes it for each. Before: T, the type; NAME(f), the name
 * of a function for it; LIBRARY(f), the name in the C library; BITS, of the fraction. */

/* Where element i of a result of another size lies between the elements of the input, by linear or cubic mode. */
TIDE_FN T NAME(tide_source)(bool cubic, bool align, T scale, int64_t i) {
  T at = align ? scale * (T)i : scale * ((T)i + (T)0.5) - (T)0.5;
  return !cubic && at < 0 ? 0 : at;
}

/* The weights of the four elements around a place that is t behind the second; Keys's with a = -0.75. */
TIDE_FN void NAME(tide_cubic)(T w[4], T t) {
  const T a = (T)-0.75;
  T far = t + 1, back = 1 - t, end = 2 - t;
  w[0] = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a;
  w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  w[2] = ((a + 2) * back - (a + 3)) * back * back + 1;
  w[3] = ((a * end - 5 * a) * end + 8 * a) * end - 4 * a;
}

/* The elements that count at that place, and by how much: two for linear, four for cubic mode. */
TIDE_FN void NAME(tide_between)(bool cubic, const tide_taps *d, bool align, int64_t i, int64_t *from, T *w) {
  T at = NAME(tide_source)(cubic, align, (T)d->scale, i), low = LIBRARY(floor)(at);
  int64_t k = (int64_t)low, last = d->in - 1;
  if (!cubic) {
    if (k > last) k = last;
    w[1] = at - (T)k < 1 ? at - (T)k : 1, w[0] = 1 - w[1];
    from[0] = k, from[1] = k < last ? k + 1 : k;
    return;
  }
  NAME(tide_cubic)(w, at - low);
  for (int t = 0; t < 4; t++) {
    int64_t p = k - 1 + t;
    from[t] = p < 0 ? 0 : p < last ? p : last;
  }
}

/* floor and rint without a call, which the oldest x86-64 processors need: a sum with 1.5 times a power of two has no
 * room for fractions. */
#ifdef __CUDACC__
TIDE_FN T NAME(tide_field_floor)(T x) { return LIBRARY(floor)(x); }
TIDE_FN T NAME(tide_field_rint)(T x) { return LIBRARY(rint)(x); }
#else
TIDE_FN T NAME(tide_field_floor)(T x) {
  if (!(x > -1e9 && x < 1e9)) return LIBRARY(floor)(x);
  T whole = (T)(int32_t)x;
  return whole > x ? whole - 1 : whole;
}

TIDE_FN T NAME(tide_field_rint)(T x) {
  const T whole = (T)((int64_t)3 << (BITS - 1));
  if (!(x > -whole / 4 && x < whole / 4)) return LIBRARY(rint)(x);
  return x + whole - whole;
}
#endif

/* The elements that count at a place of a grid (plan.h, tide_sample_args), as offsets into a plane and weights; an
 * offset below 0 is of none. Returns how many there are: at most 16. */
TIDE_FN T NAME(tide_inside)(T at, int64_t n, int beyond, bool align) {
  if (beyond == TIDE_BEYOND_ZEROS) return at;
  if (beyond == TIDE_BEYOND_REFLECTION) {
    T low = align ? (T)0 : (T)-0.5, span = align ? (T)(n - 1) : (T)n, far = LIBRARY(fabs)(at - low);
    T rest = span > 0 ? LIBRARY(fmod)(far, span) : (T)0, turns = span > 0 ? NAME(tide_field_floor)(far / span) : (T)0;
    at = span <= 0 ? (T)0 : LIBRARY(fmod)(turns, (T)2) == 0 ? rest + low : span - rest + low;
  }
  return at > 0 ? at < (T)(n - 1) ? at : (T)(n - 1) : (T)0;
}

TIDE_FN int NAME(tide_sample)(int mode, int beyond, bool align, int rank, const int64_t *size, const T *grid,
                              int64_t *from, T *weight) {
  const int taps = mode == TIDE_SAMPLE_CUBIC ? 4 : mode == TIDE_SAMPLE_LINEAR ? 2 : 1;
  int count = 1;
  from[0] = 0, weight[0] = 1;
  for (int d = 0; d < rank; d++) { /* the outermost first, so that the innermost comes last */
    const int64_t n = size[3 - rank + d];
    T g = grid[rank - 1 - d], at = align ? (g + 1) / 2 * (T)(n - 1) : ((g + 1) * (T)n - 1) / 2, w[4], first;
    int64_t place[4];
    if (mode != TIDE_SAMPLE_CUBIC) at = NAME(tide_inside)(at, n, beyond, align);
    first = mode == TIDE_SAMPLE_NEAREST ? NAME(tide_field_rint)(at) : NAME(tide_field_floor)(at);
    w[0] = 1, w[1] = at - first;
    if (mode == TIDE_SAMPLE_LINEAR) w[0] = 1 - w[1];
    if (mode == TIDE_SAMPLE_CUBIC) NAME(tide_cubic)(w, at - first), first -= 1;
    for (int t = 0; t < taps; t++) {
      T p = first + (T)t;
      if (mode == TIDE_SAMPLE_CUBIC) p = NAME(tide_inside)(p, n, beyond, align);
      place[t] = p >= 0 && p < (T)n ? (int64_t)p : -1;
    }
    for (int c = count - 1; c >= 0; c--)
      for (int t = taps - 1; t >= 0; t--) {
        from[c * taps + t] = from[c] < 0 || place[t] < 0 ? -1 : from[c] * n + place[t];
        weight[c * taps + t] = from[c * taps + t] < 0 ? 0 : weight[c] * w[t];
      }
    count *= taps;
  }
  return count;
}

#undef T
#undef NAME
#undef LIBRARY
#undef BITS
