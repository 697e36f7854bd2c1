/* sort_of.h: how items of one type are put in order; sort.c includes it for each. Before: ITEM, the type; NAME(f), the
 * name of a function for it; LESS(x, y); DIGIT(x, shift), eight bits of an item from there on, of BITS in all. No two
 * items are equal, but where all of an item is its key. */

static void NAME(insert)(ITEM *x, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    ITEM item = x[i];
    int64_t j = i;
    for (; j > 0 && LESS(item, x[j - 1]); j--) x[j] = x[j - 1];
    x[j] = item;
  }
}

/* Short lists: runs that are inserted, merged in pairs. Returns where the result is, one of the two. */
static ITEM *NAME(merge)(ITEM *x, ITEM *room, int64_t n) {
  for (int64_t i = 0; i < n; i += RUN) NAME(insert)(x + i, n - i < RUN ? n - i : RUN);
  for (int64_t run = RUN; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t low = i, middle = n - i < run ? n : i + run, high = middle, end = n - i < 2 * run ? n : i + 2 * run;
      ITEM *out = room + i;
      while (low < middle && high < end) {
        bool second = LESS(x[high], x[low]);
        *out++ = x[second ? high : low];
        high += second, low += !second;
      }
      memcpy(out, x + low, (size_t)(middle - low) * sizeof *x);
      memcpy(out + (middle - low), x + high, (size_t)(end - high) * sizeof *x);
    }
    ITEM *other = x;
    x = room, room = other;
  }
  return x;
}

static void NAME(count)(void *arg, int64_t begin, int64_t end) {
  moves *m = arg;
  for (int64_t part = begin; part < end; part++) {
    int64_t *at = m->at[part], stop = part_begin(m, part + 1);
    memset(at, 0, sizeof m->at[part]);
    for (int64_t i = part_begin(m, part); i < stop && !tide__loop_stops(); i += LOOK) {
      const ITEM *x = (const ITEM *)m->from + i;
      int64_t n = stop - i < LOOK ? stop - i : LOOK;
      for (int64_t k = 0; k < n; k++) at[DIGIT(x[k], m->shift)]++;
    }
  }
}

static void NAME(move)(void *arg, int64_t begin, int64_t end) {
  moves *m = arg;
  ITEM *to = m->to;
  for (int64_t part = begin; part < end; part++) {
    int64_t *at = m->at[part], stop = part_begin(m, part + 1);
    for (int64_t i = part_begin(m, part); i < stop && !tide__loop_stops(); i += LOOK) {
      const ITEM *x = (const ITEM *)m->from + i;
      int64_t n = stop - i < LOOK ? stop - i : LOOK;
      for (int64_t k = 0; k < n; k++) to[at[DIGIT(x[k], m->shift)]++] = x[k];
    }
  }
}

/* Moves the items to `room`, in the order of a digit, unless it is the same in all of them. */
static bool NAME(by_digit)(moves *m, int64_t begin[DIGITS + 1]) {
  spread_parts(m, NAME(count));
  if (tide__loop_stops() || !make_places(m, begin)) return false;
  spread_parts(m, NAME(move));
  return true;
}

/* The n items in the order of their bits from low to high, of which only those of `varying` are not the same in all.
 * Returns where the result is, one of the two. */
static void *NAME(sort)(void *x, void *room, int64_t n, int64_t parts, int low, int high, uint64_t varying) {
  if (n <= (high - low) * LIST_BITS) return NAME(merge)(x, room, n);
  moves m; /* it is large: what is not needed is left unset */
  m.n = n, m.parts = parts;
  for (m.shift = low; m.shift < high && !tide__loop_stops(); m.shift += 8) {
    int64_t begin[DIGITS + 1];
    if (!(varying >> (m.shift - low) & 255)) continue;
    m.from = x, m.to = room;
    if (!NAME(by_digit)(&m, begin)) continue;
    room = x, x = m.to;
  }
  return x;
}

/* Item k becomes the one that stands there in order, and those before it are the lesser ones. */
static void NAME(choose)(void *list, void *spare, int64_t n, int64_t k, int64_t parts, int high) {
  ITEM *x = list, *room = spare;
  for (int shift = high - 8; shift >= 0 && !tide__loop_stops(); shift -= 8) {
    if (n <= SHORT_LIST) {
      ITEM *y = NAME(merge)(x, room, n);
      if (y != x) memcpy(x, y, (size_t)n * sizeof *x);
      return;
    }
    int64_t begin[DIGITS + 1];
    moves m;
    m.from = x, m.to = room, m.n = n, m.parts = parts, m.shift = shift;
    if (!NAME(by_digit)(&m, begin)) continue;
    memcpy(x, room, (size_t)n * sizeof *x);
    int digit = 0;
    while (begin[digit + 1] <= k) digit++;
    x += begin[digit], room += begin[digit], n = begin[digit + 1] - begin[digit], k -= begin[digit];
    if (n < PART_ITEMS) parts = 1;
  }
}

/* Appends those of n items that are less than the limit to the m of a list; the new number. */
static int64_t NAME(filter)(void *list, int64_t m, const void *items, int64_t n, const void *limit) {
  ITEM *out = list;
  const ITEM *x = items, most = *(const ITEM *)limit;
  for (int64_t i = 0; i < n; i++) {
    out[m] = x[i];
    m += LESS(x[i], most);
  }
  return m;
}

/* Keeps the k least, in order, of the k that stand in a list in order and of n more. */
static void NAME(admit)(void *list, int64_t k, const void *items, int64_t n) {
  ITEM *out = list;
  const ITEM *x = items;
  for (int64_t i = 0; i < n; i++) {
    if (!LESS(x[i], out[k - 1])) continue;
    int64_t j = k - 1;
    for (; j > 0 && LESS(x[i], out[j - 1]); j--) out[j] = out[j - 1];
    out[j] = x[i];
  }
}

#undef ITEM
#undef NAME
#undef LESS
#undef DIGIT
