/* serialize.c: tide.save, load, serialize and deserialize: trees of Lua values and tensors as bytes.
 *
 * A value is a tag and what belongs to it, in the machine's byte order, which the head of a file tells. Tables and
 * tensors are numbered as they are met, and one that was met before is written as its number; so are storages, whose
 * bytes stand behind the first tensor on each. So what is shared stays shared, and a table may hold itself. Large ones
 * begin at multiples of 64 in the file, so that they can be used where they are when the file is mapped.
 *
 * Invariant of reading: nothing in a file is believed. Sizes are compared with what the file has left before memory is
 * asked for, and core checks that a tensor lies inside its storage. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "file.h"
#include "serialize.h"
#include "tide/ipc.h"

static const char magic[8] = "tide\1\n\r";
static const uint32_t byte_order = 0x01020304;
enum { ALIGN = 64, LARGE = 4096 };
enum { DEEPEST = 1000 }; /* tables in tables; each level takes some of the C stack */

/* {==== Writing */

typedef struct writer {
  lua_State *L;
  ltide_state *S;
  FILE *file;                  /* NULL: the value is only looked at */
  const luaL_Stream *stream;   /* the script's file, if it is one */
  int error;                   /* errno of the first write that failed; nothing is written after it */
  int seen, storages, handles; /* stack indexes: numbers of tables and tensors, of storages; or 0 */
  lua_Integer objects, storage_count;
} writer;

/* Where in the tree we are, for messages. */
typedef struct place {
  const struct place *up;
  int key; /* stack index */
  int depth;
} place;

/* The file at 1 that a script has opened, if that is `file`. */
static const luaL_Stream *stream_of(lua_State *L, const FILE *file) {
  const luaL_Stream *open = luaL_testudata(L, 1, LUA_FILEHANDLE);
  return open && lua_rawlen(L, 1) == sizeof *open && open->f == file ? open : NULL;
}

/* map_location, a __tostring or a finaliser may close the file of the script in the middle. */
static void check_open(lua_State *L, const luaL_Stream *stream) {
  if (stream && !stream->closef)
    ltide_error(L, "StateError", "%s: the file was closed meanwhile, expected it to stay open", ltide_function_name(L));
}

static void put(writer *w, const void *bytes, size_t n) {
  check_open(w->L, w->stream);
  if (w->file && !w->error && fwrite(bytes, 1, n, w->file) != n) w->error = errno;
}
static void put_tag(writer *w, char tag) { put(w, &tag, 1); }
static void put_int(writer *w, int64_t i) { put(w, &i, sizeof i); }
static void put_text(writer *w, const char *text, size_t n) {
  put_int(w, (int64_t)n);
  put(w, text, n);
}

/* Pushes "value.layers[2]". */
static const char *push_place(lua_State *L, const place *at) {
  if (!at->up) return lua_pushliteral(L, "value");
  const char *before = push_place(L, at->up), *key = luaL_tolstring(L, at->key, NULL);
  lua_pushfstring(L, lua_type(L, at->key) == LUA_TSTRING ? "%s.%s" : "%s[%s]", before, key);
  return lua_tostring(L, -1);
}

static bool put_number_of(writer *w, int index) {
  lua_State *L = w->L;
  lua_pushvalue(L, index);
  bool known = lua_rawget(L, w->seen) != LUA_TNIL;
  if (known) {
    put_tag(w, 'r');
    put_int(w, lua_tointeger(L, -1));
  } else {
    lua_pushvalue(L, index);
    lua_pushinteger(L, ++w->objects);
    lua_rawset(L, w->seen);
  }
  lua_pop(L, 1);
  return known;
}

/* What would keep the bytes from being read, a capture or an error of the device, comes now instead. */
static void wait_for(lua_State *L, int device) {
  tide_stream *stream;
  if (device < 0) return;
  ltide_try(L, tide_current_stream(&stream, device));
  ltide_try(L, tide_stream_synchronize(stream));
}

/* The number of bytes that follow; -1 - n says that as many zeros as stand behind it come before them. */
static void put_length(writer *w, int64_t n) {
  static const char zeros[ALIGN];
  check_open(w->L, w->stream);
  off_t at = w->file && n >= LARGE ? ftello(w->file) : -1;
  put_int(w, at < 0 ? n : -1 - n);
  if (at < 0) return;
  int64_t pad = (ALIGN - ((int64_t)at + 2 * (int64_t)sizeof n) % ALIGN) % ALIGN;
  put_int(w, pad);
  put(w, zeros, (size_t)pad);
}

