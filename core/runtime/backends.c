/* backends.c: which of the registered backends is in force, and which of its devices are open.
 *
 * The CPU is always there. Of the kinds of accelerator that registered, the one that the configuration asks for is
 * opened when someone first asks about accelerators, and each of its devices when it is first used. Whatever goes wrong
 * is kept, so that asking again costs nothing and tells the same. A device that met a fault from which its driver does
 * not recover is lost: every later use fails with the first cause.
 *
 * The child of a fork has the open devices' handles and nothing behind them: no driver follows a fork. There the
 * devices are FORKED: they count as never used, nothing is freed through the driver, and every use says what happened.
 *
 * Invariants: the table and a device's state are published after what they stand for is complete; the state of a device
 * goes CLOSED, READY, LOST or FORKED and returns to CLOSED only when the runtime ends. */
#include "accelerator.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/lock.h"
#include "backend/registry.h"

enum { CLOSED, READY, LOST, FORKED };
enum { TEXT = 6144 };

static struct {
  pthread_mutex_t lock;
  const tide_backend *open;            /* the table of the kind that the configuration asks for */
  _Atomic(const tide_backend *) table; /* the same, once the accelerators are known */
  _Atomic int count;                   /* > 0 once the accelerators are known */
  bool tried;                          /* `problem` says why there are none, if count is 0 */
  tide_error problem;
  char problem_text[TEXT], problem_name[64];
  struct {
    _Atomic int state;
    tide_error cause;
    char text[TEXT], name[64];
  } device[TIDE_MAX_DEVICES];
} acc = {.lock = PTHREAD_MUTEX_INITIALIZER};

tide_backend_host tide__backend_host = {
    .struct_size = sizeof(tide_backend_host),
    .fail = tide__fail,
    .fail_index = tide__fail_index,
};

/* ---- which accelerators there are ---- */

static tide_status open_wanted(void) {
  if (acc.open) return TIDE_OK;
  return tide__backend_kind_wanted(tide__config())->open(&acc.open, &tide__backend_host, tide__config());
}

static tide_status find_accelerators(void) {
  TIDE_TRY(open_wanted());
  const tide_backend *table = acc.open;
  int count = 0;
  tide_status status = table->device_count(&count);
  if (status == TIDE_OK && count <= 0)
    status =
        tide__fail(TIDE_DEVICE, "cuda: no device was found, got 0, expected an NVIDIA GPU that its driver can see");
  if (status != TIDE_OK) {
    if (table->close) table->close();
    acc.open = NULL;
    return status;
  }
  atomic_store_explicit(&acc.table, table, memory_order_release);
  atomic_store_explicit(&acc.count, count < TIDE_MAX_DEVICES ? count : TIDE_MAX_DEVICES, memory_order_release);
  return TIDE_OK;
}

static void keep_error(tide_error *to, char *text, char *name, const tide_error *from) {
  *to = *from;
  snprintf(text, TEXT, "%s", from->message);
  snprintf(name, 64, "%s", from->name ? from->name : "");
  to->message = text, to->name = name;
}

/* What one can do without these accelerators. */
static void add_hints(char *text) {
  const tide_backend_kind *wanted = tide__backend_kind_wanted(tide__config());
  for (const tide_backend_kind *k = tide__backend_kinds(); k; k = k->next) {
    size_t n = strlen(text);
    if (k != wanted && k->hint) snprintf(text + n, TEXT - n, "; %s", k->hint);
  }
}

static tide_status find_once(void) {
  TIDE_LOCKED(&acc.lock);
  tide_status status = TIDE_OK;
  if (!acc.tried) {
    status = find_accelerators();
    if (status != TIDE_OK) {
      keep_error(&acc.problem, acc.problem_text, acc.problem_name, tide_error_get());
      add_hints(acc.problem_text);
      status = tide__fail_again(&acc.problem);
    }
    acc.tried = true;
  } else if (!atomic_load_explicit(&acc.count, memory_order_relaxed)) {
    status = tide__fail_again(&acc.problem);
  }
  return status;
}

