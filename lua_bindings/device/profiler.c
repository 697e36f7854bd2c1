/* profiler.c: tide.cuda.profiler: a timeline of what a function does, a table of what takes the time, and the switch of
 * profilers of other makers. The function is called, and the table worked out, in device/profiler.lua.
 *
 * An error in the function that is recorded still leaves the file; what fails on the way out is then a warning, because
 * the error that was there first is the one to tell. */
#include <stdlib.h>

#include "call/row.h"
#include "call/fields.h"
#include "call/block.h"
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

/* begin_recording(what [, path, events]) */
static int script_begin_recording(lua_State *L) {
  lua_settop(L, 3);
  if (lua_isstring(L, 2)) ltide_try(L, tide_profile_check_path(lua_tostring(L, 2)));
  ltide_recording *r = ltide_new_object(L, sizeof *r, 1);
  *r = (ltide_recording){false, lua_tostring(L, 2)};
  ltide_setmetatable(L, RECORDING_META);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, -2, 1);
  ltide_try(L, tide_profile_begin(lua_tostring(L, 1), lua_toboolean(L, 3) ? TIDE_PROFILE_EVENTS : 0));
  r->open = true;
  return 1;
}

static int script_end_trace(lua_State *L) {
  ltide_enter(L);
  ltide_try(L, tide_profile_wait());
  return ltide_done(L, end_and_write(lua_touserdata(L, 1)));
}

/* {==== The table */

static void free_profile(void *p) { tide_profile_free(p); }

static void set_copies(lua_State *L, const tide_profile_copies *c, const char *key) {
  static const ltide_field fields[] = LTIDE_FIELDS(tide_profile_copies, calls, bytes, ms);
  lua_createtable(L, 0, 4);
  ltide_set_fields(L, fields, c, false);
  lua_setfield(L, -2, key);
}

static void set_devices(lua_State *L, const tide_profile_totals *t) {
  static const ltide_field fields[] = LTIDE_FIELDS(tide_profile_device, busy_ms, kernel_ms, copy_ms);
  lua_newtable(L);
  ltide_set_integer(L, "last", -1);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    if (!t->device[d].used) continue;
    lua_createtable(L, 0, 4);
    ltide_set_fields(L, fields, &t->device[d], false);
    lua_rawseti(L, -2, d);
    ltide_set_integer(L, "last", d);
  }
  lua_setfield(L, -2, "devices");
}

/* {rows=, copies=, devices={[0]=, ..., last=}, ...}, with what core tells and nothing else. */
static int script_read_summary(lua_State *L) {
  static const ltide_field row_fields[] = LTIDE_FIELDS(tide_profile_row, line, op, kernel, raw_kernel, device, calls,
                                                       total_ms, min_ms, max_ms, host_ms, percent, bytes);
  static const ltide_field fields[] =
      LTIDE_FIELDS(tide_profile_totals, wall_ms, host_ms, wait_ms, operations, lost, source, note);
  ltide_recording *r = lua_touserdata(L, 1);
  tide_profile_totals t;
  int64_t count = 0;
  ltide_enter(L);
  ltide_try(L, tide_profile_wait());
  tide_profile **p = (tide_profile **)ltide_push_owned(L, free_profile);
  tide_profile_row **rows = (tide_profile_row **)ltide_push_owned(L, free);
  r->open = false;
  ltide_try(L, tide_profile_end(p));
  ltide_try(L, tide_profile_rows(rows, &count, *p));
  tide_profile_totals_get(&t, *p);
  lua_createtable(L, 0, 10);
  lua_createtable(L, (int)count, 0);
  for (int64_t i = 0; i < count; i++) {
    lua_createtable(L, 0, 14);
    ltide_set_fields(L, row_fields, &(*rows)[i], false);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "rows");
  ltide_set_fields(L, fields, &t, false);
  set_devices(L, &t);
  lua_createtable(L, 0, 3);
  set_copies(L, &t.to_device, "to_device"), set_copies(L, &t.to_host, "to_host");
  set_copies(L, &t.between, "between");
  lua_setfield(L, -2, "copies");
  return 1;
}

/* {==== Profilers of other makers */

static int lcontrol(lua_State *L, ltide_call *c) { return ltide_done(L, tide_profiler_control(c->row->tag)); }

static void leave_profile(lua_State *L, void *data) { tide_profiler_control(false); }

static int lprofile(lua_State *L, ltide_call *c) {
  ltide_block_new(L, "cuda.profiler.profile", c->v[0].at, leave_profile, 0);
  ltide_try(L, tide_profiler_control(true));
  return ltide_block_open(L, c->v[0].at);
}

#include <rows/profiler.inc>

void ltide_open_profiler(lua_State *L, ltide_state *S) {
  LTIDE_GIVE(L, "device/profiler.c", begin_recording, end_trace, read_summary);
  static const luaL_Reg meta[] = {{"__gc", recording_close}, {"__close", recording_close}, {0}};
  ltide_new_class(L, RECORDING_META, meta, NULL, NULL, NULL);
  ltide_register_in(L, "tide.cuda.profiler", profiler_rows);
}