static void put_storage(writer *w, const tide_tensor *x) {
  lua_State *L = w->L;
  const tide_storage *storage = tide_tensor_storage(x);
  if (lua_rawgetp(L, w->storages, storage) != LUA_TNIL) {
    put_int(w, lua_tointeger(L, -1));
    lua_pop(L, 1);
    return;
  }
  lua_pop(L, 1);
  lua_pushinteger(L, ++w->storage_count);
  lua_rawsetp(L, w->storages, storage);
  put_int(w, w->storage_count);
  int device = tide_tensor_device(x);
  char name[32];
  put_text(w, name,
           device < 0 ? (size_t)snprintf(name, sizeof name, "cpu")
                      : (size_t)snprintf(name, sizeof name, "cuda:%d", device));
  int64_t n = (int64_t)tide_storage_nbytes(storage);
  put_length(w, n);
  if (!n) return;
  if (!w->file) {
    wait_for(L, device);
    return;
  }
  ltide_tensor *bytes = ltide_new_tensor(L, w->S), *host = ltide_new_tensor(L, w->S);
  tide_options o = {TIDE_DTYPE_NONE, TIDE_CPU, false};
  ltide_try(L, ltide_span_storage(&bytes->t, x));
  /* Pinned values may be on their way still: a copy finds out. */
  ltide_try(L, tide_to(&host->t, bytes->t, &o, false, tide_storage_is_pinned(storage)));
  put(w, tide_tensor_data(host->t), (size_t)n);
  ltide_close_tensor(host);
  ltide_close_tensor(bytes);
  lua_pop(L, 2);
}

static void put_tensor(writer *w, tide_tensor *x) {
  lua_State *L = w->L;
  int ndim = tide_tensor_ndim(x);
  if (w->handles && tide_tensor_device(x) >= 0) {
    tide_ipc_tensor handle;
    ltide_try(L, tide_tensor_ipc_handle(&handle, x));
    lua_pushlstring(L, (const char *)handle.bytes, sizeof handle.bytes);
    lua_rawseti(L, w->handles, (lua_Integer)lua_rawlen(L, w->handles) + 1);
    put_tag(w, 'h');
    put(w, handle.bytes, sizeof handle.bytes);
    return;
  }
  const char *dtype = tide_dtype_name(tide_tensor_dtype(x));
  put_tag(w, 'x');
  put_text(w, dtype, strlen(dtype));
  put_int(w, ndim);
  put(w, tide_tensor_size(x), (size_t)ndim * sizeof(int64_t));
  put(w, tide_tensor_stride(x), (size_t)ndim * sizeof(int64_t));
  put_int(w, tide_tensor_offset(x));
  put_storage(w, x);
}

static void put_value(writer *w, int index, const place *at);

static void put_table(writer *w, int index, const place *at) {
  lua_State *L = w->L;
  lua_pushvalue(L, index);
  index = lua_gettop(L);
  ltide_plain_shape(L, index);
  put_tag(w, 'T');
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    place below = {at, lua_gettop(L) - 1, at->depth + 1};
    put_value(w, below.key, &below);
    put_value(w, below.key + 1, &below);
  }
  put_tag(w, 'z');
  lua_pop(L, 1);
}

static bool put_plain(writer *w, int index) {
  lua_State *L = w->L;
  switch (lua_type(L, index)) {
  case LUA_TNIL: put_tag(w, 'z'); return true;
  case LUA_TBOOLEAN: put_tag(w, lua_toboolean(L, index) ? 't' : 'f'); return true;
  case LUA_TNUMBER:
    if (lua_isinteger(L, index)) {
      put_tag(w, 'i');
      put_int(w, lua_tointeger(L, index));
    } else {
      double number = lua_tonumber(L, index);
      put_tag(w, 'n');
      put(w, &number, sizeof number);
    }
    return true;
  case LUA_TSTRING: {
    size_t n;
    const char *text = lua_tolstring(L, index, &n);
    put_tag(w, 's');
    put_text(w, text, n);
    return true;
  }
  default: return false;
  }
}

