/* values.c: values as bytes.
 *
 * A value is a tag and what belongs to it, in the machine's byte order, which the head of a file tells. Storages are
 * numbered as they are met; the bytes of each stand behind the first tensor on it, so what is shared stays shared.
 * Large ones begin at multiples of 64 in the file, so that they can be used where they are when the file is mapped.
 *
 * Invariant of reading: nothing in a file is believed. Sizes are compared with what the file has left before memory is
 * asked for, and core checks that a tensor lies inside its storage. */
#include "tide/values.h"

#include <errno.h>

#include "tensor/tensor.h"

static const char magic[8] = "tide\1\n\r";
static const uint32_t byte_order = 0x01020304;
enum { ALIGN = 64, LARGE = 4096 };

/* By the kind; what is no tag is 0. A boolean's is 't' or 'f'. */
static const char tags[] = "z\0insTrdvxh";

struct tide_values {
  tide_values_config config;
  int error;                    /* errno of the first write that failed; nothing is written after it */
  int64_t end;                  /* of the file, or -1 where it cannot be told */
  int64_t storages, room;       /* numbers given, and places in the tables */
  const tide_storage **written; /* a hash table, of a power of two places */
  int64_t *number;              /* of each place */
  tide_tensor **bytes;          /* read: of each number, from 0 */
  tide_tensor *tensor;          /* read last */
  char *text;                   /* likewise */
  size_t text_room;
  bool places, placed; /* a tensor waits for its storage's device */
  tide_dtype dtype;    /* of that tensor */
  int ndim, device;    /* device: of its storage */
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS], offset;
};

static tide_status check_open(const tide_values *v) {
  if (!v->config.is_open || v->config.is_open(v->config.user)) return TIDE_OK;
  return tide__fail(TIDE_STATE, "%s: the file was closed meanwhile, expected it to stay open", v->config.what);
}

static tide_status no_memory(const tide_values *v) {
  return tide__fail(TIDE_MEMORY, "%s: no host memory", v->config.what);
}

static tide_status new_values(tide_values **made, tide_values **out, const tide_values_config *config) {
  if (!out || !config || !config->what)
    return tide__fail(TIDE_ARGUMENT, "values: wrong arguments, got a null pointer, expected a configuration");
  TIDE_SIZED(config->what, config);
  tide_values *v = calloc(1, sizeof *v);
  if (!v) return tide__fail(TIDE_MEMORY, "%s: no host memory", config->what);
  v->config = *config;
  *made = v;
  return TIDE_OK;
}

void tide_values_free(tide_values *v) {
  if (!v) return;
  for (int64_t i = 0; v->bytes && i < v->storages; i++) tide_tensor_release_deferred(v->bytes[i]);
  tide_tensor_release_deferred(v->tensor);
  free(v->written), free(v->number), free(v->bytes), free(v->text);
  free(v);
}

static tide_status give(tide_values **out, tide_values *v, tide_status status) {
  if (status == TIDE_OK)
    *out = v;
  else
    tide_values_free(v);
  return status;
}

/* ---- writing ---- */

static tide_status put(tide_values *v, const void *bytes, size_t n) {
  TIDE_TRY(check_open(v));
  if (v->config.file && !v->error && fwrite(bytes, 1, n, v->config.file) != n) v->error = errno;
  return TIDE_OK;
}

static tide_status put_int(tide_values *v, int64_t i) { return put(v, &i, sizeof i); }

static tide_status put_text(tide_values *v, const char *text, size_t n) {
  TIDE_TRY(put_int(v, (int64_t)n));
  return put(v, text, n);
}

/* The place of the storage in the table, which has room. */
static int64_t find(const tide_values *v, const tide_storage *s) {
  int64_t at = (int64_t)(((uintptr_t)s >> 4) * (uintptr_t)0x9e3779b97f4a7c15u & (uintptr_t)(v->room - 1));
  while (v->written[at] && v->written[at] != s) at = (at + 1) & (v->room - 1);
  return at;
}

