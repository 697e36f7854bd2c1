/* ipc.c: tensors of one process in another.
 *
 * A handle names the driver's handle of the memory, where the tensor lies in it, an event after which its values are
 * there, and a slot of a table that both processes see. The slot is how the producer learns that the consumer has
 * finished: SENT when the handle is made, OPEN once the consumer has it, DONE when nothing of the consumer's uses the
 * memory any more. Until then the producer holds the storage. A consumer that died is as good as done. Each handle is
 * opened once, so that this needs no counting; a slot that serves again has another generation, so that a stale handle
 * is recognised.
 *
 * Only memory that was asked of the driver in one piece can be opened elsewhere. A storage that lies in another kind is
 * moved when it is first shared, with the device at rest, and every tensor on it sees the new address.
 *
 * Invariant: sent[i].storage is held exactly while slot i is not FREE. */
#include "comm.h"

#include "os/file.h"
#include "os/process.h"

enum { FREE, SENT, OPEN, DONE };
enum { SLOTS = 4096 };
static const char magic[8] = "tideipc";

typedef struct slot {
  _Atomic uint32_t state, generation;
  _Atomic int32_t consumer;
} slot;

/* What the bytes of a handle hold. */
typedef struct parcel {
  char magic[8];
  tide__os_share table;
  uint32_t slot, generation;
  unsigned char uuid[16];
  tide_ipc_handle memory, event;
  uint64_t start, nbytes; /* of the storage, from the beginning of the shared piece */
  int64_t offset, size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  int32_t dtype, ndim;
} parcel;
_Static_assert(sizeof(parcel) <= TIDE_IPC_TENSOR_BYTES, "a parcel fits a handle");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what the producer has */
static tide__os_share table;
static slot *slots; /* NULL until something is shared */
static struct {
  tide_storage *storage;
  void *event;
  int device;
} sent[SLOTS];

/* ---- the producer: the table ---- */

static tide_status open_table(void) {
  if (slots) return TIDE_OK;
  if (!tide__os_share_new(&table, SLOTS * sizeof *slots))
    return tide__fail(TIDE_MEMORY, "ipc_handle: no host memory to share");
  void *map = tide__os_share_map(table.file, SLOTS * sizeof *slots);
  if (!map) {
    tide__os_share_close(table.file);
    return tide__fail(TIDE_MEMORY, "ipc_handle: no host memory to share");
  }
  slots = map;
  return TIDE_OK;
}

/* With the lock held. The storage is released by the caller, who holds no lock then. */
static tide_storage *clear(int i) {
  const tide_backend *b = tide__backend_peek(sent[i].device);
  tide_storage *storage = sent[i].storage;
  if (b && sent[i].event) b->event_free(sent[i].event);
  sent[i].storage = NULL, sent[i].event = NULL;
  atomic_fetch_add(&slots[i].generation, 1);
  atomic_store(&slots[i].state, FREE);
  return storage;
}

static bool given_back(const slot *s) {
  uint32_t state = atomic_load(&s->state);
  return state == DONE || (state == OPEN && !tide__os_alive(atomic_load(&s->consumer)));
}

void tide_ipc_collect(void) {
  for (int i = 0; i < SLOTS; i++) {
    pthread_mutex_lock(&lock);
    tide_storage *storage = slots && sent[i].storage && given_back(&slots[i]) ? clear(i) : NULL;
    bool any = slots != NULL;
    pthread_mutex_unlock(&lock);
    tide_storage_release(storage);
    if (!any) return;
  }
}

/* Takes a slot for the storage. */
static tide_status take_slot(int *out, tide_storage *storage) {
  TIDE_LOCKED(&lock);
  tide_status status = open_table();
  int i = 0;
  while (status == TIDE_OK && i < SLOTS && sent[i].storage) i++;
  if (status == TIDE_OK && i == SLOTS)
    status = tide__fail(TIDE_STATE, "ipc_handle: too many handles, got %d that no consumer has given back yet", SLOTS);
  if (status == TIDE_OK) {
    tide_storage_retain(storage);
    sent[i].storage = storage, sent[i].device = storage->device, sent[i].event = NULL;
    *out = i;
  }
  return status;
}