static void put_value(writer *w, int index, const place *at) {
  lua_State *L = w->L;
  luaL_checkstack(L, 12, "tide.save: tables nested too deeply");
  if (put_plain(w, index)) return;
  tide_dtype dtype;
  tide_tensor *x = ltide_test_tensor(L, w->S, index);
  if (at->depth > DEEPEST)
    ltide_error(L, "ValueError", "%s: got tables nested more than %d deep, expected fewer", ltide_function_name(L),
                DEEPEST);
  if (x || lua_istable(L, index)) {
    if (put_number_of(w, index)) return;
    if (x)
      put_tensor(w, x);
    else
      put_table(w, index, at);
  } else if (lua_isuserdata(L, index) && ltide_test_dtype(L, index, &dtype)) {
    put_tag(w, 'd');
    put_text(w, tide_dtype_name(dtype), strlen(tide_dtype_name(dtype)));
  } else if (ltide_is_device(L, index)) {
    size_t n;
    const char *name = luaL_tolstring(L, index, &n);
    put_tag(w, 'v');
    put_text(w, name, n);
    lua_pop(L, 1);
  } else {
    const char *got = ltide_typename(L, index);
    ltide_error(L, "ArgumentError", "%s: %s: got %s, expected tensors, numbers, strings, booleans and tables of them",
                ltide_function_name(L), push_place(L, at), got);
  }
}

int ltide_write_value(lua_State *L, ltide_state *S, FILE *file, int index, int handles) {
  int top = lua_gettop(L);
  place root = {NULL, 0, 0};
  lua_newtable(L);
  lua_newtable(L);
  writer w = {.L = L,
              .S = S,
              .file = file,
              .stream = stream_of(L, file),
              .seen = top + 1,
              .storages = top + 2,
              .handles = handles};
  put(&w, magic, sizeof magic);
  put(&w, &byte_order, sizeof byte_order);
  put_value(&w, index, &root);
  lua_settop(L, top);
  check_open(L, w.stream);
  if (file && !w.error && fflush(file)) w.error = errno;
  return w.error;
}

/* {==== Reading */

typedef struct reader {
  lua_State *L;
  ltide_state *S;
  FILE *file;
  const char *name;           /* of the file */
  int objects, storages, map; /* stack indexes */
  lua_Integer count, storage_count;
  int64_t end;           /* of the file, or -1 where it cannot be told */
  tide_mapping *mapping; /* of the file, or NULL */
  bool shared;
  const luaL_Stream *stream; /* as of a writer */
} reader;

static int broken(const reader *r, const char *how) {
  return ltide_error(r->L, "FileError", "%s: %s: the bytes are not what save or serialize has written: %s",
                     ltide_function_name(r->L), r->name, how);
}

static void get(const reader *r, void *bytes, size_t n) {
  check_open(r->L, r->stream);
  if (fread(bytes, 1, n, r->file) == n) return;
  if (ferror(r->file)) ltide_file_error(r->L, "read", r->name);
  broken(r, "they end too early");
}

static int64_t get_int(const reader *r) {
  int64_t i;
  get(r, &i, sizeof i);
  return i;
}

/* A number of bytes that follow. */
static size_t check_length(const reader *r, int64_t n) {
  check_open(r->L, r->stream);
  if (n < 0 || (r->end >= 0 && n > r->end - (int64_t)ftello(r->file))) broken(r, "a length is wrong");
  return (size_t)n;
}

static size_t get_length(const reader *r) { return check_length(r, get_int(r)); }

/* The same of a storage, which zeros may stand before. */
static size_t get_padded_length(const reader *r) {
  char zeros[ALIGN];
  int64_t n = get_int(r);
  if (n < 0) {
    n = -1 - n;
    int64_t pad = get_int(r);
    if (pad < 0 || pad >= ALIGN) broken(r, "a length is wrong");
    get(r, zeros, (size_t)pad);
  }
  return check_length(r, n);
}

/* The bytes that follow, where they are in the mapped file; false where they must be read. */
static bool map_bytes(tide_tensor **out, const reader *r, int64_t n) {
  check_open(r->L, r->stream);
  int64_t at = r->mapping && n >= LARGE ? (int64_t)ftello(r->file) : -1;
  if (at < 0 || at % ALIGN || n > tide_mapping_size(r->mapping) - at) return false;
  ltide_try(r->L, tide_mapping_tensor(out, r->mapping, at, n));
  check_open(r->L, r->stream);
  if (fseeko(r->file, (off_t)n, SEEK_CUR)) ltide_file_error(r->L, "read", r->name);
  return true;
}

