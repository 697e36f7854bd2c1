/* comm_coalesced.c: lists of tensors to several devices, and their sums.
 *
 * A network has hundreds of small parameters, and a copy for each would cost the host more than all their bytes cost
 * the link. So tensors are put side by side in buffers: of one dtype, in the order of the list, of at most buffer_size
 * bytes; a larger tensor has a buffer of its own. The buffers are made on the receiving side, and one kernel there
 * fetches a hundred tensors at once from the other device's memory, so nothing is packed on the sending side; the
 * results are views of the buffers. Pieces that are large, or that a kernel cannot reach, are copied one by one. All
 * buffers of a call share two waits of the streams.
 *
 * Invariant: each tensor stands in its buffer at a multiple of 16 bytes, so that later kernels see whole vectors; what
 * lies between is never told. */
#include "comm.h"

#include <stdio.h>

/* From here on a copy of its own costs the host less than it saves. */
static const int64_t LARGE = (int64_t)4 << 20;
enum { ALIGN = 16 };

/* Where each tensor of a list stands: in which buffer, and at which byte of it. */
typedef struct layout {
  int n, buffers;
  int *buffer;
  int64_t *at;
  int64_t *bytes;     /* of each buffer */
  int *count;         /* likewise: of tensors in it */
  tide_dtype *dtype;  /* likewise */
  tide_tensor **flat; /* likewise: of one device at a time */
} layout;

static void layout_end(layout *l) {
  free(l->buffer);
  free(l->at);
  free(l->bytes);
  free(l->count);
  free(l->dtype);
  free(l->flat);
}

static int64_t tensor_bytes(const tide_tensor *x) { return x->numel * tide__itemsize(x->dtype); }

static tide_status layout_begin(layout *l, tide_tensor *const *list, int n, size_t buffer_size) {
  int open[TIDE_DTYPE_COUNT];
  size_t room = (size_t)n + 1;
  *l = (layout){.n = n, .buffer = calloc(room, sizeof *l->buffer), .at = calloc(room, sizeof *l->at)};
  l->bytes = calloc(room, sizeof *l->bytes), l->dtype = calloc(room, sizeof *l->dtype);
  l->flat = calloc(room, sizeof *l->flat), l->count = calloc(room, sizeof *l->count);
  if (!l->buffer || !l->at || !l->bytes || !l->dtype || !l->flat || !l->count) {
    layout_end(l);
    return tide__fail(TIDE_MEMORY, "comm: no host memory for the places of %d tensors", n);
  }
  for (int d = 0; d < TIDE_DTYPE_COUNT; d++) open[d] = -1;
  for (int i = 0; i < n; i++) {
    int k = open[list[i]->dtype];
    int64_t bytes = tensor_bytes(list[i]);
    if (k < 0 || (l->bytes[k] > 0 && (uint64_t)(l->bytes[k] + bytes) > buffer_size)) {
      k = open[list[i]->dtype] = l->buffers++;
      l->dtype[k] = (tide_dtype)list[i]->dtype;
    }
    l->buffer[i] = k, l->at[i] = l->bytes[k];
    l->bytes[k] += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    l->count[k]++;
  }
  return TIDE_OK;
}

/* New buffers on the device, for at least so many tensors each. */
static tide_status flats_new(layout *l, int device, int least) {
  for (int k = 0; k < l->buffers; k++) {
    if (l->count[k] < least) continue;
    int64_t numel = l->bytes[k] / tide__itemsize(l->dtype[k]);
    TIDE_TRY(tide__tensor_new(&l->flat[k], &numel, 1, l->dtype[k], device));
  }
  return TIDE_OK;
}

/* ---- filling buffers ---- */

