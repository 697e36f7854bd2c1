/* profiler_read.c: what a recording says once it has ended: which operation each piece of work is of, where it is
 * drawn, and the table of what took the time.
 *
 * A tracer tells for each piece the call that queued it, and for each call the operation during which it was made; so
 * the kernels of a replay belong to the line that replayed. Pieces of one stream may overlap a little (kernels that are
 * launched early, branches of a graph): then a track has several lanes, each of which holds work in sequence.
 *
 * Invariant: spans are in the order of their devices and starts. */
#include <stdio.h>

#include "profiler.h"

/* ---- joining ---- */

static int by_correlation(const void *a, const void *b) {
  const tide__link *x = a, *y = b;
  return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

static int by_start(const void *a, const void *b) {
  const tide__span *x = a, *y = b;
  if (x->device != y->device) return x->device < y->device ? -1 : 1;
  return x->start < y->start ? -1 : x->start > y->start;
}

static void join(tide_profile *p) {
  if (p->link.n) qsort(p->link.at, p->link.n, sizeof *p->link.at, by_correlation);
  for (size_t i = 0; i < p->span.n; i++) {
    tide__span *s = &p->span.at[i];
    if (s->op < 0 && s->correlation && p->link.n) {
      tide__link key = {s->correlation, 0};
      const tide__link *l = bsearch(&key, p->link.at, p->link.n, sizeof key, by_correlation);
      if (l && l->op >= 1 && l->op <= p->op.n) s->op = (int64_t)l->op - 1;
    }
    if (s->op < 0) continue;
    tide__profiled *o = &p->op.at[s->op];
    o->spans++;
    if (o->what != TIDE__LAUNCH_GRAPH && o->device == s->device && s->stream && !p->stream.at[o->stream].traced)
      p->stream.at[o->stream].traced = s->stream;
  }
}

/* ---- tracks ---- */

/* What an operation queued is on its stream, but for the branches of a replay and what a copy does elsewhere. */
static int stream_of(const tide_profile *p, const tide__span *s) {
  const tide__profiled *o = s->op >= 0 ? &p->op.at[s->op] : NULL;
  if (o && o->device == s->device && (!s->stream || o->what != TIDE__LAUNCH_GRAPH)) return (int)o->stream;
  for (size_t i = 0; i < p->stream.n; i++)
    if (p->stream.at[i].traced == s->stream && p->stream.at[i].device == s->device) return (int)i;
  return -1;
}

static tide__track *track_of(tide_profile *p, const tide__span *s) {
  int stream = stream_of(p, s);
  uint64_t traced = stream < 0 ? s->stream : 0;
  for (size_t i = 0; i < p->track.n; i++) {
    tide__track *t = &p->track.at[i];
    if (t->device == s->device && t->stream == stream && t->traced == traced) return t;
  }
  tide__track *t = TIDE__ADD(p, track);
  if (t) t->device = s->device, t->stream = stream, t->traced = traced;
  return t;
}

static void place(tide_profile *p, tide__span *s) {
  tide__track *t = track_of(p, s);
  if (!t) return;
  uint32_t lane = 0;
  while (lane + 1 < TIDE__LANES && t->until[lane] > s->start) lane++;
  if (t->until[lane] < s->end) t->until[lane] = s->end;
  if (lane >= t->lanes) t->lanes = lane + 1;
  s->track = (uint32_t)(t - p->track.at), s->lane = lane;
}

void tide__profile_finish(tide_profile *p) {
  join(p);
  if (p->span.n) qsort(p->span.at, p->span.n, sizeof *p->span.at, by_start);
  for (size_t i = 0; i < p->span.n; i++) place(p, &p->span.at[i]);
  uint32_t next = 1;
  for (size_t i = 0; i < p->track.n; i++) p->track.at[i].first = next, next += p->track.at[i].lanes;
}

/* ---- names ---- */

/* A kernel's name without its result and parameters: "void f<int>(int *)" is f<int>. */
static const char *short_name(const char *name, char *text, size_t size) {
  static const char anonymous[] = "(anonymous namespace)::";
  size_t n = 0;
  int depth = 0;
  if (!strncmp(name, "void ", 5)) name += 5;
  while (*name && n + 1 < size) {
    if (!strncmp(name, anonymous, sizeof anonymous - 1)) {
      name += sizeof anonymous - 1;
      continue;
    }
    if (*name == '(' && depth == 0) break;
    depth += (*name == '<') - (*name == '>');
    text[n++] = *name++;
  }
  text[n] = 0;
  return text;
}

static const char *work_name(int kind) {
  static const char *const names[] = {[TIDE_WORK_KERNEL] = "kernel",
                                      [TIDE_WORK_COPY_IN] = "copy to the device",
                                      [TIDE_WORK_COPY_OUT] = "copy to the host",
                                      [TIDE_WORK_COPY_BETWEEN] = "copy on or between devices",
                                      [TIDE_WORK_FILL] = "fill",
                                      [TIDE_WORK_GRAPH] = "graph replay",
                                      [TIDE_WORK_SLEEP] = "sleep"};
  return names[kind];
}

/* What an operation is called does not tell which kernel of a replay, or of the program's own, this is. */
const char *tide__span_title(const tide_profile *p, const tide__span *s, char *text, size_t size) {
  const tide__profiled *o = s->op >= 0 ? &p->op.at[s->op] : NULL;
  bool vague = !o || o->what == TIDE__LAUNCH_GRAPH || o->what == TIDE__LAUNCH_JIT || o->what == TIDE__LAUNCH_FUSED ||
               o->what == TIDE__LAUNCH_RAW;
  if (o && o->name) return p->name.at[o->name];
  if (vague && s->name) return short_name(p->name.at[s->name], text, size);
  return o ? tide__launch_name((tide__launch)o->what, o->detail) : work_name(s->kind);
}

/* ---- the table ---- */

/* A span, or an operation of which no device's work is known. */
typedef struct item {
  uint32_t site, name;
  int what, device; /* what: with the detail; -1 for work of no operation of ours */
  uint8_t kind;
  uint64_t length, host, bytes;
} item;

static int by_key(const void *a, const void *b) {
  const item *x = a, *y = b;
  int64_t d = (int64_t)x->device - y->device;
  if (!d) d = (int64_t)x->site - y->site;
  if (!d) d = (int64_t)x->what - y->what;
  if (!d) d = (int64_t)x->name - y->name;
  if (!d && x->what < 0) d = (int64_t)x->kind - y->kind;
  return d < 0 ? -1 : d > 0;
}

static item item_of_op(const tide__profiled *o) {
  item i = {.site = o->site,
            .what = o->what << 8 | o->detail,
            .device = o->device,
            .host = o->end - o->start,
            .name = o->name};
  i.bytes = o->bytes;
  i.length = o->device < 0 ? i.host : 0;
  return i;
}

/* What the host did for an operation counts once, with its first piece. */
static item item_of_span(const tide_profile *p, const tide__span *s, uint8_t *seen) {
  item i = {.what = -1, .bytes = s->bytes};
  if (s->op >= 0) {
    const tide__profiled *o = &p->op.at[s->op];
    i = item_of_op(o);
    if (seen[s->op]) i.host = 0;
    if (o->spans > 1 || s->bytes) i.bytes = s->bytes;
    seen[s->op] = 1;
  }
  i.device = s->device, i.name = i.name ? i.name : s->name, i.kind = s->kind, i.length = s->end - s->start;
  return i;
}

/* malloc'ed; NULL without memory. */
static item *items_of(size_t *count, const tide_profile *p) {
  item *list = malloc((p->op.n + p->span.n + 1) * sizeof *list);
  uint8_t *seen = calloc(p->op.n + 1, 1);
  size_t n = 0;
  for (size_t i = 0; list && seen && i < p->span.n; i++) list[n++] = item_of_span(p, &p->span.at[i], seen);
  for (size_t i = 0; list && seen && i < p->op.n; i++)
    if (!seen[i]) list[n++] = item_of_op(&p->op.at[i]);
  if (!seen) {
    free(list);
    list = NULL;
  }
  free(seen);
  *count = n;
  return list;
}

static void row_begin(tide_profile_row *r, const tide_profile *p, const item *i) {
  *r = (tide_profile_row){.op = "", .raw_kernel = p->name.at[i->name], .device = i->device};
  short_name(r->raw_kernel, r->kernel, sizeof r->kernel);
  tide__site_text(i->site, r->line, sizeof r->line);
  if (i->what >= 0)
    r->op = tide__launch_name((tide__launch)(i->what >> 8), i->what & 255);
  else if (!i->name)
    snprintf(r->kernel, sizeof r->kernel, "%s", work_name(i->kind));
}

static void row_add(tide_profile_row *r, const item *i) {
  double ms = (double)i->length * 1e-6;
  if (r->calls == 0 || ms < r->min_ms) r->min_ms = ms;
  if (ms > r->max_ms) r->max_ms = ms;
  r->calls++;
  r->total_ms += ms, r->host_ms += (double)i->host * 1e-6;
  r->bytes += (int64_t)i->bytes;
}

static int by_total(const void *a, const void *b) {
  const tide_profile_row *x = a, *y = b;
  if (x->total_ms != y->total_ms) return x->total_ms > y->total_ms ? -1 : 1;
  return x->host_ms > y->host_ms ? -1 : x->host_ms < y->host_ms;
}

static void share(tide_profile_row *rows, size_t n) {
  double all[TIDE_MAX_DEVICES + 1] = {0};
  for (size_t i = 0; i < n; i++) all[rows[i].device + 1] += rows[i].total_ms;
  for (size_t i = 0; i < n; i++)
    if (rows[i].total_ms > 0) rows[i].percent = 100 * rows[i].total_ms / all[rows[i].device + 1];
}

tide_status tide_profile_rows(tide_profile_row **out, int64_t *count, const tide_profile *p) {
  TIDE_GIVEN("profile_rows", out);
  TIDE_GIVEN("profile_rows", count);
  TIDE_GIVEN("profile_rows", p);
  size_t n = 0, rows = 0;
  item *list = items_of(&n, p);
  tide_profile_row *r = NULL;
  if (list) {
    qsort(list, n, sizeof *list, by_key);
    for (size_t i = 0; i < n; i++) rows += i == 0 || by_key(&list[i - 1], &list[i]) != 0;
    r = malloc((rows + 1) * sizeof *r);
  }
  if (!r) {
    free(list);
    return tide__fail(TIDE_MEMORY, "profile_rows: no host memory for the table");
  }
  rows = 0;
  for (size_t i = 0; i < n; i++) {
    if (i == 0 || by_key(&list[i - 1], &list[i])) row_begin(&r[rows++], p, &list[i]);
    row_add(&r[rows - 1], &list[i]);
  }
  free(list);
  qsort(r, rows, sizeof *r, by_total);
  share(r, rows);
  *out = r, *count = (int64_t)rows;
  return TIDE_OK;
}

/* ---- totals ---- */

static bool is_copy(int kind) {
  return kind == TIDE_WORK_COPY_IN || kind == TIDE_WORK_COPY_OUT || kind == TIDE_WORK_COPY_BETWEEN;
}

/* Milliseconds in which any of the device's spans of that sort runs: they are sorted by their starts. */
static double busy(const tide_profile *p, int device, bool kernels, bool copies) {
  uint64_t until = 0, sum = 0;
  for (size_t i = 0; i < p->span.n; i++) {
    const tide__span *s = &p->span.at[i];
    if (s->device != device || !(is_copy(s->kind) ? copies : kernels)) continue;
    uint64_t from = s->start > until ? s->start : until;
    if (s->end > from) sum += s->end - from;
    if (s->end > until) until = s->end;
  }
  return (double)sum * 1e-6;
}

static void add_copy(tide_profile_totals *t, const tide__span *s) {
  if (!is_copy(s->kind)) return;
  tide_profile_copies *c = s->kind == TIDE_WORK_COPY_IN    ? &t->to_device
                           : s->kind == TIDE_WORK_COPY_OUT ? &t->to_host
                                                           : &t->between;
  c->calls++, c->bytes += (int64_t)s->bytes, c->ms += (double)(s->end - s->start) * 1e-6;
}

void tide_profile_totals_get(tide_profile_totals *out, const tide_profile *p) {
  if (!out) return;
  if (!p) return;
  tide_profile_totals t = {.wall_ms = (double)p->wall * 1e-6, .lost = p->lost, .source = p->source, .note = p->note};
  t.operations = (int64_t)p->op.n, t.spans = (int64_t)p->span.n;
  for (size_t i = 0; i < p->op.n; i++) t.host_ms += (double)(p->op.at[i].end - p->op.at[i].start) * 1e-6;
  for (size_t i = 0; i < p->range.n; i++)
    if (p->range.at[i].kind == TIDE__WAIT) t.wait_ms += (double)(p->range.at[i].end - p->range.at[i].start) * 1e-6;
  for (size_t i = 0; i < p->span.n; i++) add_copy(&t, &p->span.at[i]);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    if (!(p->devices >> d & 1)) continue;
    t.device[d] = (tide_profile_device){true, busy(p, d, true, true), busy(p, d, true, false), busy(p, d, false, true)};
  }
  *out = t;
}