static const char *push_text(const reader *r) {
  size_t n = get_length(r);
  luaL_Buffer b;
  get(r, luaL_buffinitsize(r->L, &b, n), n);
  luaL_pushresultsize(&b, n);
  return lua_tostring(r->L, -1);
}

/* The device for storages that were on the one whose name is at the top, which is popped. */
static int get_device(const reader *r) {
  lua_State *L = r->L;
  int name = lua_gettop(L), type = lua_type(L, r->map);
  if (!ltide_is_device(L, name)) broken(r, "a device is unknown");
  if (type == LUA_TTABLE) {
    lua_pushvalue(L, name);
    lua_gettable(L, r->map);
  } else if (type == LUA_TFUNCTION) {
    lua_pushvalue(L, r->map);
    lua_pushvalue(L, name);
    lua_call(L, 1, 1);
    ltide_enter(L);
  } else
    lua_pushvalue(L, r->map);
  if (lua_isnil(L, -1)) lua_pushvalue(L, name);
  int device = ltide_check_device(L, lua_gettop(L), "map_location", LTIDE_CPU_OK);
  if (device >= tide_device_count())
    ltide_error(L, "DeviceError",
                "%s: a tensor belongs to %s, but there are %d GPUs; map_location='cpu' puts it elsewhere",
                ltide_function_name(L), luaL_tolstring(L, -1, NULL), tide_device_count());
  lua_settop(L, name - 1);
  return device;
}

/* Pushes the bytes of a new storage. */
static void push_storage(reader *r) {
  lua_State *L = r->L;
  push_text(r);
  int device = get_device(r);
  int64_t n = (int64_t)get_padded_length(r);
  ltide_tensor *u = ltide_new_tensor(L, r->S);
  tide_options o = {TIDE_UINT8, TIDE_CPU, false};
  bool mapped = map_bytes(&u->t, r, n);
  if (!mapped) ltide_try(L, tide_empty(&u->t, &n, 1, &o));
  if (n && !mapped) get(r, tide_tensor_data(u->t), (size_t)n);
  if (device != TIDE_CPU) {
    ltide_tensor *there = ltide_new_tensor(L, r->S);
    o.device = device;
    ltide_try(L, tide_to(&there->t, u->t, &o, false, false));
    ltide_close_tensor(u);
    lua_remove(L, -2);
  }
  ltide_made(L, r->S);
}

/* The tensor of uint8 of a storage that was met, or is met now. */
static const tide_tensor *get_storage(reader *r) {
  lua_State *L = r->L;
  int64_t number = get_int(r);
  if (number < 1 || number > r->storage_count + 1) broken(r, "a number of a storage is wrong");
  if (number > r->storage_count) {
    push_storage(r);
    lua_rawseti(L, r->storages, ++r->storage_count);
  }
  lua_rawgeti(L, r->storages, number);
  const tide_tensor *x = ltide_check_tensor(L, r->S, -1, "storage");
  lua_pop(L, 1);
  return x;
}

/* The view of the storage's bytes as elements. */
static tide_status view(tide_tensor **out, const tide_tensor *bytes, tide_dtype dtype, const int64_t *size,
                        const int64_t *stride, int ndim, int64_t offset) {
  int64_t whole = tide_tensor_numel(bytes) / (int64_t)tide_dtype_size(dtype) * (int64_t)tide_dtype_size(dtype);
  tide_tensor *part, *elements;
  tide_status status = tide_narrow(&part, bytes, 0, 0, whole);
  if (status != TIDE_OK) return status;
  status = tide_view_dtype(&elements, part, dtype);
  tide_tensor_release(part);
  if (status != TIDE_OK) return status;
  status = tide_as_strided(out, elements, size, stride, ndim, offset);
  tide_tensor_release(elements);
  return status;
}