tide_status tide__device_count(int *out) {
  int count = atomic_load_explicit(&acc.count, memory_order_acquire);
  if (!count) {
    if (!tide__running()) return tide__fail(TIDE_STATE, "cuda: tide is not started, expected tide_init first");
    TIDE_TRY(find_once());
    count = atomic_load_explicit(&acc.count, memory_order_acquire);
  }
  *out = count;
  return TIDE_OK;
}

int tide__device_count_known(void) { return atomic_load_explicit(&acc.count, memory_order_acquire); }

const tide_backend *tide__accelerators(void) { return atomic_load_explicit(&acc.table, memory_order_acquire); }

tide_status tide__visible_count(int *out) {
  char uuid[TIDE_MAX_DEVICES][TIDE_UUID_TEXT];
  int picked[TIDE_MAX_DEVICES], count = TIDE_MAX_DEVICES;
  if (!tide__running()) return tide__fail(TIDE_STATE, "cuda: tide is not started, expected tide_init first");
  pthread_mutex_lock(&acc.lock);
  tide_status status = open_wanted();
  const tide_backend *table = acc.open;
  pthread_mutex_unlock(&acc.lock);
  TIDE_TRY(status);
  if (!table->machine_list) return tide__fail(TIDE_SUPPORT, "cuda: %s devices are not listed", table->name);
  TIDE_TRY(table->machine_list(uuid, &count));
  *out = tide__visible(picked, getenv("CUDA_VISIBLE_DEVICES"), uuid, count);
  return TIDE_OK;
}

/* ---- devices ---- */

static pthread_mutex_t lost_lock = PTHREAD_MUTEX_INITIALIZER;

/* Only the forking thread lives on, so what another one may have locked is made new. */
static void child_after_fork(void) {
  static const tide_error cause = {
      .status = TIDE_STATE,
      .device = TIDE_CPU,
      .message = "cuda: this process was forked from one that had used the device, which no driver follows, expected a "
                 "fork before the first use, or a program started anew",
      .name = ""};
  pthread_mutex_init(&acc.lock, NULL);
  pthread_mutex_init(&lost_lock, NULL);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    if (atomic_load_explicit(&acc.device[d].state, memory_order_relaxed) == CLOSED) continue;
    keep_error(&acc.device[d].cause, acc.device[d].text, acc.device[d].name, &cause);
    acc.device[d].cause.device = d;
    atomic_store_explicit(&tide__backends_ready[d + 1], NULL, memory_order_relaxed);
    atomic_store_explicit(&acc.device[d].state, FORKED, memory_order_relaxed);
  }
}

static pthread_once_t open_once = PTHREAD_ONCE_INIT;
static tide__on_open_fn on_open;
static tide_status (*on_opened)(int device);

void tide__device_on_first_open(tide__on_open_fn fn) { on_open = fn; }

static void first_open(void) {
  pthread_atfork(NULL, NULL, child_after_fork);
  on_open();
}

static tide_status open_device(int device) {
  int count;
  TIDE_TRY(tide__device_count(&count));
  if (device >= count)
    return tide__fail(TIDE_DEVICE, "cuda: no such device, got %d, expected 0 to %d", device, count - 1);
  tide_error cause;
  if (tide__device_lost(&cause, device)) return tide__fail_again(&cause);
  const tide_backend *table = atomic_load_explicit(&acc.table, memory_order_acquire);
  bool opened = false;
  pthread_once(&open_once, first_open);
  pthread_mutex_lock(&acc.lock);
  tide_status status = TIDE_OK;
  if (atomic_load_explicit(&acc.device[device].state, memory_order_relaxed) == CLOSED) {
    status = table->device_open(device);
    opened = status == TIDE_OK;
    if (opened) atomic_store_explicit(&tide__backends_ready[device + 1], table, memory_order_release);
    if (opened) atomic_store_explicit(&acc.device[device].state, READY, memory_order_release);
  }
  pthread_mutex_unlock(&acc.lock);
  return opened ? on_opened(device) : status;
}

