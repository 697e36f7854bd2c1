/* profiler.c: tide.cuda.profiler: a timeline of what a function does, a table of what takes the time, and the switch of
 * profilers of other makers.
 *
 * While the function runs, a userdata that is to be closed on the C stack holds the recording: whatever ends the
 * function ends it too. An error inside still leaves the file; what fails on the way out is then a warning, because
 * the error that was there first is the one to tell. A function that ends well waits for the devices first, so that a
 * failure of its work is raised as it would be without a recording. */
#include <stdlib.h>
#include <string.h>

#include "row.h"
#include "scope.h"
#include "tide/profiler.h"

#define RECORDING_META "tide.cuda.profiler.recording"

typedef struct ltide_recording {
  bool open;
  const char *path; /* where it goes, anchored as the first user value; NULL: to a table */
} ltide_recording;

/* {==== The function that is recorded */

static tide_status end_and_write(ltide_recording *r) {
  tide_profile *p;
  if (!r->open) return TIDE_OK;
  r->open = false;
  tide_status status = tide_profile_end(&p);
  if (status != TIDE_OK) return status;
  if (r->path) status = tide_profile_write(p, r->path);
  tide_profile_free(p);
  return status;
}

static int recording_close(lua_State *L) {
  ltide_recording *r = ltide_test_object(L, 1, RECORDING_META);
  ltide_enter(L);
  if (r && end_and_write(r) != TIDE_OK) ltide_warn(L, "%s", tide_error_get()->message);
  return 0;
}

/* Opens a recording, of which the userdata at the top of the stack is then in charge. */
static void begin(lua_State *L, const char *what, int path_arg, uint32_t flags) {
  ltide_recording *r = ltide_new_object(L, sizeof *r, 1);
  *r = (ltide_recording){0};
  ltide_setmetatable(L, RECORDING_META);
  if (path_arg) {
    lua_pushvalue(L, path_arg);
    lua_setiuservalue(L, -2, 1);
    r->path = lua_tostring(L, path_arg);
  }
  ltide_try(L, tide_profile_begin(what, flags));
  r->open = true;
  lua_toclose(L, -1);
}

/* Stack: ..., the recording at `slot`, results. */
static int trace_done(lua_State *L, int status, lua_KContext slot) {
  (void)status;
  ltide_enter(L);
  ltide_try(L, tide_profile_wait());
  ltide_try(L, end_and_write(lua_touserdata(L, (int)slot)));
  return lua_gettop(L) - (int)slot;
}

static int ltrace(lua_State *L) {
  static const char *const keys[] = {"events", NULL};
  if (ltide_unguarded(L)) return ltide_guarded(L, ltrace);
  ltide_enter(L);
  if (!lua_isfunction(L, 1)) return ltide_arg_error(L, 1, "fn", "a function");
  const char *path = ltide_check_cstring(L, 2, "path", "a string");
  int opts = lua_isnoneornil(L, 3) ? 0 : 3;
  if (opts && !lua_istable(L, 3)) return ltide_arg_error(L, 3, "opts", "a table of options");
  if (opts) ltide_check_keys(L, opts, keys);
  bool events = ltide_opt_boolean(L, opts, "events", false);
  ltide_try(L, tide_profile_check_path(path));
  begin(L, "profiler.trace", 2, events ? TIDE_PROFILE_EVENTS : 0);
  int slot = lua_gettop(L);
  lua_pushvalue(L, 1);
  lua_callk(L, 0, LUA_MULTRET, slot, trace_done);
  return trace_done(L, LUA_OK, slot);
}

/* {==== The table */

enum { LINE_WIDTH = 32, KERNEL_WIDTH = 36, MOST_ROWS = 40 };

