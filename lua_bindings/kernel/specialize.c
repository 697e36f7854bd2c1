/* specialize.c: tide.kernel: what is compiled for arguments of some kinds, from what kernel/kernel.lua says of it.
 *
 * A description is a table of the chunks'; it is read raw, and holds nothing of a script's but functions and tables
 * that are compared by their address and stay alive in the kernel's user value.
 *
 * Invariant: a special is in its kernel's list when all of it is there. What a replacement drops while a call may be in
 * the middle (finalisers run anywhere) goes with the next replacement. */
#include <stdlib.h>

#include "kernel.h"

#include "call/each.h"

/* {==== What is there */

static void list_free(ltide_special **list) {
  while (*list) {
    ltide_special *s = *list;
    *list = s->next;
    tide_kernel_free(s->kernel);
    free(s);
  }
}

void ltide_specials_free(ltide_kernel *k) {
  list_free(&k->specials);
  list_free(&k->dropped);
  free((char *)(uintptr_t)k->name);
  k->name = NULL;
}

/* {==== Reading a description, which is at `d` */

/* An integer; of a boolean 1 or 0, of a list how long it is. */
static int integer_of(lua_State *L, int d, const char *key) {
  int type = ltide_rawfield(L, d, key);
  lua_Integer i = type == LUA_TTABLE     ? (lua_Integer)lua_rawlen(L, -1)
                  : type == LUA_TBOOLEAN ? lua_toboolean(L, -1)
                                         : lua_tointeger(L, -1);
  lua_pop(L, 1);
  return (int)i;
}

/* It lives as long as the table. */
static const char *text_of(lua_State *L, int d, const char *key) {
  ltide_rawfield(L, d, key);
  const char *text = lua_tostring(L, -1);
  lua_pop(L, 1);
  return text;
}

static void read_block(lua_State *L, int d, const char *key, int64_t *out) {
  ltide_rawfield(L, d, key);
  for (int i = 0; i < TIDE_KERNEL_DIMS; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, -1, i + 1);
    out[i] = lua_tointeger(L, -1);
  }
  lua_pop(L, 1);
}

static tide_dtype dtype_of(lua_State *L, int d) {
  tide_dtype dtype = TIDE_FLOAT32;
  const char *name = text_of(L, d, "dtype");
  for (int i = 0; name && i < TIDE_DTYPE_COUNT; i++)
    if (!strcmp(name, tide_dtype_name((tide_dtype)i))) dtype = (tide_dtype)i;
  return dtype;
}

static void read_operand(lua_State *L, int d, tide_kernel_operand *o) {
  static const char *const kinds[] = {"tensor", "integer", "float", "boolean"};
  const char *kind = text_of(L, d, "kind");
  int k = 0;
  while (k < 3 && kind && strcmp(kind, kinds[k])) k++;
  *o = (tide_kernel_operand){.name = text_of(L, d, "name"), .kind = (tide_kernel_kind)k, .dtype = dtype_of(L, d)};
  o->ndim = integer_of(L, d, "ndim");
  o->reads = integer_of(L, d, "reads"), o->writes = integer_of(L, d, "writes");
  o->row = (uint8_t)integer_of(L, d, "row"), o->rows = (uint8_t)integer_of(L, d, "rows");
}

static uint16_t code_of(const tide_kernel_operand *o) {
  static const uint16_t kinds[] = {0, LTIDE_IS_INTEGER, LTIDE_IS_FLOAT, LTIDE_IS_BOOLEAN};
  return o->kind == TIDE_KERNEL_TENSOR ? ltide_tensor_code(o->dtype, o->ndim) : kinds[o->kind];
}

