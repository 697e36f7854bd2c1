/* external.c: memory and semaphores that another API made, and its turns with tide.
 *
 * The storage of a tensor on such memory is foreign like any other, with one difference: while it is the other side's
 * turn its epoch is 0, which is never that of a running runtime. So the compare by which every operation looks whether
 * its operands are live refuses it too, and turns cost operations nothing. A turn begins with a wait and ends with a
 * signal on the current stream, which waits before for the other streams that used the storage: it has noted them.
 *
 * What is open stands in one list, so that the end of the runtime closes what nobody has released.
 *
 * Invariants: an import is in the list exactly while the driver has it open; a descriptor is consumed exactly when its
 * import succeeds: until then the driver has a duplicate. */

#include "comm.h"
#include "os/file.h"

typedef enum import_kind { MEMORY, BUFFER, TEXTURE, SEMAPHORE } import_kind;

typedef struct import {
  struct import *prev, *next;
  import_kind kind;
  int device;
  bool open;
  void *impl; /* the backend's */
  const tide_backend *backend;
} import;

struct tide_semaphore {
import import; /* the first member, here and below */
  _Atomic int64_t refs;
  tide__deferred_free deferred;
};

struct tide_gl_texture {
import import;
  tide__deferred_free deferred;
};

/* What a storage of another API holds. */
typedef struct outside {
import import;
  bool acquired, scripts;
  size_t offset;
  tide_semaphore *ready, *done;
} outside;

/* ---- what is open ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static import *all;

static tide_status find_table(import *i, int device, const char *what) {
  TIDE_TRY(tide__device_resolve_accelerator(&i->device, device, what));
  TIDE_TRY(tide__backend(&i->backend, i->device));
  const tide_external *x = i->backend->external;
  if (x && (x->gl_open || i->kind == MEMORY || i->kind == SEMAPHORE)) return TIDE_OK;
  return tide__fail(TIDE_SUPPORT, "%s: %s takes nothing of the kind", what, tide__device_text(i->device));
}

static void enter(import *i) {
  pthread_mutex_lock(&lock);
  i->open = true;
  i->next = all;
  if (all) all->prev = i;
  all = i;
  pthread_mutex_unlock(&lock);
}

static void shut(import *i) {
  const tide_external *x = i->backend->external;
  pthread_mutex_lock(&lock);
  bool open = i->open;
  if (open && i->next) i->next->prev = i->prev;
  if (open) *(i->prev ? &i->prev->next : &all) = i->next;
  i->open = false;
  pthread_mutex_unlock(&lock);
  if (!open) return;
  if (i->kind == MEMORY)
    x->memory_close(i->device, i->impl);
  else if (i->kind == SEMAPHORE)
    x->semaphore_close(i->device, i->impl);
  else
    x->gl_close(i->device, i->impl);
}

/* `deferred`, of what has one, with events that go before the devices do. */
static tide__deferred_free *deferred_of(import *i) {
  if (i->kind == SEMAPHORE) return &((tide_semaphore *)i)->deferred;
  return i->kind == TEXTURE ? &((tide_gl_texture *)i)->deferred : NULL;
}

void tide__external_shutdown(void) {
  while (all) {
    tide__deferred_free *d = deferred_of(all);
    if (d) tide__deferred_free_drop(d);
    shut(all);
  }
}

static tide_status check_open(const import *i, const char *what) {
  const tide_backend *b;
  if (i && i->open) return tide__backend(&b, i->device);
  return i ? tide__fail(TIDE_STATE, "%s: the object belongs to a runtime that has ended or was reset", what)
           : tide__fail(TIDE_ARGUMENT, "%s: wrong arguments, got a null pointer", what);
}

/* The stream on which a turn begins or ends; whatever is queued there is something new to who looks at its state. */
static tide_status stream_for(tide_stream **stream, const import *i, const char *what) {
  TIDE_TRY(check_open(i, what));
  if (!*stream) TIDE_TRY(tide__stream_current(stream, i->device));
  TIDE_TRY(tide__stream_check(*stream, what));
  if ((*stream)->device != i->device)
    return tide__fail(TIDE_DEVICE, "%s: stream: got one of %s, expected one of %s", what,
                      tide__device_text((*stream)->device), tide__device_text(i->device));
  if ((*stream)->capture)
    return tide__fail(TIDE_STATE, "%s: a graph is being captured, expected turns before and after its replays", what);
  tide__order_waited(*stream, NULL, 0);
  return TIDE_OK;
}

