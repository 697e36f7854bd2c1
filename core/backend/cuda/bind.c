/* bind.c: operands of captured work replaced: which nodes a call has made, what they do, and making an instance do it
 * with other addresses.
 *
 * The nodes of a call are those between where the stream stood before it and where it stands now, one chain. What a
 * kernel's node does is read from the driver, arguments and all, whoever launched it: the driver tells where each
 * argument of a function lies and how long it is. Which words of them are addresses is core's to find out.
 *
 * Invariant: an image holds no address of the host's but those that the caller of a copy gave; it is good as long as
 * the functions in it are loaded. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { PARAMS = 64 };

/* Words of an image: first what the driver does not change in a node. */
typedef struct kernel_image {
  uint64_t type;
  uint32_t cluster[4];
  CUDA_KERNEL_NODE_PARAMS params; /* without the addresses of arguments */
  uint32_t count, bytes;
  uint32_t offset[PARAMS];
} kernel_image;
typedef struct copy_image {
  uint64_t type;
  CUDA_MEMCPY3D params;
} copy_image;
typedef struct fill_image {
  uint64_t type;
  CUDA_MEMSET_NODE_PARAMS params;
} fill_image;

/* Edges have eight bytes of their own, which nobody here looks at; a driver does not tell of edges without them. */
typedef struct edge {
  unsigned char bytes[8];
} edge;

static struct {
  CUresult (*capture_info)(CUstream s, CUstreamCaptureStatus *state, cuuint64_t *id, CUgraph *graph,
                           const CUgraphNode **nodes, const edge **edges, size_t *n);
  CUresult (*dependencies)(CUgraphNode node, CUgraphNode *nodes, edge *edges, size_t *n);
  CUresult (*type)(CUgraphNode node, CUgraphNodeType *out);
  CUresult (*attribute)(CUgraphNode node, CUlaunchAttributeID which, CUlaunchAttributeValue *out);
  CUresult (*function_param)(CUfunction f, size_t i, size_t *offset, size_t *bytes);
  CUresult (*kernel_param)(CUkernel k, size_t i, size_t *offset, size_t *bytes);
  CUresult (*kernel_get)(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out);
  CUresult (*kernel_set)(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p);
  CUresult (*copy_get)(CUgraphNode node, CUDA_MEMCPY3D *out);
  CUresult (*copy_set)(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *p, CUcontext context);
  CUresult (*fill_get)(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *out);
  CUresult (*fill_set)(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context);
} driver;

static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static const char *driver_lacks;

static void driver_open(void) {
  const cuda_symbol wanted[] = {{&driver.capture_info, "cuStreamGetCaptureInfo_v3"},
                                {&driver.dependencies, "cuGraphNodeGetDependencies_v2"},
                                {&driver.type, "cuGraphNodeGetType"},
                                {&driver.attribute, "cuGraphKernelNodeGetAttribute"},
                                {&driver.function_param, "cuFuncGetParamInfo"},
                                {&driver.kernel_param, "cuKernelGetParamInfo"},
                                {&driver.kernel_get, "cuGraphKernelNodeGetParams_v2"},
                                {&driver.kernel_set, "cuGraphExecKernelNodeSetParams_v2"},
                                {&driver.copy_get, "cuGraphMemcpyNodeGetParams"},
                                {&driver.copy_set, "cuGraphExecMemcpyNodeSetParams"},
                                {&driver.fill_get, "cuGraphMemsetNodeGetParams"},
                                {&driver.fill_set, "cuGraphExecMemsetNodeSetParams"}};
  driver_lacks = tide__cuda_find(wanted, sizeof wanted / sizeof *wanted);
}

static tide_status open_driver(void) {
  pthread_once(&driver_once, driver_open);
  return !driver_lacks ? TIDE_OK
                       : tide__cuda_host->fail(TIDE_SUPPORT,
                                               "bind: the driver lacks %s, expected one for CUDA 12.4 or "
                                               "later",
                                               driver_lacks);
}

/* ---- which nodes a call has made ---- */

