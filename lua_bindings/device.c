/* device.c: tide.device objects, and the rows of tide.cuda about devices. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "row.h"
#include "names.h"
#include "tide/device.h"

#define DEVICE_META "tide.device"
/* The accelerator that arg names, resolved and known to exist. */
static int check_named(lua_State *L, int arg, const char *name, int flags) {
  int device = ltide_check_device(L, arg, name, flags);
  if (device == TIDE_CURRENT) device = tide_current_device();
  const tide_device_props *props;
  tide_status status = tide_device_get_props(&props, device);
  int count = status == TIDE_DEVICE ? tide_device_count() : 0;
  if (count > 0 && device >= count)
    return ltide_error(L, "DeviceError", "%s: %s: no such device, got cuda:%d, expected a number from 0 to %d",
                       ltide_function_name(L), name, device, count - 1);
  ltide_try(L, status);
  return device;
}

static int check_accelerator(lua_State *L, int arg, int flags) { return check_named(L, arg, "device", flags); }

/* {==== tide.device */

static int ldevice(lua_State *L) {
  if (!lua_isnoneornil(L, 2)) {
    const char *type = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : NULL;
    if (!type) return ltide_arg_error(L, 1, "type", "'cuda', as an index follows");
    lua_Integer index = ltide_check_integer(L, 2, "index");
    if (strcmp(type, "cuda"))
      return ltide_error(L, "ValueError", "device: type '%s' takes no index, expected 'cuda'", type);
    if (index < 0 || index >= TIDE_MAX_DEVICES)
      return ltide_error(L, "ValueError", "device: index: got %I, expected 0 to %d", index, TIDE_MAX_DEVICES - 1);
    ltide_push_device(L, (int)index);
    return 1;
  }
  ltide_push_device(L, ltide_check_device(L, 1, "device", LTIDE_CPU_OK));
  return 1;
}

static int check_self(lua_State *L) { return *(int *)ltide_check_object(L, 1, DEVICE_META); }

static int device_healthy(lua_State *L) {
  tide_status status = tide_device_health(check_self(L));
  if (status != TIDE_OK && status != TIDE_ACCELERATOR) return ltide_raise(L);
  lua_pushboolean(L, status == TIDE_OK);
  if (status == TIDE_OK) return 1;
  ltide_push_raised(L);
  return 2;
}

static int device_index(lua_State *L) {
  int device = check_self(L);
  const char *key = ltide_check_text(L, 2, "key");
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  if (!strcmp(key, "type"))
    lua_pushstring(L, device == TIDE_CPU ? "cpu" : "cuda");
  else if (!strcmp(key, "index") && device >= 0)
    lua_pushinteger(L, device);
  else if (!strcmp(key, "index"))
    lua_pushnil(L);
  else
    return ltide_no_field(L, "device", key, lua_upvalueindex(1), "type index");
  return 1;
}

static int device_tostring(lua_State *L) {
  int device = check_self(L);
  if (device < 0)
    lua_pushstring(L, device == TIDE_CPU ? "cpu" : "cuda");
  else
    lua_pushfstring(L, "cuda:%d", device);
  return 1;
}

static int device_eq(lua_State *L) {
  const int *a = ltide_test_device(L, 1), *b = ltide_test_device(L, 2);
  lua_pushboolean(L, a && b && *a == *b);
  return 1;
}

static int lset_default_device(lua_State *L) {
  ltide_try(L, tide_set_default_device(ltide_check_device(L, 1, "device", LTIDE_CPU_OK)));
  return 0;
}

static int lget_default_device(lua_State *L) {
  ltide_push_device(L, tide_default_device());
  return 1;
}

static void leave_default(lua_State *L, void *data) {
  if (!L) return;
  tide_set_default_device(*(int *)data);
}

static int ldevice_scope(lua_State *L) {
  ltide_enter(L);
  int device = ltide_check_device(L, 1, "device", LTIDE_CPU_OK), fn = lua_isfunction(L, 2) ? 2 : 0;
  if (!fn && !lua_isnoneornil(L, 2)) return ltide_arg_error(L, 2, "fn", "a function or nothing");
  int *before = ltide_block_new(L, "device_scope", fn, leave_default, sizeof *before);
  *before = tide_default_device();
  ltide_try(L, tide_set_default_device(device));
  return ltide_block_open(L, fn);
}

/* {==== tide.cuda: which devices there are */

static int lis_available(lua_State *L) {
  lua_pushboolean(L, tide_is_available());
  return 1;
}

static int lis_initialized(lua_State *L) {
  lua_pushboolean(L, tide_is_initialized());
  return 1;
}