static tide_status duplicate(int *out, int fd, const char *what) {
  *out = -1;
  if (!TIDE_OS_DESCRIPTORS)
    return tide__fail(TIDE_SUPPORT, "%s: fd: other APIs give no descriptors on Windows, got %d", what, fd);
  *out = tide__os_duplicate(fd);
  return *out >= 0 ? TIDE_OK : tide__fail(TIDE_ARGUMENT, "%s: fd is not an open descriptor, got %d", what, fd);
}

/* ---- host memory ---- */

typedef struct registered {
  tide__pinned *pinned;
  uint32_t epoch; /* the end of which has unlocked everything */
  void (*release)(void *user);
  void *user;
} registered;

static void unregister(void *user) {
  registered *r = user;
  if (r->epoch == tide__epoch_now()) tide__pinned_unregister(r->pinned);
  if (r->release) r->release(r->user);
  free(r);
}

tide_status tide_host_register(tide_tensor **out, void *ptr, size_t bytes, void (*release)(void *user), void *user) {
  const tide_options options = {TIDE_UINT8, TIDE_CPU, false};
  tide_tensor *x;
  int64_t size = (int64_t)bytes;
  if (!out || !ptr || !bytes || bytes > (size_t)PTRDIFF_MAX)
    return tide__fail(TIDE_ARGUMENT, "host_register: no memory, got %zu bytes at %p, expected some", bytes, ptr);
  registered *r = malloc(sizeof *r);
  if (!r) return tide__fail(TIDE_MEMORY, "host_register: no host memory");
  *r = (registered){NULL, tide__epoch_now(), release, user};
  tide_status status = tide__pinned_register(&r->pinned, ptr, bytes);
  if (status == TIDE_OK && (status = tide_from_ptr(&x, ptr, &size, NULL, 1, &options, unregister, r)) != TIDE_OK)
    tide__pinned_unregister(r->pinned);
  if (status != TIDE_OK) {
    free(r);
    return status;
  }
  x->storage->pinned = x->storage->tracked = true;
  tide__storage_enter(x->storage);
  *out = x;
  return TIDE_OK;
}

/* ---- semaphores ---- */

tide_status tide_import_semaphore(tide_semaphore **out, int fd, bool timeline, int device) {
import i = {.kind = SEMAPHORE };
  int own;
  if (!out) return check_open(NULL, "import_semaphore");
  TIDE_TRY(find_table(&i, device, "import_semaphore"));
  tide_semaphore *s = calloc(1, sizeof *s);
  if (!s) return tide__fail(TIDE_MEMORY, "import_semaphore: no host memory");
  tide_status status = duplicate(&own, fd, "import_semaphore");
  if (status == TIDE_OK) {
    status = i.backend->external->semaphore_open(&i.impl, i.device, own, timeline);
    if (status != TIDE_OK) tide__os_close(own);
  }
  if (status != TIDE_OK) {
    free(s);
    return status;
  }
  tide__os_close(fd);
  s->import = i;
  atomic_init(&s->refs, 1);
  enter(&s->import);
  *out = s;
  return TIDE_OK;
}

static void end_import(void *import_) {
  shut(import_);
  free(import_);
}

void tide_semaphore_retain(tide_semaphore *s) {
  if (!s) return;
  tide__ref_take(&s->refs);
}

void tide_semaphore_release(tide_semaphore *s) {
  if (s && tide__ref_drop(&s->refs)) tide__deferred_free_begin(&s->deferred, end_import, s);
}

tide_status tide_stream_wait_semaphore(tide_stream *stream, tide_semaphore *s, uint64_t value) {
  TIDE_TRY(stream_for(&stream, s ? &s->import : NULL, "wait_semaphore"));
  tide_status status = s->import.backend->external->semaphore_wait(stream->impl, s->import.impl, value);
  tide__deferred_free_behind(&s->deferred, stream);
  return status;
}

tide_status tide_stream_signal_semaphore(tide_stream *stream, tide_semaphore *s, uint64_t value) {
  TIDE_TRY(stream_for(&stream, s ? &s->import : NULL, "signal_semaphore"));
  tide_status status = s->import.backend->external->semaphore_signal(stream->impl, s->import.impl, value);
  tide__deferred_free_behind(&s->deferred, stream);
  return status;
}

/* ---- tensors ---- */

/* No queued work uses the memory any more. */
static void give_back(void *user) {
  outside *o = user;
  tide_stream *stream = NULL;
  if (o->import.kind == BUFFER && o->acquired && stream_for(&stream, &o->import, "release") == TIDE_OK)
    o->import.backend->external->gl_unmap(stream->impl, o->import.impl);
  tide_semaphore_release(o->ready);
  tide_semaphore_release(o->done);
  end_import(o);
}