tide_status tide__cuda_capture_place(tide_capture_place *out, void *stream) {
  CUDA_ON_STREAM(s, stream);
  CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode *nodes = NULL;
  const edge *edges = NULL;
  size_t n = 0;
  const int room = (int)(sizeof out->node / sizeof *out->node);
  TIDE_TRY(open_driver());
  const CUresult rc = driver.capture_info(s->handle, &state, NULL, NULL, &nodes, &edges, &n);
  TIDE_TRY(tide__cuda_check(s->device, "bind", (int)rc));
  if (state != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return tide__cuda_host->fail(TIDE_STATE, "bind: the stream is not captured, expected a capture under way");
  out->n = n > (size_t)room ? -1 : (int)n;
  for (int i = 0; i < out->n; i++) out->node[i] = nodes[i];
  return TIDE_OK;
}

static bool is_among(const tide_capture_place *place, const void *node) {
  for (int i = 0; i < place->n; i++)
    if (place->node[i] == node) return true;
  return false;
}

static bool same_place(const tide_capture_place *a, const tide_capture_place *b) {
  for (int i = 0; i < a->n; i++)
    if (!is_among(b, a->node[i])) return false;
  return a->n == b->n;
}

static tide_status place_before(tide_capture_place *out, void *node, int device) {
  CUgraphNode nodes[sizeof out->node / sizeof *out->node + 1]; /* one more, to see that there are too many */
  edge edges[sizeof nodes / sizeof *nodes];
  size_t n = sizeof nodes / sizeof *nodes;
  TIDE_TRY(tide__cuda_check(device, "bind", (int)driver.dependencies(node, nodes, edges, &n)));
  out->n = n == sizeof nodes / sizeof *nodes ? -1 : (int)n;
  for (int i = 0; i < out->n; i++) out->node[i] = nodes[i];
  return TIDE_OK;
}

static tide_status no_chain(void) {
  return tide__cuda_host->fail(TIDE_SUPPORT, "bind: the operation is no chain of nodes, or a long one");
}

/* From the last one back to where the stream stood. */
tide_status tide__cuda_capture_nodes(void **nodes, int *count, void *stream, const tide_capture_place *before) {
  const cuda_stream *s = stream;
  tide_capture_place at;
  int room = *count, n = 0;
  TIDE_TRY(tide__cuda_capture_place(&at, stream));
  while (!same_place(&at, before)) {
    if (at.n != 1 || n == room || is_among(before, at.node[0])) return no_chain();
    nodes[n++] = at.node[0];
    TIDE_TRY(place_before(&at, nodes[n - 1], s->device));
  }
  for (int i = 0; i < n / 2; i++) {
    void *last = nodes[n - 1 - i];
    nodes[n - 1 - i] = nodes[i], nodes[i] = last;
  }
  *count = n;
  return TIDE_OK;
}

/* ---- what a node does ---- */

static tide_status new_image(tide_node_image **out, size_t bytes, size_t fixed, size_t head) {
  tide_node_image *image = calloc(1, sizeof *image + (bytes + 7) / 8 * 8);
  if (!image) return tide__cuda_host->fail(TIDE_MEMORY, "bind: no host memory");
  image->words = (bytes + 7) / 8, image->fixed = fixed / 8, image->head = head / 8;
  *out = image;
  return TIDE_OK;
}

/* The next argument; false: there are no more. */
static bool param_at(const CUDA_KERNEL_NODE_PARAMS *p, size_t i, size_t *offset, size_t *bytes) {
  return (p->func ? driver.function_param(p->func, i, offset, bytes)
                  : driver.kernel_param(p->kern, i, offset, bytes)) == CUDA_SUCCESS;
}

/* The arguments in one piece, as some launch them; NULL: they were given one by one. */
static const char *packed_of(const CUDA_KERNEL_NODE_PARAMS *p) {
  if (p->kernelParams || !p->extra) return NULL;
  for (void **e = p->extra; e[0] != CU_LAUNCH_PARAM_END; e += 2)
    if (e[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) return e[1];
  return NULL;
}

/* Field by field: images are compared, and the driver's bytes between the fields are anything. */
static void copy_params(CUDA_KERNEL_NODE_PARAMS *to, const CUDA_KERNEL_NODE_PARAMS *from) {
  to->func = from->func, to->kern = from->kern, to->ctx = from->ctx;
  to->gridDimX = from->gridDimX, to->gridDimY = from->gridDimY, to->gridDimZ = from->gridDimZ;
  to->blockDimX = from->blockDimX, to->blockDimY = from->blockDimY, to->blockDimZ = from->blockDimZ;
  to->sharedMemBytes = from->sharedMemBytes;
}

static tide_status read_kernel(tide_node_image **out, CUgraphNode node, int device) {
  kernel_image k;
  CUDA_KERNEL_NODE_PARAMS p;
  CUlaunchAttributeValue value;
  size_t offset, size[PARAMS], i = 0;
  memset(&k, 0, sizeof k);
  memset(&p, 0, sizeof p);
  memset(&value, 0, sizeof value);
  TIDE_TRY(tide__cuda_check(device, "bind", (int)driver.kernel_get(node, &p)));
  k.type = CU_GRAPH_NODE_TYPE_KERNEL;
  copy_params(&k.params, &p);
  if (driver.attribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value) == CUDA_SUCCESS)
    k.cluster[0] = value.clusterDim.x, k.cluster[1] = value.clusterDim.y, k.cluster[2] = value.clusterDim.z;
  const char *packed = packed_of(&p);
  void **list = p.kernelParams;
  for (; i < PARAMS && param_at(&p, i, &offset, &size[i]); i++) {
    k.offset[i] = (uint32_t)offset;
    if (offset + size[i] > k.bytes) k.bytes = (uint32_t)(offset + size[i]);
  }
  k.count = (uint32_t)i;
  if (i == PARAMS || (i && !list && !packed))
    return tide__cuda_host->fail(TIDE_SUPPORT, "bind: the driver does not tell the arguments of a kernel");
  TIDE_TRY(new_image(out, sizeof k + k.bytes, offsetof(kernel_image, params), sizeof k));
  memcpy((*out)->word, &k, sizeof k);
  char *bytes = (char *)(*out)->word + sizeof k;
  for (i = 0; i < k.count; i++)
    memcpy(bytes + k.offset[i], packed ? packed + k.offset[i] : (const char *)list[i], size[i]);
  return TIDE_OK;
}

/* Of a node that one struct describes. */
#define READ_NODE(name, image, type_of, get)                                                                           \
  static tide_status name(tide_node_image **out, CUgraphNode node, int device) {                                       \
    image i;                                                                                                           \
    memset(&i, 0, sizeof i);                                                                                           \
    i.type = type_of;                                                                                                  \
    TIDE_TRY(tide__cuda_check(device, "bind", (int)driver.get(node, &i.params)));                                      \
    TIDE_TRY(new_image(out, sizeof i, sizeof i.type, sizeof i.type));                                                  \
    memcpy((*out)->word, &i, sizeof i);                                                                                \
    return TIDE_OK;                                                                                                    \
  }
READ_NODE(read_copy, copy_image, CU_GRAPH_NODE_TYPE_MEMCPY, copy_get)
READ_NODE(read_fill, fill_image, CU_GRAPH_NODE_TYPE_MEMSET, fill_get)

tide_status tide__cuda_node_read(tide_node_image **out, void *node, int device) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  TIDE_TRY(open_driver());
  CUDA_ON(device);
  tide_status status = tide__cuda_check(device, "bind", (int)driver.type(node, &type));
  if (status == TIDE_OK) switch ((int)type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: status = read_kernel(out, node, device); break;
    case CU_GRAPH_NODE_TYPE_MEMCPY: status = read_copy(out, node, device); break;
    case CU_GRAPH_NODE_TYPE_MEMSET: status = read_fill(out, node, device); break;
    default:
      status = tide__cuda_host->fail(TIDE_SUPPORT,
                                     "bind: the operation is neither kernel, copy nor fill, got a node "
                                     "of type %d",
                                     (int)type);
    }
  return status;
}