static void set_number(lua_State *L, const char *key, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

static void set_string(lua_State *L, const char *key, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

static double per_second(int64_t bytes, double ms) { return ms > 0 ? (double)bytes / ms * 1e-6 : 0; }

static const char *device_name(lua_State *L, int device) {
  return device < 0 ? lua_pushliteral(L, "cpu") : lua_pushfstring(L, "cuda:%d", device);
}

static void push_row(lua_State *L, const tide_profile_row *r) {
  lua_createtable(L, 0, 13);
  set_string(L, "line", r->line), set_string(L, "op", r->op);
  set_string(L, "kernel", r->kernel), set_string(L, "raw_kernel", r->raw_kernel);
  device_name(L, r->device);
  lua_setfield(L, -2, "device");
  ltide_set_integer(L, "calls", r->calls), ltide_set_integer(L, "bytes", r->bytes);
  set_number(L, "total_ms", r->total_ms), set_number(L, "mean_us", 1000 * r->total_ms / (double)r->calls);
  set_number(L, "min_us", 1000 * r->min_ms), set_number(L, "max_us", 1000 * r->max_ms);
  set_number(L, "host_ms", r->host_ms), set_number(L, "percent", r->percent);
  set_number(L, "gb_per_s", per_second(r->bytes, r->total_ms));
}

static void push_copies(lua_State *L, const tide_profile_copies *c, const char *key) {
  lua_createtable(L, 0, 4);
  ltide_set_integer(L, "calls", c->calls), ltide_set_integer(L, "bytes", c->bytes);
  set_number(L, "ms", c->ms), set_number(L, "gb_per_s", per_second(c->bytes, c->ms));
  lua_setfield(L, -2, key);
}

static void push_devices(lua_State *L, const tide_profile_totals *t) {
  lua_newtable(L);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    const tide_profile_device *v = &t->device[d];
    if (!v->used) continue;
    device_name(L, d);
    lua_createtable(L, 0, 4);
    set_number(L, "busy_ms", v->busy_ms), set_number(L, "idle_ms", t->wall_ms - v->busy_ms);
    set_number(L, "kernel_ms", v->kernel_ms), set_number(L, "copy_ms", v->copy_ms);
    lua_rawset(L, -3);
  }
  lua_setfield(L, -2, "devices");
}

static void push_totals(lua_State *L, const tide_profile_totals *t) {
  set_number(L, "wall_ms", t->wall_ms), set_number(L, "host_ms", t->host_ms);
  set_number(L, "wait_ms", t->wait_ms);
  ltide_set_integer(L, "operations", t->operations), ltide_set_integer(L, "lost", t->lost);
  set_string(L, "source", t->source), set_string(L, "note", t->note);
  push_devices(L, t);
  lua_createtable(L, 0, 3);
  push_copies(L, &t->to_device, "to_device"), push_copies(L, &t->to_host, "to_host");
  push_copies(L, &t->between, "between");
  lua_setfield(L, -2, "copies");
}

/* Its end is what tells a long line from others, the beginning of a kernel's name. */
static void add_cell(luaL_Buffer *b, const char *text, int width, bool keep_end) {
  char cell[64];
  int length = (int)strlen(text);
  if (length <= width)
    snprintf(cell, sizeof cell, "%-*s  ", width, text);
  else
    snprintf(cell, sizeof cell, keep_end ? "..%.*s  " : "%.*s..  ", width - 2,
             keep_end ? text + length - width + 2 : text);
  luaL_addstring(b, cell);
}

static void add_rows(luaL_Buffer *b, const tide_profile_row *rows, int64_t count) {
  char cells[128];
  add_cell(b, "line", LINE_WIDTH, false), add_cell(b, "op", 16, false), add_cell(b, "kernel", KERNEL_WIDTH, false);
  snprintf(cells, sizeof cells, "%-7s %7s %11s %11s %6s %8s %9s\n", "device", "calls", "total ms", "mean us", "%",
           "GB/s", "host ms");
  luaL_addstring(b, cells);
  for (int64_t i = 0; i < count && i < MOST_ROWS; i++) {
    const tide_profile_row *r = &rows[i];
    char device[16] = "cpu", speed[16] = "-";
    if (r->device >= 0) snprintf(device, sizeof device, "cuda:%d", r->device);
    if (r->bytes && r->total_ms > 0) snprintf(speed, sizeof speed, "%.1f", per_second(r->bytes, r->total_ms));
    add_cell(b, r->line[0] ? r->line : "(unknown)", LINE_WIDTH, true);
    add_cell(b, r->op[0] ? r->op : "-", 16, false), add_cell(b, r->kernel[0] ? r->kernel : "-", KERNEL_WIDTH, false);
    snprintf(cells, sizeof cells, "%-7s %7lld %11.3f %11.1f %6.1f %8s %9.3f\n", device, (long long)r->calls,
             r->total_ms, 1000 * r->total_ms / (double)r->calls, r->percent, speed, r->host_ms);
    luaL_addstring(b, cells);
  }
  if (count <= MOST_ROWS) return;
  snprintf(cells, sizeof cells, "... and %lld more rows\n", (long long)(count - MOST_ROWS));
  luaL_addstring(b, cells);
}

static void add_copies(luaL_Buffer *b, const tide_profile_copies *c, const char *name) {
  char text[128];
  if (!c->calls) return;
  snprintf(text, sizeof text, "copies %s: %lld, %.3f MiB in %.3f ms, %.1f GB/s\n", name, (long long)c->calls,
           (double)c->bytes / 1048576, c->ms, per_second(c->bytes, c->ms));
  luaL_addstring(b, text);
}

static void add_totals(luaL_Buffer *b, const tide_profile_totals *t) {
  char text[512];
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    const tide_profile_device *v = &t->device[d];
    double both = v->kernel_ms + v->copy_ms - v->busy_ms;
    if (!v->used) continue;
    snprintf(text, sizeof text,
             "cuda:%d: busy %.3f ms (%.1f%%), idle %.3f ms; kernels %.3f ms, copies %.3f ms, %.3f ms of them at once\n",
             d, v->busy_ms, t->wall_ms > 0 ? 100 * v->busy_ms / t->wall_ms : 0, t->wall_ms - v->busy_ms, v->kernel_ms,
             v->copy_ms, both > 0 ? both : 0);
    luaL_addstring(b, text);
  }
  snprintf(text, sizeof text, "host: %.3f ms of %.3f ms in %lld operations, %.3f ms waiting for devices\n", t->host_ms,
           t->wall_ms, (long long)t->operations, t->wait_ms);
  luaL_addstring(b, text);
  add_copies(b, &t->to_device, "to devices"), add_copies(b, &t->to_host, "to the host");
  add_copies(b, &t->between, "on and between devices");
  if (t->source[0]) {
    snprintf(text, sizeof text, "device times: %s%s%s\n", t->source, t->note[0] ? ", because " : "", t->note);
    luaL_addstring(b, text);
  }
  if (t->lost) {
    snprintf(text, sizeof text, "lost: %lld pieces of work\n", (long long)t->lost);
    luaL_addstring(b, text);
  }
}

