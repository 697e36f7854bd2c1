/* device.c: tide.device objects, and the rows of tide.cuda about devices. */

#include "call/class.h"
#include "tensor/tensor.h"
#include "call/block.h"
#include "tide/device.h"

/* The accelerator that was asked for, resolved and known to exist. */
static int check_named(lua_State *L, int device, const char *name) {
  if (device == TIDE_CURRENT) device = tide_current_device();
  const tide_device_props *props;
  tide_status status = tide_device_get_props(&props, device);
  int count = status == TIDE_DEVICE ? tide_device_count() : 0;
  if (count > 0 && device >= count)
    return ltide_fail(L, "DeviceError", "%s: no such device, got cuda:%d, expected a number from 0 to %d", name, device,
                      count - 1);
  ltide_try(L, status);
  return device;
}

static int check_device(lua_State *L, int device) { return check_named(L, device, "device"); }

/* {==== tide.device */

static int ldevice(lua_State *L, ltide_call *c) {
  if (!c->v[1].given) { return ltide_push_device(L, ltide_check_device(L, 1, "device", LTIDE_CPU_OK)), 1; }
  const char *type = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : NULL;
  if (!type) return ltide_arg_error(L, 1, "type", "'cuda', as an index follows");
  lua_Integer index = ltide_check_integer(L, c->v[1].at, "index");
  if (strcmp(type, "cuda"))
    return ltide_error(L, "ValueError", "device: type '%s' takes no index, expected 'cuda'", type);
  if (index < 0 || index >= TIDE_MAX_DEVICES)
    return ltide_error(L, "ValueError", "device: index: got %I, expected 0 to %d", index, TIDE_MAX_DEVICES - 1);
  return ltide_push_device(L, (int)index), 1;
}

static int device_healthy(lua_State *L, ltide_call *c) {
  tide_status status = tide_device_health(*(int *)ltide_check_object(L, 1, "tide.device"));
  if (status != TIDE_OK && status != TIDE_ACCELERATOR) return ltide_raise(L);
  lua_pushboolean(L, status == TIDE_OK);
  if (status == TIDE_OK) return 1;
  ltide_push_raised(L);
  return 2;
}

static int type_of(lua_State *L, void *device) {
  return lua_pushstring(L, *(int *)device == TIDE_CPU ? "cpu" : "cuda"), 1;
}

static int index_of(lua_State *L, void *device) {
  if (*(int *)device >= 0) return ltide_give_integer(L, *(int *)device);
  return lua_pushnil(L), 1;
}

static int device_tostring(lua_State *L, void *device) {
  if (*(int *)device < 0) return type_of(L, device);
  return lua_pushfstring(L, "cuda:%d", *(int *)device), 1;
}

static bool device_equal(void *a, void *b) { return *(int *)a == *(int *)b; }

static int lset_default_device(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_set_default_device(c->v[0].device));
}

static int lget_default_device(lua_State *L, ltide_call *c) { return ltide_push_device(L, tide_default_device()), 1; }

static void leave_default(lua_State *L, void *data) {
  if (L) tide_set_default_device(*(int *)data);
}

static int ldevice_scope(lua_State *L, ltide_call *c) {
  int *before = ltide_block_new(L, "device_scope", c->v[1].at, leave_default, sizeof *before);
  *before = tide_default_device();
  ltide_try(L, tide_set_default_device(c->v[0].device));
  return ltide_block_open(L, c->v[1].at);
}

/* {==== tide.cuda: which devices there are */

static int linit(lua_State *L, ltide_call *c) { return ltide_done(L, tide_device_init()); }

static int lpreload(lua_State *L, ltide_call *c) {
  int loaded, all;
  ltide_try(L, tide_preload(&loaded, &all, check_device(L, c->v[0].device), c->v[1].boolean));
  lua_pushinteger(L, loaded);
  return 1 + ltide_give_integer(L, all);
}

static int ldevice_count(lua_State *L, ltide_call *c) { return ltide_give_integer(L, tide_device_count()); }

/* Which one is selected can be asked when it is lost, too, and opens it only if nothing is open yet. */
static int lcurrent_device(lua_State *L, ltide_call *c) {
  if (!tide_is_initialized()) ltide_try(L, tide_device_init());
  return ltide_give_integer(L, tide_current_device());
}

static int lset_device(lua_State *L, ltide_call *c) {
  int device = c->v[0].device;
  if (device != TIDE_CURRENT) ltide_try(L, tide_current_set_device(check_device(L, device)));
  return 0;
}

static void leave_device(lua_State *L, void *data) {
  if (L) tide_current_set_device(*(int *)data);
}

/* On TIDE_CPU the block is none: what is set inside lasts. */
static int enter_device(lua_State *L, const char *what, int device, int fn) {
  if (device == TIDE_CPU) return ltide_empty_block(L, what, fn);
  int *before = ltide_block_new(L, what, fn, leave_device, sizeof *before);
  *before = tide_current_device();
  if (device >= 0) ltide_try(L, tide_current_set_device(device));
  return ltide_block_open(L, fn);
}

