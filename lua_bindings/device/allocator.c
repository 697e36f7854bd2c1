/* allocator.c: where device memory comes from: settings, caching on and off, raw pieces, pools, a program's own
 * allocator.
 *
 * A pool's handle holds one reference; selecting it in a block is the same exchange as selecting a stream. Raw pieces
 * are plain numbers that no collector watches: whoever takes one gives it back. */
#include "call/class.h"
#include "tensor/tensor.h"
#include "memory.h"
#include "call/block.h"

#define POOL_META      "tide.cuda.MemPool"
#define ALLOCATOR_META "tide.cuda.CUDAPluggableAllocator"

/* {==== Settings */

static int lset_settings(lua_State *L, ltide_call *c) { return ltide_done(L, tide_allocator_configure(c->v[0].text)); }

static int lget_backend(lua_State *L, ltide_call *c) {
  const char *name = NULL;
  ltide_try(L, tide_allocator_backend(&name));
  return lua_pushstring(L, name), 1;
}

static int lcaching_enable(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_allocator_set_caching(c->v[0].boolean));
}

static void leave_caching(lua_State *L, void *data) {
  if (L) tide_allocator_set_caching(*(bool *)data);
}

static int lcaching_disabled(lua_State *L, ltide_call *c) {
  bool *before = ltide_block_new(L, "caching_allocator_disabled", c->v[0].at, leave_caching, sizeof *before);
  *before = tide_allocator_get_caching();
  ltide_try(L, tide_allocator_set_caching(false));
  return ltide_block_open(L, c->v[0].at);
}

/* {==== Raw pieces */

/* A Stream, or the handle of a foreign one; NULL where none is given. *wrapped is a reference to release. */
static tide_stream *stream_option(lua_State *L, const ltide_value *v, int device, tide_stream **wrapped) {
  int is_handle;
  if (!v->given) return NULL;
  if (lua_type(L, v->at) != LUA_TNUMBER) return ltide_check_stream(L, v->at, "stream");
  uint64_t handle = (uint64_t)lua_tointegerx(L, v->at, &is_handle);
  if (!is_handle) ltide_arg_error(L, v->at, "stream", "a tide.cuda.Stream or the handle of one");
  ltide_try(L, tide_stream_wrap(wrapped, device, handle));
  return *wrapped;
}

static int lcaching_alloc(lua_State *L, ltide_call *c) {
  int64_t bytes = c->v[0].i;
  int device = c->v[1].device;
  if (bytes < 0)
    return ltide_error(L, "ValueError", "caching_allocator_alloc: negative size, got %I", (lua_Integer)bytes);
  tide_stream *wrapped = NULL, *stream = stream_option(L, &c->v[2], device, &wrapped);
  if (stream && device == TIDE_CURRENT) device = tide_stream_device(stream);
  void *ptr = NULL;
  tide_status status = tide_allocator_take(&ptr, (size_t)bytes, device, stream);
  tide_stream_release(wrapped);
  ltide_try(L, status);
  if (c->v[3].i) /* as = 'pointer' */
    lua_pushlightuserdata(L, ptr);
  else
    lua_pushinteger(L, (lua_Integer)(uintptr_t)ptr);
  return 1;
}

static int lcaching_delete(lua_State *L, ltide_call *c) {
  void *ptr = lua_touserdata(L, 1);
  if (!lua_islightuserdata(L, 1)) ptr = (void *)(uintptr_t)ltide_check_integer(L, c->v[0].at, "ptr");
  return ltide_done(L, tide_allocator_give(ptr));
}

/* {==== A program's own allocator */

static tide_allocator *check_allocator(lua_State *L, int arg) {
  tide_allocator **u = ltide_test_object(L, arg, ALLOCATOR_META);
  if (!u) ltide_arg_error(L, arg, "allocator", "a tide.cuda.CUDAPluggableAllocator");
  if (!*u) ltide_freed_error(L, "allocator", "allocator");
  return *u;
}