static void drop_slot(int i) {
  pthread_mutex_lock(&lock);
  tide_storage *storage = clear(i);
  pthread_mutex_unlock(&lock);
  tide_storage_release(storage);
}

/* The devices have been waited for. Whoever still uses what was shared loses it. */
void tide__ipc_shutdown(void) {
  int lost = 0;
  for (int i = 0; slots && i < SLOTS; i++) {
    if (!sent[i].storage) continue;
    lost += atomic_load(&slots[i].state) == OPEN && !given_back(&slots[i]);
    drop_slot(i);
  }
  if (lost) tide__log("ipc: %d tensors are still in use by other processes, which lose them now", lost);
  TIDE_LOCKED(&lock);
  if (slots) {
    tide__os_share_unmap(slots, SLOTS * sizeof *slots);
    tide__os_share_close(table.file);
  }
  slots = NULL;
}

/* ---- the producer: making a handle ---- */

/* Everything that uses the old memory is over, and what comes later reads the new address. */
static tide_status move(tide_storage *s, const tide_backend *b) {
  tide_block *block;
  TIDE_TRY(b->device_sync(s->device));
  TIDE_TRY(tide__block_alloc_plain(&block, s->stream, s->nbytes));
  tide_status status = b->copy_peer(s->stream->impl, tide__block_ptr(block), s->device, s->ptr, s->device, s->nbytes);
  if (status == TIDE_OK) status = b->stream_sync(s->stream->impl);
  if (status != TIDE_OK) {
    tide__block_free(block);
    return status;
  }
  tide_block *before = s->block;
  s->block = block, s->ptr = tide__block_ptr(block);
  tide__block_free(before);
  return TIDE_OK;
}

/* The shared piece in which the storage lies; moves it there first where it must. */
static tide_status place(void **base, tide_storage *s, const tide_backend *b) {
  size_t bytes;
  if (!s->block)
    return tide__fail(TIDE_SUPPORT,
                      "ipc_handle: the memory is borrowed, or another process's, expected our own; clone it");
  if (tide__block_base(s->block, base, &bytes)) return TIDE_OK;
  if (atomic_load_explicit(&s->exported, memory_order_relaxed))
    return tide__fail(TIDE_STATE, "ipc_handle: others know the address, by DLPack, expected a handle made before, or a "
                                  "clone");
  if (atomic_load_explicit(&s->capture, memory_order_relaxed) || tide__storage_is_bound(s))
    return tide__fail(TIDE_STATE,
                      "ipc_handle: a graph uses the memory where it lies, expected a handle made before the "
                      "capture, or a clone");
  TIDE_TRY(tide__sync_asked("ipc_handle"));
  TIDE_TRY(move(s, b));
  if (tide__block_base(s->block, base, &bytes)) return TIDE_OK;
  return tide__fail(TIDE_SUPPORT, "ipc_handle: the allocator in use has no memory that other processes can open");
}

/* The event after which the consumer may read. */
static tide_status note_work(parcel *p, void **event, const tide_backend *b, int device) {
  tide_stream *stream;
  TIDE_TRY(tide__stream_current(&stream, device));
  TIDE_TRY(b->event_new(event, device, TIDE_EVENT_INTERPROCESS));
  TIDE_TRY(b->event_record(*event, stream->impl));
  return b->ipc_event_export(&p->event, *event);
}

static tide_status describe(parcel *p, const tide_tensor *x, const tide_backend *b, int i) {
  const tide_device_props *props;
  tide_storage *s = x->storage;
  TIDE_TRY(tide_device_get_props(&props, s->device));
  memcpy(p->magic, magic, sizeof magic);
  memcpy(p->uuid, props->uuid, sizeof p->uuid);
  p->table = table, p->slot = (uint32_t)i, p->generation = atomic_load(&slots[i].generation);
  p->nbytes = s->nbytes, p->offset = x->offset, p->dtype = x->dtype, p->ndim = x->ndim;
  memcpy(p->size, x->size, (size_t)x->ndim * sizeof *p->size);
  memcpy(p->stride, x->stride, (size_t)x->ndim * sizeof *p->stride);
  if (!s->nbytes) return TIDE_OK;
  void *base = NULL;
  TIDE_TRY(place(&base, s, b));
  p->start = (uint64_t)((char *)s->ptr - (char *)base);
  TIDE_TRY(b->ipc_mem_export(&p->memory, s->device, base));
  return note_work(p, &sent[i].event, b, s->device);
}

