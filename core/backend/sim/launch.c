/* launch.c: kernels made at run time, on simulated devices: the CPU's compiler and its code, late and in order like
 * any other kernel.
 *
 * The packed arguments are copied into the queue. When their turn comes, the addresses among them are looked up as
 * those of every kernel are, so a kernel that is given memory of another device, or freed memory, loses the device.
 *
 * Invariant: an operation in the queue holds everything that it needs, an interpreted program among it, but compiled
 * code, which stays loaded until the devices are closed. */
#include "backend/cpu/jit/cxx.h"
#include "sim.h"

static const double LAUNCH_SECONDS = 3e-6, BYTES_PER_SECOND = 4e12;

tide_status tide__sim_run_made(sim_launch *l, tide_mail *mail) {
  tide_launch a = l->launch;
  tide_status status = TIDE_OK;
  a.packed = l->packed;
  if (a.mail) tide__loops_follow(&l->stop);
  if (!atomic_load(&l->stop)) status = tide__cxx_run(l->function, &a, mail);
  tide__loops_follow(NULL);
  if (!atomic_load(&l->stop) || (mail->full && mail->base != TIDE__MAIL_STOPPED)) return status;
  mail->full = l->ms != 0, mail->base = TIDE__MAIL_STOPPED, mail->value = l->ms;
  return TIDE_OK;
}

/* Of a capture no launch waits in a queue; a replay's have number 0 and are stopped, too. */
void tide__sim_kernels_stop(int device, int owner, uint64_t number, int64_t ms) {
  if (ms < 0) return; /* all waits for it ask whether they are interrupted */
  TIDE_LOCKED(&tide__sim.lock);
  for (sim_stream *s = tide__sim.streams; s; s = s->next)
    for (sim_op *op = s->device == device ? s->head : NULL; op; op = op->next) {
      sim_launch *l = &op->args.launch;
      if (!op->made || !l->launch.mail || l->launch.owner != owner || l->launch.number > number) continue;
      if (!atomic_load(&l->stop)) l->ms = ms;
      atomic_store(&l->stop, true);
    }
}

/* With the lock held: false if an address is not the device's. */
static bool translate_launch(int device, sim_args *args) {
  sim_launch *l = &args->launch;
  for (int k = 0; k < l->launch.pointers; k++) {
    char *at = l->packed + l->pointer[k], *seen;
    void *ptr;
    memcpy(&ptr, at, sizeof ptr);
    if (!ptr) continue;
    seen = tide__sim_operand(device, ptr);
    if (!seen) return false;
    memcpy(at, &seen, sizeof seen);
  }
  return true;
}

static tide_status launch(tide_stream *stream, void *function, const tide_launch *a) {
  TIDE_TRY(tide__sim_enter("launch"));
  sim_op *op = tide__sim_op_new(SIM_KERNEL);
  if (!op) return TIDE_MEMORY;
  sim_launch *l = &op->args.launch;
  op->translate = translate_launch, op->made = true;
  l->head.device = a->device, l->head.site = a->site;
  l->function = function;
  if (a->interpreted) tide__blocks_hold(op->code = function);
  l->launch = *a;
  l->launch.packed = NULL, l->launch.offset = NULL, l->launch.pointer = NULL;
  memcpy(l->pointer, a->pointer, a->pointers * sizeof *l->pointer);
  memcpy(l->packed, a->packed, a->bytes);
  return tide__sim_submit(tide_stream_impl(stream), op, LAUNCH_SECONDS + (double)a->moved / BYTES_PER_SECOND, "launch");
}

const tide_compiler *tide__sim_compiler(void) {
  static tide_image_loader loader;
  static tide_compiler own;
  loader = tide__cpu_loader, loader.launch = launch;
  own = tide__cpu_compiler, own.loader = &loader;
  return &own;
}