/* The tensor on `bytes` bytes at ptr, which has o from now on, or after an error nothing. */
static tide_status make(tide_tensor **out, outside *o, char *ptr, size_t bytes, const int64_t *size,
                        const int64_t *stride, int ndim, const tide_options *options, const char *what) {
  tide_tensor *x;
  tide_options on = *options;
  on.device = o->import.device;
  TIDE_TRY(tide_from_ptr(&x, ptr + o->offset, size, stride, ndim, &on, NULL, NULL));
  tide_storage *s = x->storage;
  if (o->offset > bytes || s->nbytes > bytes - o->offset) {
    size_t asked = s->nbytes;
    tide_tensor_release(x);
    return tide__fail(TIDE_VALUE, "%s: size takes %zu bytes from offset %zu, got memory of %zu bytes%s", what, asked,
                      o->offset, bytes, stride ? "; strides count elements" : "");
  }
  s->release = give_back, s->user = o;
  s->external = true, s->epoch = 0;
  *out = x;
  return TIDE_OK;
}

static tide_status check_semaphore(const tide_semaphore *s, const import *i, const char *name) {
  if (!s) return TIDE_OK;
  TIDE_TRY(check_open(&s->import, "import_memory"));
  if (s->import.device == i->device) return TIDE_OK;
  return tide__fail(TIDE_DEVICE, "import_memory: %s is a semaphore of %s, expected one of %s", name,
                    tide__device_text(s->import.device), tide__device_text(i->device));
}

tide_status tide_import_memory(tide_tensor **out, const tide_external_memory *m, const int64_t *size,
                               const int64_t *stride, int ndim, const tide_options *options) {
import i = {.kind = MEMORY };
  int own;
  void *ptr;
  if (!out || !m || !options) return check_open(NULL, "import_memory");
  TIDE_SIZED("import_memory", m);
  TIDE_SIZED("import_memory", options);
  if (!m->bytes) return tide__fail(TIDE_ARGUMENT, "import_memory: bytes: got 0, expected those of the allocation");
  TIDE_TRY(find_table(&i, options->device, "import_memory"));
  TIDE_TRY(check_semaphore(m->ready, &i, "ready"));
  TIDE_TRY(check_semaphore(m->done, &i, "done"));
  outside *o = calloc(1, sizeof *o);
  if (!o) return tide__fail(TIDE_MEMORY, "import_memory: no host memory");
  tide_status status = duplicate(&own, m->fd, "import_memory");
  if (status == TIDE_OK) {
    status = i.backend->external->memory_open(&i.impl, &ptr, i.device, own, m->bytes, m->dedicated);
    if (status != TIDE_OK) tide__os_close(own);
  }
  if (status != TIDE_OK) {
    free(o);
    return status;
  }
  *o = (outside){.import = i, .scripts = m->scripts, .offset = m->offset, .ready = m->ready, .done = m->done};
  enter(&o->import);
  status = make(out, o, ptr, m->bytes, size, stride, ndim, options, "import_memory");
  if (status != TIDE_OK) {
    end_import(o);
    return status;
  }
  tide__os_close(m->fd);
  if (m->ready) tide_semaphore_retain(m->ready);
  if (m->done) tide_semaphore_retain(m->done);
  return TIDE_OK;
}

/* ---- turns ---- */

static outside *outside_of(const tide_tensor *x) {
  return x && x->storage && x->storage->external ? x->storage->user : NULL;
}

bool tide_external_scripts(const tide_tensor *x) {
  const outside *o = outside_of(x);
  return o && o->scripts;
}

static tide_status check_turn(outside **out, tide_stream **stream, const tide_tensor *x, bool acquired,
                              const char *what) {
  outside *o = outside_of(x);
  if (!o) return tide__fail(TIDE_ARGUMENT, "%s: x: got a tensor of our own, expected an imported one", what);
  *stream = NULL;
  TIDE_TRY(stream_for(stream, &o->import, what));
  *out = o;
  if (o->acquired == acquired) return TIDE_OK;
  return tide__fail(TIDE_STATE, "%s: x is %s already", what, acquired ? "released" : "acquired");
}

tide_status tide_external_acquire(tide_tensor *x, uint64_t value) {
  outside *o;
  tide_stream *stream;
  TIDE_TRY(check_turn(&o, &stream, x, false, "acquire"));
  void *ptr;
  size_t bytes;
  tide_storage *s = x->storage;
  if (o->import.kind == BUFFER) {
    TIDE_TRY(o->import.backend->external->gl_map(&ptr, &bytes, stream->impl, o->import.impl));
    ptr = (char *)ptr + o->offset;
    if (ptr != s->ptr && atomic_load_explicit(&s->capture, memory_order_relaxed)) {
      o->import.backend->external->gl_unmap(stream->impl, o->import.impl);
      return tide__fail(TIDE_STATE, "acquire: x: the buffer has got another address, and a graph uses the old one");
    }
    s->ptr = ptr;
  } else if (o->ready) {
    TIDE_TRY(tide_stream_wait_semaphore(stream, o->ready, value));
  }
  tide__storage_use(s, stream); /* its end comes behind the wait, whatever comes between */
  tide__storage_enter(s);
  o->acquired = true;
  return TIDE_OK;
}

