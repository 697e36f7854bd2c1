/* info.c: what accelerators report of themselves, what the library was compiled for, access between devices.
 *
 * Reports come from the driver's management library for real devices, which is opened at the first question and is a
 * LibraryError where it is missing; a simulated device tells what it knows (memory, queued work, its clock) and is a
 * card at rest for the rest (40 degrees, 50 W). */
#include <stdio.h>
#include <string.h>

#include "row.h"
#include "bindings.h"
#include "tide/device.h"

static int resolved(lua_State *L, int arg) {
  int device = ltide_check_device(L, arg, "device", LTIDE_NIL_OK);
  return device == TIDE_CURRENT ? tide_current_device() : device;
}

/* {==== Reports */

static int report(lua_State *L, tide_telemetry what) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  int64_t value;
  ltide_try(L, tide_device_telemetry(&value, resolved(L, 1), what));
  lua_pushinteger(L, value);
  return 1;
}
static int lutilization(lua_State *L) { return report(L, TIDE_UTILIZATION); }
static int lmemory_usage(lua_State *L) { return report(L, TIDE_MEMORY_UTILIZATION); }
static int ltemperature(lua_State *L) { return report(L, TIDE_TEMPERATURE); }
static int lpower_draw(lua_State *L) { return report(L, TIDE_POWER); }
static int lclock_rate(lua_State *L) { return report(L, TIDE_CLOCK); }
static int ldevice_memory_used(lua_State *L) { return report(L, TIDE_MEMORY_USED); }

/* "GPU:0" and a line for each process; the same as a table. Where nobody can tell, the text says so instead. */
static int llist_gpu_processes(lua_State *L) {
  enum { MOST = 256 };
  tide_process list[MOST];
  int count = MOST, device = resolved(L, 1);
  tide_status status = tide_device_processes(list, &count, device);
  if (status == TIDE_LIBRARY || status == TIDE_SUPPORT) {
    lua_pushstring(L, tide_error_get()->message);
    lua_newtable(L);
    return 2;
  }
  ltide_try(L, status);
  if (count > MOST) count = MOST;
  lua_createtable(L, count, 0);
  int table = lua_gettop(L);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  lua_pushfstring(L, "GPU:%d", device);
  luaL_addvalue(&b);
  if (!count) luaL_addstring(&b, "\nno processes are running");
  for (int i = 0; i < count; i++) {
    char line[96];
    if (list[i].bytes < 0)
      snprintf(line, sizeof line, "\nprocess %10lld uses unknown GPU memory", (long long)list[i].pid);
    else
      snprintf(line, sizeof line, "\nprocess %10lld uses %12.3f MB GPU memory", (long long)list[i].pid,
               (double)list[i].bytes / (1 << 20));
    luaL_addstring(&b, line);
  }
  luaL_pushresult(&b);
  for (int i = 0; i < count; i++) {
    lua_createtable(L, 0, 2);
    ltide_set_integer(L, "pid", list[i].pid);
    if (list[i].bytes >= 0) { ltide_set_integer(L, "used_bytes", list[i].bytes); }
    lua_rawseti(L, table, i + 1);
  }
  lua_pushvalue(L, table);
  return 2;
}

/* {==== What it was compiled for */

/* Calls visit for each word of the list. */
static void each_arch(lua_State *L, void (*visit)(lua_State *L, luaL_Buffer *b, int n), luaL_Buffer *b) {
  char text[512];
  int n = 0;
  tide_arch_list(text, sizeof text);
  for (char *save = NULL, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    lua_pushstring(L, word);
    visit(L, b, ++n);
  }
}

static void add_to_list(lua_State *L, luaL_Buffer *b, int n) { lua_rawseti(L, -2, n); }

static int lget_arch_list(lua_State *L) {
  lua_newtable(L);
  each_arch(L, add_to_list, NULL);
  return 1;
}

/* The word is at the top of the stack, above whatever the buffer keeps there, and becomes part of it. */
static void add_flag(lua_State *L, luaL_Buffer *b, int n) {
  const char *word = lua_tostring(L, -1), *number = strchr(word, '_');
  lua_pushfstring(L, "%s-gencode compute=compute%s,code=%s", n > 1 ? " " : "", number ? number : "", word);
  lua_remove(L, -2);
  luaL_addvalue(b);
}

static int lget_gencode_flags(lua_State *L) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  each_arch(L, add_flag, &b);
  luaL_pushresult(&b);
  return 1;
}

static int lmin_capability(lua_State *L) {
  int major, minor;
  ltide_try(L, tide_min_capability(&major, &minor));
  lua_pushinteger(L, major);
  lua_pushinteger(L, minor);
  return 2;
}

static int at_least(lua_State *L, int major) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  const tide_device_props *p;
  bool available = tide_is_available();
  if (available) ltide_try(L, tide_device_get_props(&p, resolved(L, 1)));
  lua_pushboolean(L, available && p->major >= major);
  return 1;
}
static int lis_bf16_supported(lua_State *L) { return at_least(L, 8); }
static int lis_tf32_supported(lua_State *L) { return at_least(L, 8); }

/* For tests: which devices this process has a context on. */
static int lis_open(lua_State *L) {
  lua_pushboolean(L, tide_device_is_open(resolved(L, 1)));
  return 1;
}

static int lcurrent_blas_handle(lua_State *L) {
  static const char *const keys[] = {"as", NULL};
  uint64_t handle;
  bool integer = false;
  if (lua_istable(L, 1)) {
    ltide_check_keys(L, 1, keys);
    integer = ltide_rawfield(L, 1, "as") != LUA_TNIL;
    if (integer && (lua_type(L, -1) != LUA_TSTRING || strcmp(lua_tostring(L, -1), "integer") != 0))
      return ltide_arg_error(L, -1, "as", "'integer' or nothing");
  } else if (!lua_isnoneornil(L, 1))
    return ltide_arg_error(L, 1, "opts", "a table {as = 'integer'}");
  ltide_try(L, tide_blas_handle(&handle, TIDE_CURRENT));
  if (integer)
    lua_pushinteger(L, (lua_Integer)handle);
  else
    lua_pushlightuserdata(L, (void *)(uintptr_t)handle);
  return 1;
}

/* {==== Access between devices */

static int lset_peer_access(lua_State *L) {
  int device = resolved(L, 1), peer = ltide_check_device(L, 2, "peer", 0);
  if (!lua_isboolean(L, 3)) return ltide_arg_error(L, 3, "enabled", "true or false");
  ltide_try(L, tide_set_peer_access(device, peer, lua_toboolean(L, 3)));
  return 0;
}

static int lget_peer_access(lua_State *L) {
  bool enabled;
  ltide_try(L, tide_get_peer_access(&enabled, resolved(L, 1), ltide_check_device(L, 2, "peer", 0)));
  lua_pushboolean(L, enabled);
  return 1;
}

/* {==== Opening */

/* tide.cuda.streams: the same classes once more. The table tide.cuda is at the top, streams and events are in it. */
static void open_streams(lua_State *L) {
  static const char *const names[] = {"Stream", "Event", "ExternalStream", "StreamContext"};
  luaL_getsubtable(L, -1, "streams");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    lua_getfield(L, -2, names[i]);
    lua_setfield(L, -2, names[i]);
  }
  lua_pop(L, 1);
}

void ltide_open_info(lua_State *L, ltide_state *S) {
#define PATH "tide.cuda."
  static ltide_row rows[] = {
#include "api/info.def"
      {0}};
  lua_getfield(L, -1, "cuda");
  ltide_register_rows(L, "tide.cuda", rows);
  open_streams(L);
  lua_pop(L, 1);
}