static void push_read_tensor(reader *r) {
  lua_State *L = r->L;
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  tide_dtype dtype;
  if (!tide_dtype_parse(&dtype, push_text(r))) broken(r, "a dtype is unknown");
  lua_pop(L, 1);
  int64_t ndim = get_int(r);
  if (ndim < 0 || ndim > TIDE_MAX_DIMS) broken(r, "a number of dimensions is wrong");
  get(r, size, (size_t)ndim * sizeof *size);
  get(r, stride, (size_t)ndim * sizeof *stride);
  int64_t offset = get_int(r);
  const tide_tensor *bytes = get_storage(r);
  ltide_tensor *u = ltide_new_tensor(L, r->S);
  if (view(&u->t, bytes, dtype, size, stride, (int)ndim, offset) != TIDE_OK) broken(r, tide_error_get()->message);
}

static void push_value(reader *r, int depth);

static void push_read_table(reader *r, int depth) {
  lua_State *L = r->L;
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawseti(L, r->objects, ++r->count);
  while (true) {
    push_value(r, depth + 1);
    if (lua_isnil(L, -1)) break;
    if (lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) != lua_tonumber(L, -1)) broken(r, "a key is wrong");
    push_value(r, depth + 1);
    lua_rawset(L, -3);
  }
  lua_pop(L, 1);
}

static void push_shared(reader *r) {
  tide_ipc_tensor handle;
  get(r, handle.bytes, sizeof handle.bytes);
  ltide_try(r->L, tide_tensor_from_ipc(&ltide_new_tensor(r->L, r->S)->t, &handle));
}

static void push_reference(reader *r) {
  if (lua_rawgeti(r->L, r->objects, get_int(r)) == LUA_TNIL) broken(r, "a reference is wrong");
}

static void push_name(reader *r, char tag) {
  lua_State *L = r->L;
  const char *name = push_text(r);
  tide_dtype dtype;
  if (tag == 'd') {
    if (!tide_dtype_parse(&dtype, name)) broken(r, "a dtype is unknown");
    ltide_push_dtype(L, dtype);
  } else {
    if (!ltide_is_device(L, -1)) broken(r, "a device is unknown");
    ltide_push_device(L, ltide_check_device(L, lua_gettop(L), "device", LTIDE_CPU_OK));
  }
  lua_remove(L, -2);
}

static void push_value(reader *r, int depth) {
  lua_State *L = r->L;
  double number;
  char tag;
  luaL_checkstack(L, 12, "tide.load: tables nested too deeply");
  if (depth > DEEPEST) broken(r, "tables are nested too deeply");
  get(r, &tag, 1);
  switch (tag) {
  case 'z': lua_pushnil(L); return;
  case 't':
  case 'f': lua_pushboolean(L, tag == 't'); return;
  case 'i': lua_pushinteger(L, get_int(r)); return;
  case 'n':
    get(r, &number, sizeof number);
    lua_pushnumber(L, number);
    return;
  case 's': push_text(r); return;
  case 'T': push_read_table(r, depth); return;
  case 'r': push_reference(r); return;
  case 'd':
  case 'v': push_name(r, tag); return;
  case 'h':
    if (!r->shared) broken(r, "a tensor of another process");
    push_shared(r);
    break;
  case 'x': push_read_tensor(r); break;
  default: broken(r, "a tag is unknown");
  }
  lua_pushvalue(L, -1);
  lua_rawseti(L, r->objects, ++r->count);
}

/* Where the file ends, or -1 for one that cannot be searched. */
static int64_t find_end(FILE *file) {
  off_t here = ftello(file);
  if (here < 0 || fseeko(file, 0, SEEK_END)) return -1;
  int64_t end = (int64_t)ftello(file);
  return fseeko(file, here, SEEK_SET) ? -1 : end;
}

static void read_value(lua_State *L, ltide_state *S, FILE *file, const char *name, int map, bool shared,
                       tide_mapping *mapping) {
  int top = lua_gettop(L);
  char head[sizeof magic];
  uint32_t order;
  lua_newtable(L);
  lua_newtable(L);
  reader r = {
      L, S, file, name, top + 1, top + 2, map, .shared = shared, .mapping = mapping, .stream = stream_of(L, file)};
  check_open(L, r.stream);
  r.end = find_end(file);
  get(&r, head, sizeof head);
  if (memcmp(head, magic, sizeof head)) broken(&r, "the head is not tide's");
  get(&r, &order, sizeof order);
  if (order != byte_order) broken(&r, "they are of a machine of the other byte order");
  push_value(&r, 0);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
  ltide_made(L, S);
}