static int lcuda_device(lua_State *L, ltide_call *c) {
  int device = ltide_check_device(L, 1, "device", LTIDE_NIL_OK | LTIDE_NEGATIVE_OK);
  if (device != TIDE_CURRENT)
    device = check_device(L, device);
  else if (!ltide_is_device(L, 1)) /* nil or negative, and not "cuda" */
    device = TIDE_CPU;
  return enter_device(L, "cuda.device", device, c->v[1].at);
}

static int ldevice_of(lua_State *L, ltide_call *c) {
  const tide_tensor *t = ltide_test_tensor(L, c->S, 1);
  if (!t && ltide_test_meta(L, 1, ltide_handle_of(c->S)->storage_meta)) t = ltide_check_storage(L, 1, "obj");
  if (!t) return ltide_arg_error(L, 1, "obj", "a tensor or a storage");
  return enter_device(L, "cuda.device_of", tide_tensor_device(t), c->v[1].at);
}

static int lsynchronize(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_device_synchronize(check_device(L, c->v[0].device)));
}

static int lsynchronize_all(lua_State *L, ltide_call *c) {
  if (tide_is_initialized()) ltide_try(L, tide_device_synchronize(TIDE_ALL_DEVICES));
  return 0;
}

static int lcan_device_access_peer(lua_State *L, ltide_call *c) {
  bool can;
  int device = check_device(L, ltide_check_device(L, 1, "device", LTIDE_NIL_OK));
  ltide_try(L, tide_device_can_access_peer(&can, device, check_named(L, c->v[1].device, "peer")));
  return ltide_give_boolean(L, can);
}

enum { DRIVER, RUNTIME }; /* tags */
static int lversion(lua_State *L, ltide_call *c) {
  int version[2];
  ltide_try(L, tide_driver_version(&version[DRIVER], &version[RUNTIME]));
  return ltide_give_integer(L, version[c->row->tag]);
}

/* {==== Properties */

static const tide_device_props *props_of(lua_State *L, const ltide_call *c) {
  const tide_device_props *p;
  ltide_try(L, tide_device_get_props(&p, check_device(L, c->v[0].device)));
  return p;
}

static int lget_device_name(lua_State *L, ltide_call *c) { return lua_pushstring(L, props_of(L, c)->name), 1; }

static int lget_device_capability(lua_State *L, ltide_call *c) {
  const tide_device_props *p = props_of(L, c);
  return ltide_give_pair(L, p->major, p->minor);
}

typedef struct shown_props {
  tide_device_props p;
  char uuid[40];
} shown_props;

/* gcnArchName: as torch has it for GPUs that are not AMD's. */
static const ltide_field members[] = {
    LTIDE_EACH(LTIDE_FIELD, tide_device_props, name, simulated, is_integrated, is_multi_gpu_board, major, minor,
               multi_processor_count, max_threads_per_multi_processor, max_threads_per_block, warp_size,
               regs_per_multiprocessor, total_memory, shared_memory_per_block, shared_memory_per_block_optin,
               shared_memory_per_multiprocessor, L2_cache_size, pci_bus_id, pci_device_id, pci_domain_id, clock_rate,
               memory_clock_rate, memory_bus_width){"gcnArchName", 't', offsetof(tide_device_props, name)},
    {"uuid", 't', offsetof(shown_props, uuid)},
    {0}};

static int props_totable(lua_State *L, ltide_call *c) {
  const shown_props *shown = ltide_check_object(L, 1, "tide.properties");
  lua_createtable(L, 0, 28);
  ltide_set_fields(L, members, shown, false);
  return 1;
}

static int props_tostring(lua_State *L, void *props) {
  const tide_device_props *p = props;
  return lua_pushfstring(L, "device properties (name='%s', cc=%d.%d, total_memory=%IMB, multi_processor_count=%d)",
                         p->name, p->major, p->minor, (lua_Integer)(p->total_memory >> 20), p->multi_processor_count),
         1;
}

static ltide_row props_rows[] = {
    OF(props, totable, DO(props_totable), "() -> table", "The properties as a table, which may be changed."){0}};
static const ltide_class props_class = {.meta = "tide.properties",
                                        .name = "properties",
                                        .rows = props_rows,
                                        .members = members,
                                        .size = sizeof(shown_props),
                                        .tostring = props_tostring};

static int lget_device_properties(lua_State *L, ltide_call *c) {
  const tide_device_props *p = props_of(L, c);
  shown_props *shown = ltide_new_instance(L, &props_class);
  shown->p = *p;
  const unsigned char *u = p->uuid;
  snprintf(shown->uuid, sizeof shown->uuid, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
           u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
  return 1;
}

void ltide_open_device(lua_State *L, ltide_state *S) {
#include <rows/device.inc>
#include <rows/device_device.inc>
#include <rows/device_cuda.inc>
  static const ltide_class class = {.meta = "tide.device",
                                    .name = "device",
                                    .rows = device_rows,
                                    .size = sizeof(int),
                                    .tostring = device_tostring,
                                    .equal = device_equal};
  ltide_handle_of(S)->device_meta = ltide_open_class(L, &class);
  ltide_open_class(L, &props_class);
  ltide_register_rows(L, "tide", device_device_rows);
  ltide_register_in(L, "tide.cuda", device_cuda_rows);
}
