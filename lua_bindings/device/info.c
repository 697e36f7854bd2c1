/* info.c: what accelerators report of themselves, what the library was compiled for, access between devices.
 *
 * Reports come from the driver's management library for real devices, which is opened at the first question and is a
 * LibraryError where it is missing; a simulated device tells what it knows (memory, queued work, its clock) and is a
 * card at rest for the rest (40 degrees, 50 W). */

#include "call/row.h"
#include "tide/device.h"

static int resolved(int device) { return device == TIDE_CURRENT ? tide_current_device() : device; }

/* {==== Reports */

static int lreport(lua_State *L, ltide_call *c) {
  int64_t value;
  ltide_try(L, tide_device_telemetry(&value, resolved(c->v[0].device), (tide_telemetry)c->row->tag));
  return ltide_give_integer(L, value);
}

/* "GPU:0" and a line for each process; the same as a table. Where nobody can tell, the text says so instead. */
static int llist_gpu_processes(lua_State *L, ltide_call *c) {
  enum { MOST = 256 };
  tide_device_process list[MOST];
  int count = MOST, device = resolved(c->v[0].device);
  tide_status status = tide_device_processes(list, &count, device);
  if (status == TIDE_LIBRARY || status == TIDE_SUPPORT) {
    lua_pushstring(L, tide_error_get()->message);
    lua_newtable(L);
    return 2;
  }
  ltide_try(L, status);
  if (count > MOST) count = MOST;
  lua_pushfstring(L, "GPU:%d%s", device, count ? "" : "\nno processes are running");
  int text = lua_gettop(L);
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    char used[64] = "unknown";
    lua_createtable(L, 0, 2);
    ltide_set_integer(L, "pid", list[i].pid);
    if (list[i].bytes >= 0) {
      ltide_set_integer(L, "used_bytes", list[i].bytes);
      snprintf(used, sizeof used, "%12.3f MB", (double)list[i].bytes / (1 << 20));
    }
    lua_rawseti(L, -2, i + 1);
    char line[128];
    snprintf(line, sizeof line, "\nprocess %10lld uses %s GPU memory", (long long)list[i].pid, used);
    lua_pushvalue(L, text), lua_pushstring(L, line), lua_concat(L, 2);
    lua_replace(L, text);
  }
  return 2;
}

/* {==== What it was compiled for */

enum { AS_LIST, AS_FLAGS }; /* tags */
static int larchs(lua_State *L, ltide_call *c) {
  char text[512];
  int n = 0;
  tide_arch_list(text, sizeof text);
  if (c->row->tag == AS_LIST)
    lua_newtable(L);
  else
    lua_pushliteral(L, "");
  for (char *save = NULL, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    const char *number = strchr(word, '_');
    if (c->row->tag == AS_LIST)
      lua_pushstring(L, word), lua_rawseti(L, -2, ++n);
    else {
      lua_pushfstring(L, "%s-gencode compute=compute%s,code=%s", n++ ? " " : "", number ? number : "", word);
      lua_concat(L, 2);
    }
  }
  return 1;
}

static int lmin_capability(lua_State *L, ltide_call *c) {
  int major, minor;
  ltide_try(L, tide_min_capability(&major, &minor));
  return ltide_give_pair(L, major, minor);
}

/* The tag is the lowest major number of the capability. */
static int lis_supported(lua_State *L, ltide_call *c) {
  const tide_device_props *p;
  bool available = tide_is_available();
  if (available) ltide_try(L, tide_device_get_props(&p, resolved(c->v[0].device)));
  return ltide_give_boolean(L, available && p->major >= c->row->tag);
}

/* For tests: which devices this process has a context on. */
static int lis_open(lua_State *L, ltide_call *c) {
  return ltide_give_boolean(L, tide_device_is_open(resolved(c->v[0].device)));
}

static int lcurrent_blas_handle(lua_State *L, ltide_call *c) {
  const ltide_value *as = &c->v[0];
  uint64_t handle;
  if (as->given && (lua_type(L, as->at) != LUA_TSTRING || strcmp(lua_tostring(L, as->at), "integer") != 0))
    return ltide_arg_error(L, as->at, "as", "'integer' or nothing");
  ltide_try(L, tide_blas_handle(&handle, TIDE_CURRENT));
  if (as->given) return ltide_give_integer(L, (lua_Integer)handle);
  return lua_pushlightuserdata(L, (void *)(uintptr_t)handle), 1;
}

/* {==== Access between devices */

/* The first device may be nil, as the current one is. */
static int first_device(lua_State *L) { return resolved(ltide_check_device(L, 1, "device", LTIDE_NIL_OK)); }

static int lset_peer_access(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_set_peer_access(first_device(L), c->v[1].device, c->v[2].boolean));
}

static int lget_peer_access(lua_State *L, ltide_call *c) {
  bool enabled;
  ltide_try(L, tide_get_peer_access(&enabled, first_device(L), c->v[1].device));
  return ltide_give_boolean(L, enabled);
}

/* tide.cuda.streams: the same classes once more. */
void ltide_open_info(lua_State *L, ltide_state *S) {
#include <rows/info.inc>
  static const ltide_row again[] = {
      {.name = "Stream"}, {.name = "Event"}, {.name = "ExternalStream"}, {.name = "StreamContext"}, {0}};
  ltide_register_in(L, "tide.cuda", info_rows);
  lua_getfield(L, -1, "cuda");
  ltide_register_also(L, "streams", again);
  lua_pop(L, 1);
}