static int lallocator_new(lua_State *L, ltide_call *c) {
  tide_allocator **u = (tide_allocator **)ltide_new_pointer(L, ALLOCATOR_META);
  return ltide_give(L, tide_allocator_open(u, c->v[0].text, c->v[1].text, c->v[2].text));
}

static int lchange_allocator(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_allocator_change(check_allocator(L, c->v[0].at)));
}

/* {==== Pools */

tide_mempool *ltide_test_mempool(lua_State *L, int arg) {
  tide_mempool **u = ltide_test_object(L, arg, POOL_META);
  return u ? *u : NULL;
}

static tide_mempool *check_pool(lua_State *L, int arg) {
  tide_mempool *pool = ltide_test_mempool(L, arg);
  if (!pool) ltide_arg_error(L, arg, "pool", "a tide.cuda.MemPool");
  return pool;
}

static int lpool_new(lua_State *L, ltide_call *c) {
  tide_allocator *source = c->v[0].given ? check_allocator(L, 1) : NULL;
  tide_mempool **u = (tide_mempool **)ltide_new_pointer(L, POOL_META);
  return ltide_give(L, tide_mempool_new_from(u, TIDE_ALL_DEVICES, source));
}

static int id_of(lua_State *L, void *pool) { return ltide_give_integer(L, (lua_Integer)tide_mempool_id(pool)); }

static int pool_tostring(lua_State *L, void *pool) {
  return lua_pushfstring(L, "tide.cuda.MemPool(id=%I)", (lua_Integer)tide_mempool_id(pool)), 1;
}

typedef struct pool_before {
  tide_mempool *pool; /* a reference, or NULL */
  int device;
} pool_before;

static void leave_pool(lua_State *L, void *data) {
  pool_before *b = data;
  if (L) tide_current_set_pool(b->pool, b->device);
  tide_mempool_release(b->pool);
}

/* use_mem_pool(pool [, dev] [, fn, ...]) */
static int luse_pool(lua_State *L) {
  ltide_enter(L);
  tide_mempool *pool = check_pool(L, 1);
  int fn = lua_isfunction(L, 2) ? 2 : ltide_check_block(L, 3);
  int device = fn == 2 ? TIDE_CURRENT : ltide_check_device(L, 2, "device", LTIDE_NIL_OK);
  pool_before *before = ltide_block_new(L, "use_mem_pool", fn, leave_pool, sizeof *before);
  before->device = device == TIDE_CURRENT ? tide_current_device() : device;
  ltide_try(L, tide_current_pool(&before->pool, before->device));
  if (before->pool) tide_mempool_retain(before->pool);
  tide_status status = tide_current_set_pool(pool, before->device);
  if (status != TIDE_OK) {
    tide_mempool_release(before->pool);
    return ltide_raise(L);
  }
  return ltide_block_open(L, fn);
}

/* {==== Registration */

static void release_pool(void *pool) { tide_mempool_release(pool); }
static void release_allocator(void *allocator) { tide_allocator_release(allocator); }

void ltide_open_allocator(lua_State *L, ltide_state *S) {
#include <rows/allocator_cuda.inc>
#include <rows/allocator_memory.inc>
  static ltide_row pool_rows[] = {FIELD(pool, id, id_of, " -> integer", "Its number, as in segments of snapshots."){0}};
  static const ltide_class pool = {
      .meta = POOL_META, .name = "MemPool", .rows = pool_rows, .release = release_pool, .tostring = pool_tostring};
  static const ltide_class allocator = {
      .meta = ALLOCATOR_META, .name = "CUDAPluggableAllocator", .release = release_allocator};
  ltide_open_class(L, &pool);
  ltide_open_class(L, &allocator);
  ltide_register_memory(L, allocator_cuda_rows);
  ltide_register_in(L, "tide.cuda.memory", allocator_memory_rows);
}