static int linit(lua_State *L) {
  ltide_try(L, tide_device_init());
  return 0;
}

static int ldevice_count(lua_State *L) {
  lua_pushinteger(L, tide_device_count());
  return 1;
}

/* Which one is selected can be asked when it is lost, too, and opens it only if nothing is open yet. */
static int lcurrent_device(lua_State *L) {
  if (!tide_is_initialized()) ltide_try(L, tide_device_init());
  lua_pushinteger(L, tide_current_device());
  return 1;
}

static int lset_device(lua_State *L) {
  int device = ltide_check_device(L, 1, "device", LTIDE_NEGATIVE_OK);
  if (device != TIDE_CURRENT) ltide_try(L, tide_current_set_device(check_accelerator(L, 1, 0)));
  return 0;
}

static void leave_device(lua_State *L, void *data) {
  if (!L) return;
  tide_current_set_device(*(int *)data);
}

/* On TIDE_CPU the block is none: what is set inside lasts. */
static int enter_device(lua_State *L, const char *what, int device) {
  if (!lua_isnoneornil(L, 2) && !lua_isfunction(L, 2)) return ltide_arg_error(L, 2, "fn", "a function or nothing");
  int fn = lua_isfunction(L, 2) ? 2 : 0;
  if (device == TIDE_CPU) return ltide_empty_block(L, what, fn);
  int *before = ltide_block_new(L, what, fn, leave_device, sizeof *before);
  *before = tide_current_device();
  if (device >= 0) ltide_try(L, tide_current_set_device(device));
  return ltide_block_open(L, fn);
}

static int lcuda_device(lua_State *L) {
  ltide_enter(L);
  int device = ltide_check_device(L, 1, "device", LTIDE_NIL_OK | LTIDE_NEGATIVE_OK);
  if (device != TIDE_CURRENT)
    device = check_accelerator(L, 1, 0);
  else if (!ltide_is_device(L, 1)) /* nil or negative, and not "cuda" */
    device = TIDE_CPU;
  return enter_device(L, "cuda.device", device);
}

static int ldevice_of(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *t = ltide_test_tensor(L, S, 1);
  int device = t ? tide_tensor_device(t) : TIDE_CPU;
  if (!t) {
    if (!ltide_test_object(L, 1, "tide.Storage")) return ltide_arg_error(L, 1, "obj", "a tensor or a storage");
    lua_getfield(L, 1, "device");
    device = ltide_check_device(L, -1, "obj", LTIDE_CPU_OK);
    lua_pop(L, 1);
  }
  return enter_device(L, "cuda.device_of", device);
}

static int lsynchronize(lua_State *L) {
  int device = check_accelerator(L, 1, LTIDE_NIL_OK);
  ltide_try(L, tide_device_synchronize(device));
  return 0;
}

static int lsynchronize_all(lua_State *L) {
  for (int i = 0; tide_is_initialized() && i < tide_device_count(); i++) ltide_try(L, tide_device_synchronize(i));
  return 0;
}

static int lcan_device_access_peer(lua_State *L) {
  bool can;
  int device = check_accelerator(L, 1, LTIDE_NIL_OK), peer = check_named(L, 2, "peer", 0);
  ltide_try(L, tide_device_can_access_peer(&can, device, peer));
  lua_pushboolean(L, can);
  return 1;
}

static int version(lua_State *L, bool driver) {
  ltide_enter(L);
  int d, r;
  ltide_try(L, tide_driver_version(&d, &r));
  lua_pushinteger(L, driver ? d : r);
  return 1;
}
static int ldriver_version(lua_State *L) { return version(L, true); }
static int lruntime_version(lua_State *L) { return version(L, false); }

/* {==== Properties */

static const tide_device_props *check_props(lua_State *L, int arg) {
  const tide_device_props *p;
  ltide_try(L, tide_device_get_props(&p, check_accelerator(L, arg, LTIDE_NIL_OK)));
  return p;
}

static int lget_device_name(lua_State *L) {
  lua_pushstring(L, check_props(L, 1)->name);
  return 1;
}

static int lget_device_capability(lua_State *L) {
  const tide_device_props *p = check_props(L, 1);
  lua_pushinteger(L, p->major);
  lua_pushinteger(L, p->minor);
  return 2;
}

static void set_uuid(lua_State *L, const unsigned char *u) {
  char text[40];
  snprintf(text, sizeof text, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2],
           u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
  lua_pushstring(L, text);
  lua_setfield(L, -2, "uuid");
}

static void push_props_table(lua_State *L, const tide_device_props *p) {
  lua_createtable(L, 0, 28);
  lua_pushstring(L, p->name);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, p->name); /* as torch has it for GPUs that are not AMD's */
  lua_setfield(L, -2, "gcnArchName");
