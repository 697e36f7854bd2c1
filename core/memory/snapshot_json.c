/* snapshot_json.c: a snapshot as JSON, for pages and other programs.
 *
 * The names of the fields are those of the tables that scripts see, which are torch's where torch has them. All
 * is written to one buffered file; a failure to write is reported at the end.
 *
 * Invariant: the text is valid JSON in UTF-8 with any names of scripts and labels. */

#include "allocator.h"
#include "base/file.h"
#include "base/json.h"

/* "file.lua:12 in name" as an object. */
static void put_frame(FILE *f, const char *text, size_t length) {
  tide_stack_line line;
  tide_memory_stack_line(&line, text, length);
  fputs("{\"filename\":", f);
  tide__json_string(f, text, line.file_length);
  fprintf(f, ",\"line\":%d,\"name\":", line.number);
  tide__json_string(f, text + line.name, length - line.name);
  fputc('}', f);
}

static void put_frames(FILE *f, uint32_t site, uint32_t stack) {
  char line[512];
  const char *text = line;
  if (stack)
    text = tide_memory_stack(stack);
  else
    tide_site_describe(site, line, sizeof line);
  fputs(",\"frames\":[", f);
  for (bool first = true; *text; first = false) {
    size_t n = strcspn(text, "\n");
    if (!first) fputc(',', f);
    put_frame(f, text, n);
    text += n + (text[n] == '\n');
  }
  fputc(']', f);
}

static void put_label(FILE *f, const tide_allocation_scope *scope) {
  if (!scope) return;
  const char *label = tide_allocation_scope_label(scope);
  fputs(",\"label\":", f);
  tide__json_string(f, label, strlen(label));
}

static void put_block(FILE *f, const tide_block_info *b) {
  static const char *const states[] = {"inactive", "active_allocated", "active_pending_free"};
  fprintf(f, "{\"address\":%llu,\"size\":%zu,\"requested_size\":%zu,\"state\":\"%s\"", (unsigned long long)b->address,
          b->size, b->requested, states[b->state]);
  if (b->state != TIDE_BLOCK_FREE) put_frames(f, b->site, b->stack);
  put_label(f, b->scope);
  fputc('}', f);
}

static void put_segment(FILE *f, const tide_memory_snapshot *s, const tide_segment_info *g) {
  fprintf(f, "{\"device\":%d,\"address\":%llu,\"total_size\":%zu,\"allocated_size\":%zu,\"active_size\":%zu,",
          g->device, (unsigned long long)g->address, g->total, g->allocated, g->active);
  fprintf(f, "\"requested_size\":%zu,\"stream\":%llu,\"segment_type\":\"%s\",\"segment_pool_id\":%llu,", g->requested,
          (unsigned long long)g->stream, g->large ? "large" : "small", (unsigned long long)g->pool);
  fprintf(f, "\"is_expandable\":%s,\"blocks\":[", g->expandable ? "true" : "false");
  for (int64_t i = 0; i < g->blocks; i++) {
    fputs(i ? ",\n" : "\n", f);
    put_block(f, &s->block[g->first + i]);
  }
  fputs("]}", f);
}

static void put_event(FILE *f, const tide_memory_event *e) {
  fprintf(f, "{\"action\":\"%s\",\"addr\":%llu,\"size\":%zu,\"stream\":%llu,\"time_us\":%llu",
          tide_memory_action_name(e->action), (unsigned long long)e->address, e->size, (unsigned long long)e->stream,
          (unsigned long long)e->time_us);
  put_frames(f, e->site, e->stack);
  if (e->owner && e->action != TIDE_MEMORY_ALLOC) {
    char line[512];
    tide_site_describe(e->owner, line, sizeof line);
    fputs(",\"owner\":", f);
    tide__json_string(f, line, strlen(line));
  }
  put_label(f, e->scope);
  fputc('}', f);
}

static void put_traces(FILE *f, const tide_memory_snapshot *s) {
  int devices = 0;
  for (int64_t i = 0; i < s->events; i++)
    if (s->event[i].device >= devices) devices = s->event[i].device + 1;
  fputs("\"device_traces\":[", f);
  for (int d = 0; d < devices; d++) {
    bool first = true;
    fputs(d ? ",\n[" : "\n[", f);
    for (int64_t i = 0; i < s->events; i++) {
      if (s->event[i].device != d) continue;
      fputs(first ? "\n" : ",\n", f);
      put_event(f, &s->event[i]);
      first = false;
    }
    fputc(']', f);
  }
  fputc(']', f);
}

tide_status tide_memory_snapshot_write(const tide_memory_snapshot *s, const char *path) {
  TIDE_GIVEN("memory_snapshot_write", s);
  tide_file *file;
  TIDE_TRY(tide_file_new(&file, "dump_snapshot", path));
  FILE *f = tide_file_stream(file);
  fprintf(f, "{\"version\":1,\"lost_entries\":%lld,\"segments\":[", (long long)s->lost);
  for (int64_t i = 0; i < s->segments; i++) {
    fputs(i ? ",\n" : "\n", f);
    put_segment(f, s, &s->segment[i]);
  }
  fputs("],\n", f);
  put_traces(f, s);
  fputs("}\n", f);
  return tide_file_finish(file);
}
