/* settings.c: the options of the allocators, from TIDE_ALLOC_CONF and from tide_allocator_configure.
 *
 * The grammar is torch's: "option:value,option:value"; one option has a list in brackets as its value. A text is read
 * into a copy, which takes the place of what was in force only when all of it was understood; options that it does not
 * name stay as they were. The environment is read when memory is first asked for, so the call that first uses a device
 * reports a mistake in it. Allocators keep copies of their own, so that reading an option takes no lock.
 *
 * Invariant: what is in force belongs to the running epoch; a new start reads the environment again. */

#include <stdio.h>

#include "allocator.h"

static const size_t mib = (size_t)1 << 20;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tide__settings in_force;
static uint32_t epoch; /* of `in_force` */

/* ---- values ---- */

typedef struct word {
  const char *text;
  size_t length;
} word;

static bool is(word w, const char *text) { return strlen(text) == w.length && !memcmp(w.text, text, w.length); }

static word trim(word w) {
  while (w.length && *w.text == ' ') w.text++, w.length--;
  while (w.length && w.text[w.length - 1] == ' ') w.length--;
  return w;
}

/* Takes off what stands before the first `mark` outside brackets; *rest is what follows it. */
static word take_before(word *rest, word w, char mark) {
  size_t depth = 0, i = 0;
  for (; i < w.length && (w.text[i] != mark || depth); i++) {
    if (w.text[i] == '[') depth++;
    if (w.text[i] == ']' && depth) depth--;
  }
  size_t skip = i < w.length ? i + 1 : i;
  *rest = (word){w.text + skip, w.length - skip};
  return trim((word){w.text, i});
}

static bool number(double *out, word w) {
  char text[64], *end;
  if (!w.length || w.length >= sizeof text || strspn(w.text, "0123456789.eE+-") < w.length) return false;
  memcpy(text, w.text, w.length);
  text[w.length] = 0;
  *out = strtod(text, &end);
  return !*end;
}

static bool megabytes(size_t *out, word w, double more_than) {
  double value;
  if (!number(&value, w) || value <= more_than || value > 1e9 || value != (double)(size_t)value) return false;
  *out = (size_t)value * mib;
  return true;
}

static bool power_of_two(size_t *out, word w) {
  double value;
  if (!number(&value, w) || value < 1 || value > 65536 || value != (double)(size_t)value) return false;
  *out = (size_t)value;
  return !(*out & (*out - 1));
}

/* ---- options; each reads its value into s, or says no ---- */

static bool set_backend(tide__settings *s, word w) {
  s->async = is(w, "cudaMallocAsync");
  return s->async || is(w, "native");
}

static bool set_expandable(tide__settings *s, word w) {
  s->expandable = is(w, "True") || is(w, "true");
  return s->expandable || is(w, "False") || is(w, "false");
}

static bool set_max_split(tide__settings *s, word w) {
  if (!is(w, "unlimited")) return megabytes(&s->max_split, w, 20);
  s->max_split = SIZE_MAX;
  return true;
}

static bool set_pinned(tide__settings *s, word w) { return megabytes(&s->pinned_most, w, -1); }

static bool set_collect(tide__settings *s, word w) {
  return number(&s->collect_above, w) && s->collect_above > 0 && s->collect_above < 1;
}

static bool set_fraction(tide__settings *s, word w) {
  return number(&s->fraction, w) && s->fraction >= 0 && s->fraction <= 1;
}

static int log2_of(size_t x) { return 63 - __builtin_clzll((unsigned long long)x); }

/* [256:1,512:2,>:8]: a division for sizes below that number of MiB, from the entry before on. */
static bool set_division_list(tide__settings *s, word list) {
  int done = 0;
  while (list.length) {
    word value, entry = take_before(&list, list, ','), key = take_before(&value, entry, ':');
    size_t up_to, divisions;
    bool last = is(key, ">");
    if (!power_of_two(&divisions, trim(value)) || divisions > 128 || (!last && !power_of_two(&up_to, key)))
      return false;
    int end = last ? TIDE__SIZE_CLASSES : log2_of(up_to);
    if (end < done || end > TIDE__SIZE_CLASSES || (last && list.length)) return false;
    while (done < end) s->division[done++] = (uint8_t)divisions;
  }
  return true;
}

static bool set_divisions(tide__settings *s, word w) {
  memset(s->division, 0, sizeof s->division);
  size_t divisions;
  bool known = true;
  if (w.length >= 2 && w.text[0] == '[' && w.text[w.length - 1] == ']')
    known = set_division_list(s, (word){w.text + 1, w.length - 2});
  else if (power_of_two(&divisions, w) && divisions <= 128)
    memset(s->division, (int)divisions, sizeof s->division);
  else
    known = false;
  s->divided = false;
  for (int i = 0; i < TIDE__SIZE_CLASSES; i++) s->divided = s->divided || s->division[i] > 1;
  return known;
}