static tide_status grow(tide_values *v) {
  tide_values old = *v;
  v->room = old.room ? 2 * old.room : 64;
  v->written = calloc((size_t)v->room, sizeof *v->written);
  v->number = calloc((size_t)v->room, sizeof *v->number);
  if (!v->written || !v->number) {
    free(v->written), free(v->number);
    v->written = old.written, v->number = old.number, v->room = old.room;
    return no_memory(v);
  }
  for (int64_t i = 0; i < old.room; i++) {
    if (!old.written[i]) continue;
    int64_t at = find(v, old.written[i]);
    v->written[at] = old.written[i], v->number[at] = old.number[i];
  }
  free(old.written), free(old.number);
  return TIDE_OK;
}

/* The number of bytes that follow; -1 - n says that as many zeros as stand behind it come before them. */
static tide_status put_length(tide_values *v, int64_t n) {
  static const char zeros[ALIGN];
  TIDE_TRY(check_open(v));
  off_t at = v->config.file && n >= LARGE ? ftello(v->config.file) : -1;
  TIDE_TRY(put_int(v, at < 0 ? n : -1 - n));
  if (at < 0) return TIDE_OK;
  int64_t pad = (ALIGN - ((int64_t)at + 2 * (int64_t)sizeof n) % ALIGN) % ALIGN;
  TIDE_TRY(put_int(v, pad));
  return put(v, zeros, (size_t)pad);
}

/* All bytes of the storage of x, as a tensor of uint8 in host memory. */
static tide_status read_storage(tide_tensor **out, const tide_tensor *x) {
  const int64_t zero = 0, one = 1, n = (int64_t)tide_storage_nbytes(tide_tensor_storage(x));
  TIDE_OWNED tide_tensor *empty = NULL, *none = NULL, *bytes = NULL;
  tide_options o = {TIDE_DTYPE_NONE, TIDE_CPU, false};
  TIDE_TRY(tide_as_strided(&empty, x, &zero, &one, 1, 0));
  TIDE_TRY(tide_view_dtype(&none, empty, TIDE_UINT8));
  TIDE_TRY(tide_as_strided(&bytes, none, &n, &one, 1, 0));
  /* Pinned values may be on their way still: a copy finds out. */
  return tide_to(out, bytes, &o, false, tide_storage_is_pinned(tide_tensor_storage(x)));
}

/* What would keep the bytes from being read, a capture or an error of the device, comes now instead. */
static tide_status wait_for(int device) {
  tide_stream *stream;
  if (device < 0) return TIDE_OK;
  TIDE_TRY(tide_current_stream(&stream, device));
  return tide_stream_synchronize(stream);
}

static tide_status put_storage(tide_values *v, const tide_tensor *x) {
  const tide_storage *s = tide_tensor_storage(x);
  if (2 * v->storages >= v->room) TIDE_TRY(grow(v));
  int64_t at = find(v, s);
  if (v->written[at]) return put_int(v, v->number[at]);
  v->written[at] = s, v->number[at] = ++v->storages;
  TIDE_TRY(put_int(v, v->storages));
  int device = tide_tensor_device(x);
  char name[32];
  int length = snprintf(name, sizeof name, device < 0 ? "cpu" : "cuda:%d", device);
  TIDE_TRY(put_text(v, name, (size_t)length));
  int64_t n = (int64_t)tide_storage_nbytes(s);
  TIDE_TRY(put_length(v, n));
  if (!n || !v->config.file) return n ? wait_for(device) : TIDE_OK;
  TIDE_OWNED tide_tensor *host = NULL;
  TIDE_TRY(read_storage(&host, x));
  return put(v, tide_tensor_data(host), (size_t)n);
}

static tide_status put_tensor(tide_values *v, const tide_tensor *x) {
  const char *dtype = tide_dtype_name(tide_tensor_dtype(x));
  int ndim = tide_tensor_ndim(x);
  TIDE_TRY(put_text(v, dtype, strlen(dtype)));
  TIDE_TRY(put_int(v, ndim));
  TIDE_TRY(put(v, tide_tensor_size(x), (size_t)ndim * sizeof(int64_t)));
  TIDE_TRY(put(v, tide_tensor_stride(x), (size_t)ndim * sizeof(int64_t)));
  TIDE_TRY(put_int(v, tide_tensor_offset(x)));
  return put_storage(v, x);
}

