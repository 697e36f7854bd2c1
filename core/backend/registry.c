/* registry.c: the list of the kinds of device.
 *
 * A backend puts itself on the list by a constructor of its own (TIDE_BACKEND_REGISTER); these run before those of the
 * rooms, in an order that nothing depends on.
 *
 * Invariant: one kind is the host's, one kind of accelerator has no `wanted`. */
#include "registry.h"

static tide_backend_kind *kinds;

void tide__backend_register(tide_backend_kind *kind) {
  kind->next = kinds;
  kinds = kind;
}

const tide_backend_kind *tide__backend_kinds(void) { return kinds; }

const tide_backend_kind *tide__backend_kind_host(void) {
  const tide_backend_kind *k = kinds;
  while (!k->host) k = k->next;
  return k;
}

const tide_backend_kind *tide__backend_kind_wanted(const tide_config *config) {
  const tide_backend_kind *usual = NULL;
  for (const tide_backend_kind *k = kinds; k; k = k->next) {
    if (k->host) continue;
    if (!k->wanted) usual = k;
    if (k->wanted && k->wanted(config)) return k;
  }
  return usual;
}
