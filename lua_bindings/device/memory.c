/* memory.c: the figures of device memory that programs ask for all the time, and its control.
 *
 * Whatever is in tide.cuda about memory is in tide.cuda.memory as well. A figure is asked for without a driver call and
 * without opening anything: a device that was never used has zeros. What finalisers have let go of is released first,
 * so a figure tells what is held. */

#include "memory.h"

int ltide_memory_device(lua_State *L, const ltide_value *device) {
  tide_memory_pump();
  int d = device->given && device->device != TIDE_CURRENT ? device->device : tide_current_device();
  if (device->given && tide_is_initialized() && d >= tide_device_count())
    ltide_fail(L, "DeviceError", "device: no such device, got cuda:%d, expected a number from 0 to %d", d,
               tide_device_count() - 1);
  return d;
}

void ltide_register_memory(lua_State *L, ltide_row *rows) {
  ltide_register_in(L, "tide.cuda", rows);
  lua_getfield(L, -1, "cuda");
  ltide_register_also(L, "memory", rows);
  lua_pop(L, 1);
}

void ltide_deprecated(lua_State *L, const char *old, const char *now) {
  static const char key;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key) == LUA_TNIL) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
    lua_replace(L, -2);
  }
  bool warned = lua_getfield(L, -1, old) != LUA_TNIL;
  lua_pushboolean(L, 1);
  lua_setfield(L, -3, old);
  lua_pop(L, 2);
  if (!warned) ltide_warn(L, "tide.cuda.%s is an old name: use tide.cuda.%s", old, now);
}

/* {==== Old names: their rows say "Old name of", the new one */

static int run_old(lua_State *L) {
  ltide_call c;
  ltide_call_read(L, &c);
  const char *now = strstr(c.row->doc, "Old name of ") + sizeof "Old name of " - 1;
  lua_pushlstring(L, now, strlen(now) - 1);
  ltide_deprecated(L, c.row->name, lua_tostring(L, -1));
  return c.row->body(L, &c);
}

/* {==== Figures */

static int lmemory_allocated(lua_State *L, ltide_call *c) {
  return ltide_give_integer(L, (lua_Integer)tide_memory_allocated(ltide_memory_device(L, &c->v[0])));
}

/* Programs ask for it in every step, without an argument to be read. */
static int lallocated_now(lua_State *L) {
  if (lua_gettop(L)) return ltide_run(L);
  ltide_begin(L);
  tide_memory_pump();
  return ltide_give_integer(L, (lua_Integer)tide_memory_allocated(tide_current_device()));
}

static int lmemory_reserved(lua_State *L, ltide_call *c) {
  return ltide_give_integer(L, (lua_Integer)tide_memory_reserved(ltide_memory_device(L, &c->v[0])));
}

/* The peak of the counter that lies where the row says. */
static int lpeak(lua_State *L, ltide_call *c) {
  tide_memory_stats s;
  ltide_try(L, tide_memory_get_stats(&s, ltide_memory_device(L, &c->v[0])));
  return ltide_give_integer(L, ((const tide_stat *)((const char *)&s + c->row->tag))[TIDE_POOL_ALL].peak);
}

static int lmem_get_info(lua_State *L, ltide_call *c) {
  size_t free_bytes, total;
  ltide_try(L, tide_device_mem_info(&free_bytes, &total, ltide_memory_device(L, &c->v[0])));
  return ltide_give_pair(L, (lua_Integer)free_bytes, (lua_Integer)total);
}

/* {==== Control */

static int lempty_cache(lua_State *L, ltide_call *c) {
  if (!tide_is_initialized()) return 0;
  if (c->v[0].boolean) lua_gc(L, LUA_GCCOLLECT); /* asked for, so also where the collector is stopped */
  ltide_enter_again(L);
  return ltide_done(L, tide_memory_empty_cache(TIDE_CURRENT));
}

static int lreset_peak(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_memory_reset_peak(ltide_memory_device(L, &c->v[0])));
}

static int lreset_accumulated(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_memory_reset_accumulated(ltide_memory_device(L, &c->v[0])));
}

static int lset_fraction(lua_State *L, ltide_call *c) {
  int at = c->v[0].at;
  if (lua_type(L, at) != LUA_TNUMBER) return ltide_arg_error(L, at, "fraction", "a number from 0 to 1");
  return ltide_done(L, tide_memory_set_fraction(lua_tonumber(L, at), ltide_memory_device(L, &c->v[1])));
}

static int lget_fraction(lua_State *L, ltide_call *c) {
  return lua_pushnumber(L, tide_memory_get_fraction(ltide_memory_device(L, &c->v[0]))), 1;
}

void ltide_open_memory(lua_State *L, ltide_state *S) {
#include <rows/memory.inc>
  ltide_register_memory(L, memory_rows);
}