/* Queues what has been collected. */
static tide_status pack_flush(tide_pack_args *a, tide_stream *on) {
  const tide_backend *b;
  if (a->n == 0) return TIDE_OK;
  TIDE_TRY(tide__backend(&b, on->device));
  a->head.nptr = 0, a->head.device = on->device, a->head.site = tide__site_now();
  uint32_t number;
  TIDE_TRY(tide__launch_begin(&number, on, a->head.site, TIDE__LAUNCH_COPY_PEER, 0, NULL));
  tide_status status = b->pack(on, a);
  a->n = 0;
  return tide__launch_done(on, number, status);
}

static void observe_piece(const tide_pack_args *a, const tide_tensor *flat, const tide_tensor *x) {
  if (a->n == 0)
    tide__observe_copy(flat, x);
  else
    tide__observe_operand(x, false);
}

/* One contiguous piece to its place, on a stream of the place's device. */
static tide_status pack_one(tide_pack_args *a, tide_stream *on, const tide_tensor *flat, int64_t at,
                            const tide_tensor *x) {
  const tide_backend *b;
  size_t bytes = (size_t)tensor_bytes(x);
  char *to = tide__tensor_ptr(flat) + at;
  uint32_t number;
  TIDE_TRY(tide__backend(&b, on->device));
  if (b->pack && (int64_t)bytes < LARGE && tide__comm_reaches(on->device, x->storage)) {
    if (tide__sync_watched()) observe_piece(a, flat, x);
    a->piece[a->n++] = (tide_pack_piece){to, tide__tensor_ptr(x), bytes};
    return a->n == TIDE_PACK_PIECES ? pack_flush(a, on) : TIDE_OK;
  }
  TIDE_TRY(pack_flush(a, on)); /* one operation at a time is told to those who watch */
  if (tide__sync_watched()) tide__observe_copy(flat, x);
  TIDE_TRY(tide__launch_begin(&number, on, tide__site_now(), TIDE__LAUNCH_COPY_PEER, 0, NULL));
  tide_status status = b->copy_peer(on->impl, to, on->device, tide__tensor_ptr(x), x->storage->device, bytes);
  return tide__launch_done(on, number, status);
}

/* The contiguous tensors of the list to their places in the buffers that hold at least so many. */
static tide_status fill(const layout *l, tide_tensor *const *list, tide_stream *on, int least) {
  tide_pack_args a;
  a.n = 0;
  for (int i = 0; i < l->n; i++)
    if (list[i]->numel > 0 && l->count[l->buffer[i]] >= least)
      TIDE_TRY(pack_one(&a, on, l->flat[l->buffer[i]], l->at[i], list[i]));
  return pack_flush(&a, on);
}

/* The results: views of the buffers, whose own references go. */
static tide_status views(tide_tensor **outs, const layout *l, tide_tensor *const *like) {
  int64_t stride[TIDE_MAX_DIMS];
  for (int i = 0; i < l->n; i++) {
    const tide_tensor *x = like[i];
    tide__stride_contiguous(stride, x->size, x->ndim);
    TIDE_TRY(tide__tensor_view(&outs[i], l->flat[l->buffer[i]], x->size, stride, x->ndim,
                               l->at[i] / tide__itemsize(x->dtype)));
  }
  return TIDE_OK;
}

/* Contiguous forms of a list, made on its own device where need be; uses of them are noted there. */
static tide_status packed_new(tide_tensor **packed, tide_tensor *const *list, int n, tide_stream *home) {
  for (int i = 0; i < n; i++) {
    TIDE_TRY(tide__as_contiguous(&packed[i], list[i], (tide_dtype)list[i]->dtype));
    tide__storage_use(packed[i]->storage, home);
  }
  return TIDE_OK;
}

static tide_status tensors_new(tide_tensor ***out, size_t n, const char *what) {
  *out = calloc(n + 1, sizeof **out);
  return *out ? TIDE_OK : tide__fail(TIDE_MEMORY, "%s: no host memory for %zu tensors", what, n);
}

/* ---- broadcast ---- */