#define FLAG(field)   (lua_pushboolean(L, p->field), lua_setfield(L, -2, #field))
#define NUMBER(field) (lua_pushinteger(L, (lua_Integer)p->field), lua_setfield(L, -2, #field))
  FLAG(simulated);
  FLAG(is_integrated);
  FLAG(is_multi_gpu_board);
  NUMBER(major);
  NUMBER(minor);
  NUMBER(multi_processor_count);
  NUMBER(max_threads_per_multi_processor);
  NUMBER(max_threads_per_block);
  NUMBER(warp_size);
  NUMBER(regs_per_multiprocessor);
  NUMBER(total_memory);
  NUMBER(shared_memory_per_block);
  NUMBER(shared_memory_per_block_optin);
  NUMBER(shared_memory_per_multiprocessor);
  NUMBER(L2_cache_size);
  NUMBER(pci_bus_id);
  NUMBER(pci_device_id);
  NUMBER(pci_domain_id);
  NUMBER(clock_rate);
  NUMBER(memory_clock_rate);
  NUMBER(memory_bus_width);
#undef FLAG
#undef NUMBER
  set_uuid(L, p->uuid);
}

/* props is a userdata whose user value is the table of its fields. */
static int lget_device_properties(lua_State *L) {
  const tide_device_props *p = check_props(L, 1);
  ltide_new_object(L, 0, 1);
  ltide_setmetatable(L, "tide.properties");
  push_props_table(L, p);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

static int props_totable(lua_State *L) {
  ltide_check_object(L, 1, "tide.properties");
  lua_getiuservalue(L, 1, 1);
  lua_newtable(L);
  lua_pushnil(L);
  while (lua_next(L, -3)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
  return 1;
}

static int props_index(lua_State *L) {
  ltide_check_object(L, 1, "tide.properties");
  const char *key = ltide_check_text(L, 2, "key");
  if (!strcmp(key, "totable")) {
    lua_pushcfunction(L, props_totable);
    return 1;
  }
  lua_getiuservalue(L, 1, 1);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, -2) == LUA_TNIL) return ltide_no_field(L, "get_device_properties", key, -2, "totable");
  return 1;
}

static int props_newindex(lua_State *L) {
  return ltide_error(L, "ArgumentError", "get_device_properties: the properties of a device are read-only");
}

static lua_Integer props_number(lua_State *L, const char *key) {
  lua_getfield(L, -1, key);
  lua_Integer n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

static int props_tostring(lua_State *L) {
  ltide_check_object(L, 1, "tide.properties");
  lua_getiuservalue(L, 1, 1);
  lua_Integer major = props_number(L, "major"), minor = props_number(L, "minor");
  lua_Integer mb = props_number(L, "total_memory") >> 20, sms = props_number(L, "multi_processor_count");
  lua_getfield(L, -1, "name");
  lua_pushfstring(L, "device properties (name='%s', cc=%I.%I, total_memory=%IMB, multi_processor_count=%I)",
                  lua_tostring(L, -1), major, minor, mb, sms);
  return 1;
}

static void open_metatables(lua_State *L, ltide_state *S) {
  static ltide_row device_rows[] = {
#include "api/device.def"
      {0}};
  static const luaL_Reg device[] = {
      {"__newindex", ltide_read_only}, {"__tostring", device_tostring}, {"__eq", device_eq}, {0}};
  static const luaL_Reg props[] = {
      {"__index", props_index}, {"__newindex", props_newindex}, {"__tostring", props_tostring}, {0}};
  ltide_newmetatable(L, DEVICE_META);
  S->device_meta = lua_topointer(L, -1);
  luaL_setfuncs(L, device, 0);
  lua_createtable(L, 0, 1);
  ltide_register_rows(L, "device", device_rows);
  lua_pushcclosure(L, device_index, 1);
  lua_setfield(L, -2, "__index");
  ltide_newmetatable(L, "tide.properties");
  luaL_setfuncs(L, props, 0);
  lua_pop(L, 2);
}

void ltide_open_device(lua_State *L, ltide_state *S) {
  open_metatables(L, S);
#define PATH "tide."
  static ltide_row device_device_rows[] = {
#include "api/device_device.def"
      {0}};
#undef PATH
#define PATH "tide.cuda."
  static ltide_row device_cuda_rows[] = {
#include "api/device_cuda.def"
      {0}};
  ltide_register_rows(L, "tide", device_device_rows);
  lua_getfield(L, -1, "cuda");
  ltide_register_rows(L, "tide.cuda", device_cuda_rows);
  lua_pop(L, 1);
}
