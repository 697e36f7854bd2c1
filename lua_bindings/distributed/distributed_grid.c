/* distributed_grid.c: tide.distributed.cart: ranks in a grid, and fields that are cut over them.
 *
 * Which rank is where, which places a message has and who gets them is Lua (distributed/grid.lua). Here: the objects,
 * and the copies between regions of a field and the bytes of a message, one strided copy for each field.
 *
 * Invariant: a message's buffer belongs to no tide.scope; the work that sends or fills it holds it. */
#include <stdlib.h>
#include <unistd.h>

#include "call/class.h"
#include "distributed.h"
#include "tensor/tensor.h"

#define GRID_META     "tide.distributed.Grid"
#define EXCHANGE_META "tide.distributed.Exchange"

/* {==== Objects: their user value is the chunk's table */

/* new_object(table, is_exchange) */
static int script_new_object(lua_State *L) {
  bool is_exchange = lua_toboolean(L, 2);
  ltide_new_object(L, 1, 1);
  ltide_setmetatable(L, is_exchange ? EXCHANGE_META : GRID_META);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

/* The row's function of the chunks with the table of the object at 1 and the other arguments, read. */
static int call_with_table(lua_State *L, ltide_call *c, const char *meta) {
  ltide_check_object(L, 1, meta);
  int n = ltide_push_read(L, c);
  lua_getiuservalue(L, 1, 1);
  lua_replace(L, -n - 1);
  return ltide_script_call(L, c->row->script, n);
}
static int lgrid(lua_State *L, ltide_call *c) { return call_with_table(L, c, GRID_META); }
static int lexchange(lua_State *L, ltide_call *c) { return call_with_table(L, c, EXCHANGE_META); }

/* A copy of one of the lists in the table. */
static int push_list(lua_State *L, const char *name) {
  lua_getiuservalue(L, 1, 1);
  lua_getfield(L, -1, name);
  int list = lua_gettop(L), n = (int)lua_rawlen(L, list);
  lua_createtable(L, n, 0);
  for (int i = 1; i <= n; i++) lua_rawgeti(L, list, i), lua_rawseti(L, -2, i);
  return 1;
}
static int get_dims(lua_State *L, void *grid) { return (void)grid, push_list(L, "dims"); }
static int get_periodic(lua_State *L, void *grid) { return (void)grid, push_list(L, "periodic"); }
static int get_coords(lua_State *L, void *grid) { return (void)grid, push_list(L, "coords"); }

static int grid_tostring(lua_State *L, void *grid) {
  luaL_Buffer b;
  get_dims(L, grid);
  int dims = lua_gettop(L), n = (int)lua_rawlen(L, dims);
  luaL_buffinit(L, &b);
  luaL_addstring(&b, "tide.distributed.Grid(");
  for (int i = 1; i <= n; i++) {
    if (i > 1) luaL_addstring(&b, " x ");
    lua_rawgeti(L, dims, i);
    luaL_addvalue(&b);
  }
  luaL_addstring(&b, " ranks)");
  return luaL_pushresult(&b), 1;
}

#define GRID(name) DO(lgrid), .script = name
#include <rows/distributed_field.inc>

/* {==== Regions of a field: from `first` on, counted from 1, `count` places, each `step`-th */

static int read_list(lua_State *L, int arg, int64_t *out) {
  int n = (int)lua_rawlen(L, arg);
  for (int i = 0; i < n; i++) lua_rawgeti(L, arg, i + 1), out[i] = lua_tointeger(L, -1), lua_pop(L, 1);
  return n;
}

static tide_status region_of(tide_tensor **out, const tide_tensor *x, const int64_t *first, const int64_t *count,
                             const int64_t *step) {
  int64_t stride[TIDE_MAX_DIMS], offset = tide_tensor_offset(x);
  int n = tide_tensor_ndim(x);
  for (int d = 0; d < n; d++) {
    offset += (first[d] - 1) * tide_tensor_stride(x)[d];
    stride[d] = tide_tensor_stride(x)[d] * (step ? step[d] : 1);
  }
  return tide_as_strided(out, x, count, stride, n, offset);
}

static const tide_tensor *tensor_of(lua_State *L, int arg) {
  return ltide_check_tensor(L, ltide_enter(L), arg, "a field");
}

/* region(x, first, count [, step]): a view. */
static int script_region(lua_State *L) {
  int64_t first[TIDE_MAX_DIMS], count[TIDE_MAX_DIMS], step[TIDE_MAX_DIMS];
  const tide_tensor *x = tensor_of(L, 1);
  read_list(L, 2, first), read_list(L, 3, count);
  bool steps = lua_istable(L, 4) && read_list(L, 4, step);
  ltide_tensor *u = ltide_new_tensor(L, ltide_enter(L));
  return ltide_give(L, region_of(&u->t, x, first, count, steps ? step : NULL));
}

/* copy_region(x, from, to, count), which do not overlap. */
static int script_copy_region(lua_State *L) {
  int64_t from[TIDE_MAX_DIMS], to[TIDE_MAX_DIMS], count[TIDE_MAX_DIMS];
  const tide_tensor *x = tensor_of(L, 1);
  tide_tensor *source, *target;
  read_list(L, 2, from), read_list(L, 3, to), read_list(L, 4, count);
  ltide_try(L, region_of(&source, x, from, count, NULL));
  tide_status status = region_of(&target, x, to, count, NULL);
  if (status == TIDE_OK) {
    status = tide_copy(target, source, true);
    tide_tensor_release(target);
  }
  tide_tensor_release(source);
  return ltide_try(L, status), 0;
}

/* {==== Messages */

/* new_buffer(bytes, x): on the device of x. */
static int script_new_buffer(lua_State *L) {
  int64_t bytes = lua_tointeger(L, 1);
  tide_options options = {TIDE_UINT8, tide_tensor_device(tensor_of(L, 2)), false, sizeof options};
  ltide_tensor *u = ltide_new_tensor(L, ltide_enter(L));
  ltide_arena_remove(u);
  return ltide_give(L, tide_empty(&u->t, &bytes, 1, &options));
}

/* The bytes from `offset` on as a tensor of x's dtype and these sizes. */
static tide_status part_of(tide_tensor **out, const tide_tensor *bytes, const tide_tensor *x, int64_t offset,
                           const int64_t *count) {
  tide_tensor *line, *typed;
  int64_t length = (int64_t)tide_dtype_size(tide_tensor_dtype(x));
  for (int d = 0; d < tide_tensor_ndim(x); d++) length *= count[d];
  tide_status status = tide_narrow(&line, bytes, 0, offset, length);
  if (status != TIDE_OK) return status;
  status = tide_view_dtype(&typed, line, tide_tensor_dtype(x));
  tide_tensor_release(line);
  if (status != TIDE_OK) return status;
  status = tide_view(out, typed, count, tide_tensor_ndim(x));
  tide_tensor_release(typed);
  return status;
}

/* pack(x, first, count, buffer, offset, back): one strided copy of a region to the buffer, or back. */
static int script_pack(lua_State *L) {
  int64_t first[TIDE_MAX_DIMS], count[TIDE_MAX_DIMS];
  const tide_tensor *x = tensor_of(L, 1), *buffer = tensor_of(L, 4);
  tide_tensor *region, *part;
  read_list(L, 2, first), read_list(L, 3, count);
  ltide_try(L, part_of(&part, buffer, x, lua_tointeger(L, 5), count));
  tide_status status = region_of(&region, x, first, count, NULL);
  if (status == TIDE_OK) {
    status = lua_toboolean(L, 6) ? tide_copy(region, part, true) : tide_copy(part, region, true);
    tide_tensor_release(region);
  }
  tide_tensor_release(part);
  return ltide_try(L, status), 0;
}

/* start_message(sends, x, group, peer, tag [, fields]): a Work, which is known to other ranks by the function that is
 * called. x is packed of fields of these dtypes. */
static int script_start_message(lua_State *L) {
  const char *called = ltide_function_name(L);
  tide_distributed_call call = {.name = "halo_exchange",
                                .kind = lua_toboolean(L, 1) ? TIDE_SEND_RANKS : TIDE_RECV_RANKS};
  call.peer = (int)lua_tointeger(L, 4), call.tag = (int)lua_tointeger(L, 5);
  for (const ltide_row *row = distributed_field_rows; row->name; row++)
    if (!strcmp(row->name, called)) call.name = row->name;
  if (lua_istable(L, 6)) {
    call.dtype_count = (int)lua_rawlen(L, 6);
    tide_dtype *dtypes = ltide_new_object(L, (size_t)call.dtype_count * sizeof *dtypes, 0);
    for (int i = 0; i < call.dtype_count; i++, lua_pop(L, 1))
      lua_rawgeti(L, 6, i + 1), dtypes[i] = tide_tensor_dtype(tensor_of(L, lua_gettop(L)));
    call.dtypes = dtypes;
  }
  ltide_distributed_message(L, call, ltide_check_tensor(L, ltide_enter(L), 2, "x"), 3);
  return 1;
}

static int script_finish_message(lua_State *L) { return ltide_distributed_finish(L, 1), 0; }
static int script_is_message_done(lua_State *L) { return ltide_give_boolean(L, ltide_distributed_is_done(L, 1)); }
static int script_close_buffer(lua_State *L) {
  ltide_tensor *u = lua_touserdata(L, 1);
  return ltide_close_tensor(u), 0;
}

static int script_size_of_dtype(lua_State *L) {
  return ltide_give_integer(L, (lua_Integer)tide_dtype_size(tide_tensor_dtype(tensor_of(L, 1))));
}
static int script_is_capturing(lua_State *L) { return ltide_give_boolean(L, tide_current_is_capturing()); }

/* {==== Files */

/* make_file(path, like, bytes) */
static int script_make_file(lua_State *L) {
  const tide_distributed *d = ltide_distributed_opened();
  return ltide_try(L, d->file_new(lua_tostring(L, 1), lua_tostring(L, 2), lua_tointeger(L, 3))), 0;
}

static int script_rename_file(lua_State *L) {
  return ltide_try(L, ltide_distributed_opened()->file_rename(lua_tostring(L, 1), lua_tostring(L, 2))), 0;
}

static int script_remove_file(lua_State *L) { return remove(lua_tostring(L, 1)), 0; }

/* write_parts(path, offsets, values): strings, and contiguous tensors on the cpu. */
static int script_write_parts(lua_State *L) {
  int n = (int)lua_rawlen(L, 2);
  tide_file_part *parts = ltide_new_object(L, (size_t)(n + 1) * sizeof *parts, 0);
  for (int i = 0; i < n; i++, lua_pop(L, 2)) {
    lua_rawgeti(L, 2, i + 1), lua_rawgeti(L, 3, i + 1);
    parts[i].offset = lua_tointeger(L, -2);
    if ((parts[i].bytes = lua_tolstring(L, -1, &parts[i].size))) continue; /* the list holds it */
    const tide_tensor *x = tensor_of(L, lua_gettop(L));
    parts[i].bytes = tide_tensor_data(x);
    parts[i].size = (size_t)tide_tensor_numel(x) * tide_dtype_size(tide_tensor_dtype(x));
  }
  return ltide_try(L, ltide_distributed_opened()->file_write(lua_tostring(L, 1), parts, n)), 0;
}

/* bytes_of(x): those of a contiguous tensor on the cpu. */
static int script_bytes_of(lua_State *L) {
  const tide_tensor *x = tensor_of(L, 1);
  return lua_pushlstring(L, tide_tensor_data(x), (size_t)tide_tensor_numel(x) * tide_dtype_size(tide_tensor_dtype(x))),
         1;
}

/* hash_of(x): of its bytes, as text (Fowler, Noll and Vo's FNV-1a). */
static int script_hash_of(lua_State *L) {
  const tide_tensor *x = tensor_of(L, 1);
  const unsigned char *at = tide_tensor_data(x);
  size_t n = (size_t)tide_tensor_numel(x) * tide_dtype_size(tide_tensor_dtype(x));
  uint64_t hash = 0xcbf29ce484222325;
  char text[20];
  for (size_t i = 0; i < n; i++) hash = (hash ^ at[i]) * 0x100000001b3;
  snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
  return lua_pushstring(L, text), 1;
}

/* json_text(text): with its quotes. */
static int script_json_text(lua_State *L) {
  size_t n;
  const char *text = lua_tolstring(L, 1, &n);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addchar(&b, '"');
  for (size_t i = 0; i < n; i++) {
    char escape[8];
    if (text[i] == '"' || text[i] == '\\') luaL_addchar(&b, '\\');
    if ((unsigned char)text[i] >= ' ') {
      luaL_addchar(&b, text[i]);
      continue;
    }
    snprintf(escape, sizeof escape, "\\u%04x", (unsigned)text[i]);
    luaL_addstring(&b, escape);
  }
  luaL_addchar(&b, '"');
  return luaL_pushresult(&b), 1;
}

static int script_byte_text(lua_State *L) {
  char byte = (char)lua_tointeger(L, 1);
  return lua_pushlstring(L, &byte, 1), 1;
}

/* number_of(text): nil where it is none. */
static int script_number_of(lua_State *L) {
  const char *text = lua_tostring(L, 1);
  if (!text || lua_stringtonumber(L, text) != lua_rawlen(L, 1) + 1) lua_pushnil(L);
  return 1;
}

/* {==== Traces */

/* temporary_file(): its name. */
static int script_temporary_file(lua_State *L) {
  char name[] = "/tmp/tide-trace-XXXXXX";
  int fd = mkstemp(name);
  if (fd < 0) return ltide_fail(L, "FileError", "no file could be made in /tmp");
  close(fd);
  return lua_pushstring(L, name), 1;
}

static int script_read_file(lua_State *L) {
  luaL_Buffer b;
  FILE *file = fopen(lua_tostring(L, 1), "rb");
  if (!file) return ltide_fail(L, "FileError", "%s cannot be read", lua_tostring(L, 1));
  luaL_buffinit(L, &b);
  for (size_t n = 1; n;) {
    n = fread(luaL_prepbuffer(&b), 1, LUAL_BUFFERSIZE, file);
    luaL_addsize(&b, n);
  }
  fclose(file);
  return luaL_pushresult(&b), 1;
}

/* mark_time(trace, name): microseconds, or nil. */
static int script_mark_time(lua_State *L) {
  lua_pushfstring(L, "\"name\":\"%s\",\"cat\":\"mark\",\"ts\":", lua_tostring(L, 2));
  const char *at = strstr(lua_tostring(L, 1), lua_tostring(L, -1));
  if (!at) return lua_pushnil(L), 1;
  at += lua_rawlen(L, -1);
  return lua_pushnumber(L, (lua_Number)strtoull(at, (char **)&at, 10) + 1e-3 * (lua_Number)strtoull(at + 1, NULL, 10)),
         1;
}

/* move_events(trace, rank, microseconds): its events with times, processes and numbers of arrows of their own. No key
 * of an event stands inside of a string there, because its quotes would be escaped. */
static int script_move_events(lua_State *L) {
  static const char *const keys[] = {"\"pid\":", "\"ts\":", "\"id\":", "\"process_name\",\"args\":{\"name\":\"",
                                     "_sort_index\",\"args\":{\"sort_index\":"};
  const char *at = strstr(lua_tostring(L, 1), "\"traceEvents\":[") + strlen("\"traceEvents\":[");
  unsigned long long rank = (unsigned long long)lua_tointeger(L, 2),
                     shift = (unsigned long long)(lua_tonumber(L, 3) * 1e3);
  char text[64];
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  while (*at && strncmp(at, "\n]}", 3) != 0) {
    int key = 0;
    size_t length = strcspn(at + 1, "\"_\n") + 1;
    while (key < 5 && strncmp(at, keys[key], strlen(keys[key])) != 0) key++;
    if (key < 5) length = strlen(keys[key]);
    luaL_addlstring(&b, at, length);
    at += length;
    if (key == 5) continue;
    unsigned long long n = key == 3 ? 0 : strtoull(at, (char **)&at, 10);
    if (key == 1) n = n * 1000 + strtoull(at + 1, (char **)&at, 10) + shift;
    if (key == 1)
      snprintf(text, sizeof text, "%llu.%03llu", n / 1000, n % 1000);
    else if (key == 3)
      snprintf(text, sizeof text, "rank %llu: ", rank);
    else
      snprintf(text, sizeof text, "%llu", n + rank * (key == 2 ? 1000000000 : 1000));
    luaL_addstring(&b, text);
  }
  return luaL_pushresult(&b), 1;
}

/* {==== Registration */

#define EXCHANGE(name) DO(lexchange), .script = name
static ltide_row exchange_rows[] = {
    OF(exchange, wait, EXCHANGE("distributed/grid.exchange_wait"), "()",
       "Waits for the messages and writes them to the halos. On a GPU the writing is work of the current stream.")
        OF(exchange, is_completed, EXCHANGE("distributed/grid.exchange_is_completed"), "() -> boolean",
           "Have all messages come? Does not wait; the halos are written by wait."){0}};
static const ltide_class grid_class = {
    .meta = GRID_META, .name = "Grid", .rows = distributed_field_rows, .size = 1, .tostring = grid_tostring};
static const ltide_class exchange_class = {.meta = EXCHANGE_META, .name = "Exchange", .rows = exchange_rows, .size = 1};

#include <rows/distributed_grid.inc>

void ltide_open_distributed_grid(lua_State *L, ltide_state *S) {
  LTIDE_GIVE(L, "distributed/distributed_grid.c", new_object, region, copy_region, new_buffer, pack, start_message,
             finish_message, is_message_done, close_buffer, size_of_dtype, is_capturing, make_file, rename_file,
             remove_file, write_parts, bytes_of, hash_of, json_text, byte_text, number_of, temporary_file, read_file,
             mark_time, move_events);
  ltide_open_class(L, &grid_class);
  ltide_open_class(L, &exchange_class);
  ltide_register_in(L, "tide.distributed", distributed_grid_rows);
}
