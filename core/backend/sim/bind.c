/* bind.c: operands of captured work replaced, on simulated devices.
 *
 * A node is a recorded operation, which stays as it is; what is changed is the copy that an instance has of it. A
 * replay queues copies of that, so that a change concerns the replays of this instance that are queued from then on
 * alone.
 *
 * Invariant: nodes are named by whoever holds their graph. */
#include <stdlib.h>

#include "sim.h"

#include "base/base.h"

/* Head: kind, function, translation, code, devices, bytes. Then the two addresses of a copy, then the arguments. */
enum { HEAD = 7, WORDS = HEAD + 2, ARGS = (sizeof(sim_args) + 7) / 8 };

tide_status tide__sim_capture_place(tide_capture_place *out, void *impl) {
  TIDE_LOCKED(&tide__sim.lock);
  out->node[0] = tide__sim_capture_last(impl);
  out->n = out->node[0] != NULL;
  return TIDE_OK;
}

tide_status tide__sim_capture_nodes(void **nodes, int *count, void *impl, const tide_capture_place *before) {
  const sim_stream *stream = impl;
  int room = *count, n = 0;
  pthread_mutex_lock(&tide__sim.lock);
  sim_op *op = tide__sim_capture_first(stream);
  if (before->n) op = ((sim_op *)before->node[0])->next;
  for (; op; op = op->next)
    if (op->branch == stream->branch && (op->kind == SIM_KERNEL || op->kind == SIM_COPY) && n++ < room)
      nodes[n - 1] = op;
  pthread_mutex_unlock(&tide__sim.lock);
  if (n > room) return tide__sim.host->fail(TIDE_SUPPORT, "bind: the operation is made of more than %d nodes", room);
  *count = n;
  return TIDE_OK;
}

tide_status tide__sim_node_read(tide_node_image **out, void *node, int device) {
  const sim_op *op = node;
  size_t words = op->kind == SIM_KERNEL ? WORDS + ARGS : WORDS;
  tide_node_image *image = calloc(1, sizeof *image + words * sizeof *image->word);
  if (!image) return tide__sim.host->fail(TIDE_MEMORY, "bind: no host memory");
  image->words = words, image->fixed = image->head = HEAD;
  TIDE_LOCKED(&tide__sim.lock);
  uint64_t head[WORDS] = {op->kind,
                          (uintptr_t)op->run,
                          (uintptr_t)op->translate,
                          (uintptr_t)op->code,
                          (uint64_t)op->dst_device,
                          (uint64_t)op->src_device,
                          op->bytes,
                          (uintptr_t)op->dst,
                          (uintptr_t)op->src};
  memcpy(image->word, head, sizeof head);
  if (op->kind == SIM_KERNEL) memcpy(image->word + WORDS, &op->args, sizeof op->args);
  *out = image;
  return TIDE_OK;
}

static void write_node(sim_op *op, const tide_node_image *image) {
  op->dst = (void *)(uintptr_t)image->word[HEAD], op->src = (void *)(uintptr_t)image->word[HEAD + 1];
  if (op->kind == SIM_KERNEL) memcpy(&op->args, image->word + WORDS, sizeof op->args);
}

tide_status tide__sim_nodes_write(void *exec, void *const *node, const tide_node_image *const *image, int *count,
                                  int device) {
  sim_op *op = NULL;
  int n = *count;
  *count = 0;
  TIDE_TRY(tide__sim_enter("bind"));
  TIDE_LOCKED(&tide__sim.lock);
  for (int i = 0; i < n; i++) write_node(op = tide__sim_graph_exec_op(exec, node[i], op), image[i]);
  *count = n;
  return TIDE_OK;
}