static const struct {
  const char *name, *expected;
  bool (*set)(tide__settings *s, word value);
} options[] = {
    {"backend", "native or cudaMallocAsync", set_backend},
    {"expandable_segments", "True or False", set_expandable},
    {"max_split_size_mb", "a whole number above 20, or unlimited", set_max_split},
    {"garbage_collection_threshold", "a number between 0 and 1", set_collect},
    {"roundup_power2_divisions", "a power of two up to 128, or a list such as [256:1,512:2,>:8]", set_divisions},
    {"per_process_memory_fraction", "a number from 0 to 1", set_fraction},
    {"pinned_max_cached_size_mb", "a whole number, 0 or more", set_pinned},
};
enum { OPTIONS = sizeof options / sizeof *options };

/* ---- the text ---- */

static tide_status unknown(const char *what, word key) {
  char names[512] = "";
  size_t used = 0;
  for (int i = 0; i < OPTIONS; i++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", options[i].name);
  return tide__fail(TIDE_VALUE, "%s: unknown option, got \"%.*s\", expected one of %s", what, (int)key.length, key.text,
                    names);
}

static tide_status read_text(tide__settings *s, const char *text, const char *what) {
  word rest = {text, strlen(text)};
  while (trim(rest).length) {
    word value, entry = take_before(&rest, rest, ','), key = take_before(&value, entry, ':');
    int i = 0;
    while (i < OPTIONS && !is(key, options[i].name)) i++;
    if (i == OPTIONS) return unknown(what, key);
    value = trim(value);
    if (!options[i].set(s, value))
      return tide__fail(TIDE_VALUE, "%s: %s: wrong value, got \"%.*s\", expected %s", what, options[i].name,
                        (int)value.length, value.text, options[i].expected);
  }
  return TIDE_OK;
}

/* ---- what is in force ---- */

/* The lock is held. */
static tide_status refresh(void) {
  if (epoch == tide__epoch_now()) return TIDE_OK;
  if (!tide__running()) return tide__fail(TIDE_STATE, "memory: tide is not started, expected tide_init first");
  tide__settings fresh = {.caching = true, .expandable = true, .max_split = SIZE_MAX, .fraction = -1};
  fresh.pinned_most = SIZE_MAX;
  const char *text = getenv("TIDE_ALLOC_CONF"), *off = getenv("TIDE_NO_CUDA_MEMORY_CACHING");
  if (text) TIDE_TRY(read_text(&fresh, text, "TIDE_ALLOC_CONF"));
  fresh.caching = !off || !*off || !strcmp(off, "0");
  in_force = fresh;
  epoch = tide__epoch_now();
  return TIDE_OK;
}

tide_status tide__settings_get(tide__settings *out) {
  TIDE_LOCKED(&lock);
  tide_status status = refresh();
  if (status == TIDE_OK) *out = in_force;
  return status;
}

void tide__settings_set_caching(bool on) {
  TIDE_LOCKED(&lock);
  if (refresh() == TIDE_OK) in_force.caching = on;
}

tide_status tide_allocator_configure(const char *text) {
  tide__settings s;
  if (!text)
    return tide__fail(TIDE_ARGUMENT, "set_allocator_settings: no text, got NULL, expected \"option:value,...\"");
  TIDE_TRY(tide__settings_get(&s));
  bool async = s.async;
  double fraction = s.fraction;
  s.fraction = -1;
  TIDE_TRY(read_text(&s, text, "set_allocator_settings"));
  bool new_cap = s.fraction >= 0; /* also when it is what it was: a device's own may have been set since */
  if (!new_cap) s.fraction = fraction;
  if (s.async != async && tide__allocator_any_ready())
    return tide__fail(TIDE_STATE,
                      "set_allocator_settings: backend: memory is in use already, expected this before the first "
                      "allocation");
  pthread_mutex_lock(&lock);
  s.caching = in_force.caching;
  in_force = s;
  pthread_mutex_unlock(&lock);
  tide__allocators_refresh(&s, new_cap);
  tide__pinned_limit(s.pinned_most);
  return TIDE_OK;
}

/* ---- sizes ---- */

size_t tide__settings_round(const tide__settings *s, size_t bytes, size_t unit) {
  size_t whole = (bytes + unit - 1) / unit * unit;
  if (!s->divided || bytes <= unit) return whole;
  int class = log2_of(bytes) - 20;
  size_t divisions = s->division[class < 0 ? 0 : class < TIDE__SIZE_CLASSES ? class : TIDE__SIZE_CLASSES - 1];
  if (divisions <= 1 || bytes <= unit * divisions) return whole;
  size_t step = ((size_t)1 << log2_of(bytes)) / divisions;
  return (bytes + step - 1) / step * step;
}