/* The tag and a number behind it are written at once. */
tide_status tide_values_put(tide_values *v, const tide_saved *x) {
  TIDE_GIVEN("values_put", x);
  TIDE_GIVEN("values_put", v);
  TIDE_RANGE("values_put", x->kind, TIDE_SAVED_PLACE);
  const char *text = x->kind == TIDE_SAVED_DTYPE ? tide_dtype_name((tide_dtype)x->integer) : x->text;
  int64_t number = x->integer;
  char head[1 + sizeof number] = {x->kind == TIDE_SAVED_BOOLEAN ? "ft"[x->integer != 0] : tags[x->kind]};
  size_t length = 0, numbers = sizeof number;
  switch (x->kind) {
  case TIDE_SAVED_INTEGER:
  case TIDE_SAVED_REFERENCE: break;
  case TIDE_SAVED_NUMBER: memcpy(&number, &x->number, sizeof x->number); break;
  case TIDE_SAVED_TEXT:
  case TIDE_SAVED_DEVICE:
  case TIDE_SAVED_DTYPE:
    length = x->kind == TIDE_SAVED_DTYPE ? strlen(text) : x->length;
    number = (int64_t)length;
    break;
  case TIDE_SAVED_HANDLE: length = sizeof(tide_ipc_tensor), numbers = 0; break;
  default: numbers = 0;
  }
  memcpy(head + 1, &number, sizeof number);
  TIDE_TRY(put(v, head, 1 + numbers));
  if (length) TIDE_TRY(put(v, text, length));
  return x->kind == TIDE_SAVED_TENSOR ? put_tensor(v, x->tensor) : TIDE_OK;
}

tide_status tide_values_write(tide_values **out, const tide_values_config *config) {
  tide_values *v;
  TIDE_TRY(new_values(&v, out, config));
  tide_status status = put(v, magic, sizeof magic);
  if (status == TIDE_OK) status = put(v, &byte_order, sizeof byte_order);
  return give(out, v, status);
}

tide_status tide_values_flush(tide_values *v, int *error) {
  TIDE_GIVEN("values_flush", v);
  TIDE_GIVEN("values_flush", error);
  TIDE_TRY(check_open(v));
  if (v->config.file && !v->error && fflush(v->config.file)) v->error = errno;
  *error = v->error;
  return TIDE_OK;
}

/* ---- reading ---- */

tide_status tide_values_broken(const tide_values *v, const char *how) {
  TIDE_GIVEN("values_broken", v);
  return tide__fail(TIDE_FILE, "%s: %s: the bytes are not what save or serialize has written: %s", v->config.what,
                    v->config.name, how);
}

static tide_status cannot_read(const tide_values *v) {
  return tide__fail(TIDE_FILE, "%s: %s: %s, expected a file that can be read", v->config.what, v->config.name,
                    strerror(errno));
}

static tide_status get(const tide_values *v, void *bytes, size_t n) {
  TIDE_TRY(check_open(v));
  if (fread(bytes, 1, n, v->config.file) == n) return TIDE_OK;
  return ferror(v->config.file) ? cannot_read(v) : tide_values_broken(v, "they end too early");
}

static tide_status get_int(const tide_values *v, int64_t *i) { return get(v, i, sizeof *i); }

/* A number of bytes that follow. */
static tide_status check_length(const tide_values *v, int64_t n) {
  TIDE_TRY(check_open(v));
  bool fits = n >= 0 && (v->end < 0 || n <= v->end - (int64_t)ftello(v->config.file));
  return fits ? TIDE_OK : tide_values_broken(v, "a length is wrong");
}

/* The same of a storage, which zeros may stand before. */
static tide_status get_padded_length(const tide_values *v, int64_t *n) {
  char zeros[ALIGN];
  int64_t pad = 0;
  TIDE_TRY(get_int(v, n));
  if (*n < 0) {
    *n = -1 - *n;
    TIDE_TRY(get_int(v, &pad));
    if (pad < 0 || pad >= ALIGN) return tide_values_broken(v, "a length is wrong");
    TIDE_TRY(get(v, zeros, (size_t)pad));
  }
  return check_length(v, *n);
}