static tide_status send_all(tide_tensor **outs, layout *l, tide_tensor *const *packed, tide_stream *on,
                            const tide__point *start, tide__collective_tracker *tracker, int rank,
                            tide_stream *source) {
  const tide__point *done;
  if (start) TIDE_TRY(tide__point_wait(on, start, tracker->what));
  tide_status status = flats_new(l, on->device, 1);
  if (status == TIDE_OK) status = fill(l, packed, on, 1);
  if (status == TIDE_OK) status = views(outs, l, packed);
  tide__tensors_drop(l->flat, l->buffers);
  TIDE_TRY(status);
  if (on == source) return TIDE_OK;
  TIDE_TRY(tide__tracker_point(&done, tracker, on, rank, false));
  return tide__point_wait(source, done, tracker->what);
}

static tide_status broadcast_all(tide_tensor **outs, tide_tensor *const *list, int n, const int *devices, int n_devices,
                                 size_t buffer_size, tide__collective_tracker *tracker, tide_tensor **packed) {
  tide_stream *streams[TIDE_MAX_DEVICES];
  const tide__point *start = NULL;
  bool settled = true;
  layout l;
  for (int d = 0; d < n_devices; d++) TIDE_TRY(tide__stream_current(&streams[d], devices[d]));
  TIDE_TRY(tide__comm_join(streams, n_devices, tracker->what));
  TIDE_TRY(packed_new(packed, list, n, streams[0]));
  for (int d = 1; d < n_devices; d++) settled &= tide__order_settled(streams[d], streams[0]);
  if (!settled) TIDE_TRY(tide__tracker_point(&start, tracker, streams[0], 0, true));
  TIDE_TRY(layout_begin(&l, list, n, buffer_size));
  tide_status status = TIDE_OK;
  for (int d = 1; d < n_devices && status == TIDE_OK; d++)
    status = send_all(outs + (size_t)d * (size_t)n, &l, packed, streams[d], start, tracker, d, streams[0]);
  layout_end(&l);
  return status;
}

tide_status tide_comm_broadcast_coalesced(tide_tensor **outs, tide_tensor *const *list, int n, const int *devices,
                                          int n_devices, size_t buffer_size) {
  TIDE_GIVEN("comm_broadcast_coalesced", outs);
  TIDE_LIST("comm_broadcast_coalesced", devices, n_devices);
  TIDE_LIST("comm_broadcast_coalesced", list, n);
  static const char what[] = "comm.broadcast_coalesced";
  int to[TIDE_MAX_DEVICES];
  tide__collective_tracker tracker;
  if (n_devices < 1 || n_devices > TIDE_MAX_DEVICES)
    return tide__fail(TIDE_VALUE, "%s: wrong number of devices, got %d, expected 1 to %d", what, n_devices,
                      TIDE_MAX_DEVICES);
  for (int d = 0; d < n_devices; d++) TIDE_TRY(tide__comm_device(&to[d], devices[d], d, what));
  for (int i = 0; i < n; i++) {
    TIDE_TRY(tide__comm_tensor(list[i], i, "tensor", what));
    if (list[i]->storage->device != to[0])
      return tide__fail(TIDE_DEVICE, "%s: tensor %lld is not on the first device, got %s, expected %s", what,
                        (long long)tide__shown(i), tide__device_text(list[i]->storage->device),
                        tide__device_text(to[0]));
  }
  tide_tensor **packed;
  TIDE_TRY(tensors_new(&packed, (size_t)n, what));
  memset(outs, 0, (size_t)n_devices * (size_t)n * sizeof *outs);
  tide__tracker_begin(&tracker, what);
  tide_status status = TIDE_OK;
  if (n > 0 && n_devices > 1)
    status = tide__tracker_end(&tracker, broadcast_all(outs, list, n, to, n_devices, buffer_size, &tracker, packed));
  tide__tensors_drop(packed, n);
  free(packed);
  if (status != TIDE_OK) tide__tensors_drop(outs, n_devices * n);
  for (int i = 0; i < n && status == TIDE_OK; i++) outs[i] = tide__tensor_ref(list[i]);
  return status;
}