tide_status tide_external_release(tide_tensor *x, uint64_t value) {
  outside *o;
  tide_stream *stream;
  TIDE_TRY(check_turn(&o, &stream, x, true, "release"));
  TIDE_TRY(tide__deferred_free_join(&x->storage->deferred, stream));
  if (o->import.kind == BUFFER)
    TIDE_TRY(o->import.backend->external->gl_unmap(stream->impl, o->import.impl));
  else if (o->done)
    TIDE_TRY(tide_stream_signal_semaphore(stream, o->done, value));
  x->storage->epoch = 0;
  atomic_store_explicit(&x->storage->last_stream, 0, memory_order_relaxed); /* its next use is noted again */
  o->acquired = false;
  return TIDE_OK;
}

/* ---- OpenGL ---- */

tide_status tide_import_gl_buffer(tide_tensor **out, uint32_t buffer, size_t offset, const int64_t *size,
                                  const int64_t *stride, int ndim, const tide_options *options) {
  tide_stream *stream = NULL;
  void *ptr;
  size_t bytes;
  if (!out || !options) return check_open(NULL, "import_gl_buffer");
  TIDE_SIZED("import_gl_buffer", options);
  outside *o = calloc(1, sizeof *o);
  if (!o) return tide__fail(TIDE_MEMORY, "import_gl_buffer: no host memory");
  import *i = &o->import;
  i->kind = BUFFER, o->offset = offset;
  tide_status status = find_table(i, options->device, "import_gl_buffer");
  if (status == TIDE_OK) status = i->backend->external->gl_open(&i->impl, i->device, buffer, 0);
  if (status != TIDE_OK) {
    free(o);
    return status;
  }
  enter(i);
  status = stream_for(&stream, i, "import_gl_buffer");
  if (status == TIDE_OK) status = i->backend->external->gl_map(&ptr, &bytes, stream->impl, i->impl);
  if (status == TIDE_OK) { /* for its length: the driver tells it of a mapped one */
    status = i->backend->external->gl_unmap(stream->impl, i->impl);
    if (status == TIDE_OK) status = make(out, o, ptr, bytes, size, stride, ndim, options, "import_gl_buffer");
  }
  if (status != TIDE_OK) end_import(o);
  return status;
}

tide_status tide_import_gl_texture(tide_gl_texture **out, uint32_t texture, uint32_t target, int device) {
  if (!out || !target) return check_open(NULL, "import_gl_texture");
  tide_gl_texture *t = calloc(1, sizeof *t);
  if (!t) return tide__fail(TIDE_MEMORY, "import_gl_texture: no host memory");
  t->import.kind = TEXTURE;
  tide_status status = find_table(&t->import, device, "import_gl_texture");
  if (status == TIDE_OK)
    status = t->import.backend->external->gl_open(&t->import.impl, t->import.device, texture, target);
  if (status != TIDE_OK) {
    free(t);
    return status;
  }
  enter(&t->import);
  *out = t;
  return TIDE_OK;
}

void tide_gl_texture_release(tide_gl_texture *t) {
  if (t) tide__deferred_free_begin(&t->deferred, end_import, t);
}

tide_status tide_gl_texture_write(tide_gl_texture *t, const tide_tensor *x) {
  tide_stream *stream = NULL;
  TIDE_TRY(stream_for(&stream, t ? &t->import : NULL, "gl_texture_write"));
  TIDE_TRY(tide__check(x, "gl_texture_write", "x"));
  if (x->storage->device != t->import.device || !x->contiguous || !x->ndim || !x->numel)
    return tide__fail(TIDE_ARGUMENT, "gl_texture_write: x: got a tensor on %s, expected a contiguous one on %s",
                      tide__device_text(x->storage->device), tide__device_text(t->import.device));
  size_t bytes = (size_t)x->numel * tide_dtype_size((tide_dtype)x->dtype), rows = (size_t)x->size[0];
  tide__storage_use(x->storage, stream);
  const tide_external *external = t->import.backend->external;
  tide_status status = external->gl_write(stream->impl, t->import.impl, tide__tensor_ptr(x), bytes / rows, rows);
  tide__deferred_free_behind(&t->deferred, stream);
  return status;
}