void ltide_read_value(lua_State *L, ltide_state *S, FILE *file, const char *name, int map, bool shared) {
  read_value(L, S, file, name, map, shared, NULL);
}

/* {==== The functions */

static int lsave(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 2);
  const char *name;
  ltide_file *own;
  if (lua_isnone(L, 2)) return ltide_arg_error(L, 2, "value", "what is to be saved");
  lua_settop(L, 2);
  ltide_write_value(L, S, NULL, 2, 0); /* a value that cannot be saved leaves an open file alone */
  FILE *file = ltide_check_file(L, 1, true, &own, &name);
  errno = ltide_write_value(L, S, file, 2, 0);
  if (errno) return ltide_file_error(L, "written", name);
  ltide_file_finish(L, own);
  return 0;
}

/* Leaves map_location, or nil, at index 2; gives the option mmap, where the function has it. */
static bool check_map(lua_State *L, bool has_mmap) {
  static const char *const keys[] = {"map_location", "mmap", NULL}, *const few[] = {"map_location", NULL};
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) return false;
  if (!lua_istable(L, 2))
    ltide_arg_error(L, 2, "opts", has_mmap ? "a table {map_location=, mmap=}" : "a table {map_location=}");
  ltide_check_keys(L, 2, has_mmap ? keys : few);
  bool mapped = has_mmap && ltide_opt_boolean(L, 2, "mmap", false);
  ltide_rawfield(L, 2, "map_location");
  lua_replace(L, 2);
  return mapped;
}

static int lload(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 2);
  const char *name;
  ltide_file *own;
  bool mapped = check_map(L, true);
  FILE *file = ltide_check_file(L, 1, false, &own, &name);
  read_value(L, S, file, name, 2, false, mapped ? ltide_push_mapping(L, file, name) : NULL);
  return 1;
}

static int lserialize(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 1);
  if (lua_isnone(L, 1)) return ltide_arg_error(L, 1, "value", "what is to be serialized");
  lua_settop(L, 1);
  ltide_file *f = ltide_push_file(L);
  f->file = open_memstream(&f->bytes, &f->size);
  if (!f->file) return ltide_error(L, "OutOfMemoryError", "serialize: no memory");
  if (ltide_write_value(L, S, f->file, 1, 0)) return ltide_error(L, "OutOfMemoryError", "serialize: no memory");
  lua_pushlstring(L, f->bytes, f->size);
  return 1;
}

static int ldeserialize(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 2);
  size_t n = 0;
  const char *bytes = lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &n) : NULL;
  if (!bytes) return ltide_arg_error(L, 1, "bytes", "a string that serialize gave");
  check_map(L, false);
  if (!n) return broken(&(reader){.L = L, .name = "bytes"}, "they end too early");
  ltide_file *f = ltide_push_file(L);
  f->file = fmemopen((void *)bytes, n, "rb");
  if (!f->file) return ltide_error(L, "OutOfMemoryError", "deserialize: no memory");
  ltide_read_value(L, S, f->file, "bytes", 2, false);
  return 1;
}

void ltide_open_serialize(lua_State *L, ltide_state *S) {
  (void)S;
  static const ltide_reg list[] = {
      {"save", lsave,
       "tide.save(path or file, value)\nWrites tensors, numbers, strings, booleans, dtypes, devices and tables of "
       "them. "
       "What is shared stays shared: a view is written with all of its storage, once. Metatables are left out. A file "
       "that was there is replaced when all is written, and stays as it was after an error."},
      {"load", lload,
       "tide.load(path or file [, {map_location=, mmap=false}]) -> value\nWhat save has written, each tensor on the "
       "device it was "
       "on. map_location puts them elsewhere: a device, a table as {['cuda:1'] = 'cpu'}, or a function of the device's "
       "name (nil: as it was). FileError for a file that is missing or broken; nothing in it is run. With mmap a "
       "regular file is mapped: the values of tensors of 4 KiB or more are read when they are touched, share the "
       "system's memory with other processes, and are the process's own once they are written, so that the file stays "
       "as it is."},
      {"serialize", lserialize, "tide.serialize(value) -> string\nWhat save would write."},
      {"deserialize", ldeserialize,
       "tide.deserialize(bytes [, {map_location=}]) -> value\nThe value that serialize was given; see load."},
      {0}};
  ltide_register(L, "tide", list);
}