static tide_status reserve_text(tide_values *v, size_t n) {
  if (n <= v->text_room) return TIDE_OK;
  char *text = realloc(v->text, n > 256 ? n : 256);
  if (!text) return no_memory(v);
  v->text = text, v->text_room = n > 256 ? n : 256;
  return TIDE_OK;
}

static tide_status get_text(tide_values *v, tide_saved *out) {
  int64_t n;
  TIDE_TRY(get_int(v, &n));
  TIDE_TRY(check_length(v, n));
  TIDE_TRY(reserve_text(v, (size_t)n + 1));
  TIDE_TRY(get(v, v->text, (size_t)n));
  v->text[n] = 0;
  out->text = v->text, out->length = (size_t)n;
  return TIDE_OK;
}

/* The bytes that follow, where they are in the mapped file; *out stays NULL where they must be read. */
static tide_status map_bytes(tide_tensor **out, const tide_values *v, int64_t n) {
  tide_mapping *m = v->config.mapping;
  TIDE_TRY(check_open(v));
  int64_t at = m && n >= LARGE ? (int64_t)ftello(v->config.file) : -1;
  if (at < 0 || at % ALIGN || n > tide_mapping_size(m) - at) return TIDE_OK;
  TIDE_TRY(tide_mapping_tensor(out, m, at, n));
  TIDE_TRY(check_open(v));
  return fseeko(v->config.file, (off_t)n, SEEK_CUR) ? cannot_read(v) : TIDE_OK;
}

/* The bytes of the storage that was placed. */
static tide_status get_bytes(tide_tensor **out, const tide_values *v) {
  int64_t n;
  tide_options o = {TIDE_UINT8, TIDE_CPU, false};
  TIDE_TRY(get_padded_length(v, &n));
  TIDE_TRY(map_bytes(out, v, n));
  if (!*out) {
    TIDE_TRY(tide_empty(out, &n, 1, &o));
    if (n) TIDE_TRY(get(v, tide_tensor_data(*out), (size_t)n));
  }
  if (v->device == TIDE_CPU) return TIDE_OK;
  tide_tensor *there;
  o.device = v->device;
  TIDE_TRY(tide_to(&there, *out, &o, false, false));
  tide_tensor_release(*out);
  *out = there;
  return TIDE_OK;
}

static tide_status add_storage(tide_values *v) {
  if (v->storages == v->room) {
    int64_t room = v->room ? 2 * v->room : 64;
    tide_tensor **bytes = realloc(v->bytes, (size_t)room * sizeof *bytes);
    if (!bytes) return no_memory(v);
    v->bytes = bytes, v->room = room;
  }
  TIDE_OWNED tide_tensor *bytes = NULL;
  TIDE_TRY(get_bytes(&bytes, v));
  return tide__owned_give(&v->bytes[v->storages++], &bytes);
}

/* The view of a storage's bytes as elements. */
static tide_status view(tide_tensor **out, const tide_tensor *bytes, const tide_values *v) {
  int64_t each = (int64_t)tide_dtype_size(v->dtype), whole = tide_tensor_numel(bytes) / each * each;
  TIDE_OWNED tide_tensor *part = NULL, *elements = NULL;
  TIDE_TRY(tide_narrow(&part, bytes, 0, 0, whole));
  TIDE_TRY(tide_view_dtype(&elements, part, v->dtype));
  return tide_as_strided(out, elements, v->size, v->stride, v->ndim, v->offset);
}

static tide_status make_tensor(tide_values *v, tide_saved *out, const tide_tensor *bytes) {
  tide_tensor_release(v->tensor);
  v->tensor = NULL;
  if (view(&v->tensor, bytes, v) != TIDE_OK) return tide_values_broken(v, tide_error_get()->message);
  *out = (tide_saved){.kind = TIDE_SAVED_TENSOR, .tensor = v->tensor};
  return TIDE_OK;
}

