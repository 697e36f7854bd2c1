/* profiler_json.c: a recording as a timeline: Chrome's trace-event format, in JSON.
 *
 * Process 1 is the host with a thread for each of its threads that did something: ranges, and inside them the
 * operations with their script lines. Each device is a process of its own, 100 + its number, with a thread for each
 * stream and a counter of allocated memory. An arrow leads from an operation to the first piece of work that came of
 * it. Times are microseconds with three digits, written from integers: no locale can put a comma there.
 *
 * Invariant: what is written is valid JSON in UTF-8, whatever names hold; slices of one
 * thread follow each other or nest. */
#include <inttypes.h>

#include "base/file.h"
#include "base/json.h"
#include "profiler.h"

enum { HOST = 1, DEVICE = 100 };

typedef struct writer {
  FILE *f;
  const tide_profile *p;
  bool any;
} writer;

static void put_string(FILE *f, const char *text) { tide__json_string(f, text, strlen(text)); }

static void put_time(FILE *f, const char *key, uint64_t ns) {
  fprintf(f, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

/* Begins an event of the phase; the caller closes it. */
static void event(writer *w, char phase, const char *name, const char *category, int pid, uint32_t tid) {
  fputs(w->any ? ",\n{\"ph\":\"" : "\n{\"ph\":\"", w->f);
  w->any = true;
  fprintf(w->f, "%c\",\"pid\":%d,\"tid\":%u,\"name\":", phase, pid, (unsigned)tid);
  put_string(w->f, name);
  if (category) fprintf(w->f, ",\"cat\":\"%s\"", category);
}

/* ---- what processes and threads are called ---- */

static void name_it(writer *w, const char *what, int pid, uint32_t tid, const char *name, int order) {
  event(w, 'M', what, NULL, pid, tid);
  fputs(",\"args\":{\"name\":", w->f);
  put_string(w->f, name);
  fputs("}}", w->f);
  event(w, 'M', tid ? "thread_sort_index" : "process_sort_index", NULL, pid, tid);
  fprintf(w->f, ",\"args\":{\"sort_index\":%d}}", order);
}

static void name_track(writer *w, const tide__track *t) {
  const tide__profiled_stream *s = t->stream >= 0 ? &w->p->stream.at[t->stream] : NULL;
  for (uint32_t lane = 0; lane < t->lanes; lane++) {
    char name[96], more[24] = "";
    if (lane) snprintf(more, sizeof more, ", lane %u", (unsigned)lane + 1);
    if (s && s->is_default)
      snprintf(name, sizeof name, "default stream%s", more);
    else
      snprintf(name, sizeof name, s ? "stream 0x%" PRIx64 "%s" : "stream %" PRIu64 " of the driver%s",
               s ? s->handle : t->traced & 0xffffffffu, more);
    name_it(w, "thread_name", DEVICE + t->device, t->first + lane, name, (int)(t->first + lane));
  }
}

static void put_names(writer *w) {
  name_it(w, "process_name", HOST, 0, "host", 0);
  for (uint32_t i = 0; i < w->p->threads; i++) {
    char name[48];
    snprintf(name, sizeof name, i ? "thread %u" : "main thread", (unsigned)i + 1);
    name_it(w, "thread_name", HOST, i + 1, name, (int)i);
  }
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    if (!(w->p->devices >> d & 1)) continue;
    char name[48];
    snprintf(name, sizeof name, "cuda:%d", d);
    name_it(w, "process_name", DEVICE + d, 0, name, d + 1);
  }
  for (size_t i = 0; i < w->p->track.n; i++) name_track(w, &w->p->track.at[i]);
}

/* ---- the host ---- */

static const char *op_name(const tide__profiled *o) { return tide__launch_name((tide__launch)o->what, o->detail); }

/* "add  wave.lua:12": the line without its folder, which stands whole among the arguments. */
static void put_op(writer *w, const tide__profiled *o) {
  char line[192], title[320];
  tide__site_text(o->site, line, sizeof line);
  const char *slash = strrchr(line, '/');
  snprintf(title, sizeof title, line[0] ? "%s  %s" : "%s", op_name(o), slash ? slash + 1 : line);
  event(w, 'X', title, o->device < 0 ? "cpu" : "launch", HOST, o->thread + 1);
  put_time(w->f, "ts", o->start), put_time(w->f, "dur", o->end - o->start);
  fputs(",\"args\":{\"line\":", w->f);
  put_string(w->f, line);
  fputs(",\"device\":", w->f);
  put_string(w->f, tide__device_text(o->device));
  fprintf(w->f, ",\"bytes\":%" PRIu64 "}}", o->bytes);
}

static void put_ops(writer *w) {
  size_t allocated[TIDE_MAX_DEVICES + 1] = {0};
  for (size_t i = 0; i < w->p->op.n; i++) {
    const tide__profiled *o = &w->p->op.at[i];
    put_op(w, o);
    size_t *last = &allocated[o->device + 1];
    if (*last == o->allocated) continue;
    *last = o->allocated;
    event(w, 'C', "allocated memory", NULL, o->device < 0 ? HOST : DEVICE + o->device, 0);
    put_time(w->f, "ts", o->end);
    fprintf(w->f, ",\"args\":{\"bytes\":%zu}}", o->allocated);
  }
}

static void put_wait(writer *w, const tide__ranged *r) {
  char line[192], title[320];
  tide__site_text(r->site, line, sizeof line);
  snprintf(title, sizeof title, "wait: %s", w->p->name.at[r->name]);
  event(w, 'X', title, "wait", HOST, r->thread + 1);
  put_time(w->f, "ts", r->start), put_time(w->f, "dur", r->end - r->start);
  fputs(",\"args\":{\"line\":", w->f);
  put_string(w->f, line);
  fputs("}}", w->f);
}

static void put_range(writer *w, const tide__ranged *r, size_t number) {
  const char *name = w->p->name.at[r->name];
  if (r->kind == TIDE__WAIT) {
    put_wait(w, r);
    return;
  }
  if (r->kind == TIDE__RANGE) {
    event(w, 'X', name, "range", HOST, r->thread + 1);
    put_time(w->f, "ts", r->start), put_time(w->f, "dur", r->end - r->start);
  } else if (r->kind == TIDE__MARK) {
    event(w, 'i', name, "mark", HOST, r->thread + 1);
    put_time(w->f, "ts", r->start);
    fputs(",\"s\":\"t\"", w->f);
  } else {
    event(w, 'b', name, "range", HOST, r->thread + 1);
    put_time(w->f, "ts", r->start);
    fprintf(w->f, ",\"id\":%zu}", number);
    event(w, 'e', name, "range", HOST, r->thread + 1);
    put_time(w->f, "ts", r->end);
    fprintf(w->f, ",\"id\":%zu", number);
  }
  fputc('}', w->f);
}

/* ---- the devices ---- */

static void put_arrow(writer *w, const tide__profiled *o, const tide__span *s, int pid, uint32_t tid) {
  event(w, 's', "launch", "arrow", HOST, o->thread + 1);
  put_time(w->f, "ts", o->start);
  fprintf(w->f, ",\"id\":%" PRId64 "}", s->op + 1);
  event(w, 'f', "launch", "arrow", pid, tid);
  put_time(w->f, "ts", s->start);
  fprintf(w->f, ",\"bp\":\"e\",\"id\":%" PRId64 "}", s->op + 1);
}

static void put_span(writer *w, const tide__span *s, uint8_t *seen) {
  static const char *const kinds[] = {"kernel", "copy", "copy", "copy", "fill", "graph", "sleep"};
  const tide_profile *p = w->p;
  const tide__profiled *o = s->op >= 0 ? &p->op.at[s->op] : NULL;
  char text[256], line[192] = "";
  int pid = DEVICE + s->device;
  uint32_t tid = s->track < p->track.n ? p->track.at[s->track].first + s->lane : 0;
  if (o) tide__site_text(o->site, line, sizeof line);
  event(w, 'X', tide__span_title(p, s, text, sizeof text), kinds[s->kind], pid, tid);
  put_time(w->f, "ts", s->start), put_time(w->f, "dur", s->end - s->start);
  fputs(",\"args\":{\"line\":", w->f);
  put_string(w->f, line);
  fputs(",\"op\":", w->f);
  put_string(w->f, o ? op_name(o) : "");
  fputs(",\"kernel\":", w->f);
  put_string(w->f, p->name.at[s->name]);
  fprintf(w->f, ",\"bytes\":%" PRIu64 "}}", s->bytes ? s->bytes : o && o->spans == 1 ? o->bytes : 0);
  if (!o || seen[s->op]) return;
  seen[s->op] = 1;
  put_arrow(w, o, s, pid, tid);
}

/* ---- the file ---- */

tide_status tide_profile_check_path(const char *path) { return tide__file_check("profiler.trace", path); }

static void put_head(writer *w) {
  fprintf(w->f, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":\"tide %s\",\"device_times\":", tide_version());
  put_string(w->f, w->p->source);
  fputs(",\"note\":", w->f);
  put_string(w->f, w->p->note);
  fprintf(w->f, ",\"lost\":%" PRId64 "},\n\"traceEvents\":[", w->p->lost);
}

tide_status tide_profile_write(const tide_profile *p, const char *path) {
  TIDE_GIVEN("profile_write", p);
  tide_file *file;
  uint8_t *seen = calloc(p->op.n + 1, 1);
  tide_status status =
      seen ? tide_file_new(&file, "profiler.trace", path) : tide__fail(TIDE_MEMORY, "profiler.trace: no host memory");
  if (status != TIDE_OK) {
    free(seen);
    return status;
  }
  writer w = {tide_file_stream(file), p, false};
  put_head(&w);
  put_names(&w);
  for (size_t i = 0; i < p->range.n; i++) put_range(&w, &p->range.at[i], i + 1);
  put_ops(&w);
  for (size_t i = 0; i < p->span.n; i++) put_span(&w, &p->span.at[i], seen);
  fputs("\n]}\n", w.f);
  free(seen);
  return tide_file_finish(file);
}