static tide_status check_shareable(const tide_backend **b, const tide_tensor *x) {
  TIDE_TRY(tide__check(x, "ipc_handle", "x"));
  int device = x->storage->device;
  if (device < 0) return tide__fail(TIDE_DEVICE, "ipc_handle: x is on the cpu, expected an accelerator's memory");
  tide_stream *stream;
  TIDE_TRY(tide__backend(b, device));
  TIDE_TRY(tide__stream_current(&stream, device));
  if (stream->capture)
    return tide__fail(TIDE_STATE, "ipc_handle: a graph is being captured, expected it to have ended");
  if (!(*b)->ipc_mem_export || !(*b)->ipc_event_export)
    return tide__fail(TIDE_SUPPORT, "ipc_handle: %s shares no memory", tide__device_text(device));
  return TIDE_OK;
}

tide_status tide_tensor_ipc_handle(tide_ipc_tensor *out, tide_tensor *x) {
  TIDE_GIVEN("tensor_ipc_handle", out);
  const tide_backend *b;
  parcel p = {.ndim = 0};
  int i;
  TIDE_TRY(check_shareable(&b, x));
  if (tide__storage_lands(x->storage)) tide__staged_copy_settle(x->storage);
  tide_ipc_collect();
  TIDE_TRY(take_slot(&i, x->storage));
  tide_status status = describe(&p, x, b, i);
  if (status != TIDE_OK) {
    drop_slot(i);
    return status;
  }
  atomic_store(&slots[i].state, SENT);
  memset(out, 0, sizeof *out);
  memcpy(out, &p, sizeof p);
  return TIDE_OK;
}

/* ---- the consumer ---- */

/* What a storage of another process holds until its release. */
typedef struct loan {
  slot *map; /* the whole table */
  uint32_t slot, epoch;
  int device;
  void *base;
} loan;

static tide_status fail_used(void) {
  return tide__fail(TIDE_STATE, "tensor_from_ipc: the handle was opened before, or its maker has let go of the memory, "
                                "expected one for each consumer");
}

static tide_status check_parcel(const parcel *p) {
  bool ok = !memcmp(p->magic, magic, sizeof magic) && p->slot < SLOTS && p->ndim >= 0 && p->ndim <= TIDE_MAX_DIMS &&
            p->dtype >= 0 && p->dtype < TIDE_DTYPE_COUNT && p->nbytes <= (uint64_t)PTRDIFF_MAX;
  return ok ? TIDE_OK
            : tide__fail(TIDE_VALUE, "tensor_from_ipc: this is no handle of a tensor, expected what ipc_handle gave");
}

static tide_status find_device(int *out, const parcel *p) {
  int count;
  TIDE_TRY(tide__device_count(&count));
  for (int d = 0; d < count; d++) {
    const tide_device_props *props;
    TIDE_TRY(tide_device_get_props(&props, d));
    if (memcmp(props->uuid, p->uuid, sizeof p->uuid)) continue;
    *out = d;
    return TIDE_OK;
  }
  return tide__fail(TIDE_DEVICE, "tensor_from_ipc: the memory lies on a device that this process cannot see");
}

/* The tensor that the parcel describes on the storage, which it takes over. The parcel may be a forgery: what it says
 * is checked like a script's as_strided. */
static tide_status build(tide_tensor **out, tide_storage *s, const parcel *p) {
  tide_tensor *flat = tide__tensor_header();
  if (!flat) {
    tide_storage_release(s);
    return TIDE_MEMORY;
  }
  flat->storage = s, flat->offset = 0, flat->ndim = 1, flat->dtype = (uint8_t)p->dtype;
  flat->size[0] = (int64_t)s->nbytes / tide__itemsize(p->dtype), flat->stride[0] = 1;
  tide__tensor_layout(flat);
  tide_status status = tide_as_strided(out, flat, p->size, p->stride, p->ndim, p->offset);
  tide_tensor_release(flat);
  return status;
}

