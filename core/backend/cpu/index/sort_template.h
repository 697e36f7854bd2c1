/* sort_template.h: how items of one type are put in order; sort.c includes it for each. Before: ITEM, the type;
 * NAME(f), the name of a function for it; LESS(x, y); DIGIT(x, shift), eight bits of an item from there on. No two
 * items are equal, but where all of an item is its key. */

static void NAME(insert)(ITEM *x, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    ITEM item = x[i];
    int64_t j = i;
    for (; j > 0 && LESS(item, x[j - 1]); j--) x[j] = x[j - 1];
    x[j] = item;
  }
}

/* Four items, by five exchanges without a branch. */
static inline void NAME(four)(ITEM *x) {
#define EXCHANGE(i, j)                                                                                                 \
  do {                                                                                                                 \
    const bool turn = LESS(x[j], x[i]);                                                                                \
    const ITEM low = turn ? x[j] : x[i], high = turn ? x[i] : x[j];                                                    \
    x[i] = low, x[j] = high;                                                                                           \
  } while (0)
  EXCHANGE(0, 1);
  EXCHANGE(2, 3);
  EXCHANGE(0, 2);
  EXCHANGE(1, 3);
  EXCHANGE(1, 2);
#undef EXCHANGE
}

/* Two runs of one length, from both ends at a time: neither waits for the other, and none can run out. */
static inline void NAME(join)(ITEM *out, const ITEM *x, int64_t run) {
  const ITEM *low = x, *high = x + run, *below = high - 1, *above = high + run - 1;
  ITEM *last = out + 2 * run - 1;
  for (int64_t i = 0; i < run; i++) {
    const bool second = LESS(*high, *low), first = LESS(*above, *below);
    *out++ = *(second ? high : low);
    *last-- = *(first ? below : above);
    high += second, low += !second;
    below -= first, above -= !first;
  }
}

/* Short lists: runs of four, merged in pairs. Returns where the result is, one of the two. */
static ITEM *NAME(merge)(ITEM *x, ITEM *room, int64_t n) {
  for (int64_t i = 0; i + RUN <= n; i += RUN) NAME(four)(x + i);
  NAME(insert)(x + n / RUN * RUN, n % RUN);
  for (int64_t run = RUN; run < n; run *= 2) {
    int64_t i = 0;
    for (; i + 2 * run <= n; i += 2 * run) NAME(join)(room + i, x + i, run);
    int64_t low = i, middle = n - i < run ? n : i + run, high = middle;
    ITEM *out = room + i;
    while (low < middle && high < n) {
      const bool second = LESS(x[high], x[low]);
      *out++ = x[second ? high : low];
      high += second, low += !second;
    }
    memcpy(out, x + low, (size_t)(middle - low) * sizeof *x);
    memcpy(out + (middle - low), x + high, (size_t)(n - high) * sizeof *x);
    ITEM *other = x;
    x = room, room = other;
  }
  return x;
}

/* Items that are almost in order; false: they are not. */
static bool NAME(settle)(ITEM *x, int64_t n) {
  int64_t moves_left = 2 * n;
  for (int64_t i = 1; i < n && moves_left >= 0; i++) {
    if (!LESS(x[i], x[i - 1])) continue;
    const ITEM item = x[i];
    int64_t j = i;
    for (; j > 0 && LESS(item, x[j - 1]) && moves_left >= 0; j--, moves_left--) x[j] = x[j - 1];
    x[j] = item;
  }
  return moves_left >= 0;
}

/* Some of a part's items, from i on: those of a line become items here. */
static const ITEM *NAME(some)(const moves *m, ITEM *piece, int64_t i, int64_t stop, int64_t *n, seen *s) {
  *n = stop - i < LOOK ? stop - i : LOOK;
  if (!m->line) return (const ITEM *)m->from + i;
  *n = stop - i < PIECE ? stop - i : PIECE;
  m->line->w->k->load(m->line->w, piece, m->line->in, i, *n, s);
  return piece;
}

static void NAME(count)(void *arg, int64_t begin, int64_t end) {
  moves *m = arg;
  ITEM piece[PIECE];
  seen s = {0, 0, UINT64_MAX};
  for (int64_t part = begin; part < end; part++) {
    int64_t *at = m->at[part], stop = part_begin(m, part + 1), n;
    memset(at, 0, sizeof m->at[part]);
    for (int64_t i = part_begin(m, part); i < stop && !tide__loop_stops(); i += n) {
      const ITEM *x = NAME(some)(m, piece, i, stop, &n, &s);
      for (int64_t k = 0; k < n; k++) at[DIGIT(x[k], m->shift)]++;
    }
  }
  if (m->line) join_seen(m->line, &s);
}

static void NAME(move)(void *arg, int64_t begin, int64_t end) {
  moves *m = arg;
  ITEM *to = m->to, piece[PIECE];
  seen s = {0, 0, 0};
  for (int64_t part = begin; part < end; part++) {
    int64_t *at = m->at[part], stop = part_begin(m, part + 1), n;
    for (int64_t i = part_begin(m, part); i < stop && !tide__loop_stops(); i += n) {
      const ITEM *x = NAME(some)(m, piece, i, stop, &n, &s);
      for (int64_t k = 0; k < n; k++) {
        ITEM *there = to + at[DIGIT(x[k], m->shift)]++;
        *there = x[k];
        __builtin_prefetch((char *)there + 64, 1); /* of so many places no processor foresees the next line */
      }
    }
  }
}