/* ---- sums ---- */

typedef struct sums {
  tide_tensor *const *lists; /* [ranks][n] */
  tide_tensor **packed;      /* likewise, contiguous */
  int ranks, n, root;
  tide_stream *on; /* the destination's */
} sums;

static const tide_tensor *packed_of(const sums *s, int rank, int i) {
  return s->packed[(size_t)rank * (size_t)s->n + (size_t)i];
}

/* What is alone in its buffer is added as it comes over the link. */
static tide_status sum_alone(tide_tensor *flat, const sums *s, int i) {
  const tide_tensor *root = packed_of(s, s->root, i), *a = root;
  tide_tensor *place;
  int64_t stride[TIDE_MAX_DIMS];
  tide__stride_contiguous(stride, root->size, root->ndim);
  TIDE_TRY(tide__tensor_view(&place, flat, root->size, stride, root->ndim, 0));
  tide_status status = TIDE_OK;
  for (int r = 0; r < s->ranks && status == TIDE_OK; r++) {
    if (r == s->root) continue;
    status = tide__fold(TIDE_OP_add, place, a, packed_of(s, r, i), s->on);
    a = place;
  }
  tide_tensor_release(place);
  return status;
}

/* Shared buffers of each rank in turn: fetched to the destination and added to those of the root, `sum`. */
static tide_status sum_shared(tide_tensor *const *sum, layout *l, const sums *s) {
  tide_status status = TIDE_OK;
  for (int r = 0; r < s->ranks && status == TIDE_OK; r++) {
    if (r == s->root) continue;
    status = flats_new(l, s->on->device, 2);
    if (status == TIDE_OK) status = fill(l, s->packed + (size_t)r * (size_t)s->n, s->on, 2);
    for (int k = 0; k < l->buffers && status == TIDE_OK; k++)
      if (l->flat[k] && sum[k]->numel > 0)
        status = tide_binary(NULL, TIDE_OP_add, sum[k], l->flat[k], (tide_tensor *)sum[k]);
    tide__tensors_drop(l->flat, l->buffers);
  }
  return status;
}

static tide_status sum_layout(tide_tensor **outs, layout *l, const sums *s) {
  tide_tensor **sum;
  TIDE_TRY(flats_new(l, s->on->device, 1));
  TIDE_TRY(fill(l, s->packed + (size_t)s->root * (size_t)s->n, s->on, 2));
  for (int i = 0; i < s->n; i++)
    if (l->count[l->buffer[i]] == 1) TIDE_TRY(sum_alone(l->flat[l->buffer[i]], s, i));
  TIDE_TRY(views(outs, l, s->packed));
  TIDE_TRY(tensors_new(&sum, (size_t)l->buffers, "comm.reduce_add_coalesced"));
  size_t bytes = (size_t)l->buffers * sizeof *sum;
  memcpy(sum, l->flat, bytes);
  memset(l->flat, 0, bytes);
  tide_status status = sum_shared(sum, l, s);
  tide__tensors_drop(sum, l->buffers);
  free(sum);
  return status;
}

static tide_status sum_all(tide_tensor **outs, sums *s, size_t buffer_size, tide__collective_tracker *tracker) {
  tide_stream *streams[TIDE_MAX_DEVICES];
  layout l;
  for (int r = 0; r < s->ranks; r++)
    TIDE_TRY(tide__stream_current(&streams[r], s->lists[(size_t)r * (size_t)s->n]->storage->device));
  s->on = streams[s->root];
  TIDE_TRY(tide__comm_join(streams, s->ranks, tracker->what));
  for (int r = 0; r < s->ranks; r++) {
    size_t at = (size_t)r * (size_t)s->n;
    TIDE_TRY(packed_new(s->packed + at, s->lists + at, s->n, streams[r]));
  }
  TIDE_TRY(tide__sum_begin(tracker, streams, s->ranks, s->on));
  TIDE_TRY(layout_begin(&l, s->lists, s->n, buffer_size));
  tide_status status = sum_layout(outs, &l, s);
  tide__tensors_drop(l.flat, l.buffers);
  layout_end(&l);
  TIDE_TRY(status);
  return tide__sum_end(tracker, streams, s->ranks, s->on);
}

