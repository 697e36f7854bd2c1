/* storage.c: the Storage object: the bytes under a tensor and its views.
 *
 * A storage object holds a one-dimensional uint8 tensor over the whole storage, so that copying, filling and moving are
 * the tensor operations on bytes and need no code of their own. */
#include "call/class.h"
#include "tensor.h"

#define STORAGE_META "tide.Storage"

static tide_tensor **new_storage(lua_State *L) { return (tide_tensor **)ltide_new_pointer(L, STORAGE_META); }

/* An empty view can take any dtype; from there the whole storage can be spanned in bytes. */
tide_status ltide_span_storage(tide_tensor **out, const tide_tensor *x) {
  int64_t zero = 0, one = 1, n = (int64_t)tide_storage_nbytes(tide_tensor_storage(x));
  tide_tensor *empty, *none;
  tide_status status = tide_as_strided(&empty, x, &zero, &one, 1, 0);
  if (status != TIDE_OK) return status;
  status = tide_view_dtype(&none, empty, TIDE_UINT8);
  tide_tensor_release(empty);
  if (status != TIDE_OK) return status;
  status = tide_as_strided(out, none, &n, &one, 1, 0);
  tide_tensor_release(none);
  return status;
}

static int ltensor_storage(lua_State *L, ltide_call *c) {
  return ltide_give(L, ltide_span_storage(new_storage(L), c->x));
}

/* What the FFI calls the elements: complex numbers have a type of its own, and halves are their bits. */
static const char *pointer_type(const tide_tensor *x) {
  static const char *const types[] = {
#define DTYPE(name, NAME, type, bytes, kind, alias) #type " *",
#include "tide/dtype.def"
#undef DTYPE
  };
  tide_dtype dtype = tide_tensor_dtype(x);
  if (tide_tensor_device(x) != TIDE_CPU) return "void *";
  switch (dtype) {
  case TIDE_BOOL: return "bool *";
  case TIDE_COMPLEX64: return "complex float *";
  case TIDE_COMPLEX128: return "complex double *";
  default: return types[dtype];
  }
}

static int ltensor_ffi_ptr(lua_State *L, ltide_call *c) {
  if (!LTIDE_FFI)
    return ltide_error(L, "NotSupportedError",
                       "ffi_ptr: this is Lua 5.4, and pointers are LuaJIT's: x:data_ptr() gives the address");
  ltide_try(L, ltide_span_storage(new_storage(L), c->x));
  return ltide_push_pointer(L, pointer_type(c->x), tide_tensor_data(c->x)), 1;
}

static int lis_storage(lua_State *L, ltide_call *c) {
  return ltide_give_boolean(L, ltide_test_meta(L, 1, ltide_handle_of(c->S)->storage_meta) != NULL);
}

static int lstorage_len(lua_State *L) {
  return ltide_give_integer(L, tide_tensor_numel(ltide_check_storage(L, 1, "storage")));
}

static int lstorage_nbytes(lua_State *L, ltide_call *c) {
  return ltide_give_integer(L, tide_tensor_numel(c->v[0].tensor));
}

static int lstorage_data_ptr(lua_State *L, ltide_call *c) {
  return ltide_give_integer(L, (lua_Integer)(intptr_t)tide_tensor_data(c->v[0].tensor));
}

static int lstorage_is_pinned(lua_State *L, ltide_call *c) {
  return ltide_give_boolean(L, tide_storage_is_pinned(tide_tensor_storage(c->v[0].tensor)));
}

/* Gives the storage itself where nothing changes. */
enum { TO_CPU, TO_PINNED, TO_CUDA }; /* tags */
static int lstorage_moved(lua_State *L, ltide_call *c) {
  tide_tensor *bytes = c->v[0].tensor, **moved;
  tide_options o = {TIDE_DTYPE_NONE, TIDE_CPU, c->row->tag == TO_PINNED};
  if (c->row->tag == TO_CUDA) o.device = c->v[1].device;
  if (o.pin_memory && tide_tensor_device(bytes) != TIDE_CPU)
    return ltide_error(L, "DeviceError", "pin_memory: the storage is on a GPU, expected one on the cpu");
  moved = new_storage(L);
  ltide_try(L, tide_to(moved, bytes, &o, false, false));
  if (*moved == bytes) lua_pushvalue(L, 1);
  return 1;
}

static int lstorage_copy_(lua_State *L, ltide_call *c) {
  tide_tensor *to = c->v[0].tensor, *from = c->v[1].tensor;
  if (tide_tensor_numel(to) != tide_tensor_numel(from))
    return ltide_error(L, "ShapeError", "copy_: source: got %I bytes, expected %I",
                       (lua_Integer)tide_tensor_numel(from), (lua_Integer)tide_tensor_numel(to));
  return ltide_self(L, tide_copy(to, from, false));
}

static int lstorage_fill_(lua_State *L, ltide_call *c) {
  int64_t value = c->v[1].i;
  if (value < 0 || value > 255)
    return ltide_error(L, "ValueError", "fill_: value: got %I, expected a byte, 0 to 255", (lua_Integer)value);
  return ltide_self(L, tide_fill(c->v[0].tensor, tide_int(value)));
}

static int device_of(lua_State *L, void *bytes) { return ltide_push_device(L, tide_tensor_device(bytes)), 1; }

static int storage_tostring(lua_State *L, void *bytes) {
  device_of(L, bytes);
  return lua_pushfstring(L, "Storage of %I bytes on %s", (lua_Integer)tide_tensor_numel(bytes),
                         luaL_tolstring(L, -1, NULL)),
         1;
}

static bool equal(void *a, void *b) { return tide_tensor_storage(a) == tide_tensor_storage(b); }

static void release(void *bytes) { tide_tensor_release_deferred(bytes); }

void ltide_open_storage(lua_State *L, ltide_state *S) {
  static const luaL_Reg others[] = {{"__len", lstorage_len}, {NULL, NULL}};
#include <rows/storage.inc>
#include <rows/storage_storage.inc>
  static const ltide_class class = {.meta = STORAGE_META,
                                    .name = "Storage",
                                    .rows = storage_rows,
                                    .release = release,
                                    .tostring = storage_tostring,
                                    .equal = equal,
                                    .others = others};
  ltide_handle_of(S)->storage_meta = ltide_open_class(L, &class);
  ltide_register_rows(L, "tide", storage_storage_rows);
}