static int read_operands(lua_State *L, int d, tide_kernel_operand *list) {
  int n = integer_of(L, d, "operands");
  if (n > TIDE_KERNEL_OPERANDS)
    ltide_error(L, "NotSupportedError",
                "kernel: got %d tensors and numbers, with those from outside, expected at most %d", n,
                TIDE_KERNEL_OPERANDS);
  ltide_rawfield(L, d, "operands");
  for (int i = 0; i < n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, -1, i + 1);
    read_operand(L, lua_gettop(L), &list[i]);
  }
  lua_pop(L, 1);
  return n;
}

/* Those that are operands stand before those that are fixed. */
static void read_outers(lua_State *L, int d, ltide_special *s, const tide_kernel_operand *operand) {
  ltide_rawfield(L, d, "outers");
  for (int i = 0; i < s->outers; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, -1, i + 1);
    int at = lua_gettop(L);
    ltide_outer *o = &s->outer[i];
    o->upvalue = integer_of(L, at, "upvalue"), o->at = integer_of(L, at, "at");
    o->fields = integer_of(L, at, "fields");
    ltide_rawfield(L, at, "fixed");
    o->fixed = lua_topointer(L, -1);
    lua_pop(L, 1);
    if (!o->fixed) o->code = code_of(&operand[s->args + s->passed++]);
  }
  lua_pop(L, 1);
}

static int *read_lines(lua_State *L, int d, int n) {
  int *lines = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *lines, 0);
  ltide_rawfield(L, d, "lines");
  for (int i = 0; i < n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, -1, i + 1);
    lines[i] = (int)lua_tointeger(L, -1);
  }
  lua_pop(L, 1); /* the array stays on the stack */
  return lines;
}

static void read_shapes(lua_State *L, int d, ltide_shape *list, int n) {
  ltide_rawfield(L, d, "operands");
  for (int i = 0; i < n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, -1, i + 1);
    int at = lua_gettop(L);
    list[i].like = (uint8_t)integer_of(L, at, "like"), list[i].row = (uint8_t)integer_of(L, at, "reads_to");
    list[i].packed = integer_of(L, at, "packed");
  }
  lua_pop(L, 1);
}

/* {==== Adding it */

static ltide_special *new_special(lua_State *L, int args, int outers) {
  ltide_special *s = calloc(1, sizeof *s + (size_t)outers * sizeof *s->outer +
                                   ((size_t)args + 1) * (sizeof *s->code + sizeof *s->shape));
  if (!s) ltide_error(L, "OutOfMemoryError", "kernel: no host memory");
  s->outer = (ltide_outer *)(s + 1);
  s->code = (uint16_t *)(s->outer + outers);
  s->shape = (ltide_shape *)(s->code + args + 1);
  s->args = args, s->outers = outers;
  return s;
}

/* kernel_add(k, description): what it says is compiled becomes one of k's. */
static int script_kernel_add(lua_State *L) {
  enum { D = 2 };
  ltide_kernel *k = ltide_check_kernel(L, 1);
  tide_kernel_operand operand[TIDE_KERNEL_OPERANDS];
  luaL_checkstack(L, LUA_MINSTACK, "kernel");
  int n = read_operands(L, D, operand);
  tide_kernel_text t = {.struct_size = sizeof t, .name = k->name, .operands = operand, .operands_count = n};
  const bool gpu = integer_of(L, D, "gpu");
  *(gpu ? &t.device : &t.host) = text_of(L, D, "text");
  t.source = text_of(L, D, "source"), t.code = text_of(L, D, "code");
  t.turns = integer_of(L, D, "turns"), t.layout = (tide_kernel_layout)integer_of(L, D, "layout"),
  t.waits = integer_of(L, D, "waits");
  t.unordered = integer_of(L, D, "unordered"), t.ndim = integer_of(L, D, "ndim");
  t.rounds = integer_of(L, D, "rounds");
  read_block(L, D, "block", gpu ? t.block : t.host_block);
  t.lines_count = integer_of(L, D, "lines"), t.lines = read_lines(L, D, t.lines_count);
  lua_getiuservalue(L, 1, 2);
  int lists = lua_gettop(L), number = (int)lua_rawlen(L, lists) + 1;
  ltide_rawfield(L, D, "places");
  lua_rawseti(L, lists, number);
  ltide_special *s = new_special(L, integer_of(L, D, "args"), integer_of(L, D, "outers"));
  s->rounds = t.rounds, s->gpu = gpu;
  memcpy(s->block, t.block, sizeof s->block);
  s->number = number, s->layout = t.layout, s->ndim = t.ndim, s->results = integer_of(L, D, "results");
  for (int i = 0; i < s->args; i++) s->code[i] = code_of(&operand[i]);
  read_shapes(L, D, s->shape, s->args);
  read_outers(L, D, s, operand);
  for (int i = 0; i < s->results; i++) s->dtype[i] = operand[n - s->results + i].dtype;
  if (tide_kernel_new(&s->kernel, &t) != TIDE_OK) {
    free(s);
    return ltide_raise(L);
  }
  s->next = k->specials, k->specials = s;
  return lua_pushinteger(L, number), 1;
}