static tide_status check_rank(tide_tensor *const *lists, int r, int n, const char *what) {
  tide_tensor *const *list = lists + (size_t)r * (size_t)n;
  for (int i = 0; i < n; i++) {
    const tide_tensor *x = list[i], *model = lists[i];
    char name[48];
    snprintf(name, sizeof name, "input %lld, tensor", (long long)tide__shown(r));
    TIDE_TRY(tide__comm_cuda(x, i, name, what));
    if (x->storage->device != list[0]->storage->device)
      return tide__fail(TIDE_DEVICE, "%s: %s %lld is on another device than the first, got %s, expected %s", what, name,
                        (long long)tide__shown(i), tide__device_text(x->storage->device),
                        tide__device_text(list[0]->storage->device));
    if (!tide__same_size(x, model))
      return tide__fail(TIDE_VALUE, "%s: %s %lld has another size, got %s, expected %s", what, name,
                        (long long)tide__shown(i), tide__shape_text(x->size, x->ndim),
                        tide__shape_text(model->size, model->ndim));
    if (x->dtype != model->dtype)
      return tide__fail(TIDE_DTYPE, "%s: %s %lld has another dtype, got %s, expected %s", what, name,
                        (long long)tide__shown(i), tide_dtype_name((tide_dtype)x->dtype),
                        tide_dtype_name((tide_dtype)model->dtype));
  }
  return TIDE_OK;
}

tide_status tide_comm_reduce_add_coalesced(tide_tensor **outs, tide_tensor *const *lists, int ranks, int n,
                                           int destination, size_t buffer_size) {
  TIDE_LIST("comm_reduce_add_coalesced", lists, ranks);
  TIDE_GIVEN("comm_reduce_add_coalesced", outs);
  static const char what[] = "comm.reduce_add_coalesced";
  sums s = {.lists = lists, .ranks = ranks, .n = n, .root = -1};
  tide__collective_tracker tracker;
  if (ranks < 1 || ranks > TIDE_MAX_DEVICES)
    return tide__fail(TIDE_VALUE, "%s: wrong number of inputs, got %d, expected 1 to %d", what, ranks,
                      TIDE_MAX_DEVICES);
  TIDE_TRY(tide__device_resolve_accelerator(&destination, destination, what));
  for (int r = 0; r < ranks; r++) {
    TIDE_TRY(check_rank(lists, r, n, what));
    if (n > 0 && lists[(size_t)r * (size_t)n]->storage->device == destination) s.root = r;
  }
  if (n == 0) return TIDE_OK;
  if (s.root < 0)
    return tide__fail(TIDE_DEVICE, "%s: no input lies on the destination, got none on %s, expected one", what,
                      tide__device_text(destination));
  for (int i = 0; i < n && ranks == 1; i++) outs[i] = tide__tensor_ref(lists[i]);
  if (ranks == 1) return TIDE_OK;
  size_t all = (size_t)ranks * (size_t)n;
  TIDE_TRY(tensors_new(&s.packed, all, what));
  memset(outs, 0, (size_t)n * sizeof *outs);
  tide__tracker_begin(&tracker, what);
  tide_status status = tide__tracker_end(&tracker, sum_all(outs, &s, buffer_size, &tracker));
  tide__tensors_drop(s.packed, (int)all);
  free(s.packed);
  if (status != TIDE_OK) tide__tensors_drop(outs, n);
  return status;
}
