/* quick_template.h: how a quick function serves elements of one type; block_math.h includes it for each. Before: T, the
 * type; NAME(f), the name of a function for it. */

/* Of some blocks y has what was taken; the others' loops are slow, but for a NaN. */
QUICK_SMALL void NAME(quick_others)(T *out, const T *a, const double *y, const void *p, int64_t blocks, double low,
                                    double high, tide__loop other) {
  for (; blocks > 0; blocks--, out += TIDE_BLOCK, a += TIDE_BLOCK, y += TIDE_BLOCK) {
    T rest[TIDE_BLOCK];
    for (int j = 0; j < TIDE_BLOCK; j++) rest[j] = (a[j] > low) & (a[j] < high) ? (T)NAN : a[j];
    other(rest, rest, NULL, NULL, p, 1);
    for (int j = 0; j < TIDE_BLOCK; j++) out[j] = (a[j] > low) & (a[j] < high) ? (T)y[j] : rest[j];
  }
}

QUICK_ONCE void NAME(quick_run)(void *out_, const void *a_, const void *p, int64_t left, quick_function *quick,
                                double low, double high, tide__loop other) {
  T *out = out_;
  const T *a = a_;
  for (; left > 0; left -= QUICK_BLOCKS, a += QUICK_COUNT, out += QUICK_COUNT) {
    double y[QUICK_COUNT];
    const int64_t blocks = left < QUICK_BLOCKS ? left : QUICK_BLOCKS, n = blocks * TIDE_BLOCK;
    int64_t taken = 0;
    QUICK_FIRST(n) taken += ((double)a[j] > low) & ((double)a[j] < high) ? 1 : 0;
    if (taken == QUICK_COUNT && sizeof(T) == 8) {
      quick((double *)(void *)out, (const double *)(const void *)a);
      continue;
    }
    QUICK_FIRST(QUICK_COUNT) y[j] = 0.5;
    QUICK_FIRST(n) y[j] = (double)a[j];
    if (taken) quick(y, y);
    if (taken == n)
      QUICK_FIRST(n) out[j] = (T)y[j];
    else
      NAME(quick_others)(out, a, y, p, blocks, low, high, other);
  }
}

#undef T
#undef NAME