int ltide_like(const tide_operand *args, int i) {
  const tide_tensor *x = args[i].tensor;
  int ndim = tide_tensor_ndim(x), first = 0;
  size_t bytes = (size_t)ndim * sizeof(int64_t);
  while (!args[first].tensor || tide_tensor_ndim(args[first].tensor) != ndim) first++;
  const tide_tensor *y = args[first].tensor;
  bool same = first < i && ndim > 1 && !memcmp(tide_tensor_size(x), tide_tensor_size(y), bytes) &&
              !memcmp(tide_tensor_stride(x), tide_tensor_stride(y), bytes);
  return same ? first + 1 : 0;
}

static void push_kind(lua_State *L, int arg, const tide_operand *args, int i) {
  const tide_tensor *x = args[i].tensor;
  lua_createtable(L, 0, 5);
  if (x) {
    int ndim = tide_tensor_ndim(x);
    lua_pushstring(L, tide_dtype_name(tide_tensor_dtype(x)));
    lua_setfield(L, -2, "dtype");
    ltide_set_integer(L, "ndim", ndim);
    ltide_set_integer(L, "like", ltide_like(args, i));
    if (ndim > 1 && tide_tensor_is_contiguous(x)) ltide_set_integer(L, "row", tide_tensor_size(x)[ndim - 1]);
  }
  lua_pushstring(L, x                                  ? "tensor"
                    : lua_type(L, arg) == LUA_TBOOLEAN ? "boolean"
                    : lua_isinteger(L, arg)            ? "integer"
                                                       : "float");
  lua_setfield(L, -2, "kind");
}

bool ltide_is_gpu(int device) {
  const tide_device_props *props;
  return device != TIDE_CPU && tide_device_get_props(&props, device) == TIDE_OK && !props->simulated;
}

void ltide_special_make(lua_State *L, int at, int ndim, tide_kernel_layout layout, int device, int first,
                        const tide_operand *args, int n) {
  luaL_checkstack(L, LUA_MINSTACK, "kernel");
  ltide_script_push(L, "kernel/kernel.special");
  lua_pushvalue(L, at);
  lua_getiuservalue(L, at, 1);
  lua_pushinteger(L, ndim);
  lua_pushinteger(L, layout);
  lua_pushboolean(L, ltide_is_gpu(device));
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) push_kind(L, first + i, args, i), lua_rawseti(L, -2, i + 1);
  lua_call(L, 6, 0);
  ltide_enter(L);
}

/* {==== What else the chunk is given */