/* ---- other addresses ---- */

static CUresult write_kernel(CUgraphExec exec, CUgraphNode node, const tide_node_image *image) {
  const kernel_image *k = (const void *)image->word;
  CUDA_KERNEL_NODE_PARAMS params;
  void *list[PARAMS];
  for (uint32_t i = 0; i < k->count; i++) list[i] = (char *)(uintptr_t)(k + 1) + k->offset[i];
  copy_params(&params, &k->params);
  params.kernelParams = k->count ? list : NULL, params.extra = NULL;
  return driver.kernel_set(exec, node, &params);
}

static CUresult write_node(CUgraphExec exec, CUgraphNode node, const tide_node_image *image, CUcontext context) {
  const void *word = image->word;
  if (image->word[0] == CU_GRAPH_NODE_TYPE_KERNEL) return write_kernel(exec, node, image);
  if (image->word[0] == CU_GRAPH_NODE_TYPE_MEMCPY)
    return driver.copy_set(exec, node, &((const copy_image *)word)->params, context);
  return driver.fill_set(exec, node, &((const fill_image *)word)->params, context);
}

tide_status tide__cuda_nodes_write(void *exec, void *const *node, const tide_node_image *const *image, int *count,
                                   int device) {
  CUcontext context = atomic_load_explicit(&tide__cuda_devices[device].context, memory_order_acquire);
  CUresult rc = CUDA_SUCCESS;
  int n = *count;
  CUDA_ON(device);
  for (*count = 0; *count < n; ++*count)
    if ((rc = write_node(exec, node[*count], image[*count], context)) != CUDA_SUCCESS) break;
  return tide__cuda_check(device, "bind", (int)rc);
}