static tide_status get_tensor(tide_values *v, tide_saved *out) {
  int64_t ndim, number;
  TIDE_TRY(get_text(v, out));
  if (!tide_dtype_parse(&v->dtype, out->text)) return tide_values_broken(v, "a dtype is unknown");
  TIDE_TRY(get_int(v, &ndim));
  if (ndim < 0 || ndim > TIDE_MAX_DIMS) return tide_values_broken(v, "a number of dimensions is wrong");
  v->ndim = (int)ndim;
  TIDE_TRY(get(v, v->size, (size_t)ndim * sizeof *v->size));
  TIDE_TRY(get(v, v->stride, (size_t)ndim * sizeof *v->stride));
  TIDE_TRY(get_int(v, &v->offset));
  TIDE_TRY(get_int(v, &number));
  if (number < 1 || number > v->storages + 1) return tide_values_broken(v, "a number of a storage is wrong");
  if (number <= v->storages) return make_tensor(v, out, v->bytes[number - 1]);
  TIDE_TRY(get_text(v, out));
  out->kind = TIDE_SAVED_PLACE;
  v->places = true, v->placed = false;
  return TIDE_OK;
}

tide_status tide_values_place(tide_values *v, int device) {
  TIDE_GIVEN("values_place", v);
  if (!v->places) return tide__fail(TIDE_STATE, "%s: no storage waits for a device", v->config.what);
  v->device = device, v->placed = true;
  return TIDE_OK;
}

tide_status tide_values_get(tide_saved *out, tide_values *v) {
  TIDE_GIVEN("values_get", v);
  char tag;
  if (v->places) {
    if (!v->placed) return tide__fail(TIDE_STATE, "%s: a storage waits for a device", v->config.what);
    v->places = false;
    TIDE_TRY(add_storage(v));
    return make_tensor(v, out, v->bytes[v->storages - 1]);
  }
  TIDE_TRY(get(v, &tag, 1));
  *out = (tide_saved){.kind = TIDE_SAVED_BOOLEAN, .integer = tag == 't'};
  if (tag == 't' || tag == 'f') return TIDE_OK;
  const char *known = tag ? memchr(tags, tag, sizeof tags - 1) : NULL;
  if (!known) return tide_values_broken(v, "a tag is unknown");
  out->kind = (tide_saved_kind)(known - tags);
  switch (out->kind) {
  case TIDE_SAVED_INTEGER:
  case TIDE_SAVED_REFERENCE: return get_int(v, &out->integer);
  case TIDE_SAVED_NUMBER: return get(v, &out->number, sizeof out->number);
  case TIDE_SAVED_TEXT:
  case TIDE_SAVED_DEVICE: return get_text(v, out);
  case TIDE_SAVED_TENSOR: return get_tensor(v, out);
  case TIDE_SAVED_DTYPE: {
    tide_dtype dtype;
    TIDE_TRY(get_text(v, out));
    if (!tide_dtype_parse(&dtype, out->text)) return tide_values_broken(v, "a dtype is unknown");
    out->integer = dtype;
    return TIDE_OK;
  }
  case TIDE_SAVED_HANDLE:
    TIDE_TRY(reserve_text(v, sizeof(tide_ipc_tensor)));
    out->text = v->text, out->length = sizeof(tide_ipc_tensor);
    return get(v, v->text, out->length);
  default: return TIDE_OK;
  }
}

/* Where the file ends, or -1 for one that cannot be searched. */
static int64_t find_end(FILE *file) {
  off_t here = ftello(file);
  if (here < 0 || fseeko(file, 0, SEEK_END)) return -1;
  int64_t end = (int64_t)ftello(file);
  return fseeko(file, here, SEEK_SET) ? -1 : end;
}

static tide_status get_head(tide_values *v) {
  char head[sizeof magic];
  uint32_t order;
  TIDE_TRY(check_open(v));
  v->end = find_end(v->config.file);
  TIDE_TRY(get(v, head, sizeof head));
  if (memcmp(head, magic, sizeof head))
    return tide_values_broken(v, "the head is not tide's; there are load_npy, load_npz, load_safetensors and load_csv");
  TIDE_TRY(get(v, &order, sizeof order));
  return order == byte_order ? TIDE_OK : tide_values_broken(v, "they are of a machine of the other byte order");
}

tide_status tide_values_read(tide_values **out, const tide_values_config *config) {
  tide_values *v;
  TIDE_TRY(new_values(&v, out, config));
  return give(out, v, config->file ? get_head(v) : tide__fail_null("values_read", "file"));
}