/* kernel_new(self, name, reduction or nil) */
static int script_kernel_new(lua_State *L) {
  ltide_kernel *k = memset(ltide_new_object(L, sizeof *k, 2), 0, sizeof *k);
  k->reduce = lua_isnil(L, 3) ? -1 : (int)lua_tointeger(L, 3);
  ltide_setmetatable(L, LTIDE_LUA_KERNEL_META);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  lua_newtable(L);
  lua_setiuservalue(L, -2, 2);
  k->name = strdup(lua_tostring(L, 2));
  if (!k->name) return ltide_error(L, "OutOfMemoryError", "kernel: no host memory");
  return 1;
}

/* kernel_drop(k): nothing is compiled any more; a special that a call may be using goes later. */
static int script_kernel_drop(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_kernel *k = ltide_check_kernel(L, 1);
  ltide_special **last = &k->dropped;
  if (!ltide_is_interrupting(L, S)) list_free(&k->dropped);
  while (*last) last = &(*last)->next;
  *last = k->specials, k->specials = NULL;
  k->body++;
  if (!ltide_is_interrupting(L, S)) list_free(&k->dropped);
  return 0;
}

static int default_device(void) { return tide_is_available() ? tide_current_device() : TIDE_CPU; }

bool ltide_specials_ready(lua_State *L, const ltide_kernel *k, bool wait) {
  bool all = true, ready = true;
  for (const ltide_special *s = k->specials; s; s = s->next) {
    int device = s->ran ? s->device : s->gpu == ltide_is_gpu(default_device()) ? default_device() : TIDE_CPU;
    ltide_try(L, wait ? tide_kernel_wait(s->kernel, device) : tide_kernel_ready(&ready, s->kernel, device));
    all = all && ready;
  }
  return all;
}

/* specials_ready(k) */
static int script_specials_ready(lua_State *L) {
  return ltide_give_boolean(L, ltide_specials_ready(L, ltide_check_kernel(L, 1), false));
}

/* env_of(f): the table that the globals of its text are in. */
static int script_env_of(lua_State *L) {
#if LUA_VERSION_NUM >= 504
  const char *name = lua_isfunction(L, 1) ? lua_getupvalue(L, 1, 1) : NULL;
  for (int i = 1; name; name = lua_getupvalue(L, 1, ++i)) {
    if (!strcmp(name, "_ENV") && lua_istable(L, -1)) return 1;
    lua_pop(L, 1);
  }
#endif
  return lua_pushglobaltable(L), 1;
}

/* dtype_name(value, name) */
static int script_dtype_name(lua_State *L) {
  return lua_pushstring(L, tide_dtype_name(ltide_check_dtype(L, 1, lua_tostring(L, 2)))), 1;
}

/* reduction_of(name): its number, or nil. */
static int script_reduction_of(lua_State *L) {
  const char *name = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "";
  static const char *const names[] = {"sum", "prod", "min", "max"};
  for (int i = 0; i < 4; i++)
    for (int r = 0; !strcmp(name, names[i]) && r < TIDE_REDUCTION_COUNT; r++)
      if (!strcmp(tide_reduction_get((tide_reduction)r)->name, name)) return ltide_give_integer(L, r);
  return 0;
}

/* runs_native(): may the script run what nothing tests? */
static int script_runs_native(lua_State *L) { return ltide_give_boolean(L, ltide_granted(L, TIDE_LUA_NATIVE)); }

/* default_device(): its number, and whether it is a GPU. */
static int script_default_device(lua_State *L) {
  lua_pushinteger(L, default_device());
  return lua_pushboolean(L, ltide_is_gpu(default_device())), 2;
}

/* few_blocks(ndim): up to how many blocks a launch for such a grid is a small one. */
static int script_few_blocks(lua_State *L) {
  return ltide_give_integer(L, lua_tointeger(L, 1) > 1 ? TIDE_KERNEL_FEW_ACROSS : TIDE_KERNEL_FEW);
}

const luaL_Reg ltide_kernel_script[] = LTIDE_SCRIPT(kernel_add, kernel_new, kernel_drop, specials_ready, runs_native,
                                                    reduction_of, default_device, env_of, dtype_name, few_blocks);