_Atomic(const tide_backend *) tide__backends_ready[TIDE_MAX_DEVICES + 1];

/* It cannot fail: the host's processor is there. */
void tide__backends_start(tide_status (*opened)(int device)) {
  const tide_backend *host = NULL;
  on_opened = opened;
  tide__backend_kind_host()->open(&host, &tide__backend_host, tide__config());
  atomic_store_explicit(&tide__backends_ready[0], host, memory_order_release);
}

tide_status tide__backend_slow(const tide_backend **out, int device) {
  if (device >= TIDE_MAX_DEVICES)
    return tide__fail(TIDE_DEVICE, "cuda: no such device, got %d, expected less than %d", device, TIDE_MAX_DEVICES);
  if (atomic_load_explicit(&acc.device[device].state, memory_order_acquire) != READY) TIDE_TRY(open_device(device));
  *out = atomic_load_explicit(&acc.table, memory_order_acquire);
  return TIDE_OK;
}

const tide_backend *tide__backend_peek(int device) {
  if (device < 0 || device >= TIDE_MAX_DEVICES) return NULL;
  int state = atomic_load_explicit(&acc.device[device].state, memory_order_acquire);
  if (state == CLOSED || state == FORKED) return NULL;
  return atomic_load_explicit(&acc.table, memory_order_acquire);
}

bool tide__device_any_open(void) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++)
    if (tide__backend_peek(d)) return true;
  return false;
}

static struct { /* lost_lock guards it */
  tide_device_lost_fn fn;
  void *user;
} on_lost;

void tide_device_on_lost(tide_device_lost_fn fn, void *user) {
  TIDE_LOCKED(&lost_lock);
  on_lost.fn = fn, on_lost.user = user;
}

/* May be called from any thread and, by a backend, inside any of its slots. The cause is written before the state says
 * that it can be read; a second fault finds the state taken and changes nothing. */
void tide__device_set_lost(int device, const tide_error *cause, void (*first)(int device)) {
  if (device < 0 || device >= TIDE_MAX_DEVICES) return;
  TIDE_LOCKED(&lost_lock);
  if (atomic_load_explicit(&acc.device[device].state, memory_order_relaxed) < LOST) {
    keep_error(&acc.device[device].cause, acc.device[device].text, acc.device[device].name, cause);
    first(device);
    atomic_store_explicit(&tide__backends_ready[device + 1], NULL, memory_order_release);
    atomic_store_explicit(&acc.device[device].state, LOST, memory_order_release);
    if (on_lost.fn) on_lost.fn(on_lost.user, device, &acc.device[device].cause);
  }
}

bool tide__device_lost(tide_error *cause, int device) {
  if (device < 0 || device >= TIDE_MAX_DEVICES) return false;
  if (atomic_load_explicit(&acc.device[device].state, memory_order_acquire) < LOST) return false;
  if (cause) *cause = acc.device[device].cause;
  return true;
}

/* Afterwards the accelerators are found and opened anew when someone uses them. */
void tide__backends_close(bool reset, void (*closed)(bool all)) {
  TIDE_LOCKED(&acc.lock);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) atomic_store(&tide__backends_ready[d + 1], NULL);
  const tide_backend *table = atomic_exchange(&acc.table, NULL);
  if (acc.open && acc.open->close) acc.open->close();
  acc.open = NULL;
  closed(!reset);
  const tide_backend *host = atomic_load(&tide__backends_ready[0]);
  if (!reset && host->close) host->close();
  for (int d = 0; table && reset && table->device_reset && d < TIDE_MAX_DEVICES; d++)
    if (atomic_load(&acc.device[d].state) != CLOSED) table->device_reset(d);
  atomic_store(&acc.count, 0);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) atomic_store(&acc.device[d].state, CLOSED);
  acc.tried = false;
}
