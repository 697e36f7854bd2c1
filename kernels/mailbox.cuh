/* mailbox.cuh: how a kernel reports a value that it cannot take: the first thread of all fills the device's mailbox,
 * which the host reads at its next wait. */
#pragma once

#include "tidek.h"

namespace tidek {

struct Mail {
  uint32_t *taken;
  tidek_mailbox *mailbox;
  uint32_t site;
};

static __device__ __noinline__ void report(const Mail &mail, int64_t value, int64_t length, int32_t base) {
  if (atomicCAS(mail.taken, 0u, 1u) != 0) return;
  mail.mailbox->site = mail.site;
  mail.mailbox->index_base = base;
  mail.mailbox->value = value;
  mail.mailbox->length = length;
  __threadfence_system();
  mail.mailbox->full = 1;
  __threadfence_system();
}

} // namespace tidek