/* What has to be freed should Lua run out of memory on the way. */
typedef struct ltide_summary {
  tide_profile *p;
  tide_profile_row *rows;
} ltide_summary;
#define SUMMARY_META "tide.cuda.profiler.summary"

static int summary_gc(lua_State *L) {
  ltide_summary *s = ltide_test_object(L, 1, SUMMARY_META), own;
  if (!s) return 0;
  own = *s, *s = (ltide_summary){0};
  free(own.rows);
  tide_profile_free(own.p);
  return 0;
}

/* Pushes the table and prints the text through the program's own print. */
static void push_summary(lua_State *L, ltide_recording *r) {
  ltide_summary *s = ltide_new_object(L, sizeof *s, 0);
  *s = (ltide_summary){0};
  ltide_setmetatable(L, SUMMARY_META);
  int64_t count = 0;
  tide_profile_totals t;
  r->open = false;
  ltide_try(L, tide_profile_end(&s->p));
  ltide_try(L, tide_profile_rows(&s->rows, &count, s->p));
  tide_profile_totals_get(&t, s->p);
  lua_createtable(L, 0, 10);
  lua_createtable(L, (int)count, 0);
  for (int64_t i = 0; i < count; i++) {
    push_row(L, &s->rows[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "rows");
  push_totals(L, &t);
  luaL_Buffer b;
  lua_getglobal(L, "print");
  luaL_buffinit(L, &b);
  add_rows(&b, s->rows, count);
  add_totals(&b, &t);
  luaL_pushresult(&b);
  lua_pushlstring(L, lua_tostring(L, -1), lua_rawlen(L, -1) - 1); /* print ends the last line itself */
  lua_remove(L, -2);
  lua_call(L, 1, 0);
  lua_pushcfunction(L, summary_gc);
  lua_pushvalue(L, -3);
  lua_call(L, 1, 0);
  lua_remove(L, -2);
}

static int summary_done(lua_State *L, int status, lua_KContext slot) {
  (void)status;
  ltide_enter(L);
  luaL_checkstack(L, 16, "summary: results of the function");
  ltide_try(L, tide_profile_wait());
  push_summary(L, lua_touserdata(L, (int)slot));
  lua_insert(L, (int)slot + 1);
  return lua_gettop(L) - (int)slot;
}

static int lsummary(lua_State *L) {
  if (ltide_unguarded(L)) return ltide_guarded(L, lsummary);
  ltide_enter(L);
  if (!lua_isfunction(L, 1)) return ltide_arg_error(L, 1, "fn", "a function");
  int n = lua_gettop(L);
  luaL_checkstack(L, n + 4, "summary: arguments");
  begin(L, "profiler.summary", 0, 0);
  for (int i = 1; i <= n; i++) lua_pushvalue(L, i);
  lua_callk(L, n - 1, LUA_MULTRET, n + 1, summary_done);
  return summary_done(L, LUA_OK, n + 1);
}

/* {==== Profilers of other makers */

static int lstart(lua_State *L) {
  ltide_try(L, tide_profiler_control(true));
  return 0;
}

static int lstop(lua_State *L) {
  ltide_try(L, tide_profiler_control(false));
  return 0;
}

static void leave_profile(lua_State *L, void *data) {
  (void)L, (void)data;
  tide_profiler_control(false);
}

static int lprofile(lua_State *L) {
  ltide_enter(L);
  if (!lua_isnoneornil(L, 1) && !lua_isfunction(L, 1)) return ltide_arg_error(L, 1, "fn", "a function or nothing");
  int fn = lua_isfunction(L, 1) ? 1 : 0;
  ltide_block_new(L, "cuda.profiler.profile", fn, leave_profile, 0);
  ltide_try(L, tide_profiler_control(true));
  return ltide_block_open(L, fn);
}

#define PATH "tide.cuda.profiler."
static ltide_row rows[] = {
#include "api/profiler.def"
    {0}};

void ltide_open_profiler(lua_State *L, ltide_state *S) {
  (void)S;
  int module = lua_gettop(L);
  ltide_newmetatable(L, RECORDING_META);
  lua_pushcfunction(L, recording_close);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "__gc");
  lua_setfield(L, -2, "__close");
  ltide_newmetatable(L, SUMMARY_META);
  lua_pushcfunction(L, summary_gc);
  lua_setfield(L, -2, "__gc");
  lua_getfield(L, module, "cuda");
  lua_newtable(L);
  ltide_register_rows(L, "tide.cuda.profiler", rows);
  lua_setfield(L, -2, "profiler");
  lua_settop(L, module);
}