/* The maker itself: the same storage, and the slot is free again. */
static tide_status open_own(tide_tensor **out, const parcel *p) {
  uint32_t expected = SENT;
  pthread_mutex_lock(&lock);
  bool mine = slots && table.key == p->table.key && atomic_load(&slots[p->slot].generation) == p->generation &&
              atomic_compare_exchange_strong(&slots[p->slot].state, &expected, DONE);
  tide_storage *storage = mine ? clear((int)p->slot) : NULL;
  pthread_mutex_unlock(&lock);
  return storage ? build(out, storage, p) : fail_used();
}

static tide_status claim(loan *l, const parcel *p) {
  int file = tide__os_share_open(&p->table);
  void *map = file < 0 ? NULL : tide__os_share_map(file, SLOTS * sizeof *slots);
  if (file >= 0) tide__os_share_close(file);
  if (!map)
    return tide__fail(TIDE_STATE,
                      "tensor_from_ipc: process %d, which made the handle, is gone or cannot be reached, "
                      "expected it to live",
                      (int)p->table.process);
  l->map = map, l->slot = p->slot;
  slot *s = &l->map[p->slot];
  uint32_t expected = SENT;
  if (atomic_load(&s->generation) == p->generation && atomic_compare_exchange_strong(&s->state, &expected, OPEN)) {
    atomic_store(&s->consumer, tide__os_self());
    return TIDE_OK;
  }
  tide__os_share_unmap(map, SLOTS * sizeof *slots);
  return fail_used();
}

static void settle(loan *l, uint32_t state) {
  atomic_store(&l->map[l->slot].state, state);
  tide__os_share_unmap(l->map, SLOTS * sizeof *slots);
  free(l);
}

/* Nothing of ours uses the memory any more. */
static void give_back(void *user) {
  loan *l = user;
  const tide_backend *b = l->epoch == tide__epoch_now() ? tide__backend_peek(l->device) : NULL;
  if (b && l->base) b->ipc_mem_close(l->device, l->base);
  settle(l, DONE);
}

/* Opens memory and event; the current stream waits for the maker's work. */
static tide_status attach(loan *l, const parcel *p) {
  const tide_backend *b;
  tide_stream *stream;
  void *event;
  TIDE_TRY(tide__backend(&b, l->device));
  if (!b->ipc_mem_open || !b->ipc_event_open)
    return tide__fail(TIDE_SUPPORT, "tensor_from_ipc: %s shares no memory", tide__device_text(l->device));
  TIDE_TRY(tide__stream_current(&stream, l->device));
  TIDE_TRY(b->ipc_event_open(&event, l->device, &p->event));
  tide__order_waited(stream, NULL, 0);
  tide_status status = b->event_wait(stream->impl, event);
  b->event_free(event);
  TIDE_TRY(status);
  return b->ipc_mem_open(&l->base, l->device, &p->memory);
}

static tide_status open_other(tide_tensor **out, const parcel *p) {
  loan *l = calloc(1, sizeof *l);
  if (!l) return tide__fail(TIDE_MEMORY, "tensor_from_ipc: no host memory");
  l->epoch = tide__epoch_now();
  tide_status status = find_device(&l->device, p);
  if (status == TIDE_OK) status = claim(l, p);
  if (status != TIDE_OK) {
    free(l);
    return status;
  }
  tide_storage *s;
  if (p->nbytes) status = attach(l, p);
  if (status == TIDE_OK)
    status = tide__storage_wrap(&s, (char *)l->base + p->start, (size_t)p->nbytes, l->device, give_back, l);
  if (status != TIDE_OK) {
    const tide_backend *b = l->base ? tide__backend_peek(l->device) : NULL;
    if (b) b->ipc_mem_close(l->device, l->base);
    settle(l, SENT); /* another try may do better */
    return status;
  }
  return build(out, s, p);
}

tide_status tide_tensor_from_ipc(tide_tensor **out, const tide_ipc_tensor *handle) {
  TIDE_GIVEN("tensor_from_ipc", handle);
  parcel p;
  memcpy(&p, handle, sizeof p);
  TIDE_TRY(check_parcel(&p));
  return p.table.process == tide__os_self() ? open_own(out, &p) : open_other(out, &p);
}
