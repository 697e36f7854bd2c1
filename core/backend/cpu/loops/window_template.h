/* window_template.h: what window.c does with rows of one type, for which it includes this. Before: T, the type;
 * NAME(f), the name of a function for it; HOW, attributes of loops; LEAST, what every element is more than; for types
 * that have modes between elements, BETWEEN, the function that tells places and weights. */

#define TAKE(i, from_)                                                                                                 \
  {                                                                                                                    \
    const int64_t p = from_;                                                                                           \
    const bool better = BETTER(best[i], row[p]);                                                                       \
    best[i] = better ? row[p] : best[i], at[i] = better ? base + p : at[i];                                            \
  }

HOW static void NAME(join)(void *out_, const void *row_, int64_t n, bool maximum, bool first, double weight) {
  T *restrict out = out_;
  const T *restrict row = row_, by = (T)weight;
  if (maximum && !first)
    for (int64_t i = 0; i < n; i++) out[i] = MAXIMUM(out[i], row[i]);
  else if (first)
    for (int64_t i = 0; i < n; i++) out[i] = by * row[i];
  else
    for (int64_t i = 0; i < n; i++) out[i] += by * row[i];
}

static T NAME(window)(const segment *s, const T *row, int64_t i) {
  tide_reach r = tide_reach_of(s->a->op, &s->a->dim[2], i);
  bool maximum = s->a->op == TIDE_WINDOW_MAX;
  T sum = maximum ? LEAST : 0;
  for (int64_t t = 0; t < r.count && s->cells; t++) {
    T x = row[r.first + t * r.step - s->low];
    sum = maximum ? MAXIMUM(sum, x) : sum + x;
  }
  if (maximum) return sum;
  int64_t n = s->a->divisor ? s->a->divisor : s->a->with_border ? r.all * s->all : r.count * s->cells;
  return r.count && s->cells ? sum / (T)n : 0;
}

/* Windows that are whole, one element of all of them after the other. */
HOW static void NAME(inner)(const segment *s, const T *row, T *restrict out, int64_t from, int64_t to) {
  const tide_taps *d = &s->a->dim[2];
  const int64_t stride = d->stride, n = to - from;
  const T *in = row + from * stride - d->before - s->low;
  const T by = (T)(s->a->divisor ? s->a->divisor : d->kernel * (s->a->with_border ? s->all : s->cells));
  const bool pairs = d->kernel == 2 && stride == 2 && d->dilation == 1; /* in numbers that vector code needs */
  if (pairs && s->a->op == TIDE_WINDOW_MAX)
    for (int64_t i = 0; i < n; i++) out[i] = MAXIMUM(in[2 * i], in[2 * i + 1]);
  else if (pairs)
    for (int64_t i = 0; i < n; i++) out[i] = in[2 * i] + in[2 * i + 1];
  else
    for (int64_t i = 0; i < n; i++) out[i] = in[i * stride];
  for (int64_t t = 1; t < d->kernel && !pairs; t++) {
    const T *at = in + t * d->dilation;
    if (s->a->op == TIDE_WINDOW_MAX)
      for (int64_t i = 0; i < n; i++) out[i] = MAXIMUM(out[i], at[i * stride]);
    else
      for (int64_t i = 0; i < n; i++) out[i] += at[i * stride];
  }
  for (int64_t i = 0; i < n && s->a->op != TIDE_WINDOW_MAX; i++) out[i] /= by;
}

static void NAME(across)(const segment *s, const void *row_, void *out_) {
  const T *row = row_;
  T *out = out_;
  int64_t from, to;
  whole(s, &from, &to);
  if (!s->cells) from = to = s->to;
  for (int64_t i = s->from; i < from; i++) out[i - s->from] = NAME(window)(s, row, i);
  if (from < to) NAME(inner)(s, row, out + (from - s->from), from, to);
  for (int64_t i = to; i < s->to; i++) out[i - s->from] = NAME(window)(s, row, i);
}

/* A row of the input joins the maxima and where they stand; its first element is element `base` of its plane. */
HOW static void NAME(place)(const segment *s, const void *row_, int64_t base, void *best_, int64_t *restrict at) {
  const tide_taps *d = &s->a->dim[2];
  const T *row = (const T *)row_ - s->low;
  T *restrict best = best_;
  int64_t from, to;
  whole(s, &from, &to);
  for (int64_t i = s->from; i < s->to; i++) {
    if (i == from) i = to;
    if (i == s->to) break;
    tide_reach r = tide_reach_of(TIDE_WINDOW_MAX, d, i);
    for (int64_t t = 0; t < r.count; t++) TAKE(i - s->from, r.first + t * r.step)
  }
  for (int64_t t = 0; t < d->kernel; t++)
    for (int64_t i = from; i < to; i++) TAKE(i - s->from, i * d->stride - d->before + t * d->dilation)
}

#ifdef BETWEEN
HOW static void NAME(between)(const segment *s, const void *row_, void *out_) {
  const T *row = row_, *w = s->weight;
  T *restrict out = out_;
  const int32_t *at = s->at;
  if (s->a->op == TIDE_WINDOW_LINEAR)
    for (int64_t i = sizeof(T) == 4 ? between_two(row_, s->weight, at, out_, s->to - s->from) : 0; i < s->to - s->from;
         i++)
      out[i] = w[2 * i] * row[at[2 * i]] + w[2 * i + 1] * row[at[2 * i + 1]];
  else
    for (int64_t i = 0; i < s->to - s->from; i++, at += 4, w += 4)
      out[i] = w[0] * row[at[0]] + w[1] * row[at[1]] + w[2] * row[at[2]] + w[3] * row[at[3]];
}

/* The mean of at[1] elements from at[0] on. */
HOW static void NAME(area)(const segment *s, const void *row_, void *out_) {
  const T *row = row_;
  T *restrict out = out_;
  const int32_t *at = s->at;
  for (int64_t i = 0; i < s->to - s->from; i++, at += 2) {
    T sum = 0;
    for (int32_t t = 0; t < at[1]; t++) sum += row[at[0] + t];
    out[i] = sum / (T)(at[1] * s->cells);
  }
}

/* The places, from s->low on, and the weights of each element of a segment; of AREA, the first and their number. */
static void NAME(fill)(segment *s, int32_t *at, void *weight) {
  const bool cubic = s->a->op == TIDE_WINDOW_CUBIC;
  const int n = cubic ? 4 : 2;
  int64_t from[MOST];
  T *w = weight;
  s->at = at, s->weight = w;
  for (int64_t i = s->from; i < s->to && s->a->op == TIDE_WINDOW_AREA; i++) {
    const tide_reach r = tide_reach_of(s->a->op, &s->a->dim[2], i);
    *at++ = (int32_t)(r.first - s->low), *at++ = (int32_t)r.count;
  }
  for (int64_t i = s->from; i < s->to && s->a->op != TIDE_WINDOW_AREA; i++, w += n)
    for (int t = (BETWEEN(cubic, &s->a->dim[2], s->a->align, i, from, w), 0); t < n; t++)
      *at++ = (int32_t)(from[t] - s->low);
}
#endif

#undef TAKE
#undef T
#undef NAME
#undef HOW
#undef LEAST
#undef BETWEEN