/* Moves the items to `room`, in the order of a digit, unless it is the same in all of them. */
static bool NAME(by_digit)(moves *m, int64_t begin[DIGITS + 1]) {
  spread(m->parts, NAME(count), m);
  if (tide__loop_stops() || !make_places(m, begin)) return false;
  spread(m->parts, NAME(move), m);
  return true;
}

/* The n items, which a near cache holds, in order. Only the bits of the key from low on and below top are not the same
 * in all, and the highest digits tell almost all of them apart. Returns where the result is, one of the two. */
static void *NAME(sort)(void *x, void *room, int64_t n, int low, int top) {
  const int telling = n <= FEW_ITEMS ? 16 : 24;
  if (n <= SHORT_LIST) return NAME(merge)(x, room, n);
  int64_t at[1][DIGITS], begin[DIGITS + 1];
  int from = top - low > telling + 4 ? top - telling : low;
  moves m = {.n = n, .parts = 1, .at = at};
  for (bool whole = false;; whole = true, from = 0, top = 8 * (int)sizeof(ITEM)) {
    for (m.shift = from; m.shift < top && !tide__loop_stops(); m.shift += 8) {
      m.from = x, m.to = room;
      if (!NAME(by_digit)(&m, begin)) continue;
      room = x, x = m.to;
    }
    if (whole || from == low || NAME(settle)(x, n)) return x;
  }
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
    int64_t at[MOST_PARTS][DIGITS], begin[DIGITS + 1];
    moves m = {.from = x, .to = room, .n = n, .parts = parts, .shift = shift, .at = at};
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

/* Keeps the k least, in order, of the k that stand in a list in order and of n more. false: no other ones. */
static bool NAME(admit)(void *list, int64_t k, const void *items, int64_t n) {
  ITEM *out = list;
  const ITEM *x = items;
  bool some = false;
  for (int64_t i = 0; i < n; i++) {
    if (!LESS(x[i], out[k - 1])) continue;
    int64_t j = k - 1;
    for (; j > 0 && LESS(x[i], out[j - 1]); j--) out[j] = out[j - 1];
    out[j] = x[i], some = true;
  }
  return some;
}

/* The n items of x in order, as elements of the line's result from `first` on. What no near cache holds is put apart by
 * its highest digit, and each digit's items go the same way. x is NULL: they are the line's own elements. */
static void NAME(order_digits)(void *arg, int64_t begin, int64_t end);
static void NAME(order)(sorting *l, void *items, void *room, int64_t n, int64_t first, uint64_t varying,
                        int64_t parts) {
  if (items && n * (int64_t)sizeof(ITEM) <= (parts > 1 ? NEAR : l->w->near)) {
    NAME(near)(l, items, room, n, first, varying);
    return;
  }
  if (items && !varying) {
    store_items(l, items, first, n);
    return;
  }
  int64_t at[1][DIGITS];
  digits d = {.l = l, .first = first, .parts = 1};
  moves m = {.line = items ? NULL : l, .from = items, .to = room, .n = n, .parts = parts, .at = parts > 1 ? l->at : at};
  for (;;) {
    int top = bits_of(varying) > 8 ? bits_of(varying) - 8 : 0;
    m.shift = l->w->k->low + top;
    spread(m.parts, NAME(count), &m);
    if (tide__loop_stops()) return;
    if (!items) varying = varying_of(l);
    if (!items && bits_of(varying) > top + 8) continue; /* there are higher bits than were seen before */
    d.varying = varying & (((uint64_t)1 << top) - 1);
    break;
  }
  make_places(&m, d.begin);
  spread(m.parts, NAME(move), &m);
  if (tide__loop_stops()) return;
  d.items = room, d.room = items ? items : l->items, d.most = parts > 1 ? n / parts / 2 : n;
  if (parts == 1)
    NAME(order_digits)(&d, 0, DIGITS);
  else
    tide__parallel_for(DIGITS, 1, NAME(order_digits), &d);
  for (int i = 0; i < DIGITS && parts > 1; i++) {
    if (d.begin[i + 1] - d.begin[i] <= d.most) continue;
    NAME(order)
    (l, (ITEM *)d.items + d.begin[i], (ITEM *)d.room + d.begin[i], d.begin[i + 1] - d.begin[i], first + d.begin[i],
     d.varying, parts);
  }
}

/* Digits with more than the most items are left for all threads together. */
static void NAME(order_digits)(void *arg, int64_t begin, int64_t end) {
  const digits *d = arg;
  for (int64_t i = begin; i < end && !tide__loop_stops(); i++) {
    int64_t from = d->begin[i], n = d->begin[i + 1] - from;
    if (n == 0 || n > d->most) continue;
    NAME(order)(d->l, (ITEM *)d->items + from, (ITEM *)d->room + from, n, d->first + from, d->varying, 1);
  }
}

#undef ITEM
#undef NAME
#undef LESS
#undef DIGIT
